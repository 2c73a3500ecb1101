//! A driver that is dropped while operations are in flight.

use core::sync::atomic::{AtomicU32, Ordering};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use bytes::Bytes;
use ztransport::Batch;
use ztransport::driver::Driver;
use ztransport::socket::SocketBuffers;

use crate::stand::{Kernel, Size};
use crate::world::{SMALL, World, pattern};

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

pub(crate) fn a_dropped_driver_frees_what_was_in_flight_and_closes_its_sockets<S: Kernel>(
    world: &mut World<S>,
) {
    let freed = Arc::new(AtomicU32::new(0));
    let counted = || {
        let mut batch = Batch::default();
        let bytes = Counted { bytes: pattern(8 << 20), freed: Arc::clone(&freed) };
        batch.push_segment(Bytes::from_owner(bytes));
        batch
    };
    let (full, mut full_peer) = UnixStream::pair().unwrap();
    let full = world.adopt(0, full.into());
    world.send_batch(full, counted());
    world.until_quiet();
    let (receiving, mut quiet) = world.connection(SMALL);
    world.receive(receiving);
    world.tcp_listener();
    world.poll();
    assert_eq!(freed.load(Ordering::Relaxed), 0, "it is in flight");
    drop(world.take_driver());
    assert_eq!(freed.load(Ordering::Relaxed), 1, "freed, not leaked");
    assert_eq!(quiet.read(&mut [0; 8]).unwrap(), 0, "the socket is closed");
    // What arrives now must not land in memory that somebody else owns.
    let late = quiet.write(&[0xff; 1_000]);
    let mut rest = Vec::new();
    let end = full_peer.read_to_end(&mut rest);
    let expected = pattern(rest.len());
    assert!(
        rest.len() < 8 << 20 && rest.starts_with(&expected[..1_000]),
        "cut short ({late:?}, {end:?})"
    );
}

pub(crate) fn a_driver_can_be_dropped_before_its_operations_were_handed_over<S: Kernel>(
    world: &mut World<S>,
) {
    let (ours, mut peer) = world.connection(SocketBuffers::default());
    world.receive(ours);
    world.send(ours, b"perhaps");
    drop(world.take_driver());
    let mut rest = Vec::new();
    peer.read_to_end(&mut rest).unwrap();
    assert!(b"perhaps".starts_with(&rest[..]), "all or nothing of it");
}

pub(crate) fn connections_that_nobody_took_are_closed_with_the_driver<S: Kernel>(
    world: &mut World<S>,
) {
    let (_, address) = world.tcp_listener();
    world.poll();
    let mut peer = TcpStream::connect(address).unwrap();
    // The driver may know of it by now, and then nobody asks.
    world.driver().park(None).unwrap();
    drop(world.take_driver());
    assert_eq!(peer.read(&mut [0; 8]).unwrap_or(0), 0, "closed");
}

pub(crate) fn a_dropped_driver_gives_all_descriptors_back<S: Kernel>(world: &mut World<S>) {
    // Other tests open and close descriptors all the time.
    if !world.is_alone(&[]) {
        return;
    }
    // The lowest free number stays where it is only if nothing is left open.
    let lowest_free = || {
        let probe = rustix::io::dup(std::io::stdin()).unwrap();
        std::os::fd::AsRawFd::as_raw_fd(&probe)
    };
    drop(world.take_driver());
    let before = lowest_free();
    for _ in 0..50 {
        world.add_sized(Size::default());
        let (ours, _peer) = world.connection(SocketBuffers::default());
        world.receive(ours);
        world.poll();
        drop(world.take_driver());
    }
    assert_eq!(lowest_free(), before, "as many are open as before");
}
