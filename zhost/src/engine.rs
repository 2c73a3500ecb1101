//! What all parts of a host share.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zcore::{Instant, Stage};
use ztransport::clock::Clock;
use ztransport::{Peers, Permits, ShardControl, WaitSpace};

use crate::dispatch::{DispatchCounts, StartGate};
use crate::error::Error;
use crate::messaging::{Pending, Routes};
use crate::observe::Counters;
use crate::options::Settings;
use crate::threads::ShardSeat;

/// A future for the shard's own thread.
pub(crate) type LocalFuture = core::pin::Pin<Box<dyn Future<Output = ()>>>;

/// Makes a future on the thread that will run it.
pub(crate) type Spawn = Box<dyn FnOnce() -> LocalFuture + Send>;

/// What every call, handler and shard of a host refers to.
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) peers: Arc<Peers>,
    pub(crate) permits: Arc<Permits>,
    pub(crate) space: Arc<WaitSpace>,
    /// The shards of the host; the first one keeps its time and runs its client code.
    pub(crate) crew: Vec<ShardSeat>,
    pub(crate) control: Arc<ShardControl>,
    pub(crate) pending: Pending,
    pub(crate) routes: Routes,
    pub(crate) gate: Arc<StartGate>,
    pub(crate) counters: Counters,
    /// Messages and requests whose duties are not over.
    accepted: AtomicU64,
    spawned: Mutex<Vec<Spawn>>,
    /// What each executor of the host counts.
    pub(crate) executors: Mutex<Vec<Arc<DispatchCounts>>>,
    pub(crate) stop: Stop,
}

/// The parts of a host that its description determines.
pub(crate) struct Parts {
    pub(crate) settings: Settings,
    pub(crate) peers: Arc<Peers>,
    pub(crate) permits: Arc<Permits>,
    pub(crate) space: Arc<WaitSpace>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) crew: Vec<ShardSeat>,
    pub(crate) control: Arc<ShardControl>,
    pub(crate) routes: Routes,
    pub(crate) gate: Arc<StartGate>,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { settings, peers, permits, space, clock, crew, control, routes, gate } = parts;
        let running = crew.len();
        Self {
            clock,
            settings,
            peers,
            permits,
            space,
            crew,
            control,
            pending: Pending::new(),
            routes,
            gate,
            counters: Counters::default(),
            accepted: AtomicU64::new(0),
            spawned: Mutex::new(Vec::new()),
            executors: Mutex::new(Vec::new()),
            stop: Stop::new(running),
        }
    }

    /// A message or a request was accepted.
    pub(crate) fn accept(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// The duty for one was done. Shards that drain and have fallen asleep over it are woken.
    pub(crate) fn settle(&self) {
        if self.accepted.fetch_sub(1, Ordering::AcqRel) == 1 && self.is_draining() {
            self.knock();
        }
    }

    /// Has every shard look around.
    fn knock(&self) {
        for shard in &self.crew {
            shard.bell.knock();
        }
    }

    /// Makes sure that the host's time is kept from `deadline` on.
    pub(crate) fn wake_by(&self, deadline: Instant) {
        if let Some(timekeeper) = self.crew.first() {
            timekeeper.bell.wake_by(deadline);
        }
    }

    /// Whether the duty for every accepted message was done.
    pub(crate) fn is_settled(&self) -> bool {
        self.accepted.load(Ordering::Acquire) == 0
    }

    /// Whether the host takes no new work.
    pub(crate) fn is_draining(&self) -> bool {
        self.stop.lock().phase != StopPhase::Serving
    }

    /// What the executors of the host count.
    pub(crate) fn dispatch_counts(&self) -> Vec<Arc<DispatchCounts>> {
        self.executors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes the counts of one more executor.
    pub(crate) fn add_executor(&self, counts: &Arc<DispatchCounts>) {
        let mut executors = self.executors.lock().unwrap_or_else(PoisonError::into_inner);
        executors.push(Arc::clone(counts));
    }

    /// Takes over what other threads want to run on the shard.
    pub(crate) fn take_spawned(&self) -> Vec<Spawn> {
        let mut spawned = self.spawned.lock().unwrap_or_else(PoisonError::into_inner);
        core::mem::take(&mut *spawned)
    }

    /// Leaves client code for the shard, or drops it if there is none any more.
    pub(crate) fn spawn(&self, spawn: Spawn) {
        self.spawned.lock().unwrap_or_else(PoisonError::into_inner).push(spawn);
        if let Some(first) = self.crew.first() {
            first.bell.knock();
        }
        // The shard takes what it finds when it ends; what comes later is dropped here.
        if self.stop.lock().phase == StopPhase::Stopped {
            drop(self.take_spawned());
        }
    }

    /// Begins to drain. Asked again, it may only end earlier.
    pub(crate) fn drain(&self, deadline: Instant) {
        {
            let mut stop = self.stop.lock();
            if stop.phase == StopPhase::Stopped {
                return;
            }
            stop.phase = StopPhase::Draining;
        }
        self.peers.close();
        self.control.drain(deadline);
        self.knock();
    }

    /// A shard has ended. What it had can end no other way any more: when the last one is gone, or
    /// when one has failed, nothing goes on.
    pub(crate) fn shard_ended(&self, failure: Option<String>) {
        if failure.is_some() {
            self.drain(self.clock.now());
        }
        if self.stop.shard_ended(failure) {
            self.peers.close_all();
            self.pending.shut_down();
            self.stop.stopped();
            drop(self.take_spawned());
        }
    }

    /// Notes a failed call in the message-flow log, which shows errors and backpressure (B-135).
    pub(crate) fn failed(&self, error: Error) -> Error {
        if error.stage() == Stage::WaitSpaceFull {
            self.counters.wait_space_full();
        }
        tracing::debug!(
            target: "zlink.message_flow",
            kind = error.kind().as_str(),
            stage = error.stage().as_str(),
            certainty = error.certainty().as_str(),
            waiting = self.space.waiting(zcore::Family::Send),
            "a call failed"
        );
        error
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("permits", &self.permits)
            .field("routes", &self.routes)
            .field("is_draining", &self.is_draining())
            .finish_non_exhaustive()
    }
}

/// How the end of a host is told.
#[derive(Debug)]
pub(crate) struct Stop {
    state: Mutex<StopState>,
}

/// Where a host stands.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum StopPhase {
    /// It takes new work.
    #[default]
    Serving,
    /// It finishes what it has.
    Draining,
    /// Its shards have ended.
    Stopped,
}

#[derive(Debug, Default)]
struct StopState {
    phase: StopPhase,
    /// Shards that have not ended.
    running: usize,
    failure: Option<String>,
    wakers: Vec<Waker>,
}

impl Stop {
    fn new(running: usize) -> Self {
        Self { state: Mutex::new(StopState { running, ..StopState::default() }) }
    }

    /// Ready once the shards have ended; with what the kernel said if it refused to go on.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Option<String>> {
        let waker = context.waker().clone();
        let mut state = self.lock();
        if state.phase == StopPhase::Stopped {
            return Poll::Ready(state.failure.clone());
        }
        state.wakers.push(waker);
        Poll::Pending
    }

    /// Notes the end of a shard, and the first failure. Whether it was the last one.
    fn shard_ended(&self, failure: Option<String>) -> bool {
        let mut state = self.lock();
        state.running = state.running.saturating_sub(1);
        state.failure = state.failure.take().or(failure);
        state.running == 0
    }

    fn stopped(&self) {
        let wakers = {
            let mut state = self.lock();
            state.phase = StopPhase::Stopped;
            core::mem::take(&mut state.wakers)
        };
        for waker in wakers {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, StopState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
