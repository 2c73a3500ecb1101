//! When to connect again.

use core::time::Duration;

use crate::limits::{RECONNECT_DELAY_MAX, RECONNECT_DELAY_MIN};
use crate::random::Random;

/// Delays between attempts to connect, with full jitter: peers of a restarted host must not come
/// back in step (D-17).
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    failures: u32,
    random: Random,
}

impl Backoff {
    /// Starts at the shortest delay; `seed` sets this host apart from others.
    pub(crate) const fn new(seed: u64) -> Self {
        Self { failures: 0, random: Random::new(seed) }
    }

    /// Forgets earlier failures: a pair came up.
    pub(crate) const fn reset(&mut self) {
        self.failures = 0;
    }

    /// How long to wait before the next attempt: uniform between nothing and a ceiling that doubles
    /// with each failure.
    pub(crate) fn next_delay(&mut self) -> Duration {
        let doubled = RECONNECT_DELAY_MIN.saturating_mul(1 << self.failures.min(16));
        let ceiling = doubled.min(RECONNECT_DELAY_MAX);
        self.failures = self.failures.saturating_add(1);
        let nanos = u64::try_from(ceiling.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.random.below(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;
    use crate::limits::{RECONNECT_DELAY_MAX, RECONNECT_DELAY_MIN};

    #[test]
    fn delays_stay_below_a_ceiling_that_doubles_up_to_the_longest() {
        for seed in 0..200 {
            let mut backoff = Backoff::new(seed);
            let mut ceiling = RECONNECT_DELAY_MIN;
            for _ in 0..12 {
                let delay = backoff.next_delay();
                assert!(delay <= ceiling, "seed {seed}: {delay:?} is above {ceiling:?}");
                ceiling = (ceiling * 2).min(RECONNECT_DELAY_MAX);
            }
        }
    }

    #[test]
    fn delays_spread_over_their_whole_range() {
        let late = (0..200)
            .filter(|seed| Backoff::new(*seed * 7_919).next_delay() > RECONNECT_DELAY_MIN / 2)
            .count();
        assert!((60..=140).contains(&late), "{late} of 200 delays lie in the upper half");
    }

    #[test]
    fn a_pair_that_came_up_starts_the_delays_anew() {
        let mut backoff = Backoff::new(9);
        for _ in 0..10 {
            backoff.next_delay();
        }
        backoff.reset();
        assert!(backoff.next_delay() <= RECONNECT_DELAY_MIN, "as after no failure");
    }
}
