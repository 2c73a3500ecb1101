//! A cancel that meets bytes on their way.

use std::io::Write;

use ztransport::driver::Driver;
use ztransport::socket::SocketBuffers;

use super::{DEFAULT, on_ring};
use crate::seen::PAUSED;
use crate::world::{assert_same, pattern};

#[test]
fn cancel_race_is_met_and_bytes_that_arrive_meanwhile_are_told_before_the_pause() {
    on_ring(DEFAULT, |world| {
        let (ours, mut peer) = world.connection(SocketBuffers::default());
        let bytes = pattern(1_000 * 40);
        let mut while_pausing = 0;
        for (number, chunk) in bytes.chunks(40).enumerate() {
            world.receive(ours);
            world.poll();
            let before = world.seen(ours).received.len();
            peer.write_all(chunk).unwrap();
            if number % 2 == 0 {
                // The completion is copied out of the ring, and the pause comes behind it.
                world.driver().park(None).unwrap();
            }
            world.pause(ours);
            world.until_noted(ours, &PAUSED);
            let seen = world.seen(ours);
            assert_eq!(seen.notes.last(), Some(&PAUSED), "nothing arrives behind the pause");
            seen.notes.clear();
            while_pausing += usize::from(seen.received.len() > before);
        }
        assert!(while_pausing >= 250, "only {while_pausing} races of 1,000");
        world.receive(ours);
        world.until_received(ours, bytes.len());
        assert_same(&world.seen(ours).received, &bytes);
    });
}
