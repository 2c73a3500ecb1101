//! The executor that a shard polls on its own thread: no hop, no lock that another shard takes.

use core::fmt;
use core::task::Waker;
use std::collections::VecDeque;
use std::sync::Arc;

use zcore::Instant;

use super::counts::DispatchCounts;
use super::gate::{Seat, Slot, StartGate};
use super::held::{HELD_MAX, HeldLog};
use super::job::{Job, Polled, caught, report_panic};
use super::ready::{ReadyList, Ring, TaskKey};
use super::tasks::{LocalFuture, Tasks};

/// Handlers and client code on one shard's thread.
///
/// Not `Send`: it is built, used and dropped on the shard's thread. User code runs only inside
/// [`LocalTasks::run`] (and the drop), which borrows it exclusively; so what user code wants to
/// submit or spawn goes through a queue of the shard.
///
/// # Sleeping
///
/// After [`LocalTasks::run`] (or [`LocalTasks::is_ready`]) said `false`, a wake from any thread, the
/// shard's own included, rings; so does a slot of the gate. The ring must end the shard's sleep even
/// if it came before the sleep began. Only `submit` and `spawn` do not ring: who calls them calls
/// `run` before it sleeps.
#[derive(Debug)]
pub(crate) struct LocalTasks {
    jobs: JobQueue,
    seat: Seat,
    gate_waker: Waker,
    tasks: Tasks,
    ready: Arc<ReadyList>,
    /// Taken out of `ready` and not yet polled.
    batch: VecDeque<TaskKey>,
    next_turn: Turn,
    /// The name of the handler being started: its job is gone when a panic has to be logged.
    starting: String,
    held: HeldLog,
    counts: Arc<DispatchCounts>,
}

/// Who is polled next if there are both. Strictly in turn: a task that wakes itself cannot keep
/// jobs from starting, and a flood of jobs cannot keep started handlers from ending.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Start,
    Woken,
}

enum Step {
    Start(Job, Slot),
    Poll(TaskKey),
}

/// Jobs in arrival order.
#[derive(Default)]
struct JobQueue(VecDeque<Job>);

/// The name of client code in logs.
const CLIENT_CODE: &str = "client code";

impl LocalTasks {
    /// An executor for the calling thread; `ring` wakes that thread and may be called from any.
    pub(crate) fn new(gate: &Arc<StartGate>, ring: Ring) -> Self {
        let counts = Arc::new(DispatchCounts::default());
        let ready = ReadyList::new(ring, Arc::clone(&counts));
        Self {
            jobs: JobQueue::default(),
            seat: gate.seat(),
            gate_waker: Waker::from(Arc::clone(&ready)),
            tasks: Tasks::new(Arc::clone(&ready)),
            ready,
            batch: VecDeque::new(),
            next_turn: Turn::Start,
            starting: String::new(),
            held: HeldLog::default(),
            counts,
        }
    }

    /// Queues a job behind all others; its permit stays taken until its start (B-12). O(1).
    pub(crate) fn submit(&mut self, job: Job) {
        self.jobs.0.push_back(job);
    }

    /// Adds client code, which passes no gate. O(1) plus the growth of the slab.
    pub(crate) fn spawn(&mut self, future: LocalFuture) {
        let key = self.tasks.insert(CLIENT_CODE, future, None);
        self.ready.push_quietly(key);
    }

    /// Starts jobs and polls woken tasks in turn, at most `polls_max` together; `true` if ready
    /// work is left.
    ///
    /// Reads the clock before the first poll and after each one, because a total over several
    /// polls cannot tell which of them held the shard.
    pub(crate) fn run(&mut self, polls_max: usize, now: impl Fn() -> Instant) -> bool {
        self.ready.begin_polling();
        let mut begin = None;
        for _ in 0..polls_max {
            let Some(step) = self.next_step() else { break };
            let from = begin.unwrap_or_else(&now);
            let name = match step {
                Step::Start(job, slot) => {
                    self.start(job, slot);
                    &*self.starting
                }
                Step::Poll(key) => {
                    self.tasks.poll(key, &self.counts);
                    self.tasks.name(key)
                }
            };
            let to = now();
            if to.since(from) > HELD_MAX {
                self.counts.held.raise();
                self.held.log(name, to.since(from));
            }
            begin = Some(to);
        }
        self.ready.end_polling();
        self.is_ready()
    }

    /// Whether [`LocalTasks::run`] would find something to poll.
    pub(crate) fn is_ready(&self) -> bool {
        let may_start = !self.jobs.0.is_empty() && self.seat.may_enter();
        may_start || !self.batch.is_empty() || !self.ready.is_empty()
    }

    /// Whether there is neither a job nor a task.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.0.is_empty() && self.tasks.live() == 0
    }

    /// What this executor counted.
    pub(crate) const fn counts(&self) -> &Arc<DispatchCounts> {
        &self.counts
    }

    #[cfg(test)]
    pub(crate) const fn tasks_capacity(&self) -> usize {
        self.tasks.capacity()
    }

    #[cfg(test)]
    pub(crate) fn held_names(&self) -> usize {
        self.held.logged()
    }

    fn next_step(&mut self) -> Option<Step> {
        match self.next_turn {
            Turn::Start => {
                self.next_turn = Turn::Woken;
                self.next_start().or_else(|| self.next_woken())
            }
            Turn::Woken => {
                self.next_turn = Turn::Start;
                self.next_woken().or_else(|| self.next_start())
            }
        }
    }

    /// The oldest job, if the gate lets it in.
    fn next_start(&mut self) -> Option<Step> {
        if self.jobs.0.is_empty() || !self.seat.may_enter() {
            return None;
        }
        let slot = self.seat.enter(&self.gate_waker)?;
        let job = self.jobs.0.pop_front()?;
        Some(Step::Start(job, slot))
    }

    /// The task whose wake is the oldest; skips keys of tasks that ended after their wake.
    fn next_woken(&mut self) -> Option<Step> {
        if self.batch.is_empty() {
            self.ready.take(&mut self.batch);
        }
        while let Some(key) = self.batch.pop_front() {
            if self.tasks.contains(key) {
                return Some(Step::Poll(key));
            }
        }
        None
    }

    /// Calls the user's callback and makes the first poll.
    fn start(&mut self, job: Job, slot: Slot) {
        self.starting.clear();
        self.starting.push_str(job.name());
        self.counts.started.raise();
        let Some(future) = caught(|| job.start()) else {
            report_panic(&self.starting, &self.counts);
            return;
        };
        let key = self.tasks.insert(&self.starting, future, Some(slot));
        if self.tasks.poll(key, &self.counts) == Polled::Ended {
            self.counts.finished_at_once.raise();
        }
    }
}

impl Drop for LocalTasks {
    /// Closes the list first: tasks that wake each other while they are dropped must not ring.
    fn drop(&mut self) {
        self.ready.close();
        while let Some(job) = self.jobs.0.pop_front() {
            caught(|| drop(job));
        }
    }
}

impl fmt::Debug for JobQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JobQueue").field(&self.0.len()).finish()
    }
}
