//! A cancel that meets bytes on their way.

use std::io::Write;
use std::os::unix::net::UnixStream;

use ztransport::driver::Driver;
use ztransport::socket::SocketBuffers;
use ztransport::uring::UringOptions;
use ztransport::uring::limits::BUFFER_BYTES;

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

/// The submission queue is as small as it gets, so that each operation hands over the one before.
const TWO_BUFFERS: UringOptions =
    UringOptions { application_buffers: 2, completion_buffers: 1, submissions: 1, ..DEFAULT };

#[test]
fn a_due_pause_lets_all_buffers_through_twice_and_no_more() {
    on_ring(TWO_BUFFERS, |world| {
        let most = world.driver().carry_max();
        assert_eq!(most, 2 * 2 * u64::from(BUFFER_BYTES), "all buffers of the larger group, twice");
        let [(ours, mut peer), (other, _silent)] = [(); 2].map(|()| {
            let (ours, peer) = UnixStream::pair().unwrap();
            (world.adopt(0, ours.into()), peer)
        });
        let bytes = pattern(3 * 2 * BUFFER_BYTES as usize);
        let mut rounds = bytes.chunks(2 * BUFFER_BYTES as usize);
        let mut arrive = || peer.write_all(rounds.next().unwrap()).unwrap();
        world.receive(ours);
        arrive();
        // The poll in which the pause becomes due: all buffers come, and are offered again.
        world.until(|world| !world.seen(ours).received.is_empty());
        arrive();
        // Queued ahead of the pause, which finds no place and has it handed over.
        world.receive(other);
        world.pause(ours);
        arrive();
        world.until_noted(ours, &PAUSED);
        let through = world.seen(ours).received.len() as u64;
        assert!(through <= most, "{through} B although {most} B are the bound");
        assert_eq!(through, most, "it is met: a smaller bound would be wrong");
        world.receive(ours);
        world.until_received(ours, bytes.len());
        assert_same(&world.seen(ours).received, &bytes);
    });
}

#[test]
fn what_a_due_pause_lets_through_is_told_by_the_larger_group() {
    for (application_buffers, completion_buffers) in [(8, 2), (2, 8)] {
        on_ring(UringOptions { application_buffers, completion_buffers, ..DEFAULT }, |world| {
            assert_eq!(world.driver().carry_max(), 2 * 8 * u64::from(BUFFER_BYTES));
        });
    }
}
