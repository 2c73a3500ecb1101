//! Which handlers hold their shard.

use core::time::Duration;
use std::collections::BTreeSet;

/// A poll longer than this delays every peer of the shard visibly.
pub(crate) const HELD_MAX: Duration = Duration::from_millis(10);

/// Names remembered. Chosen arbitrarily; large enough for every handler a host registers.
const NAMES_MAX: usize = 1_024;

/// The handlers that were logged already.
#[derive(Debug, Default)]
pub(crate) struct HeldLog {
    named: BTreeSet<Box<str>>,
}

impl HeldLog {
    /// Logs a poll of `span` by `name`, once for each name: a handler that blocks does it every
    /// time, and a log that repeats it tells nothing new.
    pub(crate) fn log(&mut self, name: &str, span: Duration) {
        if self.named.contains(name) || self.named.len() >= NAMES_MAX {
            return;
        }
        self.named.insert(name.into());
        tracing::warn!(
            handler = name,
            held_ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX),
            "one poll held the shard; run blocking or CPU work through `offload()`"
        );
    }

    /// Names logged so far.
    #[cfg(test)]
    pub(crate) fn logged(&self) -> usize {
        self.named.len()
    }
}
