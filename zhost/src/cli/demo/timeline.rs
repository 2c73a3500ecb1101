//! What the plots show: every level and rate over the run.

use super::control::ReceiverSample;
use super::latency::Percentiles;
use super::series::{Merge, Series};

/// All lines of all plots, and when the phases began.
#[derive(Debug)]
pub(super) struct Timeline {
    pub(super) send_queue: Series,
    pub(super) receive_queue: Series,
    pub(super) permits: Series,
    pub(super) waiting: Series,
    pub(super) accepted_per_second: Series,
    pub(super) handled_per_second: Series,
    pub(super) p50_ms: Series,
    pub(super) p99_ms: Series,
    pub(super) sender_rss: Series,
    pub(super) receiver_rss: Series,
    pub(super) phases: Phases,
    accepted: Rate,
    handled: Rate,
    /// The receiver's last word about itself.
    pub(super) last: ReceiverSample,
}

/// When each phase began, in seconds since the start; `None` if it was not reached.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Phases {
    pub(super) fast: Option<f64>,
    pub(super) drain: Option<f64>,
    pub(super) end: f64,
}

/// How the sender stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SenderSample {
    pub(super) seconds: f64,
    pub(super) queue_bytes: u64,
    pub(super) waiting: u64,
    pub(super) sends_accepted: u64,
    pub(super) latency: Percentiles,
    pub(super) rss_bytes: u64,
}

impl Timeline {
    /// An empty timeline; all of its memory is taken now.
    pub(super) fn new() -> Self {
        let level = || Series::new(Merge::Peak);
        let rate = || Series::new(Merge::Mean);
        Self {
            send_queue: level(),
            receive_queue: level(),
            permits: level(),
            waiting: level(),
            accepted_per_second: rate(),
            handled_per_second: rate(),
            p50_ms: rate(),
            p99_ms: level(),
            sender_rss: level(),
            receiver_rss: level(),
            phases: Phases::default(),
            accepted: Rate::default(),
            handled: Rate::default(),
            last: ReceiverSample::default(),
        }
    }

    pub(super) fn sender(&mut self, sample: &SenderSample) {
        let seconds = sample.seconds;
        self.phases.end = self.phases.end.max(seconds);
        self.send_queue.push(seconds, approximate(sample.queue_bytes));
        self.waiting.push(seconds, approximate(sample.waiting));
        self.sender_rss.push(seconds, approximate(sample.rss_bytes));
        if let Some(rate) = self.accepted.next(seconds, sample.sends_accepted) {
            self.accepted_per_second.push(seconds, rate);
        }
        if let Some(p50) = sample.latency.p50_ms {
            self.p50_ms.push(seconds, p50);
        }
        if let Some(p99) = sample.latency.p99_ms {
            self.p99_ms.push(seconds, p99);
        }
    }

    pub(super) fn receiver(&mut self, sample: ReceiverSample) {
        let seconds = sample.seconds;
        self.phases.end = self.phases.end.max(seconds);
        self.receive_queue.push(seconds, approximate(sample.queue_bytes));
        self.permits.push(seconds, approximate(sample.permits));
        self.receiver_rss.push(seconds, approximate(sample.rss_bytes));
        if let Some(rate) = self.handled.next(seconds, sample.sends_handled) {
            self.handled_per_second.push(seconds, rate);
        }
        self.last = sample;
    }
}

/// Turns a counter into a rate.
#[derive(Debug, Default)]
struct Rate {
    before: Option<(f64, u64)>,
}

impl Rate {
    fn next(&mut self, seconds: f64, count: u64) -> Option<f64> {
        let (before, old) = self.before.replace((seconds, count))?;
        let span = seconds - before;
        (span > 0.0).then(|| approximate(count.saturating_sub(old)) / span)
    }
}

/// For drawing and for words; exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "nobody sees the sixteenth digit")]
pub(super) const fn approximate(value: u64) -> f64 {
    value as f64
}

/// A level or a rate as a whole number, at least 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate fits, and `as` saturates"
)]
pub(super) const fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_second() {
        let mut rate = Rate::default();
        assert_eq!(rate.next(0.0, 10), None, "one sample has no rate");
        assert_eq!(rate.next(0.5, 60), Some(100.0));
        assert_eq!(rate.next(0.5, 70), None, "no time has passed");
    }
}
