//! What is left of a connection when one of its ends goes: Linux's answers, one by one.

use rustix::io::Errno;

use super::lab::{Lab, Note, SMALL, pattern};
use crate::event::ReceiveStop;
use crate::op::Op;
use crate::sim::SimFaults;
use crate::token::SocketId;

const END: Note = Note::Stopped(ReceiveStop::EndOfStream);
const RESET: Note = Note::Stopped(ReceiveStop::Failed(Errno::CONNRESET));

fn perfect() -> Lab {
    Lab::new(1, SimFaults::none())
}

/// Sends some bytes. What became of that.
fn send(lab: &mut Lab, ours: SocketId) -> Result<usize, Errno> {
    lab.dialer.seen(ours).notes.clear();
    lab.dialer.send(ours, b"more");
    lab.settle();
    let note = lab.dialer.seen(ours).notes.pop();
    let Some(Note::Sent(outcome)) = note else { panic!("{note:?}") };
    outcome
}

/// Receives what there is. What became of that.
fn receive(lab: &mut Lab, ours: SocketId) -> Vec<Note> {
    lab.dialer.seen(ours).notes.clear();
    lab.dialer.receive(ours);
    lab.settle();
    core::mem::take(&mut lab.dialer.seen(ours).notes)
}

#[test]
fn the_first_send_to_a_peer_that_has_closed_is_taken_and_later_ones_fail() {
    let mut lab = perfect();
    let (ours, theirs) = lab.connect();
    lab.server.send(theirs, b"last");
    lab.settle();
    lab.server.close(theirs);
    assert_eq!(send(&mut lab, ours), Ok(4), "nobody knows yet");
    assert_eq!(send(&mut lab, ours), Err(Errno::PIPE), "now it is known");
    assert_eq!(send(&mut lab, ours), Err(Errno::PIPE), "and stays so");
    assert_eq!(receive(&mut lab, ours), [Note::Bytes(4), END], "what it said last is not lost");
}

#[test]
fn closing_with_unread_input_resets_and_the_peer_receives_what_had_arrived() {
    let mut lab = perfect();
    let (ours, theirs) = lab.connect();
    // The dialer's receive buffer holds 8 KiB of it, the rest is in the server's send buffer.
    lab.server.send(theirs, &pattern(10 << 10, 0));
    lab.dialer.send(ours, b"unread");
    lab.settle();
    lab.server.close(theirs);
    assert_eq!(receive(&mut lab, ours), [Note::Bytes(8 << 10), RESET], "the rest is lost");
    assert_eq!(send(&mut lab, ours), Err(Errno::PIPE), "the reset was told");
    assert_eq!(lab.dialer.seen(ours).received, pattern(8 << 10, 0), "in order");
}

#[test]
fn a_reset_is_told_once_to_whoever_comes_first() {
    let mut lab = perfect();
    let (ours, theirs) = lab.connect();
    lab.server.send(theirs, b"last");
    lab.dialer.send(ours, b"unread");
    lab.settle();
    lab.server.close(theirs);
    assert_eq!(send(&mut lab, ours), Err(Errno::CONNRESET), "the send is first");
    assert_eq!(send(&mut lab, ours), Err(Errno::PIPE), "told");
    assert_eq!(receive(&mut lab, ours), [Note::Bytes(4), END], "told");
}

#[test]
fn a_graceful_close_delivers_everything_although_the_peer_is_slow() {
    let mut lab = perfect();
    let (ours, theirs) = lab.connect();
    let bytes = pattern(64 << 10, 0);
    lab.dialer.send(ours, b"unread");
    lab.server.send(theirs, &bytes);
    lab.dialer.receive(ours);
    lab.until(|lab| lab.server.resume(theirs));
    lab.server.push(Op::ShutdownWrite { socket: theirs });
    lab.server.receive(theirs);
    lab.until(|lab| lab.dialer.seen(ours).has(&END));
    lab.dialer.close(ours);
    lab.until(|lab| lab.server.seen(theirs).has(&END));
    lab.server.close(theirs);
    lab.settle();
    assert_eq!(lab.dialer.seen(ours).received, bytes, "all of it");
    assert_eq!(lab.network.connections(), [], "over");
}

#[test]
fn an_end_of_stream_that_has_not_arrived_is_lost_with_the_bytes_before_it() {
    let mut lab = perfect();
    let (ours, theirs) = lab.connect();
    lab.server.send(theirs, &pattern(10 << 10, 0));
    lab.dialer.send(ours, b"unread");
    lab.settle();
    lab.server.push(Op::ShutdownWrite { socket: theirs });
    lab.server.close(theirs);
    assert_eq!(
        receive(&mut lab, ours),
        [Note::Bytes(8 << 10), RESET],
        "a stream that was cut short must not look complete"
    );
}

#[test]
fn a_reset_behind_an_end_of_stream_that_has_arrived_is_a_broken_pipe() {
    let mut lab = perfect();
    let (ours, theirs) = lab.connect();
    lab.dialer.send(ours, b"unread");
    lab.settle();
    lab.server.push(Op::ShutdownWrite { socket: theirs });
    lab.server.close(theirs);
    assert_eq!(receive(&mut lab, ours), [END], "the end came first");
    assert_eq!(send(&mut lab, ours), Err(Errno::PIPE), "a broken pipe");
}

#[test]
fn a_send_that_waits_for_room_fails_when_the_peer_goes() {
    let mut lab = perfect();
    let (ours, theirs) = lab.connect();
    lab.dialer.send(ours, &pattern(20 << 10, 0));
    lab.settle();
    lab.dialer.resume(ours);
    lab.settle();
    assert!(lab.dialer.seen(ours).is_sending(), "there is no room");
    lab.server.close(theirs);
    lab.settle();
    let failed = Note::Sent(Err(Errno::CONNRESET));
    assert_eq!(lab.dialer.seen(ours).notes.last(), Some(&failed), "12 KiB are unread");
}

#[test]
fn connections_that_nobody_accepted_are_reset_with_their_listener() {
    let mut lab = perfect();
    let ours = lab.dialer.dial(&lab.address.clone(), SMALL);
    lab.dialer.receive(ours);
    lab.settle();
    lab.server.close(lab.listener);
    lab.settle();
    assert_eq!(lab.dialer.seen(ours).notes, [Note::Connected(Ok(())), RESET], "reset");
    lab.dialer.close(ours);
    assert_eq!(lab.network.connections(), [], "over");
}

#[test]
fn what_is_not_connected_neither_sends_nor_receives() {
    let mut lab = perfect();
    let ours = lab.dialer.open(SMALL);
    assert_eq!(send(&mut lab, ours), Err(Errno::PIPE), "EPIPE");
    let unconnected = Note::Stopped(ReceiveStop::Failed(Errno::NOTCONN));
    assert_eq!(receive(&mut lab, ours), [unconnected], "ENOTCONN");
    let connected = lab.dialer.dial(&lab.address.clone(), SMALL);
    lab.settle();
    lab.dialer.seen(connected).notes.clear();
    lab.dialer.push(Op::Connect { socket: connected, address: lab.address.clone() });
    lab.settle();
    let twice = Note::Connected(Err(Errno::ISCONN));
    assert_eq!(lab.dialer.seen(connected).notes, [twice], "EISCONN");
}
