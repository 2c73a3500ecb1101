//! The start gate: how many handlers may have begun and not ended (D-14).
//!
//! Permits bound the jobs that have *not* started; without a gate nothing bounds those that have
//! started and are suspended, each with its message. A job at the gate keeps its permit, so a full
//! gate pushes back through the permits to the senders.
//!
//! # Protocol
//!
//! An executor has one [`Seat`] and brings its oldest job to the gate:
//!
//! * [`Seat::enter`] gives a [`Slot`], or files the executor's waker at the tail of the queue.
//! * A slot that comes free goes to the oldest waiter: it is handed over, not thrown up for a race,
//!   so a newcomer cannot pass. The waker is called after the hand-over, outside the lock; `enter`
//!   then gives the slot.
//! * A seat waits at most once, so that executors take turns and a pair with a thousand jobs does
//!   not keep a pair with one job outside. Within an executor the order is its own queue's.
//! * Dropping a seat withdraws it; a slot that it was handed and had not taken passes on.
//!
//! # Why no wake-up is lost
//!
//! `running` and `waiting` share one atomic word, so each step sees both at one moment.
//!
//! Claim: whenever `waiting > 0` and `running < limit`, some thread is inside [`StartGate::leave`]
//! and has yet to look at the queue under the lock. A seat joins only if somebody waits already or
//! no slot is free, so joining cannot make the condition true; leaving with `waiting > 0` makes it
//! true and starts that very loop; the loop ends only after it found, under the lock, the queue
//! empty or no slot free. Joining happens under the same lock, and there `waiting` equals the
//! queue's length.

use core::num::NonZeroU32;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::task::Waker;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many handlers may be running, suspended ones included (D-14).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RunningLimit {
    /// At most this many.
    Limit(NonZeroU32),
    /// As many as there are messages; then nothing bounds the memory of suspended handlers.
    Unlimited,
}

/// The gate of one host, shared by all of its executors.
#[derive(Debug)]
pub(crate) struct StartGate {
    /// `running` in the low half, `waiting` in the high half.
    word: AtomicU64,
    limit: u64,
    peak_running: AtomicU32,
    queue: Mutex<VecDeque<Waiter>>,
}

/// An executor's place at the gate.
#[derive(Debug)]
pub(crate) struct Seat {
    gate: Arc<StartGate>,
    /// Raised under the gate's lock when a slot is handed over.
    granted: Arc<AtomicBool>,
    waiting: bool,
}

/// The right to have one handler running; dropping it gives it to the oldest waiter.
#[derive(Debug)]
#[must_use = "a dropped slot is a free slot"]
pub(crate) struct Slot {
    gate: Arc<StartGate>,
}

#[derive(Debug)]
struct Waiter {
    granted: Arc<AtomicBool>,
    waker: Waker,
}

const RUNNING: u64 = 1;
const WAITING: u64 = 1 << 32;

impl StartGate {
    /// A gate that nobody has passed yet.
    pub(crate) fn new(limit: RunningLimit) -> Arc<Self> {
        let limit = match limit {
            RunningLimit::Limit(limit) => u64::from(limit.get()),
            // The low half must not run over into the high one; 2^32 suspended handlers do not
            // fit into memory, so this limit is never met.
            RunningLimit::Unlimited => u64::from(u32::MAX),
        };
        Arc::new(Self {
            word: AtomicU64::new(0),
            limit,
            peak_running: AtomicU32::new(0),
            queue: Mutex::new(VecDeque::new()),
        })
    }

    /// A place for one executor. Makes no claim until [`Seat::enter`].
    pub(crate) fn seat(self: &Arc<Self>) -> Seat {
        Seat { gate: Arc::clone(self), granted: Arc::new(AtomicBool::new(false)), waiting: false }
    }

    /// Slots taken: running handlers, suspended ones included, and slots handed over a moment ago.
    pub(crate) fn running(&self) -> u32 {
        running_of(self.word.load(Ordering::Acquire))
    }

    /// The highest [`StartGate::running`] since the start.
    pub(crate) fn peak_running(&self) -> u32 {
        self.peak_running.load(Ordering::Relaxed)
    }

    /// Executors whose oldest job stands at the gate.
    pub(crate) fn waiting(&self) -> u32 {
        waiting_of(self.word.load(Ordering::Acquire))
    }

    /// Takes a free slot unless somebody waits. Never blocks.
    fn try_take(&self) -> bool {
        let taken = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            self.has_room_for_newcomer(word).then(|| word + RUNNING)
        });
        taken.is_ok_and(|before| self.note_peak(before))
    }

    /// Takes a free slot, or counts one more waiter; the caller holds the lock.
    fn take_or_wait(&self) -> bool {
        let step = |word| word + if self.has_room_for_newcomer(word) { RUNNING } else { WAITING };
        let before = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| Some(step(word)))
            .unwrap_or_else(|unchanged| unchanged);
        self.has_room_for_newcomer(before) && self.note_peak(before)
    }

    /// Gives a slot back and hands out what is free.
    fn leave(&self) {
        let before = self.word.fetch_sub(RUNNING, Ordering::AcqRel);
        debug_assert!(running_of(before) > 0, "a slot was given back that nobody had");
        if waiting_of(before) == 0 {
            return;
        }
        while let Some(waker) = self.grant_oldest() {
            waker.wake();
        }
    }

    /// Hands a free slot to the oldest waiter; the caller wakes it.
    fn grant_oldest(&self) -> Option<Waker> {
        let mut queue = self.lock();
        self.assert_invariants(&queue);
        if queue.is_empty() {
            return None;
        }
        let before = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                self.has_free_slot(word).then(|| word - WAITING + RUNNING)
            })
            .ok()?;
        self.note_peak(before);
        let oldest = queue.pop_front()?;
        oldest.granted.store(true, Ordering::Release);
        Some(oldest.waker)
    }

    /// Whether a slot is free, waiters or not.
    fn has_free_slot(&self, word: u64) -> bool {
        u64::from(running_of(word)) < self.limit
    }

    /// Whether a slot is free and nobody would be passed.
    fn has_room_for_newcomer(&self, word: u64) -> bool {
        waiting_of(word) == 0 && self.has_free_slot(word)
    }

    /// Records that one more is running than in `before`; always `true`.
    fn note_peak(&self, before: u64) -> bool {
        let running = running_of(before + RUNNING);
        // The load first: at the peak already, which is the usual case, nothing is written and no
        // other core loses the cache line.
        if self.peak_running.load(Ordering::Relaxed) < running {
            self.peak_running.fetch_max(running, Ordering::Relaxed);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Waiter>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True under the lock only: a seat joins and goes under it.
    fn assert_invariants(&self, queue: &VecDeque<Waiter>) {
        let waiting = self.waiting();
        debug_assert!(
            u32::try_from(queue.len()) == Ok(waiting),
            "{waiting} are counted as waiting, the queue holds {}",
            queue.len()
        );
    }
}

impl Seat {
    /// Takes a slot for the oldest job, or makes `waker` be called when there is one.
    ///
    /// O(1) and lock-free while slots are free; takes the gate's lock otherwise. While it waits,
    /// calling again is allowed and only replaces the waker.
    pub(crate) fn enter(&mut self, waker: &Waker) -> Option<Slot> {
        if self.waiting {
            return self.take_granted().or_else(|| self.replace_waker(waker));
        }
        if self.gate.try_take() {
            return Some(self.slot());
        }
        let mut queue = self.gate.lock();
        if self.gate.take_or_wait() {
            drop(queue);
            return Some(self.slot());
        }
        queue.push_back(Waiter { granted: Arc::clone(&self.granted), waker: waker.clone() });
        self.gate.assert_invariants(&queue);
        self.waiting = true;
        None
    }

    /// Whether [`Seat::enter`] may give a slot: it does not wait, or its slot has been handed over.
    pub(crate) fn may_enter(&self) -> bool {
        !self.waiting || self.granted.load(Ordering::Acquire)
    }

    fn slot(&self) -> Slot {
        Slot { gate: Arc::clone(&self.gate) }
    }

    fn take_granted(&mut self) -> Option<Slot> {
        let granted = self.granted.swap(false, Ordering::AcqRel);
        granted.then(|| {
            self.waiting = false;
            self.slot()
        })
    }

    /// An executor's task may move: the waker of its last poll is the one that counts.
    fn replace_waker(&mut self, waker: &Waker) -> Option<Slot> {
        let gate = Arc::clone(&self.gate);
        let mut queue = gate.lock();
        let Some(waiter) = queue.iter_mut().find(|waiter| waiter.is_of(&self.granted)) else {
            // Handed over since the look without the lock.
            drop(queue);
            return self.take_granted();
        };
        if !waiter.waker.will_wake(waker) {
            let old = core::mem::replace(&mut waiter.waker, waker.clone());
            drop(queue);
            // A waker's drop may free a whole task: not under the lock.
            drop(old);
        }
        None
    }
}

impl Drop for Seat {
    /// Withdraws. Without this a slot handed to an executor that is gone would be lost for ever.
    fn drop(&mut self) {
        if !self.waiting {
            return;
        }
        let mut queue = self.gate.lock();
        let place = queue.iter().position(|waiter| waiter.is_of(&self.granted));
        let withdrawn = place.and_then(|place| queue.remove(place));
        if withdrawn.is_some() {
            self.gate.word.fetch_sub(WAITING, Ordering::AcqRel);
        }
        drop(queue);
        if withdrawn.is_none() {
            self.gate.leave();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.gate.leave();
    }
}

impl Waiter {
    fn is_of(&self, granted: &Arc<AtomicBool>) -> bool {
        Arc::ptr_eq(&self.granted, granted)
    }
}

fn running_of(word: u64) -> u32 {
    // The mask leaves 32 bits, so the conversion cannot fail.
    u32::try_from(word & (WAITING - 1)).unwrap_or(u32::MAX)
}

fn waiting_of(word: u64) -> u32 {
    u32::try_from(word / WAITING).unwrap_or(u32::MAX)
}
