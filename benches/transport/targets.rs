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
    target: Option<f64>,
}

const PHASES: [Phase; 4] = [
    Phase {
        name: "round trip, both sides",
        way: Way::Echo { connections: 1 },
        sides: Sides::Both,
        messages: 40_000,
        target: Some(4.2),
    },
    Phase {
        name: "one-way message, both sides",
        way: Way::OneWay,
        sides: Sides::Both,
        messages: 2_000_000,
        target: Some(0.004),
    },
    Phase {
        name: "round trip, server of 32 clients",
        way: Way::Echo { connections: 32 },
        sides: Sides::Server { clients: 32 },
        messages: 96_000,
        target: Some(0.15),
    },
    // How many requests arrive while the server is in one turn depends here on nothing but how the
    // turns of two threads meet, so nothing is asked.
    Phase {
        name: "same, 32 connections of 1 client",
        way: Way::Echo { connections: 32 },
        sides: Sides::Server { clients: 1 },
        messages: 96_000,
        target: None,
    },
];

/// Fails when a target is missed or the counts differ, unless this is only a test.
pub(crate) fn measure(extent: Extent, systems: &[System]) -> ExitCode {
    let tool = Tool::find();
    println!(
        "\nsystem calls a message of 64 B, as the hosts count them and as counted from outside"
    );
    match tool {
        Some(tool) => println!("(outside: `{}`)", tool.name()),
        None => println!(
            "no outside count: neither `perf` nor `strace` works here. Install one of them, or let \
             this user trace (kernel.perf_event_paranoid, kernel.yama.ptrace_scope)"
        ),
    }
    println!(
        "\n{:<34}{:<12}{:>8}{:>10}{:>14}{:>15}   from outside, by name",
        "one in flight per connection", "", "own", "outside", "apart", "target"
    );
    let mut failed = Vec::new();
    for phase in PHASES {
        for driver in drivers(systems) {
            let load = Load {
                way: phase.way,
                size: 64,
                warm_up: 0,
                // The connections share them evenly.
                messages: extent.scaled(phase.messages) / tool.map_or(1, Tool::slowness),
            };
            let sides = phase.sides;
            // How many messages a call takes in is a matter of timing there: the median is steady.
            let varies = driver == DriverKind::Uring && matches!(sides, Sides::Server { .. });
            let mut counts: Vec<Counted> = (0..if varies { extent.counts() } else { 1 })
                .map(|_| limited(move || outside::count(tool, sides, driver, load)))
                .collect();
            counts.sort_by(|one, other| one.own.total_cmp(&other.own));
            let counted = counts.swap_remove(counts.len() / 2);
            let row = Row { phase: &phase, driver, is_judged: extent != Extent::Test };
            failed.extend(row.report(&counted));
        }
    }
    println!();
    if extent == Extent::Test {
        println!("too few messages to judge");
        return ExitCode::SUCCESS;
    }
    for failure in &failed {
        println!("FAIL: {failure}");
    }
    if !failed.is_empty() {
        return ExitCode::FAILURE;
    }
    match (drivers(systems).any(|driver| driver == DriverKind::Uring), tool) {
        (true, Some(_)) => println!("PASS: all targets are met, all counts agree within 5 %"),
        (true, None) => println!("PASS: all targets are met; nobody has checked the hosts' count"),
        (false, Some(_) | None) => println!("not judged: targets are for io_uring, missing here"),
    }
    ExitCode::SUCCESS
}

struct Row<'a> {
    phase: &'a Phase,
    driver: DriverKind,
    is_judged: bool,
}

impl Row<'_> {
    /// Prints the row, and says what is wrong with it.
    fn report(&self, counted: &Counted) -> Vec<String> {
        let Self { phase, driver, is_judged } = *self;
        let (own, system) = (counted.own, System::Hosts(driver).name());
        let mut failed = Vec::new();
        let mut judge = |value: f64, most: f64, what: fmt::Arguments<'_>| match is_judged {
            false => "",
            true if value <= most => " PASS",
            // Also where a value is no number.
            true => {
                failed.push(format!("{system}, {}: {what}", phase.name));
                " FAIL"
            }
        };
        let (mut outside, mut apart, mut names) = ("-".to_owned(), "-".to_owned(), String::new());
        if let Some(Outside { total, by_name }) = &counted.outside {
            let difference = total / own - 1.0;
            let what = format_args!("the hosts count {own:.5}, from outside it is {total:.5}");
            let verdict = judge(difference.abs(), DIFFERENCE_MAX, what);
            outside = format!("{total:.4}");
            apart = format!("{:+.1} %{verdict}", difference * 100.0);
            let listed = by_name.iter().filter(|(_, calls)| *calls >= total * LISTED_MIN);
            let listed: Vec<_> = listed.map(|(name, calls)| format!("{name} {calls:.4}")).collect();
            names = listed.join(", ");
        }
        let target = match phase.target.filter(|_| driver == DriverKind::Uring) {
            Some(most) => {
                let what = format_args!("{own:.5} system calls, at most {most} were asked for");
                format!("<= {most}{}", judge(own, most, what))
            }
            None => "-".to_owned(),
        };
        let name = phase.name;
        let row = format!("{name:<34}{system:<12}{own:>8.4}{outside:>10}{apart:>14}{target:>15}");
        println!("{row}   {names}");
        failed
    }
}
