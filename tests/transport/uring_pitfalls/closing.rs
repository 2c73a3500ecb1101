//! Half-closed, lingering and closed sockets, and names that outlive them.

use std::io::{Read, Write};
use std::thread;

use ztransport::driver::Driver;
use ztransport::event::ReceiveStop;
use ztransport::op::Op;
use ztransport::socket::{self, SocketBuffers};

use crate::support::{Note, SMALL, World, assert_same, batch, pattern, tcp};

const END_OF_STREAM: Note = Note::Stopped(ReceiveStop::EndOfStream);

#[test]
fn a_socket_at_the_end_of_its_stream_still_sends() {
    let Some(mut world) = World::new() else { return };
    let (ours, mut peer) = world.connection(SocketBuffers::default());
    world.receive(ours);
    peer.write_all(b"ask").unwrap();
    peer.shutdown(std::net::Shutdown::Write).unwrap();
    world.until_noted(ours, &END_OF_STREAM);
    assert_eq!(world.seen(ours).received, b"ask", "before the end");
    world.send(ours, b"answer");
    world.until_noted(ours, &Note::Sent(Ok(6)));
    let mut answer = [0; 6];
    peer.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"answer", "after the end");
}

#[test]
fn a_graceful_close_delivers_everything_although_input_is_unread() {
    let Some(mut world) = World::new() else { return };
    let (ours, mut peer) = world.connection(SMALL);
    let bytes = pattern(200_000);
    // A plain close with this unread would reset the connection and cost the peer its rest.
    peer.write_all(&[7; 1_000]).unwrap();
    let reader = thread::spawn(move || {
        let mut all = Vec::new();
        peer.read_to_end(&mut all).unwrap();
        all
    });
    world.send(ours, &bytes);
    world.until(|world| world.resume(ours));
    world.push(Op::ShutdownWrite { socket: ours });
    world.receive(ours);
    world.until_noted(ours, &END_OF_STREAM);
    world.push(Op::Close { socket: ours });
    world.until_noted(ours, &Note::Closed);
    assert_same(&reader.join().unwrap(), &bytes);
}

#[test]
fn closing_while_a_receive_is_in_flight_sends_a_fin() {
    let Some(mut world) = World::new() else { return };
    let (ours, mut peer) = world.connection(SocketBuffers::default());
    world.receive(ours);
    world.poll();
    world.push(Op::Close { socket: ours });
    world.until_noted(ours, &Note::Closed);
    assert_eq!(world.seen(ours).notes, [Note::Closed], "and nothing else is reported");
    assert_eq!(peer.read(&mut [0; 8]).unwrap(), 0, "the peer reads to the end");
}

#[test]
fn closing_a_socket_with_nothing_in_flight_is_reported_by_the_next_poll() {
    let Some(mut world) = World::new() else { return };
    let (ours, mut peer) = world.connection(SocketBuffers::default());
    world.push(Op::Close { socket: ours });
    assert!(world.driver.is_ready(), "there is something to report");
    assert_eq!(world.poll(), 1, "one event");
    assert!(world.seen(ours).has(&Note::Closed), "this one");
    assert_eq!(peer.read(&mut [0; 8]).unwrap(), 0, "the peer reads to the end");
}

#[test]
fn closing_while_a_send_is_in_flight_brings_the_batch_back_first() {
    let Some(mut world) = World::new() else { return };
    let (ours, _peer) = world.full(|| batch(&pattern(8 << 20)));
    world.push(Op::Close { socket: ours });
    world.until_noted(ours, &Note::Closed);
    let seen = world.seen(ours);
    assert!(seen.batch.is_some(), "the batch is back");
    let [.., Note::Sent(outcome), Note::Closed] = seen.notes[..] else {
        panic!("{:?}", seen.notes)
    };
    assert!(outcome.is_err(), "none of it was sent");
}

#[test]
fn a_batch_for_a_socket_that_is_closing_comes_back() {
    let Some(mut world) = World::new() else { return };
    let (ours, _peer) = world.connection(SocketBuffers::default());
    world.receive(ours);
    world.poll();
    world.push(Op::Close { socket: ours });
    world.send(ours, b"late");
    world.until_noted(ours, &Note::Closed);
    assert_eq!(world.seen(ours).batch.take().unwrap().unsent(), 4, "whole");
}

#[test]
fn closing_a_listener_ends_its_accept_and_is_not_told_as_a_failure() {
    let Some(mut world) = World::new() else { return };
    let listening = socket::listen(&tcp(), SocketBuffers::default()).unwrap();
    let listener = world.driver.adopt(listening).unwrap();
    world.accept(listener);
    world.poll();
    world.push(Op::Close { socket: listener });
    world.until_noted(listener, &Note::Closed);
    assert_eq!(world.seen(listener).notes, [Note::Closed], "nothing else");
}

#[test]
fn the_name_of_a_closed_socket_never_reaches_the_next_one_in_its_place() {
    let Some(mut world) = World::new() else { return };
    let (old, _old_peer) = world.connection(SocketBuffers::default());
    world.receive(old);
    world.push(Op::Close { socket: old });
    world.until_noted(old, &Note::Closed);
    let (new, mut peer) = world.connection(SocketBuffers::default());
    assert_eq!(new.slot(), old.slot(), "the same place");
    world.receive(old);
    world.send(old, b"SECRET");
    world.push(Op::ShutdownWrite { socket: old });
    world.push(Op::PauseReceive { socket: old });
    world.push(Op::Close { socket: old });
    peer.write_all(b"hello").unwrap();
    world.receive(new);
    world.send(new, b"mine");
    world.push(Op::ShutdownWrite { socket: new });
    world.until_received(new, 5);
    let mut all = Vec::new();
    peer.read_to_end(&mut all).unwrap();
    assert_eq!(all, b"mine", "and nothing of the old name's");
    assert_eq!(world.seen(old).notes.last(), Some(&Note::Closed), "nothing more under it");
}

#[test]
fn sockets_that_come_and_go_in_one_place_never_see_each_others_bytes() {
    let Some(mut world) = World::new() else { return };
    for round in 0..200_u32 {
        let (ours, mut peer) = world.connection(SocketBuffers::default());
        world.receive(ours);
        // Now and then the bytes are under way when the socket is closed.
        peer.write_all(&round.to_le_bytes()).unwrap();
        if round % 2 == 0 {
            world.until_received(ours, 4);
            assert_eq!(world.seen(ours).received, round.to_le_bytes(), "its own");
        }
        world.push(Op::Close { socket: ours });
        if round % 3 == 0 {
            world.poll();
        } else {
            world.until_noted(ours, &Note::Closed);
        }
    }
    assert_eq!(world.driver.stale_completions(), 0, "every completion was expected");
}
