//! The Tokio runner: order, polls in place, the gate, panics, the end of the runtime.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};

use super::super::{StartGate, TokioRunner};
use super::{PanicsInDrop, Probe, limit, unlimited};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

fn runner(runtime: &Runtime, gate: &Arc<StartGate>) -> TokioRunner {
    TokioRunner::new(runtime.handle().clone(), Arc::clone(gate))
}

/// Waits for other threads; the limit only turns a hang into a failure. It counts turns of this
/// thread, as a machine that is busy with other things gives the others no more.
///
/// The first looks follow each other closely, so that what comes next meets the others in the
/// middle of falling asleep; later ones leave them the processor.
#[track_caller]
fn until(runtime: &Runtime, what: &str, reached: impl Fn() -> bool) {
    let is_reached = runtime.block_on(async {
        for look in 0..40_000 {
            if reached() {
                return true;
            }
            if look < 10_000 {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        false
    });
    assert!(is_reached, "{what} was not reached");
}

#[test]
fn d_003_first_polls_of_a_pair_come_in_arrival_order_and_only_pending_ones_are_spawned() {
    const JOBS: usize = 10_000;
    let (runtime, gate, probe) = (runtime(), unlimited(), Probe::default());
    let runner = runner(&runtime, &gate);
    let pair = runner.pair();
    for number in 0..JOBS {
        pair.submit(if number % 100 == 0 { probe.slow(number) } else { probe.quick(number) });
    }
    until(&runtime, "the last first poll", || probe.seen().len() == JOBS);
    assert_eq!(probe.seen(), (0..JOBS).collect::<Vec<_>>());
    until(&runtime, "the end of the last quick one", || gate.running() == 100);
    assert_eq!(runner.counts().spawned.total(), 100);
    assert_eq!(runner.counts().finished_at_once.total(), 9_900);
    assert_eq!(probe.permits(), 0);
    probe.latch.open();
    until(&runtime, "the end of the slow ones", || gate.running() == 0);
}

#[test]
fn a_handler_is_woken_after_it_became_a_task() {
    let (runtime, gate, probe) = (runtime(), unlimited(), Probe::default());
    let runner = runner(&runtime, &gate);
    let pair = runner.pair();
    for number in 0..1_000 {
        let inner = probe.clone();
        pair.submit(probe.job("yields", move || {
            Box::pin(async move {
                // Wakes at once, before the handler can have a task of its own.
                tokio::task::yield_now().await;
                inner.note(number);
            })
        }));
    }
    until(&runtime, "the end of all", || probe.seen().len() == 1_000 && gate.running() == 0);
}

#[test]
fn d_014_a_full_gate_holds_the_pairs_jobs_with_their_permits_and_no_other_worker() {
    let (runtime, gate, probe) = (runtime(), limit(3), Probe::default());
    let runner = runner(&runtime, &gate);
    let pairs: Vec<_> = (0..8).map(|_| runner.pair()).collect();
    for number in 0..80 {
        pairs[number % 8].submit(probe.slow(number));
    }
    // A slot is taken a moment before its handler begins; a pair that brings its next job has begun
    // the one before.
    until(&runtime, "the limit", || gate.running() == 3 && gate.waiting() == 8);
    assert_eq!((probe.seen().len(), probe.permits()), (3, 77));
    let free = runtime.block_on(async { tokio::spawn(async { 1 }).await });
    assert_eq!(free.unwrap(), 1);
    probe.latch.open();
    until(&runtime, "the end of all", || probe.permits() == 0 && gate.running() == 0);
    assert_eq!((probe.seen().len(), gate.peak_running()), (80, 3));
}

#[test]
fn a_panic_ends_its_own_job_only() {
    let (runtime, gate, probe) = (runtime(), limit(1), Probe::default());
    let runner = runner(&runtime, &gate);
    let pair = runner.pair();
    pair.submit(probe.job("in the callback", || panic!("user text")));
    pair.submit(probe.job("in the first poll", || Box::pin(async { panic!("user text") })));
    pair.submit(probe.job("in a later poll", || {
        Box::pin(async {
            tokio::task::yield_now().await;
            panic!("user text")
        })
    }));
    pair.submit(probe.job("in its destructor", || {
        let captured = PanicsInDrop;
        Box::pin(core::future::poll_fn(move |_| {
            let _ = &captured;
            core::task::Poll::Ready(())
        }))
    }));
    pair.submit(probe.quick(1));
    until(&runtime, "the job after them", || probe.seen() == [1] && gate.running() == 0);
    assert_eq!((runner.counts().panicked.total(), probe.permits()), (4, 0));
}

#[test]
fn b_015_a_dropped_queue_starts_what_is_in_it() {
    let (runtime, gate, probe) = (runtime(), limit(1), Probe::default());
    let runner = runner(&runtime, &gate);
    let pair = runner.pair();
    for number in 0..10 {
        pair.submit(probe.slow(number));
    }
    until(&runtime, "the first", || gate.waiting() == 1);
    drop(pair);
    drop(runner.pair());
    probe.latch.open();
    until(&runtime, "the last", || probe.seen().len() == 10 && gate.running() == 0);
    assert_eq!(runner.counts().dropped_unstarted.total(), 0);
    until(&runtime, "the end of both runners", || runtime.metrics().num_alive_tasks() == 0);
}

#[test]
fn the_end_of_the_runtime_settles_queued_running_and_later_jobs() {
    let (runtime, gate, probe) = (runtime(), limit(1), Probe::default());
    let runner = runner(&runtime, &gate);
    let (pair, other) = (runner.pair(), runner.pair());
    for number in 0..10 {
        pair.submit(probe.slow(number));
        other.submit(probe.slow(number));
    }
    until(&runtime, "the first", || gate.running() == 1 && gate.waiting() == 2);
    assert_eq!(probe.permits(), 19);
    drop(runtime);
    assert_eq!((probe.permits(), gate.running(), gate.waiting()), (0, 0, 0));
    pair.submit(probe.quick(10));
    runner.pair().submit(probe.quick(11));
    assert_eq!((probe.permits(), probe.seen()), (0, vec![0]));
    assert_eq!(runner.counts().dropped_unstarted.total(), 21);
}

#[test]
fn a_long_queue_lets_other_tasks_run() {
    let (runtime, gate, probe) =
        (Builder::new_current_thread().build().unwrap(), unlimited(), Probe::default());
    let (runner, other) = (runner(&runtime, &gate), probe.clone());
    let seen = runtime.block_on(async move {
        let pair = runner.pair();
        for number in 0..640 {
            pair.submit(probe.quick(number));
        }
        tokio::spawn(async move { other.seen().len() }).await
    });
    assert_eq!(seen.unwrap(), 64);
}

/// 640 handlers of four steps each use up many budgets of one task.
#[test]
fn handlers_are_not_spawned_for_want_of_the_runners_budget() {
    let (runtime, gate, probe) = (runtime(), unlimited(), Probe::default());
    let runner = runner(&runtime, &gate);
    let pair = runner.pair();
    for _ in 0..640 {
        pair.submit(probe.job("four steps", || {
            Box::pin(async {
                for _ in 0..4 {
                    tokio::task::coop::consume_budget().await;
                }
            })
        }));
    }
    until(&runtime, "the end of all", || probe.permits() == 0 && gate.running() == 0);
    assert_eq!((runner.counts().spawned.total(), gate.peak_running()), (0, 1));
}

/// Submits while the runner falls asleep and wakes: a lost wake-up hangs it.
#[test]
fn no_submit_is_lost_while_the_runner_falls_asleep() {
    let (runtime, gate, probe) = (runtime(), limit(2), Probe::default());
    let runner = runner(&runtime, &gate);
    let pairs = [runner.pair(), runner.pair(), runner.pair()];
    for round in 1..=3_000_usize {
        for pair in &pairs {
            pair.submit(probe.quick(round));
        }
        if round % 5 == 0 {
            let want = round * pairs.len();
            until(&runtime, "the round", || {
                runner.counts().finished_at_once.total() == want as u64
            });
        }
    }
    until(&runtime, "rest", || gate.running() == 0);
    assert_eq!(probe.permits.load(Ordering::SeqCst), 0);
}
