//! The list of tasks to poll, and the wakers that fill it from any thread.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::thread::{self, ThreadId};

use super::counts::DispatchCounts;

/// Wakes a shard's thread.
pub(crate) type Ring = Arc<dyn Fn() + Send + Sync>;

/// A task of one executor; the generation tells it from earlier tasks in the same place.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct TaskKey {
    pub(crate) place: usize,
    pub(crate) generation: u32,
}

/// Keys of tasks to poll, oldest wake first.
///
/// A wake by a task that is being polled does not ring: [`run`](super::LocalTasks::run) looks at
/// the list when it ends. Any other wake rings, also one on the shard's own thread, where a reply
/// that arrives or a send that is admitted wakes a task between two runs. It does not ring if an
/// earlier wake has and the shard has not taken the list since: it will take both.
pub(crate) struct ReadyList {
    owner: ThreadId,
    ring: Ring,
    counts: Arc<DispatchCounts>,
    woken: Mutex<Woken>,
    /// Whether `woken` holds keys. Written under the lock only; read without it on the fast path,
    /// where a stale `false` costs nothing: the ring comes after the push.
    any: AtomicBool,
    /// Whether the owner is inside `run`; only the owner's thread reads and writes it.
    polling: AtomicBool,
}

#[derive(Debug, Default)]
struct Woken {
    keys: VecDeque<TaskKey>,
    bell: Bell,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Bell {
    /// The next wake from elsewhere rings.
    #[default]
    Silent,
    /// It rang, and the shard has not taken the keys since.
    Rung,
    /// The executor is gone.
    Closed,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Push {
    /// The shard looks at the list by itself.
    Quiet,
    /// The shard may be asleep, or about to.
    Ring,
}

/// The waker of one task.
#[derive(Debug)]
pub(crate) struct TaskWaker {
    pub(crate) key: TaskKey,
    /// The key is in the list, or the task has ended: nothing to do for a wake.
    pub(crate) queued: AtomicBool,
    pub(crate) ready: Arc<ReadyList>,
}

impl ReadyList {
    /// An empty list of the shard that runs on the calling thread.
    pub(crate) fn new(ring: Ring, counts: Arc<DispatchCounts>) -> Arc<Self> {
        Arc::new(Self {
            owner: thread::current().id(),
            ring,
            counts,
            woken: Mutex::default(),
            any: AtomicBool::new(false),
            polling: AtomicBool::new(false),
        })
    }

    /// Adds a task and rings if the shard may not look by itself. O(1); the ring is called outside
    /// the lock.
    fn push_and_ring(&self, key: TaskKey) {
        let push = if self.needs_ring() { Push::Ring } else { Push::Quiet };
        self.push(key, push);
    }

    /// Adds a task on behalf of the shard, which looks afterwards. O(1).
    pub(crate) fn push_quietly(&self, key: TaskKey) {
        self.push(key, Push::Quiet);
    }

    /// The owner enters `run`. Called on its thread.
    pub(crate) fn begin_polling(&self) {
        self.polling.store(true, Ordering::Relaxed);
    }

    /// The owner is about to look at the list and to leave `run`. Called on its thread.
    pub(crate) fn end_polling(&self) {
        self.polling.store(false, Ordering::Relaxed);
    }

    fn push(&self, key: TaskKey, push: Push) {
        let mut woken = self.lock();
        if woken.bell == Bell::Closed {
            return;
        }
        woken.keys.push_back(key);
        self.any.store(true, Ordering::Release);
        let must_ring = push == Push::Ring && woken.bell == Bell::Silent;
        if must_ring {
            woken.bell = Bell::Rung;
        }
        drop(woken);
        if must_ring {
            self.ring();
        }
    }

    /// Moves all keys into `batch`, which must be empty.
    pub(crate) fn take(&self, batch: &mut VecDeque<TaskKey>) {
        debug_assert!(batch.is_empty(), "{} keys of the last batch are left", batch.len());
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut woken = self.lock();
        core::mem::swap(&mut woken.keys, batch);
        woken.bell = Bell::Silent;
        self.any.store(false, Ordering::Release);
    }

    /// Whether there are keys; exact, for the decision to sleep.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().keys.is_empty()
    }

    /// From here on wakes do nothing.
    pub(crate) fn close(&self) {
        let mut woken = self.lock();
        woken.bell = Bell::Closed;
        woken.keys = VecDeque::new();
    }

    fn needs_ring(&self) -> bool {
        // Relaxed: on the owner's thread it is its own last write, elsewhere it does not matter.
        thread::current().id() != self.owner || !self.polling.load(Ordering::Relaxed)
    }

    fn ring(&self) {
        self.counts.rings.raise();
        (self.ring)();
    }

    fn lock(&self) -> MutexGuard<'_, Woken> {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ReadyList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadyList").field("woken", &self.woken).finish_non_exhaustive()
    }
}

impl Wake for ReadyList {
    /// The start gate's waker: it hands slots to the executor as a whole, not to a task.
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.needs_ring() {
            self.ring();
        }
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// `swap` on both sides: whoever finds the flag raised has, by its own write to it, published
    /// what it did before the wake to the poll that lowers the flag.
    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.ready.push_and_ring(self.key);
        }
    }
}
