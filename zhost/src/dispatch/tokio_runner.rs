//! The executor on a Tokio runtime: one runner task for each pair of connections.
//!
//! A task for each message would cost more than all the rest of a message's way. The runner makes
//! the first poll itself, which also keeps the arrival order (D-03); only a handler that is pending
//! after it becomes a task of its own.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::task::coop;

use super::counts::DispatchCounts;
use super::gate::{Seat, Slot, StartGate};
use super::job::{HandlerFuture, Job, Polled, caught, finish, poll_caught, report_panic};

/// First polls before the runner lets other tasks of its worker run. Chosen arbitrarily; the same
/// as a turn's share of one connection (D-23).
const BATCH_MAX: usize = 64;

/// Makes runners on one runtime.
#[derive(Debug)]
pub(crate) struct TokioRunner {
    handle: Handle,
    gate: Arc<StartGate>,
    counts: Arc<DispatchCounts>,
}

/// The jobs of one pair. Any thread may submit; the order of the calls is the order of the first
/// polls.
///
/// It has no bound: each job in it holds a permit. Dropping it ends the runner after the jobs in
/// it, which are accepted messages, have started (B-15).
///
/// When the runtime shuts down, the jobs in it are dropped, which settles them, and so is every job
/// submitted later: nobody is left to run it, and in the queue it would keep its permit for ever.
#[derive(Debug)]
pub(crate) struct PairQueue {
    inbox: Arc<Inbox>,
}

#[derive(Debug)]
struct Inbox {
    state: Mutex<InboxState>,
    counts: Arc<DispatchCounts>,
}

#[derive(Default)]
struct InboxState {
    jobs: VecDeque<Job>,
    /// The runner's waker, while it waits for a job; not while it waits for the gate.
    parked: Option<Waker>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Phase {
    #[default]
    Open,
    /// No more submits; the runner ends when the queue is empty.
    Closing,
    /// The runner is gone.
    Gone,
}

/// The task of one pair.
struct PairRunner {
    inbox: Arc<Inbox>,
    /// Taken out of the inbox and not started.
    batch: VecDeque<Job>,
    seat: Seat,
    handle: Handle,
    counts: Arc<DispatchCounts>,
    /// The name of the handler being started; a buffer used again for each.
    name: String,
}

/// A handler that was pending after its first poll.
struct Suspended {
    // Before `slot`: a handler's memory is gone before another may start.
    future: Option<HandlerFuture>,
    slot: Option<Slot>,
    name: Box<str>,
    counts: Arc<DispatchCounts>,
}

impl TokioRunner {
    /// Runs handlers on the runtime of `handle`.
    ///
    /// Something must drive that runtime as long as it exists: a current-thread runtime that
    /// nobody polls keeps the slots that the gate handed to it.
    pub(crate) fn new(handle: Handle, gate: Arc<StartGate>) -> Self {
        Self { handle, gate, counts: Arc::default() }
    }

    /// Starts the runner of a new pair. Costs one task for the life of the pair.
    pub(crate) fn pair(&self) -> PairQueue {
        let inbox = Arc::new(Inbox { state: Mutex::default(), counts: Arc::clone(&self.counts) });
        let runner = PairRunner {
            inbox: Arc::clone(&inbox),
            batch: VecDeque::new(),
            seat: self.gate.seat(),
            handle: self.handle.clone(),
            counts: Arc::clone(&self.counts),
            name: String::new(),
        };
        // Detached: it ends with its queue or with the runtime.
        drop(self.handle.spawn(runner));
        PairQueue { inbox }
    }

    /// What all pairs of this runner counted together.
    pub(crate) const fn counts(&self) -> &Arc<DispatchCounts> {
        &self.counts
    }
}

impl PairQueue {
    /// Queues a job, or drops it if the runtime is gone. O(1); wakes the runner if it sleeps.
    pub(crate) fn submit(&self, job: Job) {
        let mut state = self.inbox.lock();
        if state.phase == Phase::Gone {
            drop(state);
            self.inbox.settle([job]);
            return;
        }
        state.jobs.push_back(job);
        let parked = state.parked.take();
        drop(state);
        if let Some(waker) = parked {
            waker.wake();
        }
    }
}

impl Drop for PairQueue {
    fn drop(&mut self) {
        let mut state = self.inbox.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Closing;
        }
        let parked = state.parked.take();
        drop(state);
        if let Some(waker) = parked {
            waker.wake();
        }
    }
}

impl Inbox {
    /// Moves all jobs to `batch`; if there are none, files `waker` under the same lock, so that no
    /// submit falls between the look and the filing. `Ready(false)`: there will never be one again.
    fn poll_take(&self, batch: &mut VecDeque<Job>, waker: &Waker) -> Poll<bool> {
        let mut state = self.lock();
        if !state.jobs.is_empty() {
            core::mem::swap(&mut state.jobs, batch);
            return Poll::Ready(true);
        }
        if state.phase == Phase::Closing {
            return Poll::Ready(false);
        }
        let old = state.parked.replace(waker.clone());
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// Drops jobs that nobody will start. Never under the lock: their guards call the host.
    fn settle(&self, jobs: impl IntoIterator<Item = Job>) {
        for job in jobs {
            self.counts.dropped_unstarted.raise();
            caught(|| drop(job));
        }
    }

    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Future for PairRunner {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        for _ in 0..BATCH_MAX {
            // Handlers share this task's budget. Without it Tokio's own resources answer "pending",
            // and each handler would become a task for no reason.
            if !coop::has_budget_remaining() {
                break;
            }
            if this.batch.is_empty() {
                match this.inbox.poll_take(&mut this.batch, cx.waker()) {
                    Poll::Ready(true) => {}
                    Poll::Ready(false) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
            let Some(slot) = this.seat.enter(cx.waker()) else { return Poll::Pending };
            if let Some(job) = this.batch.pop_front() {
                this.start(job, slot, cx);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl PairRunner {
    /// Calls the user's callback and makes the first poll, in place.
    ///
    /// A pending handler has filed the runner's waker. Its own task polls it once more at once and
    /// files its own, so a wake between the two is not lost; it only wakes the runner for nothing.
    fn start(&mut self, job: Job, slot: Slot, context: &mut Context<'_>) {
        self.name.clear();
        self.name.push_str(job.name());
        self.counts.started.raise();
        let Some(mut future) = caught(|| job.start()) else {
            report_panic(&self.name, &self.counts);
            return;
        };
        let polled = poll_caught(future.as_mut(), context);
        if polled == Polled::Pending {
            self.counts.spawned.raise();
            let name = self.name.as_str().into();
            let counts = Arc::clone(&self.counts);
            let suspended = Suspended { future: Some(future), slot: Some(slot), name, counts };
            drop(self.handle.spawn(suspended));
            return;
        }
        if polled == Polled::Ended {
            self.counts.finished_at_once.raise();
        }
        finish(future, polled, &self.name, &self.counts);
        drop(slot);
    }
}

impl Drop for PairRunner {
    /// The queue ended, or the runtime shuts down. The phase comes first, so that no job enters the
    /// queue after it was emptied.
    fn drop(&mut self) {
        let mut state = self.inbox.lock();
        state.phase = Phase::Gone;
        let jobs = core::mem::take(&mut state.jobs);
        let parked = state.parked.take();
        drop(state);
        drop(parked);
        self.inbox.settle(self.batch.drain(..).chain(jobs));
    }
}

impl Future for Suspended {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let Some(future) = &mut this.future else { return Poll::Ready(()) };
        let polled = poll_caught(future.as_mut(), cx);
        if polled == Polled::Pending {
            return Poll::Pending;
        }
        if let Some(future) = this.future.take() {
            finish(future, polled, &this.name, &this.counts);
        }
        this.slot = None;
        Poll::Ready(())
    }
}

impl fmt::Debug for InboxState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboxState")
            .field("jobs", &self.jobs.len())
            .field("parked", &self.parked.is_some())
            .field("phase", &self.phase)
            .finish()
    }
}
