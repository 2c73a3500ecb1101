//! Short sends, their order, and peers that are gone.

use bytes::Bytes;
use rustix::io::Errno;
use ztransport::op::Op;
use ztransport::socket::{SocketAddress, SocketBuffers};
use ztransport::{Batch, SEGMENTS_MAX};

use crate::support::{Note, SMALL, World, assert_same, batch, pattern, tcp, unix};

/// Sends 8 MiB through small socket buffers. How many sends it took.
fn carry(address: &SocketAddress) -> Option<usize> {
    let mut world = World::new()?;
    let bytes = pattern(8 << 20);
    let (ours, theirs, _) = world.pair(address, SMALL);
    world.receive(theirs);
    world.send(ours, &bytes);
    world.until(|world| world.resume(ours));
    world.until_received(theirs, bytes.len());
    assert_same(&world.seen(theirs).received, &bytes);
    assert_eq!(world.driver.stale_completions(), 0, "every completion was expected");
    let notes = &world.seen(ours).notes;
    Some(notes.iter().filter(|note| matches!(note, Note::Sent(Ok(_)))).count())
}

#[test]
fn a_short_send_is_advanced_and_resumed_until_all_arrived_in_order() {
    let Some(sends) = carry(&tcp()) else { return };
    assert!(sends > 1, "8 MiB fit into a 16 KiB buffer at once");
}

#[test]
fn unix_sockets_carry_the_same() {
    let address = unix("carry");
    let carried = carry(&address);
    if let (SocketAddress::Unix(path), Some(_)) = (address, carried) {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_batch_with_more_segments_than_one_send_takes_arrives_whole() {
    let Some(mut world) = World::new() else { return };
    let (ours, theirs, _) = world.pair(&tcp(), SocketBuffers::default());
    let bytes = pattern((3 * SEGMENTS_MAX + 1) * 100);
    let mut batch = Batch::default();
    for segment in bytes.chunks(100) {
        batch.push_segment(Bytes::copy_from_slice(segment));
    }
    world.receive(theirs);
    world.push(Op::Send { socket: ours, batch });
    world.until(|world| world.resume(ours));
    world.until_received(theirs, bytes.len());
    assert_same(&world.seen(theirs).received, &bytes);
}

#[test]
fn one_send_after_the_other_keeps_the_order_both_ways_at_once() {
    let Some(mut world) = World::new() else { return };
    let (left, right, _) = world.pair(&tcp(), SMALL);
    let bytes = pattern(4 << 20);
    let mut chunks = [left, right].map(|socket| (socket, bytes.chunks(77_777)));
    for (socket, chunks) in &mut chunks {
        world.receive(*socket);
        world.send(*socket, chunks.next().unwrap());
    }
    world.until(|world| {
        for (socket, chunks) in &mut chunks {
            if world.resume(*socket)
                && let Some(chunk) = chunks.next()
            {
                world.send(*socket, chunk);
            }
        }
        [left, right].iter().all(|socket| world.seen(*socket).received.len() == bytes.len())
    });
    assert_same(&world.seen(left).received, &bytes);
    assert_same(&world.seen(right).received, &bytes);
}

#[test]
fn a_batch_comes_back_as_it_was_pushed() {
    let Some(mut world) = World::new() else { return };
    let (ours, _peer) = world.connection(SMALL);
    // Nobody reads: the send comes up short.
    world.push(Op::Send { socket: ours, batch: batch(&pattern(32 << 20)) });
    world.until(|world| world.seen(ours).batch.is_some());
    assert_eq!(world.seen(ours).batch.take().unwrap().unsent(), 32 << 20, "untouched");
    let [Note::Sent(Ok(sent))] = world.seen(ours).notes[..] else { panic!("one send") };
    assert!((1..32 << 20).contains(&sent), "some of it: {sent}");
}

#[test]
fn sending_to_a_peer_that_is_gone_is_an_error() {
    let Some(mut world) = World::new() else { return };
    let (ours, theirs, _) = world.pair(&unix("gone"), SMALL);
    if let SocketAddress::Unix(path) = unix("gone") {
        std::fs::remove_file(path).unwrap();
    }
    world.push(Op::Close { socket: theirs });
    world.until_noted(theirs, &Note::Closed);
    world.send(ours, b"nobody is there");
    world.until_noted(ours, &Note::Sent(Err(Errno::PIPE)));
}

#[test]
fn nothing_is_sent_after_shutting_down_but_what_was_in_flight() {
    let Some(mut world) = World::new() else { return };
    let (ours, theirs, _) = world.pair(&tcp(), SocketBuffers::default());
    world.receive(theirs);
    // Both before the first system call: the shutdown has to wait for the send.
    world.send(ours, b"last words");
    world.push(Op::ShutdownWrite { socket: ours });
    world.until_noted(theirs, &Note::Stopped(ztransport::event::ReceiveStop::EndOfStream));
    assert_eq!(world.seen(theirs).received, b"last words", "sent in full");
    world.seen(ours).batch = None;
    world.send(ours, b"too late");
    world.until_noted(ours, &Note::Sent(Err(Errno::PIPE)));
}
