//! Who stands at the door of a host, whichever shard it comes to.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::departed::Departed;

/// Those who have not said who they are, and those who have left and may come back.
#[derive(Debug, Default)]
pub struct Lobby {
    /// Accepted connections that have not joined a pair, those that were refused included.
    strangers: AtomicUsize,
    departed: Mutex<Departed>,
}

impl Lobby {
    /// Counts one more stranger. How many there are now.
    pub(super) fn enter(&self) -> usize {
        self.strangers.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Counts one stranger less.
    pub(super) fn leave(&self) {
        let before = self.strangers.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a stranger left that had not entered");
    }

    /// What is kept of peers that have given their places back. They may come back to another shard.
    pub(super) fn departed(&self) -> MutexGuard<'_, Departed> {
        self.departed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
