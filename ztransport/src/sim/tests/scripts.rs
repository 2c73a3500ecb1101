//! What a script does to a network on purpose.

use rustix::io::Errno;

use super::lab::{Lab, Note, SMALL};
use crate::event::ReceiveStop;
use crate::sim::{SimFaults, Way};
use crate::token::SocketId;

const END: Note = Note::Stopped(ReceiveStop::EndOfStream);
const RESET: Note = Note::Stopped(ReceiveStop::Failed(Errno::CONNRESET));
const SENT: Note = Note::Sent(Ok(1));

/// A connection whose ends both receive.
fn connected() -> (Lab, SocketId, SocketId) {
    let mut lab = Lab::new(1, SimFaults::none());
    let (ours, theirs) = lab.connect();
    lab.dialer.receive(ours);
    lab.server.receive(theirs);
    lab.settle();
    lab.dialer.seen(ours).notes.clear();
    (lab, ours, theirs)
}

/// Both ends send a byte. Whether it arrived: at the dialer, at the server.
fn exchange(lab: &mut Lab, ours: SocketId, theirs: SocketId) -> (bool, bool) {
    for (host, socket) in [(&mut lab.dialer, ours), (&mut lab.server, theirs)] {
        host.seen(socket).batch = None;
        host.seen(socket).received.clear();
        host.send(socket, b"x");
    }
    lab.settle();
    let arrived = |seen: &super::lab::Seen| !seen.received.is_empty();
    (arrived(lab.dialer.seen(ours)), arrived(lab.server.seen(theirs)))
}

#[test]
fn a_connection_is_known_by_who_dialed_and_where() {
    let (lab, ..) = connected();
    let [connection] = &lab.network.connections()[..] else { panic!("one") };
    assert_eq!(connection.dialer, lab.dialer.driver.id(), "who");
    assert_eq!(connection.address, lab.address, "where");
    assert_eq!(connection.queued, 0, "nothing is on its way");
}

#[test]
fn each_direction_is_held_back_by_itself_and_delivered_later() {
    for (way, expected) in [
        (Way::ToAcceptor, (true, false)),
        (Way::ToDialer, (false, true)),
        (Way::Both, (false, false)),
    ] {
        let (mut lab, ours, theirs) = connected();
        let connection = lab.network.connections()[0].id;
        lab.network.hold(connection, way);
        assert_eq!(exchange(&mut lab, ours, theirs), expected, "{way:?}");
        assert!(lab.network.is_quiet(), "what a script holds back is not in transit");
        lab.network.resume(connection);
        assert!(!lab.network.is_quiet(), "now it is");
        lab.settle();
        assert_eq!(lab.dialer.seen(ours).received, b"x", "{way:?}: late, but there");
        assert_eq!(lab.server.seen(theirs).received, b"x", "{way:?}: late, but there");
        assert_eq!(lab.network.connections()[0].queued, 0, "{way:?}: once");
    }
}

#[test]
fn an_end_and_a_reset_are_held_back_like_bytes() {
    let (mut lab, ours, theirs) = connected();
    let connection = lab.network.connections()[0].id;
    lab.network.hold(connection, Way::Both);
    exchange(&mut lab, ours, theirs);
    lab.server.close(theirs);
    lab.settle();
    assert_eq!(lab.dialer.seen(ours).notes, [SENT], "it knows nothing");
    assert_eq!(exchange_one(&mut lab, ours), SENT, "and sends on");
    lab.network.resume(connection);
    lab.settle();
    let notes = &lab.dialer.seen(ours).notes;
    assert_eq!(notes[..], [SENT, SENT, Note::Bytes(1), END], "what was said, and the end");
    let broken = Note::Sent(Err(Errno::PIPE));
    assert_eq!(exchange_one(&mut lab, ours), broken, "its bytes met a closed end");
}

fn exchange_one(lab: &mut Lab, ours: SocketId) -> Note {
    lab.dialer.seen(ours).batch = None;
    lab.dialer.send(ours, b"x");
    lab.settle();
    lab.dialer.seen(ours).notes.last().unwrap().clone()
}

#[test]
fn a_sender_whose_peer_is_cut_off_notices_when_the_buffers_are_full() {
    let (mut lab, ours, _) = connected();
    let connection = lab.network.connections()[0].id;
    lab.network.hold(connection, Way::ToAcceptor);
    lab.dialer.send(ours, &[0; 12 << 10]);
    lab.settle();
    lab.dialer.resume(ours);
    lab.dialer.send(ours, b"x");
    lab.settle();
    assert!(lab.dialer.seen(ours).is_sending(), "4 + 8 KiB are all there is");
    lab.network.resume(connection);
    lab.settle();
    assert_eq!(lab.dialer.seen(ours).notes.last(), Some(&SENT), "it goes on");
}

#[test]
fn a_connection_is_reset_on_demand() {
    let (mut lab, ours, theirs) = connected();
    lab.network.reset(lab.network.connections()[0].id);
    lab.settle();
    assert_eq!(lab.dialer.seen(ours).notes, [RESET], "for the one");
    assert_eq!(lab.server.seen(theirs).notes.last(), Some(&RESET), "and for the other");
    assert_eq!(lab.network.injected().total(), 0, "a script is no fault");
}

#[test]
fn a_reset_reaches_a_held_side_when_it_is_let_go() {
    let (mut lab, ours, theirs) = connected();
    let connection = lab.network.connections()[0].id;
    lab.network.hold(connection, Way::ToDialer);
    lab.network.reset(connection);
    lab.settle();
    assert_eq!(lab.server.seen(theirs).notes.last(), Some(&RESET), "one side knows");
    assert_eq!(exchange_one(&mut lab, ours), SENT, "the other does not, and sends into the void");
    lab.network.resume(connection);
    lab.settle();
    assert_eq!(lab.dialer.seen(ours).notes[..], [SENT, RESET], "now it does");
}

#[test]
fn a_cut_holds_old_connections_back_and_leaves_new_ones_without_an_answer() {
    let (mut lab, ours, theirs) = connected();
    let (dialer, address) = (lab.dialer.driver.id(), lab.address.clone());
    lab.network.cut(dialer, &address, Way::ToDialer);
    assert_eq!(exchange(&mut lab, ours, theirs), (false, true), "one way");
    let late = lab.dialer.dial(&address, SMALL);
    lab.settle();
    assert!(lab.dialer.seen(late).notes.is_empty(), "no answer, not even a refusal");
    // Whoever else dials is not cut off.
    let other = lab.server.dial(&address, SMALL);
    lab.settle();
    assert_eq!(lab.server.seen(other).notes, [Note::Connected(Ok(()))], "another driver");
    lab.network.mend(dialer, &address);
    lab.settle();
    assert_eq!(lab.dialer.seen(ours).received, b"x", "delivered late");
    assert_eq!(lab.dialer.seen(late).notes, [Note::Connected(Ok(()))], "connected late");
}

#[test]
fn a_connect_that_is_cut_off_can_be_given_up() {
    let (mut lab, ..) = connected();
    let (dialer, address) = (lab.dialer.driver.id(), lab.address.clone());
    lab.network.cut(dialer, &address, Way::Both);
    let late = lab.dialer.dial(&address, SMALL);
    lab.settle();
    lab.dialer.close(late);
    lab.settle();
    assert_eq!(lab.dialer.seen(late).notes, [Note::Closed], "nothing else");
    lab.network.mend(dialer, &address);
    lab.settle();
    assert_eq!(lab.network.connections().len(), 1, "and it was never made");
}
