//! The shard's executor: order, gate, panics, turns, the clock.

use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use super::{Probe, TestClock, limit, local, settle, still, unlimited};

#[test]
fn d_003_first_polls_come_in_arrival_order_and_pending_handlers_block_nobody() {
    let (probe, gate) = (Probe::default(), unlimited());
    let mut tasks = local(&gate);
    for number in 0..100 {
        tasks.submit(if number % 3 == 0 { probe.slow(number) } else { probe.quick(number) });
    }
    settle(&mut tasks);
    assert_eq!(probe.seen(), (0..100).collect::<Vec<_>>());
    assert_eq!(gate.running(), 34);
    assert_eq!(tasks.counts().finished_at_once.total(), 66);
    probe.latch.open();
    settle(&mut tasks);
    assert!(tasks.is_empty(), "every handler was woken");
    assert_eq!(gate.running(), 0);
}

#[test]
fn b_012_a_job_in_the_run_queue_or_at_the_gate_is_not_started_and_holds_its_permit() {
    let (probe, gate) = (Probe::default(), limit(1));
    let mut tasks = local(&gate);
    for number in 0..3 {
        tasks.submit(probe.slow(number));
    }
    assert!(tasks.is_ready() && !tasks.is_empty(), "three jobs are queued");
    assert_eq!((probe.permits(), probe.seen()), (3, vec![]));

    settle(&mut tasks);
    assert_eq!((probe.permits(), probe.seen()), (2, vec![0]));
    assert_eq!((gate.running(), gate.waiting()), (1, 1));
    assert!(!tasks.is_ready(), "the gate is full");
}

#[test]
fn b_011_the_permit_is_back_before_the_callback() {
    let (probe, gate) = (Probe::default(), unlimited());
    let mut tasks = local(&gate);
    let inner = probe.clone();
    tasks.submit(probe.job("probe", move || {
        inner.note(inner.permits());
        Box::pin(async {})
    }));
    settle(&mut tasks);
    assert_eq!(probe.seen(), [0]);
}

#[test]
fn b_013_a_hundred_handlers_are_suspended_without_a_permit() {
    let (probe, gate) = (Probe::default(), unlimited());
    let mut tasks = local(&gate);
    for number in 0..100 {
        tasks.submit(probe.slow(number));
        settle(&mut tasks);
        assert_eq!(probe.permits(), 0);
    }
    assert_eq!((gate.running(), gate.peak_running()), (100, 100));
}

#[test]
fn d_014_exactly_the_limit_is_running_until_one_ends() {
    let (probe, gate) = (Probe::default(), limit(7));
    let mut tasks = local(&gate);
    for number in 0..100 {
        tasks.submit(probe.slow(number));
    }
    settle(&mut tasks);
    assert_eq!((gate.running(), probe.permits()), (7, 93));
    probe.latch.open();
    settle(&mut tasks);
    assert_eq!((gate.running(), gate.peak_running(), probe.permits()), (0, 7, 0));
    assert_eq!(probe.seen(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_slot_passes_between_executors_in_turn() {
    let (probe, gate) = (Probe::default(), limit(1));
    let (mut here, mut there) = (local(&gate), local(&gate));
    here.submit(probe.quick(0));
    let latch = Probe::default();
    here.submit(latch.slow(0));
    settle(&mut here);
    there.submit(probe.quick(1));
    settle(&mut there);
    here.submit(probe.quick(2));
    settle(&mut here);
    assert_eq!((probe.seen(), gate.waiting()), (vec![0], 2));

    latch.latch.open();
    settle(&mut here);
    assert!(!here.is_ready() && there.is_ready(), "the oldest waiter is the other executor");
    settle(&mut there);
    settle(&mut here);
    assert_eq!(probe.seen(), [0, 1, 2]);
}

#[test]
fn a_dropped_executor_settles_its_jobs_and_gives_its_slots_back() {
    let (probe, gate) = (Probe::default(), limit(2));
    let mut tasks = local(&gate);
    for number in 0..5 {
        tasks.submit(probe.slow(number));
    }
    settle(&mut tasks);
    assert_eq!((probe.permits(), gate.running(), gate.waiting()), (3, 2, 1));
    drop(tasks);
    assert_eq!((probe.permits(), gate.running(), gate.waiting()), (0, 0, 0));
    probe.latch.open();
    assert_eq!(probe.seen(), [0, 1]);
}

#[test]
fn client_code_passes_no_gate_and_need_not_be_send() {
    let (probe, gate) = (Probe::default(), limit(1));
    let mut tasks = local(&gate);
    tasks.submit(probe.slow(0));
    settle(&mut tasks);
    let ran = Rc::new(core::cell::Cell::new(0));
    for _ in 0..3 {
        let ran = Rc::clone(&ran);
        tasks.spawn(Box::pin(async move { ran.set(ran.get() + 1) }));
    }
    assert!(tasks.is_ready(), "client code waits for its first poll");
    settle(&mut tasks);
    assert_eq!((ran.get(), gate.running()), (3, 1));
    assert_eq!(tasks.counts().rings.total(), 0);
}

#[test]
fn run_polls_at_most_what_it_may_and_says_whether_work_is_left() {
    let (probe, gate) = (Probe::default(), unlimited());
    let mut tasks = local(&gate);
    for number in 0..5 {
        tasks.submit(probe.quick(number));
    }
    assert!(tasks.run(2, still), "three are left");
    assert_eq!(probe.seen(), [0, 1]);
    assert!(!tasks.run(3, still), "none is left");
    assert!(!tasks.run(3, still), "none was there");
}

#[test]
fn a_task_that_wakes_itself_does_not_keep_jobs_from_starting_nor_jobs_it() {
    let (probe, gate) = (Probe::default(), unlimited());
    let mut tasks = local(&gate);
    let polls = Rc::new(core::cell::Cell::new(0_usize));
    let counted = Rc::clone(&polls);
    tasks.spawn(Box::pin(poll_fn(move |cx| {
        counted.set(counted.get() + 1);
        cx.waker().wake_by_ref();
        Poll::Pending
    })));
    for number in 0..50 {
        tasks.submit(probe.quick(number));
    }
    for round in 1..=4 {
        assert!(tasks.run(20, still), "it is always ready");
        assert_eq!((probe.seen().len(), polls.get()), (round * 10, round * 10));
    }
}

#[test]
fn the_clock_is_read_once_more_than_there_are_polls() {
    let (probe, gate, reads) = (Probe::default(), unlimited(), core::cell::Cell::new(0));
    let mut tasks = local(&gate);
    let counting = || {
        reads.set(reads.get() + 1);
        still()
    };
    assert!(!tasks.run(64, counting), "nothing is there");
    assert_eq!(reads.get(), 0);
    for number in 0..10 {
        tasks.submit(probe.quick(number));
    }
    assert!(!tasks.run(64, counting), "nothing is left");
    assert_eq!(reads.get(), 11);
}

#[test]
fn memory_follows_the_tasks_alive_at_once() {
    let (probe, gate) = (Probe::default(), unlimited());
    let mut tasks = local(&gate);
    for number in 0..10_000 {
        tasks.submit(probe.quick(number));
        settle(&mut tasks);
    }
    assert_eq!(tasks.tasks_capacity(), 1);
}

#[test]
fn a_poll_above_ten_milliseconds_is_counted_and_logged_once_for_each_handler() {
    let (probe, gate, clock) = (Probe::default(), unlimited(), Arc::new(Mutex::new(0)));
    let mut tasks = local(&gate);
    let test_clock = TestClock::default();
    for (name, millis) in [("fast", 10), ("slow", 11), ("slow", 50), ("other", 11), ("fast", 10)] {
        let clock = Arc::clone(&clock);
        tasks.submit(
            probe.job(name, move || Box::pin(async move { *clock.lock().unwrap() += millis })),
        );
    }
    tasks.run(64, || {
        let millis = *clock.lock().unwrap();
        test_clock.0.set(u64::try_from(Duration::from_millis(millis).as_nanos()).unwrap());
        test_clock.now()
    });
    assert_eq!((tasks.counts().held.total(), tasks.held_names()), (3, 2));
}
