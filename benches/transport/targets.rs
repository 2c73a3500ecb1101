//! System calls a message, by the hosts' own count and by one from outside, and what is asked of
//! them.

use core::fmt;
use std::process::ExitCode;

use zhost::DriverKind;

use crate::load::{Load, System, Way};
use crate::outside::{self, Counted, Outside, Sides, Tool};
use crate::{Extent, drivers, limited};

/// How far the two counts may be apart.
const DIFFERENCE_MAX: f64 = 0.05;

/// A system call is listed by name if it is at least this part of all.
const LISTED_MIN: f64 = 0.002;

struct Phase {
    name: &'static str,
    way: Way,
    sides: Sides,
    /// Messages in a quick run.
    messages: u32,
    /// What is asked of `uring`, in system calls a message.
    target: f64,
}

const PHASES: [Phase; 4] = [
    Phase {
        name: "echo, a round trip",
        way: Way::Echo { connections: 1 },
        sides: Sides::Both,
        messages: 40_000,
        target: 4.2,
    },
    Phase {
        name: "one-way, a message",
        way: Way::OneWay,
        sides: Sides::Both,
        messages: 2_000_000,
        target: 0.004,
    },
    Phase {
        name: "32 connections, a message",
        way: Way::Echo { connections: 32 },
        sides: Sides::Server { clients: 32 },
        messages: 320_000,
        target: 0.15,
    },
    Phase {
        name: "32 connections, a message",
        way: Way::Echo { connections: 32 },
        sides: Sides::Server { clients: 1 },
        messages: 320_000,
        target: 0.15,
    },
];

/// Fails when a target is missed, unless this is only a test.
pub(crate) fn measure(extent: Extent, systems: &[System]) -> ExitCode {
    let tool = Tool::find();
    println!("\nsystem calls, 64 B; outside: {}", tool.map_or("-", Tool::name));
    if tool.is_none() {
        println!("no outside count: install strace or perf");
    }
    let mut are_met = true;
    for phase in PHASES {
        for driver in drivers(systems) {
            let load = Load {
                way: phase.way,
                size: 64,
                warm_up: 0,
                // The connections share them evenly.
                messages: extent.scaled(phase.messages),
            };
            let sides = phase.sides;
            let counted = limited(move || outside::count(tool, sides, driver, load));
            let name = System::Hosts(driver).name();
            println!("{name}: {}, {sides}: {:.5} by own count", phase.name, counted.own);
            are_met &= report(&phase, driver, &counted);
        }
    }
    if are_met || extent == Extent::Test { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report(phase: &Phase, driver: DriverKind, counted: &Counted) -> bool {
    let mut is_met = true;
    if let Some(Outside { total, by_name }) = &counted.outside {
        let difference = total / counted.own - 1.0;
        let verdict = Verdict::of(difference.abs(), DIFFERENCE_MAX);
        println!("    {total:.5} from outside, {:+.2} %: {verdict}", difference * 100.0);
        let listed = by_name.iter().filter(|(_, calls)| *calls >= total * LISTED_MIN);
        let listed: Vec<_> = listed.map(|(name, calls)| format!("{name} {calls:.5}")).collect();
        println!("    {}", listed.join(", "));
        is_met &= verdict == Verdict::Pass;
    }
    if driver == DriverKind::Uring {
        let verdict = Verdict::of(counted.own, phase.target);
        println!("    target: at most {}: {verdict}", phase.target);
        is_met &= verdict == Verdict::Pass;
    }
    is_met
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verdict {
    Pass,
    Fail,
}

impl Verdict {
    fn of(value: f64, most: f64) -> Self {
        if value <= most { Self::Pass } else { Self::Fail }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
        })
    }
}
