//! Many sockets of one driver at once.

use ztransport::socket::SocketBuffers;

use crate::seen::{END_OF_STREAM, End, Note, PAUSED};
use crate::stand::{Size, Stand};
use crate::world::{SMALL, World, assert_same, pattern};

/// Connections between two drivers. The accepting ends second.
fn crowd<S: Stand>(world: &mut World<S>, pairs: u32, size: Size) -> Vec<(End, End)> {
    let (dialing, accepting) = (world.add_sized(size), world.add_sized(size));
    let address = world.stand.tcp();
    let (listener, address) = world.listen(accepting, &address, SMALL);
    let dialed: Vec<_> = (0..pairs)
        .map(|_| {
            let end = world.open(dialing, &address, SMALL);
            world.connect(end, address.clone());
            end
        })
        .collect();
    let connected = Note::Connected(Ok(()));
    world.until(|world| dialed.iter().all(|end| world.seen(*end).has(&connected)));
    world.until(|world| world.seen(listener).accepted.len() == dialed.len());
    // Which accepted end belongs to which dialed one shows only once something is said.
    let accepted = world.seen(listener).accepted.clone();
    for (number, end) in (0_u32..).zip(&dialed) {
        world.send(*end, &number.to_le_bytes());
    }
    for end in &accepted {
        world.receive(*end);
    }
    world.until(|world| accepted.iter().all(|end| world.seen(*end).received.len() == 4));
    for end in &dialed {
        world.until_sent(*end);
    }
    let mut ordered: Vec<_> = accepted
        .into_iter()
        .map(|end| {
            let number = u32::from_le_bytes(*world.seen(end).received.first_chunk().unwrap());
            (number, end)
        })
        .collect();
    ordered.sort_unstable();
    let numbers = ordered.iter().map(|(number, _)| *number);
    assert!(numbers.eq(0..pairs), "each connection has two ends");
    dialed.into_iter().zip(ordered.into_iter().map(|(_, end)| end)).collect()
}

/// As many as the network is good for.
fn large_crowd<S: Stand>(world: &mut World<S>) -> Vec<(End, End)> {
    let pairs = world.scale.crowd;
    crowd(world, pairs, Size { sockets_max: pairs + 1, buffers: 64 })
}

pub(crate) fn many_sockets_are_served_at_once_and_each_gets_its_own<S: Stand>(
    world: &mut World<S>,
) {
    let pairs = large_crowd(world);
    for (ours, theirs) in &pairs {
        world.receive(*ours);
        let echo = world.seen(*theirs).received.clone();
        world.send(*theirs, &echo);
    }
    world.until(|world| pairs.iter().all(|(ours, _)| world.seen(*ours).received.len() == 4));
    for (number, (ours, _)) in (0_u32..).zip(&pairs) {
        assert_eq!(world.seen(*ours).received, number.to_le_bytes(), "its own number");
    }
    for (_, theirs) in &pairs {
        world.until_sent(*theirs);
    }
}

pub(crate) fn many_sockets_are_closed_at_once_and_each_peer_reads_to_the_end<S: Stand>(
    world: &mut World<S>,
) {
    let pairs = large_crowd(world);
    for (ours, _) in &pairs {
        world.receive(*ours);
    }
    world.poll();
    for (ours, _) in &pairs {
        world.close(*ours);
    }
    world.until(|world| pairs.iter().all(|(ours, _)| world.seen(*ours).has(&Note::Closed)));
    world.until(|world| pairs.iter().all(|(_, theirs)| world.seen(*theirs).has(&END_OF_STREAM)));
}

pub(crate) fn many_sockets_are_paused_at_once_and_armed_again<S: Stand>(world: &mut World<S>) {
    let pairs = large_crowd(world);
    for round in 1..=3_usize {
        for (_, theirs) in &pairs {
            world.pause(*theirs);
        }
        let pauses = |notes: &[Note]| notes.iter().filter(|note| **note == PAUSED).count();
        world.until(|world| {
            pairs.iter().all(|(_, theirs)| pauses(&world.seen(*theirs).notes) == round)
        });
        for (_, theirs) in &pairs {
            world.receive(*theirs);
        }
        world.poll();
    }
    for (ours, theirs) in &pairs[..4] {
        world.carry(*ours, *theirs, b"awake");
    }
}

pub(crate) fn many_sockets_that_share_two_buffers_all_get_everything<S: Stand>(
    world: &mut World<S>,
) {
    let pairs = crowd(world, 8, Size { sockets_max: 16, buffers: 2 });
    let bytes = pattern(world.scale.bulk / 8);
    for (ours, _) in &pairs {
        world.send(*ours, &bytes);
    }
    world.until(|world| {
        let whole = bytes.len() + 4;
        pairs.iter().all(|(_, theirs)| world.seen(*theirs).received.len() == whole)
    });
    for (ours, theirs) in &pairs {
        world.until_sent(*ours);
        assert_same(&world.seen(*theirs).received[4..], &bytes);
    }
}

pub(crate) fn a_flood_on_one_socket_does_not_keep_another_from_being_heard<S: Stand>(
    world: &mut World<S>,
) {
    let (flooding, flooded) = world.pair(SMALL);
    let (asking, asked) = world.pair(SocketBuffers::default());
    for end in [flooded, asking, asked] {
        world.receive(end);
    }
    let bytes = pattern(world.scale.bulk);
    world.send(flooding, &bytes);
    for number in 0..20_u32 {
        let before = world.seen(asked).received.len();
        world.send(asking, &number.to_le_bytes());
        world.until_received(asked, before + 4);
        world.until_sent(asking);
    }
    world.until_received(flooded, bytes.len());
    world.until_sent(flooding);
    assert_same(&world.seen(flooded).received, &bytes);
}
