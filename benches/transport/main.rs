//! What a message costs between two threads over loopback TCP, in time and in system calls.
//!
//! The times of all systems come from one run, interleaved in a rotating order: compare rows of a
//! run, never figures of two. System calls depend little on the machine, so there are targets for
//! them, and the hosts' own count is checked against one from outside.
//!
//! `--quick` runs for less time; `--test` runs everything once and judges nothing.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints, and may fail")]

mod bare;
mod hosts;
mod load;
mod outside;
mod targets;
mod times;

use core::time::Duration;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;

use zhost::{DriverKind, Host};

use load::System;

/// How long a phase may take. Each takes some seconds, and a few times that under `strace`; only one
/// that has stalled takes this long.
const PHASE_MAX: Duration = Duration::from_mins(2);

/// How much is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Extent {
    Test,
    Quick,
    Full,
}

impl Extent {
    /// Interleaved rounds; odd, so that a median is one of them.
    const fn rounds(self) -> u32 {
        match self {
            Self::Test => 1,
            Self::Quick => 5,
            Self::Full => 11,
        }
    }

    /// How often system calls are counted where one count says little; odd, too.
    const fn counts(self) -> u32 {
        match self {
            Self::Test => 1,
            Self::Quick | Self::Full => 3,
        }
    }

    /// How many messages a phase has that has `quick` of them in a quick run.
    const fn scaled(self, quick: u32) -> u32 {
        match self {
            Self::Test => quick / 50,
            Self::Quick => quick,
            Self::Full => quick * 2,
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [outside::CHILD, ..] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        let own = limited(move || outside::be_child(&arguments[1..]));
        say(&own.to_string());
        return ExitCode::SUCCESS;
    }
    let is_given = |option: &str| arguments.iter().any(|argument| argument == option);
    let extent = match (is_given("--test"), is_given("--quick")) {
        (true, _) => Extent::Test,
        (false, true) => Extent::Quick,
        (false, false) => Extent::Full,
    };
    let systems: Vec<System> = System::ALL.into_iter().filter(|system| can_run(*system)).collect();
    times::measure(extent, &systems);
    targets::measure(extent, &systems)
}

/// Whether a system runs on this machine; says why not.
fn can_run(system: System) -> bool {
    let driver = match system {
        System::Blocking | System::Tokio => return true,
        System::Hosts(driver) => driver,
    };
    match Host::builder("probe").driver(driver).shards(1).start() {
        Ok(_) => true,
        Err(missing) => {
            println!("skipped: {}: {missing}", system.name());
            false
        }
    }
}

/// Runs a phase on a thread of its own, and ends the process if it stalls or panics.
fn limited<T: Send + 'static>(phase: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = sync_channel(1);
    let thread = thread::spawn(move || sender.send(phase()).ok());
    let problem = match receiver.recv_timeout(PHASE_MAX) {
        Ok(outcome) => {
            thread.join().ok();
            return outcome;
        }
        Err(RecvTimeoutError::Timeout) => "has stalled",
        Err(RecvTimeoutError::Disconnected) => "has panicked",
    };
    println!("error: a phase {problem}");
    std::process::exit(2)
}

fn say(line: &str) {
    println!("{line}");
}

/// The hosts among the systems.
fn drivers(systems: &[System]) -> impl Iterator<Item = DriverKind> {
    systems.iter().filter_map(|system| match system {
        System::Blocking | System::Tokio => None,
        System::Hosts(driver) => Some(*driver),
    })
}
