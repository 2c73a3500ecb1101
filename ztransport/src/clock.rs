//! Time comes from outside.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use zcore::Instant;

/// Where a host's time comes from.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Now. Never earlier than in any call before.
    fn now(&self) -> Instant;

    /// How long a thread may sleep in the kernel until `deadline`, seen from `now`; `None` for as
    /// long as nothing else happens.
    fn sleep_for(&self, now: Instant, deadline: Instant) -> Option<Duration>;

    /// Registers a thread that sleeps by this clock: it is woken when time jumps.
    fn attach(&self, waker: Arc<dyn Fn() + Send + Sync>);
}

/// The kernel's monotonic clock: wall-clock steps do not touch it.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    fn now(&self) -> Instant {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
        Instant::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }

    fn sleep_for(&self, now: Instant, deadline: Instant) -> Option<Duration> {
        (deadline < Instant::FAR_FUTURE).then(|| deadline.since(now))
    }

    fn attach(&self, _waker: Arc<dyn Fn() + Send + Sync>) {}
}

/// A clock that stands still until it is told to move: upper time limits are tested on it.
#[derive(Default)]
pub struct VirtualClock {
    state: Mutex<VirtualState>,
}

#[derive(Default)]
struct VirtualState {
    now: Instant,
    sleepers: Vec<Arc<dyn Fn() + Send + Sync>>,
}

impl VirtualClock {
    /// A clock that shows one second after the epoch, so that earlier instants exist.
    pub fn new() -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        Self { state: Mutex::new(VirtualState { now, sleepers: Vec::new() }) }
    }

    /// Moves time forward and wakes every sleeper.
    pub fn advance(&self, span: Duration) {
        let sleepers = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.now = state.now.saturating_add(span);
            state.sleepers.clone()
        };
        for wake in sleepers {
            wake();
        }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).now
    }

    /// Real time says nothing about a virtual deadline: [`VirtualClock::advance`] wakes.
    fn sleep_for(&self, now: Instant, deadline: Instant) -> Option<Duration> {
        (deadline <= now).then_some(Duration::ZERO)
    }

    fn attach(&self, waker: Arc<dyn Fn() + Send + Sync>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).sleepers.push(waker);
    }
}

impl fmt::Debug for VirtualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state } = self;
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("VirtualClock")
            .field("now", &state.now)
            .field("sleepers", &state.sleepers.len())
            .finish()
    }
}
