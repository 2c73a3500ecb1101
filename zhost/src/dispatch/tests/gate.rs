//! The gate never lets in more than its limit, keeps its order and loses no wake-up.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use core::task::Waker;
use std::sync::Arc;
use std::task::Wake;
use std::thread;

use super::super::gate::Slot;
use super::{limit, unlimited};

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Woken {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn waker() -> (Arc<Woken>, Waker) {
    let woken = Arc::new(Woken::default());
    (Arc::clone(&woken), Waker::from(woken))
}

#[test]
fn a_slot_goes_to_the_oldest_waiter_and_a_newcomer_does_not_pass() {
    let gate = limit(1);
    let (mut inside, mut first, mut second) = (gate.seat(), gate.seat(), gate.seat());
    let [(one, first_waker), (two, second_waker)] = [waker(), waker()];
    let slot = inside.enter(Waker::noop()).unwrap();
    assert!(first.enter(&first_waker).is_none(), "the only slot is taken");
    assert!(second.enter(&second_waker).is_none(), "the only slot is taken");
    assert_eq!((gate.running(), gate.waiting()), (1, 2));

    drop(slot);
    assert_eq!((one.count(), two.count()), (1, 0));
    assert_eq!((gate.running(), gate.waiting()), (1, 1));
    assert!(inside.enter(Waker::noop()).is_none(), "a newcomer goes to the tail");
    assert!(second.enter(&second_waker).is_none(), "the slot is the first waiter's");
    assert!(first.may_enter() && !second.may_enter(), "only the first has a slot");

    drop(first.enter(&first_waker).unwrap());
    assert_eq!(two.count(), 1);
    drop(second.enter(&second_waker).unwrap());
    drop(inside.enter(Waker::noop()).unwrap());
    assert_eq!((gate.running(), gate.waiting(), gate.peak_running()), (0, 0, 1));
}

#[test]
fn a_seat_that_goes_withdraws_and_passes_on_what_it_was_handed() {
    let gate = limit(1);
    let (mut inside, mut first, mut second, mut third) =
        (gate.seat(), gate.seat(), gate.seat(), gate.seat());
    let (third_woken, third_waker) = waker();
    let slot = inside.enter(Waker::noop()).unwrap();
    assert!(first.enter(Waker::noop()).is_none(), "the only slot is taken");
    assert!(second.enter(Waker::noop()).is_none(), "the only slot is taken");
    assert!(third.enter(&third_waker).is_none(), "the only slot is taken");

    drop(second);
    assert_eq!(gate.waiting(), 2);
    drop(slot);
    assert_eq!(third_woken.count(), 0);
    drop(first);
    assert_eq!(third_woken.count(), 1);
    drop(third.enter(&third_waker).unwrap());
    assert_eq!((gate.running(), gate.waiting()), (0, 0));
}

#[test]
fn the_waker_of_the_last_call_counts() {
    let gate = limit(1);
    let (mut inside, mut outside) = (gate.seat(), gate.seat());
    let [(old, old_waker), (new, new_waker)] = [waker(), waker()];
    let slot = inside.enter(Waker::noop()).unwrap();
    assert!(outside.enter(&old_waker).is_none(), "the only slot is taken");
    assert!(outside.enter(&new_waker).is_none(), "the only slot is taken");
    assert_eq!(gate.waiting(), 1);
    drop(slot);
    assert_eq!((old.count(), new.count()), (0, 1));
}

#[test]
fn unlimited_never_waits() {
    let gate = unlimited();
    let mut seat = gate.seat();
    let mut slots: Vec<Slot> = (0..20_000).map(|_| seat.enter(Waker::noop()).unwrap()).collect();
    assert_eq!((gate.running(), gate.waiting(), gate.peak_running()), (20_000, 0, 20_000));
    slots.truncate(3);
    assert_eq!((gate.running(), gate.peak_running()), (3, 20_000));
}

/// Four seats on four threads fight for two slots; each parks until its waker unparks it, so a
/// wake-up that is lost hangs the test.
#[test]
fn no_wake_up_is_lost_and_the_limit_holds_under_threads() {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let gate = limit(2);
    // The limit is reached here: the scheduler may let the threads run one by one.
    let mut seat = gate.seat();
    drop([seat.enter(Waker::noop()).unwrap(), seat.enter(Waker::noop()).unwrap()]);
    let inside = AtomicU32::new(0);
    thread::scope(|scope| {
        for number in 0..4_usize {
            let (gate, inside) = (&gate, &inside);
            scope.spawn(move || {
                let waker = Waker::from(Arc::new(Unpark(thread::current())));
                let mut seat = gate.seat();
                for round in 0..10_000_usize {
                    let slot = loop {
                        if let Some(slot) = seat.enter(&waker) {
                            break slot;
                        }
                        thread::park();
                    };
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < 2, "more than the limit");
                    if round % 7 == number {
                        thread::yield_now();
                    }
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(slot);
                    if round % 64 == 0 {
                        // Leaves the gate at any moment, in the queue or handed a slot.
                        drop(seat.enter(&waker));
                        seat = gate.seat();
                    }
                }
            });
        }
    });
    assert_eq!((gate.running(), gate.waiting(), gate.peak_running()), (0, 0, 2));
}
