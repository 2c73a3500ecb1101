//! What peers keep of their rate beside one that behaves badly.
//!
//! Rates with and without it come from one interleaved run, and only their ratio means anything.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints, and may fail")]

mod nine;
mod one;

use core::num::NonZeroU32;

use zhost::{ByteCount, HighWaterMark, Host, HostBuilder, RunningLimit};

/// One handler at a time, and queues that are full soon.
const fn tight(host: HostBuilder) -> HostBuilder {
    let mark = HighWaterMark::Limit(ByteCount::kib(16));
    host.send_high_water_mark(mark)
        .receive_high_water_mark(mark)
        .max_queued_application_jobs(16)
        .max_running_handlers(RunningLimit::Limit(NonZeroU32::MIN))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    if let Err(missing) = can_start() {
        println!("skipped: {missing}");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let pairs = |pairs| if is_test { 1 } else { pairs };
        one::run(pairs(one::PAIRS)).await;
        nine::beside_a_flood(pairs(nine::PAIRS)).await;
        nine::beside_one_that_stops_reading(pairs(nine::PAIRS)).await;
    });
}

/// Whether a host can start on this machine.
fn can_start() -> Result<(), zhost::StartError> {
    Host::builder("probe").start().map(drop)
}
