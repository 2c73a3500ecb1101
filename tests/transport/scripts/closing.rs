//! Half-closed, lingering and closed sockets, and names that outlive them.

use ztransport::driver::Driver;
use ztransport::op::{BufferGroup, Op};
use ztransport::socket::SocketBuffers;

use crate::seen::{END_OF_STREAM, Note, RESET};
use crate::stand::Stand;
use crate::world::{SMALL, World, assert_same, batch, pattern};

pub(crate) fn half_close_still_sends_at_the_end_of_the_stream<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    world.receive(ours);
    world.receive(theirs);
    world.carry(theirs, ours, b"ask");
    world.shutdown(theirs);
    world.until_noted(ours, &END_OF_STREAM);
    assert_eq!(world.seen(ours).received, b"ask", "before the end");
    world.carry(ours, theirs, b"answer");
    world.shutdown(ours);
    world.until_noted(theirs, &END_OF_STREAM);
    assert_eq!(world.seen(theirs).received, b"answer", "after the end");
}

pub(crate) fn half_close_is_told_once<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    world.receive(ours);
    world.shutdown(theirs);
    world.until_noted(ours, &END_OF_STREAM);
    // A stream does not begin again: this is ignored.
    world.receive(ours);
    world.receive(theirs);
    world.carry(ours, theirs, b"still here");
    world.close_and_wait(ours);
    world.until_noted(theirs, &END_OF_STREAM);
    let ends = world.seen(ours).notes.iter().filter(|note| **note == END_OF_STREAM).count();
    assert_eq!(ends, 1, "the end of the stream");
}

pub(crate) fn linger_delivers_everything_although_input_is_unread<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.pair(SMALL);
    let bytes = pattern(200_000);
    // A plain close with this unread would reset the connection and cost the peer its rest.
    world.send(theirs, &[7; 1_000]);
    world.until_sent(theirs);
    world.receive(theirs);
    world.send(ours, &bytes);
    world.until_sent(ours);
    world.shutdown(ours);
    world.until_noted(theirs, &END_OF_STREAM);
    world.shutdown(theirs);
    world.receive(ours);
    world.until_noted(ours, &END_OF_STREAM);
    world.close_and_wait(ours);
    assert_same(&world.seen(theirs).received, &bytes);
}

pub(crate) fn closing_while_a_receive_is_in_flight_sends_a_fin<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    world.receive(ours);
    world.receive(theirs);
    world.poll();
    let before = world.seen(ours).notes.len();
    world.close_and_wait(ours);
    assert_eq!(world.seen(ours).notes[before..], [Note::Closed], "and nothing else is reported");
    world.until_noted(theirs, &END_OF_STREAM);
}

pub(crate) fn closing_while_a_send_is_in_flight_brings_the_batch_back_first<S: Stand>(
    world: &mut World<S>,
) {
    let (ours, _theirs) = world.full_pair(&pattern(world.scale.bulk));
    world.close_and_wait(ours);
    let seen = world.seen(ours);
    assert!(seen.batch.take().unwrap().unsent() > 0, "what is left of the batch is back");
    let before = &seen.notes[seen.notes.len() - 2];
    assert!(matches!(before, Note::Sent(Err(_))), "{before:?} is that none of it was sent");
}

pub(crate) fn a_batch_for_a_socket_that_is_closing_comes_back<S: Stand>(world: &mut World<S>) {
    let (ours, _theirs) = world.full_pair(&pattern(world.scale.bulk));
    world.close(ours);
    world.until_sent(ours);
    // Some drivers say that it is closed in the same breath.
    world.hide_writes(ours);
    if !world.seen(ours).has(&Note::Closed) {
        world.send(ours, b"late");
        world.until_noted(ours, &Note::Closed);
        assert_eq!(world.seen(ours).batch.take().unwrap().unsent(), 4, "whole");
    }
}

pub(crate) fn closing_a_listener_ends_its_accept_and_is_not_told_as_a_failure<S: Stand>(
    world: &mut World<S>,
) {
    let address = world.stand.tcp();
    let (listener, _) = world.listen(0, &address, SocketBuffers::default());
    world.poll();
    world.close_and_wait(listener);
    assert_eq!(world.seen(listener).notes, [Note::Closed], "nothing else");
}

pub(crate) fn closing_a_listener_resets_who_waits_in_its_backlog<S: Stand>(world: &mut World<S>) {
    let address = world.stand.tcp();
    let (address, socket) = world.stand.listen(&address, SocketBuffers::default()).unwrap();
    let listener = world.adopt(0, socket);
    let waiting = world.open(0, &address, SocketBuffers::default());
    world.connect(waiting, address);
    world.until_noted(waiting, &Note::Connected(Ok(())));
    world.receive(waiting);
    world.close_and_wait(listener);
    world.until_noted(waiting, &RESET);
}

pub(crate) fn closing_with_input_unread_resets_the_peer<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    world.receive(ours);
    world.send(ours, b"nobody reads this");
    world.until_sent(ours);
    world.close_and_wait(theirs);
    world.until_noted(ours, &RESET);
}

pub(crate) fn closing_twice_is_told_once<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    world.hide_reads(theirs);
    for end in [ours, theirs] {
        world.receive(end);
        world.poll();
        world.close(end);
        world.close(end);
        world.until_noted(end, &Note::Closed);
        world.close(end);
    }
    world.poll();
    let closed = |notes: &[Note]| notes.iter().filter(|note| **note == Note::Closed).count();
    assert_eq!(closed(&world.seen(ours).notes), 1, "once");
    assert_eq!(closed(&world.seen(theirs).notes), 1, "once");
}

pub(crate) fn fd_reuse_never_gives_a_socket_what_was_meant_for_the_one_before<S: Stand>(
    world: &mut World<S>,
) {
    let address = world.stand.tcp();
    let (listener, address) = world.listen(0, &address, SocketBuffers::default());
    let (old, _) = world.connect_to(0, listener, &address, SocketBuffers::default());
    world.receive(old);
    world.close_and_wait(old);
    let notes = world.seen(old).notes.len();
    let (new, theirs) = world.connect_to(0, listener, &address, SocketBuffers::default());
    assert_eq!(new.id.slot(), old.id.slot(), "the same place");
    assert_ne!(new.id, old.id, "another name");
    world.receive(theirs);
    let stale = [
        Op::Receive { socket: old.id, group: BufferGroup::Application },
        Op::Send { socket: old.id, batch: batch(b"SECRET") },
        Op::ShutdownWrite { socket: old.id },
        Op::PauseReceive { socket: old.id },
        Op::Close { socket: old.id },
    ];
    for op in stale {
        world.push(0, op);
    }
    assert!(world.driver().release(old.id).is_none(), "nothing to give away under it");
    world.receive(new);
    world.carry(theirs, new, b"hello");
    world.carry(new, theirs, b"mine");
    world.shutdown(new);
    world.until_noted(theirs, &END_OF_STREAM);
    assert_eq!(world.seen(theirs).received, b"mine", "and nothing of the old name's");
    assert_eq!(world.seen(old).notes.len(), notes, "nothing more under it");
}

pub(crate) fn sockets_that_come_and_go_in_one_place_never_see_each_others_bytes<S: Stand>(
    world: &mut World<S>,
) {
    let address = world.stand.tcp();
    let (listener, address) = world.listen(0, &address, SocketBuffers::default());
    for round in 0..100_u32 {
        let (ours, theirs) = world.connect_to(0, listener, &address, SocketBuffers::default());
        world.receive(ours);
        // Now and then the bytes are under way when the socket is closed.
        world.send(theirs, &round.to_le_bytes());
        world.until_sent(theirs);
        if round % 2 != 0 {
            world.hide_reads(ours);
        } else {
            world.until_received(ours, 4);
            assert_eq!(world.seen(ours).received, round.to_le_bytes(), "its own");
        }
        world.close(ours);
        if round % 3 == 0 {
            world.poll();
        } else {
            world.until_noted(ours, &Note::Closed);
        }
        world.close(theirs);
        let received = &world.seen(ours).received;
        assert!(round.to_le_bytes().starts_with(received), "its own, or a part of that");
    }
}
