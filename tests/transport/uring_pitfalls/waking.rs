//! Sleeping, waking, and doing neither with a system call.

use core::time::Duration;
use std::io::Write;
use std::thread;

use rustix::time::{ClockId, clock_gettime};
use ztransport::driver::{Driver, Wake};
use ztransport::socket::SocketBuffers;

use crate::support::World;

const FOREVER: Duration = Duration::from_mins(1);
const HALF_OF_FOREVER: i64 = 30;

/// Parks for up to a minute. Whether something ended it before half of that.
fn ends(world: &mut World) -> bool {
    let start = clock_gettime(ClockId::Monotonic).tv_sec;
    world.driver.park(Some(FOREVER)).unwrap();
    clock_gettime(ClockId::Monotonic).tv_sec - start < HALF_OF_FOREVER
}

#[test]
fn another_thread_ends_a_park_again_and_again() {
    let Some(mut world) = World::new() else { return };
    let (request, requests) = std::sync::mpsc::sync_channel(1);
    let waker = world.driver.waker();
    let other = thread::spawn(move || requests.iter().for_each(|()| waker.wake()));
    for _ in 0..100 {
        request.send(()).unwrap();
        assert!(ends(&mut world), "the sleep went on");
        assert_eq!(world.poll(), 0, "a wake is no event");
    }
    drop(request);
    other.join().unwrap();
}

#[test]
fn a_wake_before_a_park_ends_it() {
    let Some(mut world) = World::new() else { return };
    world.driver.waker().wake();
    assert!(ends(&mut world), "the wake was lost");
}

#[test]
fn a_wake_that_a_poll_has_taken_in_still_ends_the_next_park() {
    let Some(mut world) = World::new() else { return };
    world.poll();
    world.driver.waker().wake();
    while world.driver.is_ready() {
        world.poll();
    }
    assert!(ends(&mut world), "the wake was lost");
}

#[test]
fn a_wake_ends_one_park_and_not_two() {
    let Some(mut world) = World::new() else { return };
    world.driver.waker().wake();
    assert!(ends(&mut world), "the first");
    world.poll();
    let before = world.driver.system_calls();
    world.driver.park(Some(Duration::from_millis(1))).unwrap();
    assert_eq!(world.driver.system_calls(), before + 1, "the second sleeps");
    assert!(!world.driver.is_ready(), "and nothing has happened");
}

#[test]
fn bytes_end_a_park() {
    let Some(mut world) = World::new() else { return };
    let (ours, mut peer) = world.connection(SocketBuffers::default());
    world.receive(ours);
    world.poll();
    let writer = thread::spawn(move || peer.write_all(b"x").map(|()| peer).unwrap());
    assert!(ends(&mut world), "bytes came");
    drop(writer.join().unwrap());
    world.until_received(ours, 1);
}

#[test]
fn a_park_does_not_sleep_on_what_is_there_already() {
    let Some(mut world) = World::new() else { return };
    let (ours, mut peer) = world.connection(SocketBuffers::default());
    peer.write_all(b"x").unwrap();
    world.receive(ours);
    assert!(ends(&mut world), "the receive completes at once");
    assert!(world.driver.is_ready(), "its completion waits");
    let before = world.driver.system_calls();
    assert!(ends(&mut world), "still there");
    assert_eq!(world.driver.system_calls(), before, "seen without a system call");
}

#[test]
fn time_that_is_up_is_no_error() {
    let Some(mut world) = World::new() else { return };
    world.driver.park(Some(Duration::ZERO)).unwrap();
    world.driver.park(Some(Duration::from_nanos(1))).unwrap();
    assert_eq!(world.poll(), 0, "nothing happened");
}

#[test]
fn polling_when_nothing_happens_makes_no_system_call() {
    let Some(mut world) = World::new() else { return };
    let (ours, _peer) = world.connection(SocketBuffers::default());
    world.receive(ours);
    world.poll();
    let before = world.driver.system_calls();
    for _ in 0..1_000 {
        assert_eq!(world.poll(), 0, "nothing happens");
    }
    assert_eq!(world.driver.system_calls(), before, "all from the rings");
}

#[test]
fn a_waker_may_outlive_its_driver() {
    let Some(world) = World::new() else { return };
    let waker = world.driver.waker();
    drop(world);
    waker.wake();
}
