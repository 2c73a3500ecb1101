//! Short sends, their order, and peers that are gone.

use bytes::Bytes;
use rustix::io::Errno;
use ztransport::socket::{SocketAddress, SocketBuffers};
use ztransport::{Batch, SEGMENTS_MAX};

use crate::seen::{END_OF_STREAM, Note, Sending};
use crate::stand::Stand;
use crate::world::{SMALL, World, assert_same, batch, pattern};

/// Sends megabytes through small socket buffers. How many sends it took.
fn carry<S: Stand>(world: &mut World<S>, address: &SocketAddress) -> usize {
    let bytes = pattern(world.scale.bulk);
    let (ours, theirs) = world.pair_at(address, SMALL);
    world.receive(theirs);
    world.carry(ours, theirs, &bytes);
    let notes = &world.seen(ours).notes;
    notes.iter().filter(|note| matches!(note, Note::Sent(Ok(_)))).count()
}

pub(crate) fn short_send_goes_on_where_it_stopped<S: Stand>(world: &mut World<S>) {
    let address = world.stand.tcp();
    assert!(carry(world, &address) > 1, "all of it fits into a 16 KiB buffer at once");
}

pub(crate) fn short_send_goes_on_over_a_unix_socket<S: Stand>(world: &mut World<S>) {
    let address = world.stand.unix();
    assert!(carry(world, &address) > 1, "all of it fits into a 16 KiB buffer at once");
}

pub(crate) fn short_send_tells_what_was_taken_and_brings_the_batch_back_as_it_was<S: Stand>(
    world: &mut World<S>,
) {
    let (ours, _theirs) = world.pair(SMALL);
    // Nobody reads: the send comes up short.
    let bytes = pattern(world.scale.bulk);
    world.send_once(ours, &bytes);
    world.until_sent(ours);
    let untouched = world.seen(ours).batch.take().unwrap().unsent();
    assert_eq!(untouched, bytes.len() as u64, "as it was");
    let Some(Note::Sent(Ok(sent))) = world.seen(ours).notes.last() else { panic!("one send") };
    assert!((1..bytes.len()).contains(sent), "some of it: {sent}");
}

pub(crate) fn a_batch_with_more_segments_than_one_send_takes_arrives_whole<S: Stand>(
    world: &mut World<S>,
) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    let bytes = pattern((3 * SEGMENTS_MAX + 1) * 100);
    let mut batch = Batch::default();
    for segment in bytes.chunks(100) {
        batch.push_segment(Bytes::copy_from_slice(segment));
    }
    world.receive(theirs);
    world.send_batch(ours, batch);
    world.until_sent(ours);
    world.until_received(theirs, bytes.len());
    assert_same(&world.seen(theirs).received, &bytes);
}

pub(crate) fn send_order_is_kept_both_ways_at_once<S: Stand>(world: &mut World<S>) {
    let (left, right) = world.pair(SMALL);
    let bytes = pattern(world.scale.bulk);
    let mut chunks = [left, right].map(|end| (end, bytes.chunks(7_777)));
    for (end, _) in &chunks {
        world.receive(*end);
    }
    world.until(|world| {
        for (end, chunks) in &mut chunks {
            if world.seen(*end).sending == Sending::Nothing
                && let Some(chunk) = chunks.next()
            {
                world.send(*end, chunk);
            }
        }
        [left, right].iter().all(|end| world.seen(*end).received.len() == bytes.len())
    });
    world.until_sent(left);
    world.until_sent(right);
    assert_same(&world.seen(left).received, &bytes);
    assert_same(&world.seen(right).received, &bytes);
}

pub(crate) fn a_megabyte_each_way_at_once_does_not_jam_small_buffers<S: Stand>(
    world: &mut World<S>,
) {
    let (left, right) = world.pair(SMALL);
    let bytes = pattern(world.scale.bulk);
    for end in [left, right] {
        world.receive(end);
        world.send(end, &bytes);
    }
    for end in [left, right] {
        world.until_received(end, bytes.len());
        world.until_sent(end);
    }
    assert_same(&world.seen(left).received, &bytes);
    assert_same(&world.seen(right).received, &bytes);
}

pub(crate) fn backpressure_a_peer_that_does_not_read_is_sent_what_both_buffers_hold<S: Stand>(
    world: &mut World<S>,
) {
    for buffers in world.scale.buffers.iter().copied() {
        let (ours, theirs) = world.pair(buffers);
        let asked = buffers.send.get() + buffers.receive.get();
        // The kernel doubles what is asked for, and lets one packet in above that on either side.
        let most = 2 * asked + (128 << 10);
        let bytes = pattern(usize::try_from(2 * most).unwrap());
        world.send(ours, &bytes);
        world.until_quiet();
        let sent = world.seen(ours).notes.iter().filter_map(Note::sent).flatten();
        let taken = sent.map(|bytes| bytes as u64).sum::<u64>();
        assert!(taken <= most, "{taken} bytes went into {asked}");
        world.receive(theirs);
        world.until_sent(ours);
        world.until_received(theirs, bytes.len());
        assert_same(&world.seen(theirs).received, &bytes);
    }
}

pub(crate) fn sending_to_a_peer_that_is_gone_fails_soon<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.pair(SMALL);
    world.hide_writes(ours);
    world.close_and_wait(theirs);
    // The first may be on its way before the peer can say that it is gone.
    let mut failed = None;
    for _ in 0..100 {
        world.send(ours, b"anybody?");
        world.until_sent(ours);
        failed = world.seen(ours).notes.iter().find_map(|note| note.sent()?.err());
        if failed.is_some() {
            break;
        }
    }
    assert!(matches!(failed, Some(Errno::PIPE | Errno::CONNRESET)), "{failed:?}");
}

pub(crate) fn nothing_is_sent_after_shutting_down_but_what_was_in_flight<S: Stand>(
    world: &mut World<S>,
) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    // How much one send takes is up to the network.
    world.hide_reads(theirs);
    world.hide_writes(ours);
    world.receive(theirs);
    // Both before the first system call: the shutdown has to wait for the send.
    world.send_once(ours, b"last words");
    world.shutdown(ours);
    world.until_noted(theirs, &END_OF_STREAM);
    world.until_sent(ours);
    let sent = world.seen(ours).notes.iter().find_map(Note::sent).unwrap().unwrap();
    assert_eq!(world.seen(theirs).received, b"last words"[..sent], "what the send took");
    world.send(ours, b"too late");
    world.until_noted(ours, &Note::Sent(Err(Errno::PIPE)));
}

pub(crate) fn shutting_down_waits_for_a_send_that_waits_for_room<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.full_pair(&pattern(world.scale.bulk));
    // How much one send takes is up to the network.
    world.hide_reads(theirs);
    world.hide_writes(ours);
    let before = world.seen(ours).notes.len();
    world.shutdown(ours);
    world.receive(theirs);
    world.until_noted(theirs, &END_OF_STREAM);
    world.until_sent(ours);
    let outcomes: Vec<_> = world.seen(ours).notes.iter().filter_map(Note::sent).collect();
    let first = world.seen(ours).notes[before..].iter().find_map(Note::sent);
    assert!(matches!(first, Some(Ok(1..))), "{first:?}: it was in flight before the shutdown");
    let taken: usize = outcomes.into_iter().flatten().sum();
    assert_eq!(world.seen(theirs).received.len(), taken, "what the sends took, to the end");
}

pub(crate) fn a_batch_of_nothing_comes_back<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    world.receive(theirs);
    world.send_batch(ours, batch(b""));
    world.until_sent(ours);
    assert_eq!(world.seen(ours).notes.last(), Some(&Note::Sent(Ok(0))), "nothing was sent");
    world.carry(ours, theirs, b"something");
}
