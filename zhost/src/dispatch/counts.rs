//! What the executors counted.

use core::sync::atomic::{AtomicU64, Ordering};

/// The counters of one executor; any thread may read them at any time.
///
/// Each is exact by itself. They are read one by one, so two of them may be some events apart.
#[derive(Debug, Default)]
pub(crate) struct DispatchCounts {
    /// Handlers whose callback was called.
    pub(crate) started: Count,
    /// Handlers that ended in their first poll.
    pub(crate) finished_at_once: Count,
    /// Handlers that were pending after their first poll and became a Tokio task of their own.
    #[cfg(feature = "tokio")]
    pub(crate) spawned: Count,
    /// Handlers, and futures of client code, that a panic ended.
    pub(crate) panicked: Count,
    /// Polls that held a shard longer than [`HELD_MAX`](super::held::HELD_MAX).
    pub(crate) held: Count,
    /// Times that a wake-up, from another thread or between two runs, rang for a shard.
    pub(crate) rings: Count,
    /// Jobs that a runtime which is gone dropped before their start.
    #[cfg(feature = "tokio")]
    pub(crate) dropped_unstarted: Count,
}

/// A number that only rises.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds one. Never blocks.
    pub(crate) fn raise(&self) {
        // Relaxed: no other memory is read on the strength of a counter.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The events so far.
    pub(crate) fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
