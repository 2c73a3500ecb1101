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
    world.park(FOREVER);
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

pub(crate) fn many_wakes_end_one_park_and_not_two<S: Stand>(world: &mut World<S>) {
    for _ in 0..100 {
        world.driver().waker().wake();
    }
    assert!(ends(world), "the first");
    assert_eq!(world.poll(), 0, "no event");
    // A machine that was stopped for a while ends a sleep early, too, though not each one.
    let nap = Duration::from_millis(20);
    let slept_on = (0..5).filter(|_| {
        let before = world.now();
        world.park(nap);
        world.now().since(before) >= nap
    });
    assert!(slept_on.count() >= 3, "the wakes of one park ended others");
    assert!(!world.driver().is_ready(), "and nothing has happened");
}

pub(crate) fn min_wait_is_one_the_first_completion_ends_a_park<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    let (quiet, _) = world.pair(SocketBuffers::default());
    world.receive(ours);
    world.receive(quiet);
    world.poll();
    world.send(theirs, b"x");
    // The end of the send ends one, too.
    while world.seen(ours).received.is_empty() {
        assert!(ends(world), "something is there");
        world.poll();
    }
    world.until_sent(theirs);
}

pub(crate) fn a_park_does_not_sleep_on_what_is_there_already<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    world.send(theirs, b"x");
    world.until_sent(theirs);
    world.receive(ours);
    assert!(ends(world), "the byte is there");
    assert!(ends(world), "and still is");
    world.until_received(ours, 1);
}

pub(crate) fn time_that_is_up_is_no_error<S: Stand>(world: &mut World<S>) {
    world.park(Duration::ZERO);
    world.park(Duration::from_nanos(1));
    assert_eq!(world.poll(), 0, "nothing happened");
}

pub(crate) fn a_waker_may_outlive_its_driver<S: Stand>(world: &mut World<S>) {
    let added = world.stand.driver(crate::stand::Size::default());
    let waker = added.waker();
    drop(added);
    waker.wake();
    assert!(!world.driver().is_ready(), "it wakes nobody else");
}
