//! Executors and gate against jobs that record what happens to them.

mod gate;
mod local;
mod panics;
#[cfg(feature = "tokio")]
mod tokio;
mod wakes;

use core::cell::Cell;
use core::future::poll_fn;
use core::num::NonZeroU32;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Poll, Waker};
use std::sync::{Arc, Mutex};

use zcore::Instant;

use super::{HandlerFuture, Job, LocalTasks, RunningLimit, Start, StartGate};

type Body = Box<dyn FnOnce() -> HandlerFuture + Send>;

/// A job whose permit is a count of `permits`.
struct TestJob {
    name: String,
    permit: Permit,
    body: Body,
}

struct Permit(Arc<AtomicUsize>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Start for TestJob {
    fn start(self: Box<Self>) -> HandlerFuture {
        let Self { name: _, permit, body } = *self;
        drop(permit);
        body()
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// The permits of one test, and what its handlers recorded.
#[derive(Clone, Default)]
struct Probe {
    permits: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<usize>>>,
    latch: Arc<Latch>,
}

impl Probe {
    /// A job that holds a permit until it is started or dropped.
    fn job(&self, name: &str, body: impl FnOnce() -> HandlerFuture + Send + 'static) -> Job {
        self.permits.fetch_add(1, Ordering::SeqCst);
        let permit = Permit(Arc::clone(&self.permits));
        Box::new(TestJob { name: name.to_owned(), permit, body: Box::new(body) })
    }

    /// Records `number` in its first poll and ends there.
    fn quick(&self, number: usize) -> Job {
        let probe = self.clone();
        self.job("quick", move || Box::pin(async move { probe.note(number) }))
    }

    /// Records `number` in its first poll and then waits for the latch.
    fn slow(&self, number: usize) -> Job {
        let probe = self.clone();
        self.job("slow", move || {
            Box::pin(async move {
                probe.note(number);
                probe.latch.opened().await;
            })
        })
    }

    fn note(&self, number: usize) {
        self.seen.lock().unwrap().push(number);
    }

    fn seen(&self) -> Vec<usize> {
        self.seen.lock().unwrap().clone()
    }

    fn permits(&self) -> usize {
        self.permits.load(Ordering::SeqCst)
    }
}

/// Closed, and then open for ever.
#[derive(Default)]
struct Latch(Mutex<(bool, Vec<Waker>)>);

impl Latch {
    fn opened(&self) -> impl Future<Output = ()> + Send + '_ {
        poll_fn(|cx| {
            let mut state = self.0.lock().unwrap();
            if state.0 {
                return Poll::Ready(());
            }
            state.1.push(cx.waker().clone());
            Poll::Pending
        })
    }

    fn open(&self) {
        let wakers = {
            let mut state = self.0.lock().unwrap();
            state.0 = true;
            core::mem::take(&mut state.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Panics when it is dropped, the way user code may.
struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "a destructor of user code");
    }
}

fn limit(running_max: u32) -> Arc<StartGate> {
    StartGate::new(RunningLimit::Limit(NonZeroU32::new(running_max).unwrap()))
}

fn unlimited() -> Arc<StartGate> {
    StartGate::new(RunningLimit::Unlimited)
}

/// An executor whose rings are counted and wake nobody.
fn local(gate: &Arc<StartGate>) -> LocalTasks {
    LocalTasks::new(gate, Arc::new(|| {}))
}

/// A clock that stands still.
const fn still() -> Instant {
    Instant::EPOCH
}

/// Polls until nothing is ready.
fn settle(tasks: &mut LocalTasks) {
    while tasks.run(64, still) {}
}

/// A clock that only the test moves.
#[derive(Default)]
struct TestClock(std::rc::Rc<Cell<u64>>);

impl TestClock {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.get())
    }
}
