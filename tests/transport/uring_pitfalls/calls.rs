//! How few system calls it takes.

use core::time::Duration;
use std::io::Write;

use ztransport::driver::{Driver, Wake};
use ztransport::socket::SocketBuffers;

use super::{DEFAULT, Ring, on_ring};

fn calls(world: &mut Ring) -> u64 {
    world.driver().system_calls()
}

#[test]
fn polling_when_nothing_happens_makes_no_system_call() {
    on_ring(DEFAULT, |world| {
        let (ours, _peer) = world.connection(SocketBuffers::default());
        world.receive(ours);
        world.poll();
        let before = calls(world);
        for _ in 0..1_000 {
            assert_eq!(world.poll(), 0, "nothing happens");
        }
        assert_eq!(calls(world), before, "all from the rings");
    });
}

#[test]
fn a_park_with_something_to_tell_makes_no_system_call() {
    on_ring(DEFAULT, |world| {
        let (ours, mut peer) = world.connection(SocketBuffers::default());
        peer.write_all(b"x").unwrap();
        world.receive(ours);
        world.driver().park(None).unwrap();
        assert!(world.driver().is_ready(), "its completion waits");
        let before = calls(world);
        world.driver().park(None).unwrap();
        assert_eq!(calls(world), before, "seen without a system call");
    });
}

#[test]
fn a_wake_is_paid_for_once() {
    on_ring(DEFAULT, |world| {
        world.driver().waker().wake();
        world.driver().park(None).unwrap();
        world.poll();
        let before = calls(world);
        world.driver().park(Some(Duration::from_millis(1))).unwrap();
        assert_eq!(calls(world), before + 1, "the next park sleeps");
    });
}

#[test]
fn operations_of_many_sockets_share_one_system_call() {
    on_ring(DEFAULT, |world| {
        let connections: Vec<_> =
            (0..32).map(|_| world.connection(SocketBuffers::default())).collect();
        world.poll();
        let before = calls(world);
        for (ours, _) in &connections {
            world.receive(*ours);
            world.send(*ours, b"one batch");
        }
        world.poll();
        assert_eq!(calls(world), before + 1, "one for 64 operations");
    });
}
