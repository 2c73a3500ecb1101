//! The time of a message, for every system side by side.

use crate::load::{Calls, Load, Sample, System, Way, each, median};
use crate::{Extent, bare, hosts, limited};

/// A table: how messages go, and for each size in bytes how many a phase of a quick run has.
struct Table {
    title: &'static str,
    way: Way,
    columns: [(usize, u32); 3],
}

const TABLES: [Table; 2] = [
    Table {
        title: "echo: a round trip, one in flight",
        way: Way::Echo { connections: 1 },
        columns: [(64, 2_000), (1_024, 2_000), (65_536, 1_000)],
    },
    Table {
        title: "one-way: a message, as fast as they are taken",
        way: Way::OneWay,
        columns: [(64, 400_000), (1_024, 100_000), (65_536, 3_000)],
    },
];

/// One system and one column, over all rounds.
#[derive(Clone, Debug, Default)]
struct Cell {
    /// Microseconds a message.
    times: Vec<f64>,
    /// System calls a message, of both sides; empty where nobody counts.
    calls: Vec<f64>,
}

pub(crate) fn measure(extent: Extent, systems: &[System]) {
    println!("{} interleaved rounds of each cell; this takes a while", extent.rounds());
    let cells = rounds(extent, systems);
    println!(
        "medians: time of a message, ratio to `blocking` in the same round, system calls of both \
         sides by the hosts' own count"
    );
    let mut columns = cells.chunks(systems.len());
    for table in TABLES {
        let columns: Vec<_> = table.columns.iter().map(|_| columns.next().unwrap()).collect();
        println!("\n{}", table.title);
        let sizes = ["64 B", "1 KiB", "64 KiB"]
            .map(|size| format!("{size:>12}{:>7}{:>9}", "ratio", "calls"));
        println!("{:<12}{}", "", sizes.concat());
        for (place, system) in systems.iter().enumerate() {
            let cells = columns.iter().map(|column| text(&column[place], &column[0]));
            println!("{:<12}{}", system.name(), cells.collect::<String>().trim_end());
        }
    }
}

/// Each round is compared with the yardstick of the same round.
fn text(cell: &Cell, yardstick: &Cell) -> String {
    let pairs = cell.times.iter().zip(&yardstick.times);
    let ratio = median(pairs.map(|(time, yardstick)| time / yardstick).collect());
    let time = median(cell.times.clone());
    let time = if time < 1.0 { format!("{:.0} ns", time * 1e3) } else { format!("{time:.1} us") };
    let calls = match cell.calls.as_slice() {
        [] => String::new(),
        calls => format!("{:.4}", median(calls.to_vec())),
    };
    format!("{time:>12}{ratio:>7.2}{calls:>9}")
}

/// For each column of each table, for each system.
fn rounds(extent: Extent, systems: &[System]) -> Vec<Cell> {
    let loads = TABLES.iter().flat_map(|table| {
        table.columns.iter().map(|&(size, quick)| {
            let messages = extent.scaled(quick);
            Load { way: table.way, size, warm_up: messages / 4, messages }
        })
    });
    let loads: Vec<Load> = loads.collect();
    let mut cells = vec![Cell::default(); loads.len() * systems.len()];
    for round in 0..usize::try_from(extent.rounds()).unwrap() {
        for (column, load) in loads.iter().enumerate() {
            for turn in 0..systems.len() {
                let place = (round + turn) % systems.len();
                add(&mut cells[column * systems.len() + place], systems[place], *load);
            }
        }
    }
    cells
}

fn add(cell: &mut Cell, system: System, load: Load) {
    let (elapsed, calls) = limited(move || match system {
        System::Blocking => (bare::blocking(load), None),
        System::Tokio => (bare::tokio(load), None),
        System::Hosts(driver) => {
            let Sample { elapsed, calls, ever: _ } = hosts::run(driver, load);
            (elapsed, Some(calls))
        }
    });
    cell.times.push(each(elapsed.as_nanos().try_into().unwrap(), load.messages) / 1e3);
    cell.calls.extend(calls.map(|Calls { client, server }| each(client + server, load.messages)));
}
