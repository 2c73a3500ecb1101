//! The started tasks of one shard, in places that are used again.

use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Waker};
use std::sync::Arc;

use super::counts::DispatchCounts;
use super::gate::Slot;
use super::job::{Polled, caught, finish, poll_caught};
use super::ready::{ReadyList, TaskKey, TaskWaker};

/// A future that stays on its shard.
pub(crate) type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// A slab of tasks. Its memory follows the highest number of tasks alive at once.
///
/// A place keeps its waker and the buffer of its name, so a handler that ends in its first poll
/// costs no allocation here. The waker is replaced only if somebody still holds the last one.
#[derive(Debug)]
pub(crate) struct Tasks {
    places: Vec<Place>,
    free: Vec<usize>,
    ready: Arc<ReadyList>,
}

struct Task {
    // Before `slot`: a handler's memory is gone before another may start.
    future: LocalFuture,
    slot: Option<Slot>,
}

struct Place {
    waker: Arc<TaskWaker>,
    name: String,
    task: Option<Task>,
}

impl Tasks {
    /// No tasks; wakers will push to `ready`.
    pub(crate) const fn new(ready: Arc<ReadyList>) -> Self {
        Self { places: Vec::new(), free: Vec::new(), ready }
    }

    /// Takes in a task, which the caller then polls or puts into the ready list; until its first
    /// poll there is nothing to do for a wake. Amortized O(1); allocates only if no place is free.
    pub(crate) fn insert(
        &mut self,
        name: &str,
        future: LocalFuture,
        slot: Option<Slot>,
    ) -> TaskKey {
        let index = self.free.pop().unwrap_or(self.places.len());
        if index == self.places.len() {
            self.places.push(Place::new(index, &self.ready));
        }
        let place = &mut self.places[index];
        debug_assert!(place.task.is_none(), "place {index} is in use");
        place.renew_waker();
        place.name.clear();
        place.name.push_str(name);
        place.task = Some(Task { future, slot });
        place.waker.key
    }

    /// Whether `key` names a task that has not ended.
    pub(crate) fn contains(&self, key: TaskKey) -> bool {
        self.places
            .get(key.place)
            .is_some_and(|place| place.task.is_some() && place.waker.key == key)
    }

    /// Polls a task once and, if it ended, drops it and then gives its slot back.
    pub(crate) fn poll(&mut self, key: TaskKey, counts: &DispatchCounts) -> Polled {
        let Some(place) = self.places.get_mut(key.place).filter(|place| place.waker.key == key)
        else {
            return Polled::Ended;
        };
        let Some(task) = &mut place.task else { return Polled::Ended };
        // Lowered before the poll, so that a wake during it queues the task once more.
        place.waker.queued.swap(false, Ordering::AcqRel);
        let waker = Waker::from(Arc::clone(&place.waker));
        let polled = poll_caught(task.future.as_mut(), &mut Context::from_waker(&waker));
        drop(waker);
        if polled != Polled::Pending
            && let Some(Task { future, slot }) = place.task.take()
        {
            // Raised for good: wakers that outlive the task find nothing to do.
            place.waker.queued.swap(true, Ordering::AcqRel);
            finish(future, polled, &place.name, counts);
            drop(slot);
            self.free.push(key.place);
        }
        polled
    }

    /// The name of the task that is, or last was, in the place of `key`.
    pub(crate) fn name(&self, key: TaskKey) -> &str {
        self.places.get(key.place).map_or("", |place| &place.name)
    }

    /// Tasks that have not ended.
    pub(crate) const fn live(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Places, free ones included.
    #[cfg(test)]
    pub(crate) const fn capacity(&self) -> usize {
        self.places.len()
    }
}

impl Drop for Tasks {
    /// Drops task by task: a destructor that panics must not take the shard with it.
    fn drop(&mut self) {
        for place in &mut self.places {
            if let Some(Task { future, slot }) = place.task.take() {
                caught(|| drop(future));
                drop(slot);
            }
        }
    }
}

impl Place {
    fn new(index: usize, ready: &Arc<ReadyList>) -> Self {
        let key = TaskKey { place: index, generation: 0 };
        Self { waker: TaskWaker::new(key, ready), name: String::new(), task: None }
    }

    /// Makes the waker that of a new task.
    ///
    /// A generation comes again after 2^32 tasks in one place; a waker kept for that long would
    /// find its flag raised, and a key that old is in no list.
    fn renew_waker(&mut self) {
        let last = self.waker.key;
        let key = TaskKey { generation: last.generation.wrapping_add(1), ..last };
        if let Some(waker) = Arc::get_mut(&mut self.waker) {
            debug_assert!(*waker.queued.get_mut(), "a free place's flag is up");
            waker.key = key;
        } else {
            self.waker = TaskWaker::new(key, &self.waker.ready);
        }
    }
}

impl TaskWaker {
    fn new(key: TaskKey, ready: &Arc<ReadyList>) -> Arc<Self> {
        Arc::new(Self { key, queued: AtomicBool::new(true), ready: Arc::clone(ready) })
    }
}

impl core::fmt::Debug for Place {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Place")
            .field("name", &self.name)
            .field("live", &self.task.is_some())
            .finish_non_exhaustive()
    }
}
