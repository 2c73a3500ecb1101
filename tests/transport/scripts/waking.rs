//! Sleeping and waking.

use core::time::Duration;
use std::thread;

use ztransport::driver::{Driver, Wake};
use ztransport::socket::SocketBuffers;

use crate::stand::Stand;
use crate::world::World;

const FOREVER: Duration = Duration::from_mins(1);

/// Parks for up to a minute. Whether something ended it before half of that.
fn ends<S: Stand>(world: &mut World<S>) -> bool {
    let start = world.now();
    world.driver().park(Some(FOREVER)).unwrap();
    world.now().since(start) < FOREVER / 2
}

pub(crate) fn a_wake_before_a_park_ends_it<S: Stand>(world: &mut World<S>) {
    world.driver().waker().wake();
    assert!(ends(world), "the wake was lost");
}

pub(crate) fn a_wake_by_another_thread_ends_a_park<S: Stand>(world: &mut World<S>) {
    let waker = world.driver().waker();
    thread::spawn(move || waker.wake()).join().unwrap();
    assert!(ends(world), "the wake was lost");
    assert_eq!(world.poll(), 0, "a wake is no event");
}

pub(crate) fn a_wake_that_a_poll_has_taken_in_still_ends_the_next_park<S: Stand>(
    world: &mut World<S>,
) {
    world.poll();
    world.driver().waker().wake();
    while world.driver().is_ready() {
        world.poll();
    }
    assert!(ends(world), "the wake was lost");
}

pub(crate) fn many_wakes_end_one_park_and_not_two<S: Stand>(world: &mut World<S>) {
    for _ in 0..3 {
        world.driver().waker().wake();
    }
    assert!(ends(world), "the first");
    assert_eq!(world.poll(), 0, "no event");
    let (before, nap) = (world.now(), Duration::from_millis(20));
    world.driver().park(Some(nap)).unwrap();
    assert!(world.now().since(before) >= nap, "the second sleeps on");
    assert!(!world.driver().is_ready(), "and nothing has happened");
}

pub(crate) fn min_wait_is_one_the_first_completion_ends_a_park<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    let (quiet, _) = world.pair(SocketBuffers::default());
    world.receive(ours);
    world.receive(quiet);
    world.poll();
    world.send(theirs, b"x");
    // The end of the send and the byte: each may end a sleep, and there is no third.
    for _ in 0..2 {
        assert!(ends(world), "something came");
        world.poll();
        if !world.seen(ours).received.is_empty() {
            return;
        }
    }
    assert_eq!(world.seen(ours).received, b"x", "it was there");
}

pub(crate) fn a_park_does_not_sleep_on_what_is_there_already<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    world.send(theirs, b"x");
    world.until(|world| world.resume(theirs));
    world.receive(ours);
    assert!(ends(world), "the byte is there");
    assert!(ends(world), "and still is");
    world.until_received(ours, 1);
}

pub(crate) fn time_that_is_up_is_no_error<S: Stand>(world: &mut World<S>) {
    world.driver().park(Some(Duration::ZERO)).unwrap();
    world.driver().park(Some(Duration::from_nanos(1))).unwrap();
    assert_eq!(world.poll(), 0, "nothing happened");
}

pub(crate) fn a_waker_may_outlive_its_driver<S: Stand>(world: &mut World<S>) {
    let added = world.stand.driver(crate::stand::Size::default());
    let waker = added.waker();
    drop(added);
    waker.wake();
    assert!(!world.driver().is_ready(), "it wakes nobody else");
}
