//! A ring that is dropped with operations in flight.

use std::io::{Read, Write};

use ztransport::socket::SocketBuffers;
use ztransport::uring::UringOptions;

use super::{DEFAULT, on_ring};

#[test]
fn ring_drop_cancels_receives_before_their_buffers_are_freed() {
    on_ring(DEFAULT, |world| {
        // Whoever gets the freed memory next must not find in it what a peer writes.
        let options = UringOptions { application_buffers: 8, ..DEFAULT };
        for _ in 0..50 {
            let ring = ztransport::uring::Uring::new(options).unwrap();
            let at = world.add(ring);
            let mut peers = Vec::new();
            for _ in 0..4 {
                let (ours, peer) = std::os::unix::net::UnixStream::pair().unwrap();
                let ours = world.adopt(at, ours.into());
                world.receive(ours);
                world.seen(ours).notes.clear();
                peers.push(peer);
            }
            world.poll();
            drop(world.take_driver());
            let next: Vec<Vec<u8>> = (0..8).map(|_| vec![0; 16 << 10]).collect();
            for peer in &mut peers {
                // The socket is closed, so that this reaches nobody.
                let late = peer.write(&[0xff; 1_000]);
                assert!(late.is_err(), "{late:?}: somebody still listens");
                assert_eq!(peer.read(&mut [0; 8]).unwrap_or(0), 0, "closed");
            }
            let is_clean = next.iter().flatten().all(|byte| *byte == 0);
            assert!(is_clean, "a late write landed in memory of somebody else");
        }
    });
}

#[test]
fn ring_drop_ends_a_connect_that_nobody_answers() {
    on_ring(DEFAULT, |world| {
        let ring = ztransport::uring::Uring::new(DEFAULT).unwrap();
        let at = world.add(ring);
        let (_deaf, address, _taken) = crate::scripts::deaf();
        let connecting = world.open(at, &address, SocketBuffers::default());
        world.connect(connecting, address);
        world.poll();
        // Dropping waits for the operation. That it returns is all there is to see.
        drop(world.take_driver());
    });
}
