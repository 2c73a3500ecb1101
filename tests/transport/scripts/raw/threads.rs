//! Another thread does something while the driver's own sleeps.

use core::time::Duration;
use std::io::Write;
use std::sync::mpsc::sync_channel;
use std::thread;

use ztransport::driver::{Driver, Wake};
use ztransport::socket::SocketBuffers;

use crate::stand::Kernel;
use crate::world::World;

const FOREVER: Duration = Duration::from_mins(1);

/// Parks for up to a minute. Whether something ended it before half of that.
fn ends<S: Kernel>(world: &mut World<S>) -> bool {
    let start = world.now();
    world.park(FOREVER);
    world.now().since(start) < FOREVER / 2
}

pub(crate) fn a_wake_that_a_poll_has_taken_in_still_ends_the_next_park<S: Kernel>(
    world: &mut World<S>,
) {
    world.poll();
    world.driver().waker().wake();
    while world.driver().is_ready() {
        world.poll();
    }
    assert!(ends(world), "the wake was lost");
}

pub(crate) fn another_thread_ends_a_park_again_and_again<S: Kernel>(world: &mut World<S>) {
    let (request, requests) = sync_channel(1);
    let waker = world.driver().waker();
    let other = thread::spawn(move || requests.iter().for_each(|()| waker.wake()));
    for _ in 0..100 {
        request.send(()).unwrap();
        assert!(ends(world), "the sleep went on");
        assert_eq!(world.poll(), 0, "a wake is no event");
    }
    drop(request);
    other.join().unwrap();
}

pub(crate) fn bytes_end_a_park<S: Kernel>(world: &mut World<S>) {
    let (ours, mut peer) = world.connection(SocketBuffers::default());
    world.receive(ours);
    world.poll();
    let writer = thread::spawn(move || peer.write_all(b"x").map(|()| peer).unwrap());
    assert!(ends(world), "bytes came");
    let _peer = writer.join().unwrap();
    world.until_received(ours, 1);
}

pub(crate) fn a_connection_ends_a_park<S: Kernel>(world: &mut World<S>) {
    let (listener, address) = world.tcp_listener();
    world.poll();
    let dialer = thread::spawn(move || std::net::TcpStream::connect(address).unwrap());
    assert!(ends(world), "somebody came");
    drop(dialer.join().unwrap());
    world.until(|world| !world.seen(listener).accepted.is_empty());
}
