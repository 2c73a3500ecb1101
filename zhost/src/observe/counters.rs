//! Counts that only rise, each a plain atomic.

use core::sync::atomic::{AtomicU64, Ordering};

use ztransport::DropReason;

/// The counts of a host.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    handled: AtomicU64,
    request_timeouts: AtomicU64,
    late_replies: AtomicU64,
    lost_replies: AtomicU64,
    wait_space_full: AtomicU64,
    rejected: AtomicU64,
    pairs_ended: AtomicU64,
    dropped: [AtomicU64; DropReason::COUNT],
}

impl Counters {
    pub(crate) fn handled(&self) {
        raise(&self.handled, 1);
    }

    pub(crate) fn request_timed_out(&self) {
        raise(&self.request_timeouts, 1);
    }

    pub(crate) fn late_reply(&self) {
        raise(&self.late_replies, 1);
    }

    /// Notes a reply that could not be sent.
    pub(crate) fn reply_lost(&self) {
        raise(&self.lost_replies, 1);
    }

    /// Notes a call that would have had to wait and found no place for it (B-69).
    pub(crate) fn wait_space_full(&self) {
        raise(&self.wait_space_full, 1);
    }

    pub(crate) fn rejected(&self) {
        raise(&self.rejected, 1);
    }

    pub(crate) fn pair_ended(&self) {
        raise(&self.pairs_ended, 1);
    }

    pub(crate) fn dropped(&self, records: u64, reason: DropReason) {
        for (count, candidate) in self.dropped.iter().zip(DropReason::ALL) {
            if candidate == reason {
                raise(count, records);
            }
        }
    }

    /// Handlers that ran to their end.
    pub(crate) fn handled_total(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    pub(crate) fn request_timeouts_total(&self) -> u64 {
        self.request_timeouts.load(Ordering::Relaxed)
    }

    pub(crate) fn late_replies_total(&self) -> u64 {
        self.late_replies.load(Ordering::Relaxed)
    }

    pub(crate) fn lost_replies_total(&self) -> u64 {
        self.lost_replies.load(Ordering::Relaxed)
    }

    pub(crate) fn wait_space_full_total(&self) -> u64 {
        self.wait_space_full.load(Ordering::Relaxed)
    }

    pub(crate) fn rejected_total(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    pub(crate) fn pairs_ended_total(&self) -> u64 {
        self.pairs_ended.load(Ordering::Relaxed)
    }

    pub(crate) fn dropped_totals(&self) -> [(DropReason, u64); DropReason::COUNT] {
        let mut totals = DropReason::ALL.map(|reason| (reason, 0));
        for (total, count) in totals.iter_mut().zip(&self.dropped) {
            total.1 = count.load(Ordering::Relaxed);
        }
        totals
    }
}

fn raise(count: &AtomicU64, by: u64) {
    count.fetch_add(by, Ordering::Relaxed);
}
