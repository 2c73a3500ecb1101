//! The wake protocol, tried in every order that the memory model allows.
//!
//! A model is two to four threads that run this crate's own code on the locks and atomics of
//! `loom`. Only the kernel is played: by an [`Eventfd`], and by a sleep that lasts until everybody
//! else is done. A shard that is not woken by then sleeps for ever, and what is left undone is a
//! fault. Some models must fail: they show that the others could.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p ztransport --profile checked --lib models
//! ```
//!
//! `LOOM_LOG=trace LOOM_MAX_PREEMPTIONS=3` prints the history that breaks a model.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a model fails by panicking")]

mod deadlines;
mod lanes;
mod permits;
mod ringing;

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use loom::model::Builder;
use loom::sync::atomic::AtomicU64;
use loom::thread::JoinHandle;
use zcore::{ByteCount, Family, Instant, Quota};

use crate::clock::Clock;
use crate::doorbell::Doorbell;
use crate::lane::LaneContext;
use crate::sync::Fences;
use crate::wait_space::WaitSpace;

/// How often threads are interrupted where they could go on, in one history. Switches at a lock, at a
/// join and at the end of a thread are free. The faults that these models must find take two; each
/// further one takes about eight times as long.
const PREEMPTIONS_MAX: usize = 4;

/// Runs a model in every order.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    explore_with(Fences::Kept, model);
}

fn explore_with(fences: Fences, model: impl Fn() + Send + Sync + 'static) {
    let model = move || {
        fences.apply();
        model();
    };
    if std::env::var_os("LOOM_LOG").is_some() {
        loom::model(model);
        return;
    }
    let mut builder = Builder::new();
    builder.preemption_bound.get_or_insert(PREEMPTIONS_MAX);
    builder.check(model);
}

/// The eventfd of a shard. Who reads it learns that it was written, and nothing else.
#[derive(Debug)]
struct Eventfd {
    unread: AtomicU64,
    /// All writes ever; it takes no part in the model.
    writes: AtomicU32,
}

impl Eventfd {
    fn new() -> Self {
        Self { unread: AtomicU64::new(0), writes: AtomicU32::new(0) }
    }

    fn write(&self) {
        self.unread.fetch_add(1, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it was written since it was read last.
    fn read(&self) -> bool {
        self.unread.swap(0, Ordering::Relaxed) > 0
    }

    fn writes(&self) -> u32 {
        self.writes.load(Ordering::Relaxed)
    }
}

/// The thread of a shard, as its doorbell knows it.
#[derive(Debug)]
struct Sleeper {
    bell: Arc<Doorbell>,
    eventfd: Arc<Eventfd>,
}

impl Sleeper {
    /// Connects the shard to its doorbell.
    fn connect(bell: &Arc<Doorbell>) -> Self {
        let eventfd = Arc::new(Eventfd::new());
        let written = Arc::clone(&eventfd);
        bell.connect(Box::new(move || written.write()));
        Self { bell: Arc::clone(bell), eventfd }
    }

    /// Sleeps without a deadline while `meanwhile` happens. `None` if there was work already.
    fn sleep<T>(&self, meanwhile: impl FnOnce() -> T) -> Option<T> {
        let never = Instant::FAR_FUTURE;
        self.bell.fall_asleep(never, || never)?;
        let outcome = meanwhile();
        self.bell.wake_up();
        Some(outcome)
    }

    /// Runs turns until the shard sleeps for ever: everybody else is done, and no wake is written.
    /// What the others came to.
    fn run<T>(&self, mut others: Vec<JoinHandle<T>>, mut turn: impl FnMut()) -> Vec<T> {
        let (mut results, mut sleeps) = (Vec::new(), 0);
        loop {
            // As the driver does before the errands are taken.
            self.eventfd.read();
            turn();
            sleeps += 1;
            let is_woken = self.sleep(|| {
                results.extend(join(others.drain(..)));
                self.eventfd.read()
            });
            if is_woken == Some(false) {
                break;
            }
        }
        let writes = self.eventfd.writes();
        assert!(writes <= sleeps, "{writes} wakes were written for {sleeps} sleeps");
        results
    }
}

/// A doorbell for peers of two words.
fn doorbell() -> Arc<Doorbell> {
    Arc::new(Doorbell::new(32))
}

/// What the lanes of a host share whose only shard is at `bell`, and in which two calls may wait.
fn context(bell: &Arc<Doorbell>, clock: Arc<dyn Clock>) -> LaneContext {
    let quota = Quota::with_default_share(2, ByteCount::kib(1));
    let space = Arc::new(WaitSpace::new([quota; Family::COUNT]));
    LaneContext { space, bell: Arc::clone(bell), timekeeper: Arc::clone(bell), clock }
}

fn join<T>(threads: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}
