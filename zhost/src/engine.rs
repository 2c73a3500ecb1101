//! What all parts of a host share, and the thread that runs its shard.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use zcore::{Instant, Stage};
use ztransport::clock::Clock;
use ztransport::driver::Driver;
use ztransport::probe::Unavailable;
use ztransport::uring::{Uring, UringOptions};
use ztransport::{
    Doorbell, LaneContext, Listener, Peers, Permits, Shard, ShardControl, ShardPlan, WaitSpace,
};

use crate::dispatch::{DispatchCounts, StartGate};
use crate::error::Error;
use crate::messaging::{HostIngress, Pending, Routes};
use crate::observe::Counters;
use crate::options::Settings;

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
    pub(crate) bell: Arc<Doorbell>,
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
    pub(crate) lanes: LaneContext,
    pub(crate) control: Arc<ShardControl>,
    pub(crate) routes: Routes,
    pub(crate) gate: Arc<StartGate>,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { settings, peers, permits, lanes, control, routes, gate } = parts;
        let LaneContext { space, bell, timekeeper: _, clock } = lanes;
        Self {
            clock,
            settings,
            peers,
            permits,
            space,
            bell,
            control,
            pending: Pending::new(),
            routes,
            gate,
            counters: Counters::default(),
            accepted: AtomicU64::new(0),
            spawned: Mutex::new(Vec::new()),
            executors: Mutex::new(Vec::new()),
            stop: Stop::default(),
        }
    }

    /// A message or a request was accepted.
    pub(crate) fn accept(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// The duty for one was done. A shard that drains and has fallen asleep over it is woken.
    pub(crate) fn settle(&self) {
        if self.accepted.fetch_sub(1, Ordering::AcqRel) == 1 && self.is_draining() {
            self.bell.knock();
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
        self.bell.knock();
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
        self.bell.knock();
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
#[derive(Debug, Default)]
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
    /// Its shard has ended.
    Stopped,
}

#[derive(Debug, Default)]
struct StopState {
    phase: StopPhase,
    failure: Option<String>,
    wakers: Vec<Waker>,
}

impl Stop {
    /// Ready once the shard has ended; with what the kernel said if it refused to go on.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Option<String>> {
        let waker = context.waker().clone();
        let mut state = self.lock();
        if state.phase == StopPhase::Stopped {
            return Poll::Ready(state.failure.clone());
        }
        state.wakers.push(waker);
        Poll::Pending
    }

    fn stopped(&self, failure: Option<String>) {
        let wakers = {
            let mut state = self.lock();
            state.phase = StopPhase::Stopped;
            state.failure = failure;
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

/// Where the handlers of a host run.
#[derive(Debug)]
pub(crate) enum Executor {
    /// On the shard.
    Shard,
    /// On Tokio.
    #[cfg(feature = "tokio")]
    Tokio(TokioQueues),
}

/// One queue of jobs for each peer.
#[cfg(feature = "tokio")]
#[derive(Debug)]
pub(crate) struct TokioQueues {
    runner: crate::dispatch::TokioRunner,
    queues: Vec<Option<crate::dispatch::PairQueue>>,
}

#[cfg(feature = "tokio")]
impl TokioQueues {
    pub(crate) const fn new(runner: crate::dispatch::TokioRunner) -> Self {
        Self { runner, queues: Vec::new() }
    }

    /// What its handlers count.
    pub(crate) const fn counts(&self) -> &Arc<DispatchCounts> {
        self.runner.counts()
    }

    /// Hands a job to the runner of a peer.
    pub(crate) fn submit(&mut self, peer: u32, job: crate::dispatch::Job) {
        let index = usize::try_from(peer).unwrap_or(usize::MAX);
        if self.queues.len() <= index {
            self.queues.resize_with(index + 1, || None);
        }
        let Self { runner, queues } = self;
        if let Some(queue) = queues.get_mut(index) {
            queue.get_or_insert_with(|| runner.pair()).submit(job);
        }
    }
}

/// What a shard is built from, and where it accepts.
pub(crate) type Seat = (ShardPlan, Vec<Listener<OwnedFd>>);

/// The thread of a shard.
#[derive(Debug)]
pub(crate) struct Engine {
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Why the shard did not start.
#[derive(Debug)]
pub(crate) enum EngineError {
    /// There is no thread to be had.
    Thread(std::io::Error),
    /// There is no `io_uring` to be had.
    Driver(Unavailable),
}

impl Engine {
    /// Starts the thread and waits until its driver stands.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        seat: Seat,
        executor: Executor,
    ) -> Result<Self, EngineError> {
        let (report, reported) = std::sync::mpsc::sync_channel(1);
        let shared = Arc::clone(shared);
        let thread = std::thread::Builder::new()
            .name("zlink-shard-0".into())
            .spawn(move || {
                let driver = match Uring::new(uring_options(&shared.settings)) {
                    Ok(driver) => driver,
                    Err(unavailable) => {
                        // The starter waits for exactly one report.
                        report.send(Err(unavailable)).ok();
                        return;
                    }
                };
                report.send(Ok(())).ok();
                run_shard(driver, &shared, seat, executor);
            })
            .map_err(EngineError::Thread)?;
        match reported.recv() {
            Ok(Ok(())) => Ok(Self { thread: Mutex::new(Some(thread)) }),
            Ok(Err(unavailable)) => Err(EngineError::Driver(unavailable)),
            Err(_) => Err(EngineError::Thread(std::io::Error::other("the shard's thread ended"))),
        }
    }

    /// Waits for the thread's end. From one of its own handlers this is impossible and skipped.
    pub(crate) fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic of the shard was reported by the panic hook.
            drop(thread.join());
        }
    }
}

/// Runs a shard on this thread until it has drained, whatever happens to it.
pub(crate) fn run_shard(
    driver: impl Driver<Socket = OwnedFd>,
    shared: &Arc<Shared>,
    (plan, listeners): Seat,
    executor: Executor,
) {
    /// Tells the host even if the shard panics.
    struct Ended<'shard>(&'shard Shared, Option<String>);

    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            self.0.peers.close_all();
            self.0.pending.shut_down();
            self.0.stop.stopped(self.1.take());
            drop(self.0.take_spawned());
        }
    }

    let mut ended = Ended(shared, Some("the shard panicked".into()));
    let ingress = HostIngress::new(Arc::clone(shared), executor);
    let outcome = Shard::new(driver, ingress, plan, listeners).and_then(Shard::run);
    ended.1 = outcome.err().map(|error| error.to_string());
}

/// Two connections for each peer, the listeners, and those that have not said who they are.
pub(crate) fn uring_options(settings: &Settings) -> UringOptions {
    let strangers = u32::try_from(ztransport::limits::HALF_PAIRS_MAX).unwrap_or(u32::MAX);
    let sockets_max = settings.peers_max.saturating_mul(2).saturating_add(strangers * 2);
    UringOptions { sockets_max, ..UringOptions::default() }
}
