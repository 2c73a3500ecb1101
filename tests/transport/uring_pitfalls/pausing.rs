//! Pausing a receive races with the bytes that arrive.

use std::io::Write;
use std::thread;

use ztransport::driver::Driver;
use ztransport::event::ReceiveStop;
use ztransport::op::Op;
use ztransport::socket::SocketBuffers;

use crate::support::{Note, World, assert_same, pattern};

const PAUSED: Note = Note::Stopped(ReceiveStop::Paused);

#[test]
fn bytes_that_arrive_while_pausing_are_delivered_before_the_pause_is_reported() {
    let Some(mut world) = World::new() else { return };
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
            world.driver.park(None).unwrap();
        }
        world.push(Op::PauseReceive { socket: ours });
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
}

#[test]
fn pausing_and_arming_again_while_bytes_stream_in_loses_none() {
    let Some(mut world) = World::new() else { return };
    let (ours, mut peer) = world.connection(SocketBuffers::default());
    let bytes = pattern(32 << 20);
    let sent = bytes.clone();
    let writer = thread::spawn(move || peer.write_all(&sent).unwrap());
    let (mut pauses, mut next_pause) = (0, 0);
    world.receive(ours);
    world.until(|world| {
        let received = world.seen(ours).received.len();
        let mut is_paused = false;
        if let Some(Note::Stopped(reason)) = world.seen(ours).notes.last() {
            is_paused = *reason == ReceiveStop::Paused;
            pauses += u32::from(is_paused);
            world.seen(ours).notes.clear();
            world.receive(ours);
        }
        // Also behind a receive that ran out of buffers: with much to read, each one may.
        if !is_paused && received >= next_pause {
            next_pause = received + (64 << 10);
            world.push(Op::PauseReceive { socket: ours });
        }
        received >= bytes.len()
    });
    writer.join().unwrap();
    assert!(pauses > 8, "only {pauses} pauses");
    assert_same(&world.seen(ours).received, &bytes);
    assert_eq!(world.driver.stale_completions(), 0, "every completion was expected");
}

#[test]
fn a_paused_socket_stays_silent() {
    let Some(mut world) = World::new() else { return };
    let (ours, mut peer) = world.connection(SocketBuffers::default());
    let (other, mut other_peer) = world.connection(SocketBuffers::default());
    world.receive(ours);
    world.receive(other);
    world.push(Op::PauseReceive { socket: ours });
    world.until_noted(ours, &PAUSED);
    peer.write_all(b"wait").unwrap();
    // Written later and delivered: what came before had its chance.
    other_peer.write_all(b"now").unwrap();
    world.until_received(other, 3);
    assert!(world.seen(ours).received.is_empty(), "nothing while paused");
    world.receive(ours);
    world.until_received(ours, 4);
}

#[test]
fn pausing_what_does_not_receive_says_nothing() {
    let Some(mut world) = World::new() else { return };
    let (ours, _peer) = world.connection(SocketBuffers::default());
    world.push(Op::PauseReceive { socket: ours });
    world.push(Op::Close { socket: ours });
    world.until_noted(ours, &Note::Closed);
    assert_eq!(world.seen(ours).notes, [Note::Closed], "nothing else");
}

#[test]
fn the_end_of_the_stream_is_reported_although_a_pause_is_under_way() {
    let Some(mut world) = World::new() else { return };
    let (ours, peer) = world.connection(SocketBuffers::default());
    world.receive(ours);
    world.poll();
    drop(peer);
    world.push(Op::PauseReceive { socket: ours });
    world.until(|world| matches!(world.seen(ours).notes.last(), Some(Note::Stopped(_))));
    if world.seen(ours).has(&PAUSED) {
        world.receive(ours);
    }
    world.until_noted(ours, &Note::Stopped(ReceiveStop::EndOfStream));
}
