//! Whether a shard spins before it sleeps.
//!
//! A sleep costs a system call and, on another processor, a wake-up of some 13 us; what comes within
//! that time is cheaper to wait for. What does not come is paid for in vain, so a shard spins only
//! while it pays.

use core::time::Duration;

use zcore::Instant;

use crate::limits::{SPIN_PAUSE, SPIN_REARM};

/// Decides about spinning from how the last times ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spinner {
    /// How long a spin lasts at most; nothing, where there is no processor to spare.
    window: Duration,
    mood: Mood,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mood {
    /// Something came soon the last time.
    Eager,
    /// Nothing came soon. A short sleep makes it eager again.
    Resting,
    /// Somebody else wants the processor: no spin before this.
    Yielding(Instant),
}

/// How a spin ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SpinEnd {
    /// There is something to do.
    Came,
    /// The window is over.
    Vain,
}

impl Spinner {
    pub(super) const fn new(window: Duration) -> Self {
        Self { window, mood: Mood::Eager }
    }

    /// Until when to spin from `now`, if at all.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        let may_spin = match self.mood {
            Mood::Eager => true,
            Mood::Resting => false,
            Mood::Yielding(end) => now >= end,
        };
        (may_spin && !self.window.is_zero()).then(|| now.saturating_add(self.window))
    }

    /// Learns from a spin that lasted from `begin` to `end`.
    pub(super) fn spun(&mut self, how: SpinEnd, begin: Instant, end: Instant) {
        // It looks many times a microsecond: so late only if something else ran meanwhile.
        let was_interrupted = end.since(begin) > self.window.saturating_mul(2);
        self.mood = match how {
            _ if was_interrupted => Mood::Yielding(end.saturating_add(SPIN_PAUSE)),
            SpinEnd::Came => Mood::Eager,
            SpinEnd::Vain => Mood::Resting,
        };
    }

    /// Learns from a sleep of this length.
    pub(super) fn slept(&mut self, length: Duration) {
        if self.mood == Mood::Resting && length <= SPIN_REARM {
            self.mood = Mood::Eager;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SpinEnd, Spinner};
    use crate::limits::{SPIN_PAUSE, SPIN_REARM, SPIN_WINDOW};
    use core::time::Duration;
    use zcore::Instant;

    const START: Instant = Instant::from_nanos(1_000_000);

    #[test]
    fn it_spins_while_that_pays() {
        let mut spinner = Spinner::new(SPIN_WINDOW);
        let end = START.saturating_add(SPIN_WINDOW);
        assert_eq!(spinner.until(START), Some(end), "at first");
        spinner.spun(SpinEnd::Came, START, end);
        assert_eq!(spinner.until(START), Some(end), "something came");
        spinner.spun(SpinEnd::Vain, START, end);
        assert_eq!(spinner.until(START), None, "nothing came");
        spinner.slept(SPIN_REARM + Duration::from_nanos(1));
        assert_eq!(spinner.until(START), None, "a long sleep");
        spinner.slept(SPIN_REARM);
        assert_eq!(spinner.until(START), Some(end), "a short one");
    }

    #[test]
    fn it_gives_way_to_whoever_wants_the_processor() {
        let mut spinner = Spinner::new(SPIN_WINDOW);
        let late = START.saturating_add(SPIN_WINDOW * 3);
        spinner.spun(SpinEnd::Came, START, late);
        assert_eq!(spinner.until(late), None, "it was interrupted");
        spinner.slept(Duration::ZERO);
        assert_eq!(spinner.until(late), None, "however short its sleeps are");
        assert!(spinner.until(late.saturating_add(SPIN_PAUSE)).is_some(), "for a while");
    }

    #[test]
    fn without_a_window_it_never_spins() {
        assert_eq!(Spinner::new(Duration::ZERO).until(START), None, "one processor");
    }
}
