//! A ring with far fewer places than there are operations.

use std::os::unix::net::UnixStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use ztransport::uring::UringOptions;

use super::{Ring, on_ring};
use crate::seen::{End, Note, PAUSED};

/// As many connections as may be in flight at once, of which a ring takes 64 at a time.
const CROWD: u32 = 2_000;

const SMALL_RING: UringOptions = UringOptions {
    sockets_max: CROWD,
    application_buffers: 64,
    completion_buffers: 1,
    submissions: 64,
};

/// Connections that receive. Two descriptors each.
fn crowd(world: &mut Ring) -> Vec<(End, UnixStream)> {
    // The limit that a shell sets is often just above a thousand; what is allowed is far more.
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let ends: Vec<_> = (0..CROWD)
        .map(|_| {
            let (ours, peer) = UnixStream::pair().unwrap();
            let ours = world.adopt(0, ours.into());
            world.receive(ours);
            (ours, peer)
        })
        .collect();
    world.poll();
    ends
}

#[test]
fn thousands_of_simultaneous_closes_find_room_for_their_cancels() {
    on_ring(SMALL_RING, |world| {
        let ends = crowd(world);
        for (ours, _) in &ends {
            world.close(*ours);
        }
        let mut left = ends.len();
        world.until(|world| {
            left = ends.iter().filter(|(ours, _)| !world.seen(*ours).has(&Note::Closed)).count();
            left == 0
        });
        for (ours, _) in &ends {
            assert_eq!(world.seen(*ours).notes, [Note::Closed], "and nothing else");
        }
    });
}

#[test]
fn thousands_of_simultaneous_pauses_find_room_for_their_cancels() {
    on_ring(SMALL_RING, |world| {
        let ends = crowd(world);
        for _ in 0..3 {
            for (ours, _) in &ends {
                world.pause(*ours);
            }
            world.until(|world| ends.iter().all(|(ours, _)| world.seen(*ours).has(&PAUSED)));
            for (ours, _) in &ends {
                assert_eq!(world.seen(*ours).notes, [PAUSED], "and nothing else");
                world.seen(*ours).notes.clear();
                world.receive(*ours);
            }
        }
    });
}
