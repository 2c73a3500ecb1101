//! The producers: many tasks that send and request as fast as they are let.

use core::future::poll_fn;
use core::pin::pin;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::task::Poll;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::Barrier;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::Instant;

use super::hosts::{CallError, Sender};
use super::latency::Latency;
use super::ledger::Ledger;
use super::message::{Answer, Filler, Permits, Stamp};

/// What all producers share.
#[derive(Debug)]
pub(super) struct Production {
    pub(super) tally: Tally,
    filler: Filler,
    stop: AtomicBool,
    /// All producers and the run meet here at the end of the warm-up, and again at the start.
    gate: Barrier,
}

/// What the producers count.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) sends_accepted: AtomicU64,
    pub(super) sends_waited: AtomicU64,
    /// Sends that wait right now.
    pub(super) waiting: AtomicU64,
    pub(super) deadline_exceeded: AtomicU64,
    pub(super) other_errors: AtomicU64,
    pub(super) requests_ok: AtomicU64,
    pub(super) requests_ok_while_full: AtomicU64,
    pub(super) requests_failed: AtomicU64,
    first_error: OnceLock<String>,
    latency: Mutex<Latency>,
}

/// One producer's two tasks, each with its ledger at the end.
#[derive(Debug)]
pub(super) struct Producer {
    pub(super) sends: JoinHandle<Ledger>,
    pub(super) requests: JoinHandle<Ledger>,
}

impl Production {
    /// A production of `producers` producers.
    ///
    /// # Errors
    ///
    /// As for [`Latency::new`].
    pub(super) fn new(
        producers: usize,
        payload_bytes: usize,
    ) -> Result<Arc<Self>, hdrhistogram::CreationError> {
        Ok(Arc::new(Self {
            tally: Tally::new()?,
            filler: Filler::new(payload_bytes),
            stop: AtomicBool::new(false),
            gate: Barrier::new(producers * TASKS_PER_PRODUCER + 1),
        }))
    }

    /// Starts the tasks of producer `producer`. They warm up and then wait twice at the gate.
    pub(super) fn spawn(self: &Arc<Self>, sender: &Sender, producer: u32) -> Producer {
        let (all, to) = (Arc::clone(self), sender.clone());
        let sends = tokio::spawn(async move { all.send_all(&to, producer).await });
        let (all, to) = (Arc::clone(self), sender.clone());
        let requests = tokio::spawn(async move { all.request_all(&to, producer).await });
        Producer { sends, requests }
    }

    /// Waits at the gate until everybody is there.
    pub(super) async fn meet(&self) {
        self.gate.wait().await;
    }

    /// Lets every producer end with the call it is in.
    pub(super) fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    async fn send_all(&self, to: &Sender, producer: u32) -> Ledger {
        let mut ledger = Ledger::new();
        let mut number = 0;
        while self.goes_on(number).await {
            self.send_one(to, Stamp { producer, number }, &mut ledger).await;
            number += 1;
        }
        ledger
    }

    async fn request_all(&self, to: &Sender, producer: u32) -> Ledger {
        let mut ledger = Ledger::new();
        let mut number = 0;
        while self.goes_on(number).await {
            self.request_one(to, Stamp { producer, number }, &mut ledger).await;
            number += 1;
        }
        ledger
    }

    /// Whether to make call `number`; at the end of the warm-up waits for everybody else.
    async fn goes_on(&self, number: u64) -> bool {
        if number == WARM_UP_CALLS {
            self.meet().await;
            self.meet().await;
        }
        // Sends that need not wait never yield by themselves.
        if number.is_multiple_of(CALLS_PER_YIELD) {
            yield_now().await;
        }
        number < WARM_UP_CALLS || !self.stop.load(Relaxed)
    }

    async fn send_one(&self, to: &Sender, stamp: Stamp, ledger: &mut Ledger) {
        let mut call = pin!(to.send(self.filler.stamped(stamp)));
        // What is accepted on the spot is ready at the first poll.
        let result = match poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await {
            Poll::Ready(result) => result,
            Poll::Pending => {
                self.tally.sends_waited.fetch_add(1, Relaxed);
                self.tally.waiting.fetch_add(1, Relaxed);
                let result = call.await;
                self.tally.waiting.fetch_sub(1, Relaxed);
                result
            }
        };
        match result {
            Ok(()) => {
                ledger.record(stamp.number);
                self.tally.sends_accepted.fetch_add(1, Relaxed);
            }
            Err(error) => self.tally.failed(error),
        }
    }

    async fn request_one(&self, to: &Sender, stamp: Stamp, ledger: &mut Ledger) {
        let begun = Instant::now();
        let result = to.request(self.filler.stamped(stamp)).await;
        let error = match result.map(|reply| Answer::decode(&reply)) {
            Ok(Some(answer)) if answer.stamp == stamp => {
                ledger.record(stamp.number);
                self.tally.answered(answer.permits);
                self.tally.latency().record(begun.elapsed());
                return;
            }
            Ok(_) => CallError::Other("a reply did not belong to its request".to_owned()),
            Err(error) => error,
        };
        self.tally.requests_failed.fetch_add(1, Relaxed);
        self.tally.failed(error);
    }
}

impl Tally {
    fn new() -> Result<Self, hdrhistogram::CreationError> {
        Ok(Self {
            sends_accepted: AtomicU64::new(0),
            sends_waited: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            deadline_exceeded: AtomicU64::new(0),
            other_errors: AtomicU64::new(0),
            requests_ok: AtomicU64::new(0),
            requests_ok_while_full: AtomicU64::new(0),
            requests_failed: AtomicU64::new(0),
            first_error: OnceLock::new(),
            latency: Mutex::new(Latency::new()?),
        })
    }

    pub(super) fn latency(&self) -> MutexGuard<'_, Latency> {
        self.latency.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The text of the first error that was not a deadline.
    pub(super) fn first_error(&self) -> Option<&str> {
        self.first_error.get().map(String::as_str)
    }

    fn answered(&self, permits: Permits) {
        self.requests_ok.fetch_add(1, Relaxed);
        if permits == Permits::Exhausted {
            self.requests_ok_while_full.fetch_add(1, Relaxed);
        }
    }

    fn failed(&self, error: CallError) {
        match error {
            CallError::DeadlineExceeded => {
                self.deadline_exceeded.fetch_add(1, Relaxed);
            }
            CallError::Other(text) => {
                self.other_errors.fetch_add(1, Relaxed);
                self.first_error.get_or_init(|| text);
            }
        }
    }
}

/// One sends, one requests.
const TASKS_PER_PRODUCER: usize = 2;

/// Enough that connections, stacks and allocators are in place before memory is measured.
const WARM_UP_CALLS: u64 = 4;

const CALLS_PER_YIELD: u64 = 32;
