//! Wakers of the shard's executor: none is lost, none reaches another task, none rings in vain.

use core::future::poll_fn;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::{Poll, Waker};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread;

use super::super::job::HandlerFuture;
use super::{LocalTasks, Probe, limit, local, settle, still, unlimited};

/// Suspends once and leaves its waker in the cell.
fn leave_waker(cell: Arc<Mutex<Option<Waker>>>) -> HandlerFuture {
    let mut polled = false;
    Box::pin(poll_fn(move |cx| {
        if core::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        *cell.lock().unwrap() = Some(cx.waker().clone());
        Poll::Pending
    }))
}

/// Wakes another task while its own is dropped.
struct Opens(Arc<super::Latch>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.open();
    }
}

#[test]
fn wakers_that_outlive_the_executor_ring_nobody() {
    let (probe, gate) = (Probe::default(), unlimited());
    let mut tasks = local(&gate);
    let counts = Arc::clone(tasks.counts());
    tasks.submit(probe.slow(0));
    let opens = Opens(Arc::clone(&probe.latch));
    tasks.submit(probe.job("opens", move || {
        Box::pin(async move {
            core::future::pending::<()>().await;
            drop(opens);
        })
    }));
    let cell = Arc::default();
    let filed = Arc::clone(&cell);
    tasks.submit(probe.job("left", move || leave_waker(filed)));
    settle(&mut tasks);
    drop(tasks);
    let waker: Waker = cell.lock().unwrap().take().unwrap();
    thread::scope(|scope| scope.spawn(|| waker.wake()).join().unwrap());
    assert_eq!((counts.rings.total(), gate.running()), (0, 0));
}

#[test]
fn a_wake_during_the_own_poll_polls_once_more_and_only_once() {
    let gate = unlimited();
    let mut tasks = local(&gate);
    let polls = Rc::new(core::cell::Cell::new(0_usize));
    let counted = Rc::clone(&polls);
    tasks.spawn(Box::pin(poll_fn(move |cx| {
        counted.set(counted.get() + 1);
        if counted.get() == 1 {
            cx.waker().wake_by_ref();
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    })));
    settle(&mut tasks);
    assert_eq!(polls.get(), 2);
}

#[test]
fn wakes_from_another_thread_ring_once_until_the_shard_looks() {
    let (rung, gate) = (Arc::new(AtomicUsize::new(0)), unlimited());
    let bell = Arc::clone(&rung);
    let mut tasks = LocalTasks::new(
        &gate,
        Arc::new(move || {
            bell.fetch_add(1, Ordering::SeqCst);
        }),
    );
    let probe = Probe::default();
    for round in 1..=2 {
        let cells: Vec<_> = (0..10).map(|_| Arc::default()).collect();
        for cell in &cells {
            let cell = Arc::clone(cell);
            tasks.submit(probe.job("remote", move || leave_waker(cell)));
        }
        settle(&mut tasks);
        let wake_all = || cells.iter().for_each(|cell| cell.lock().unwrap().take().unwrap().wake());
        thread::scope(|scope| scope.spawn(wake_all).join().unwrap());
        assert_eq!(rung.load(Ordering::SeqCst), round);
        settle(&mut tasks);
        assert!(tasks.is_empty(), "all ten were woken");
    }
    assert_eq!(tasks.counts().rings.total(), 2);
}

#[test]
fn a_wake_between_two_runs_rings_and_one_during_a_run_does_not() {
    let (probe, gate) = (Probe::default(), unlimited());
    let mut tasks = local(&gate);
    tasks.submit(probe.slow(0));
    tasks.submit(probe.slow(1));
    settle(&mut tasks);
    let latch = Arc::clone(&probe.latch);
    tasks.spawn(Box::pin(async move { latch.open() }));
    settle(&mut tasks);
    assert!(tasks.is_empty(), "client code woke both");
    assert_eq!(tasks.counts().rings.total(), 0);

    let cell = Arc::default();
    let filed = Arc::clone(&cell);
    tasks.submit(probe.job("between", move || leave_waker(filed)));
    settle(&mut tasks);
    cell.lock().unwrap().take().unwrap().wake();
    assert!(tasks.is_ready(), "it was woken");
    assert_eq!(tasks.counts().rings.total(), 1);
}

/// It cannot know whether the run's last look is still to come.
#[test]
fn a_wake_from_another_thread_rings_during_a_run_as_well() {
    let gate = unlimited();
    let mut tasks = local(&gate);
    tasks.spawn(Box::pin(poll_fn(|cx| {
        let waker = cx.waker();
        thread::scope(|scope| scope.spawn(|| waker.wake_by_ref()).join().unwrap());
        Poll::Pending
    })));
    assert!(tasks.run(1, still), "it was woken");
    assert_eq!(tasks.counts().rings.total(), 1);
}

#[test]
fn a_stale_waker_does_nothing_to_the_next_task_in_its_place() {
    let (probe, gate) = (Probe::default(), unlimited());
    let mut tasks = local(&gate);
    let stale = Arc::default();
    let cell = Arc::clone(&stale);
    tasks.submit(probe.job("first", move || leave_waker(cell)));
    settle(&mut tasks);
    let waker: Waker = stale.lock().unwrap().clone().unwrap();
    waker.wake_by_ref();
    settle(&mut tasks);
    assert!(tasks.is_empty(), "the first has ended");

    let polls = Rc::new(core::cell::Cell::new(0_usize));
    let counted = Rc::clone(&polls);
    tasks.spawn(Box::pin(poll_fn(move |_| {
        counted.set(counted.get() + 1);
        Poll::Pending
    })));
    settle(&mut tasks);
    waker.wake_by_ref();
    thread::scope(|scope| scope.spawn(|| waker.wake_by_ref()).join().unwrap());
    assert!(!tasks.is_ready(), "the waker is of a task that has ended");
    settle(&mut tasks);
    // The ring is that of the one wake that counted.
    assert_eq!((polls.get(), tasks.tasks_capacity(), tasks.counts().rings.total()), (1, 1, 1));
    drop(tasks);
    waker.wake();
}

#[test]
fn a_key_left_in_the_list_does_not_poll_the_next_task_in_its_place() {
    let (probe, gate) = (Probe::default(), unlimited());
    let mut tasks = local(&gate);
    // Stands before the stale key in the list, so that the next job starts before the key is read.
    tasks.spawn(Box::pin(core::future::pending()));
    // Wakes itself and ends: its key is in the list, its place is free.
    tasks.submit(probe.job("ends woken", || {
        Box::pin(poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::Ready(())
        }))
    }));
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&polls);
    tasks.submit(probe.job("next", move || {
        Box::pin(poll_fn(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Poll::Pending
        }))
    }));
    settle(&mut tasks);
    assert_eq!((polls.load(Ordering::SeqCst), tasks.tasks_capacity()), (1, 2));
}

#[test]
fn a_slot_that_another_thread_gives_back_rings() {
    let (probe, gate) = (Probe::default(), limit(1));
    let mut elsewhere = gate.seat();
    let slot = elsewhere.enter(Waker::noop()).unwrap();
    let mut tasks = local(&gate);
    tasks.submit(probe.quick(1));
    settle(&mut tasks);
    assert!(!tasks.is_ready(), "the gate is full");
    thread::scope(|scope| scope.spawn(move || drop(slot)).join().unwrap());
    assert!(tasks.is_ready(), "the slot was handed over");
    assert_eq!(tasks.counts().rings.total(), 1);
    settle(&mut tasks);
    assert_eq!(probe.seen(), [1]);
}

/// A shard that parks whenever nothing is ready, and a thread that wakes its task at any moment of
/// the poll: a wake-up that is lost hangs the test.
#[test]
fn no_wake_up_from_another_thread_is_lost() {
    const ROUNDS: usize = 10_000;
    let gate = unlimited();
    let shard = thread::current();
    let rung = Arc::new(AtomicBool::new(false));
    let bell = Arc::clone(&rung);
    let mut tasks = LocalTasks::new(
        &gate,
        Arc::new(move || {
            bell.store(true, Ordering::SeqCst);
            shard.unpark();
        }),
    );
    let (asked, answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let cell: Arc<Mutex<Option<Waker>>> = Arc::default();
    let (task_asked, task_answered, task_cell) =
        (Arc::clone(&asked), Arc::clone(&answered), Arc::clone(&cell));
    tasks.spawn(Box::pin(poll_fn(move |cx| {
        // The look before the filing: exactly the order that needs a wake during the poll to count.
        let now = task_asked.load(Ordering::SeqCst);
        *task_cell.lock().unwrap() = Some(cx.waker().clone());
        task_answered.store(now, Ordering::SeqCst);
        if now == ROUNDS { Poll::Ready(()) } else { Poll::Pending }
    })));
    settle(&mut tasks);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                asked.store(round, Ordering::SeqCst);
                cell.lock().unwrap().as_ref().unwrap().wake_by_ref();
                while round % 3 == 0 && answered.load(Ordering::SeqCst) < round {
                    core::hint::spin_loop();
                    thread::yield_now();
                }
            }
        });
        while !tasks.is_empty() {
            if !tasks.run(4, still) && !tasks.is_empty() {
                while !rung.swap(false, Ordering::SeqCst) && !tasks.is_ready() {
                    thread::park();
                }
            }
        }
    });
    assert_eq!(answered.load(Ordering::SeqCst), ROUNDS);
}
