//! What a shard shows of itself.

use core::sync::atomic::{AtomicU64, Ordering};

/// Numbers of a shard, as it last published them. Each is from the same turn or the one before.
#[derive(Debug, Default)]
pub struct ShardGauge {
    turns: AtomicU64,
    sleeps: AtomicU64,
    system_calls: AtomicU64,
}

impl ShardGauge {
    /// Turns of its loop, ever.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// How often it went to sleep, ever.
    pub fn sleeps(&self) -> u64 {
        self.sleeps.load(Ordering::Relaxed)
    }

    /// System calls of its driver, ever ([`crate::driver::Driver::system_calls`]).
    pub fn system_calls(&self) -> u64 {
        self.system_calls.load(Ordering::Relaxed)
    }

    pub(super) fn turned(&self, system_calls: u64) {
        // Only the shard writes: a load and a store cost less than an addition that is atomic.
        self.turns.store(self.turns().wrapping_add(1), Ordering::Relaxed);
        self.system_calls.store(system_calls, Ordering::Relaxed);
    }

    pub(super) fn sleeps_now(&self) {
        self.sleeps.store(self.sleeps().wrapping_add(1), Ordering::Relaxed);
    }
}
