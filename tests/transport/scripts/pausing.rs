//! Pausing a receive races with the bytes that arrive.

use ztransport::event::ReceiveStop;
use ztransport::socket::SocketBuffers;

use crate::seen::{END_OF_STREAM, Note, PAUSED};
use crate::stand::Stand;
use crate::world::{SMALL, World, assert_same, pattern};

pub(crate) fn recv_cancel_loss_does_not_happen_bytes_come_before_the_pause_is_told<S: Stand>(
    world: &mut World<S>,
) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    world.hide_pauses(ours);
    let bytes = pattern(100 * 40);
    for (number, chunk) in bytes.chunks(40).enumerate() {
        world.receive(ours);
        world.poll();
        world.send(theirs, chunk);
        if number % 2 == 0 {
            world.until_sent(theirs);
        }
        world.pause(ours);
        world.until_noted(ours, &PAUSED);
        let seen = world.seen(ours);
        assert_eq!(seen.notes.last(), Some(&PAUSED), "nothing arrives behind the pause");
        seen.notes.clear();
        if number % 2 != 0 {
            world.until_sent(theirs);
        }
    }
    world.receive(ours);
    world.until_received(ours, bytes.len());
    assert_same(&world.seen(ours).received, &bytes);
}

pub(crate) fn cancel_race_loses_nothing_while_bytes_stream_in<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.pair(SMALL);
    world.hide_pauses(ours);
    let bytes = pattern(world.scale.bulk);
    let (mut pauses, mut next_pause) = (0, 0);
    world.receive(ours);
    world.send(theirs, &bytes);
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
            next_pause = received + (16 << 10);
            world.pause(ours);
        }
        received >= bytes.len()
    });
    world.until_sent(theirs);
    assert!(pauses > 0, "nothing was paused");
    assert_same(&world.seen(ours).received, &bytes);
}

pub(crate) fn a_paused_socket_stays_silent<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    let (other, others) = world.pair(SocketBuffers::default());
    world.receive(ours);
    world.receive(other);
    world.pause(ours);
    world.until_noted(ours, &PAUSED);
    world.send(theirs, b"wait");
    world.until_sent(theirs);
    // Sent later and delivered: what came before had its chance.
    world.carry(others, other, b"now");
    assert!(world.seen(ours).received.is_empty(), "nothing while paused");
    world.receive(ours);
    world.until_received(ours, 4);
}

pub(crate) fn pausing_what_does_not_receive_says_nothing<S: Stand>(world: &mut World<S>) {
    let (ours, _theirs) = world.pair(SocketBuffers::default());
    let before = world.seen(ours).notes.len();
    world.pause(ours);
    world.close_and_wait(ours);
    assert_eq!(world.seen(ours).notes[before..], [Note::Closed], "nothing else");
}

pub(crate) fn pausing_twice_is_told_once<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    world.receive(ours);
    world.pause(ours);
    world.pause(ours);
    world.until_noted(ours, &PAUSED);
    world.pause(ours);
    world.receive(ours);
    world.carry(theirs, ours, b"go on");
    let pauses = world.seen(ours).notes.iter().filter(|note| **note == PAUSED).count();
    assert_eq!(pauses, 1, "one for the receive that was stopped");
}

pub(crate) fn the_end_of_the_stream_is_told_although_a_pause_is_under_way<S: Stand>(
    world: &mut World<S>,
) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    world.hide_pauses(ours);
    world.receive(ours);
    world.poll();
    world.close(theirs);
    world.pause(ours);
    world.until(|world| matches!(world.seen(ours).notes.last(), Some(Note::Stopped(_))));
    if world.seen(ours).has(&PAUSED) {
        world.receive(ours);
    }
    world.until_noted(ours, &END_OF_STREAM);
}

pub(crate) fn the_end_of_the_stream_waits_behind_a_pause<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    world.receive(ours);
    world.pause(ours);
    world.until_noted(ours, &PAUSED);
    world.send(theirs, b"the last of it");
    world.until_sent(theirs);
    world.close_and_wait(theirs);
    assert!(!world.seen(ours).has(&END_OF_STREAM), "nothing while paused");
    world.receive(ours);
    world.until_noted(ours, &END_OF_STREAM);
    assert_eq!(world.seen(ours).received, b"the last of it", "before the end");
}
