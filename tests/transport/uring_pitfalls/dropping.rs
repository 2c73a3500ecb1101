//! A driver that is dropped while operations are in flight.

use core::sync::atomic::{AtomicU32, Ordering};
use std::io::{Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use ztransport::Batch;
use ztransport::driver::Driver;
use ztransport::socket::{self, SocketBuffers};

use crate::support::{SMALL, World, is_alone, pattern, tcp};

/// Bytes that tell when they are freed.
struct Counted {
    bytes: Vec<u8>,
    freed: Arc<AtomicU32>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.freed.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_dropped_driver_frees_what_was_in_flight_and_closes_its_sockets() {
    let Some(mut world) = World::new() else { return };
    let freed = Arc::new(AtomicU32::new(0));
    let (_, mut full) = world.full(|| {
        let bytes = Counted { bytes: pattern(8 << 20), freed: Arc::clone(&freed) };
        let mut batch = Batch::default();
        batch.push_segment(Bytes::from_owner(bytes));
        batch
    });
    let (receiving, mut quiet) = world.connection(SMALL);
    let listening = socket::listen(&tcp(), SMALL).unwrap();
    let listener = world.driver.adopt(listening).unwrap();
    world.accept(listener);
    world.receive(receiving);
    world.poll();
    let World { driver, .. } = world;
    assert_eq!(freed.load(Ordering::Relaxed), 1, "the kernel reads from the second");
    drop(driver);
    assert_eq!(freed.load(Ordering::Relaxed), 2, "freed, not leaked");
    assert_eq!(quiet.read(&mut [0; 8]).unwrap(), 0, "the socket is closed");
    // What arrives now must not land in memory that somebody else owns.
    let late = quiet.write(&[0xff; 1_000]);
    let mut rest = Vec::new();
    let end = full.read_to_end(&mut rest);
    let expected = pattern(rest.len());
    assert!(
        rest.len() < 16 << 20 && rest.starts_with(&expected[..1_000]),
        "cut short ({late:?}, {end:?})"
    );
}

#[test]
fn a_driver_can_be_dropped_before_its_operations_were_handed_over() {
    let Some(mut world) = World::new() else { return };
    let (ours, mut peer) = world.connection(SocketBuffers::default());
    world.receive(ours);
    world.send(ours, b"perhaps");
    drop(world);
    let mut rest = Vec::new();
    peer.read_to_end(&mut rest).unwrap();
    assert!(b"perhaps".starts_with(&rest[..]), "all or nothing of it");
}

#[test]
fn connections_that_nobody_took_are_closed_with_the_driver() {
    let Some(mut world) = World::new() else { return };
    let listening = socket::listen(&tcp(), SocketBuffers::default()).unwrap();
    let address = socket::local_address(&listening).unwrap();
    let socket::SocketAddress::Tcp(address) = address else { panic!("TCP") };
    let listener = world.driver.adopt(listening).unwrap();
    world.accept(listener);
    world.poll();
    let mut peer = std::net::TcpStream::connect(address).unwrap();
    // The completion is copied out of the ring and then never handled.
    world.driver.park(None).unwrap();
    drop(world);
    assert_eq!(peer.read(&mut [0; 8]).unwrap_or(0), 0, "closed");
}

#[test]
fn a_dropped_driver_gives_all_descriptors_back() {
    if World::new().is_none() {
        return;
    }
    // Other tests open and close descriptors all the time.
    if !is_alone("dropping::a_dropped_driver_gives_all_descriptors_back", &[]) {
        return;
    }
    // The lowest free number stays where it is only if nothing is left open.
    let lowest_free = || {
        let probe = rustix::io::dup(std::io::stdin()).unwrap();
        std::os::fd::AsRawFd::as_raw_fd(&probe)
    };
    let before = lowest_free();
    for _ in 0..50 {
        let mut world = World::new().unwrap();
        let (ours, _peer) = world.connection(SocketBuffers::default());
        world.receive(ours);
        world.poll();
        drop(world);
    }
    assert_eq!(lowest_free(), before, "as many are open as before");
}
