//! What a driver promises, over a perfect network.

use rustix::io::Errno;
use zcore::ByteCount;

use super::lab::{Lab, Note, SMALL, address, batch, pattern};
use crate::driver::{Driver, Wake};
use crate::event::ReceiveStop;
use crate::op::{BufferGroup, Op};
use crate::sim::limits::{BUFFER_BYTES, PORT_FIRST};
use crate::sim::{Sim, SimFaults, SimOptions, SimSocket, SimWaker};
use crate::socket::{SocketAddress, SocketBuffers};
use static_assertions::assert_impl_all;

assert_impl_all!(Sim: Driver, Send);
assert_impl_all!(SimSocket: Send);
assert_impl_all!(SimWaker: Wake);

const END: Note = Note::Stopped(ReceiveStop::EndOfStream);
const PAUSED: Note = Note::Stopped(ReceiveStop::Paused);
const CANCELED: Note = Note::Sent(Err(Errno::CANCELED));

fn perfect() -> Lab {
    Lab::new(1, SimFaults::none())
}

#[test]
fn a_perfect_network_delivers_with_the_next_poll() {
    let mut lab = perfect();
    let (ours, theirs) = lab.connect();
    lab.server.receive(theirs);
    lab.dialer.send(ours, b"hello");
    assert_eq!(lab.turn(), 2, "one sent, one received");
    assert_eq!(lab.server.seen(theirs).received, b"hello", "as it was sent");
    assert!(lab.network.is_quiet(), "nothing is left");
    assert_eq!(lab.network.injected().total(), 0, "{}", lab.network.injected());
}

#[test]
fn ports_are_given_out_in_order() {
    let lab = perfect();
    assert_eq!(lab.address, address(PORT_FIRST), "the first");
    let second = lab.network.listen(&address(0), SMALL).unwrap();
    assert_eq!(second.local_address(), Some(address(PORT_FIRST + 1)), "the second");
    let taken = lab.network.listen(&lab.address, SMALL).unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse, "somebody listens");
    drop(second);
    lab.network.listen(&address(PORT_FIRST + 1), SMALL).unwrap();
}

#[test]
fn connecting_where_nobody_listens_is_refused() {
    let mut lab = perfect();
    let unix = |name: &str| SocketAddress::Unix(name.into());
    drop(lab.network.listen(&unix("/stale"), SMALL).unwrap());
    for (to, errno) in [
        (address(1), Errno::CONNREFUSED),
        (unix("/never"), Errno::NOENT),
        (unix("/stale"), Errno::CONNREFUSED),
        (unix(&"x".repeat(200)), Errno::NAMETOOLONG),
    ] {
        let ours = lab.dialer.dial(&to, SMALL);
        lab.settle();
        assert_eq!(lab.dialer.seen(ours).notes, [Note::Connected(Err(errno))], "{to}");
    }
}

#[test]
fn a_connection_waits_in_the_backlog_until_somebody_accepts() {
    let mut lab = perfect();
    let ours = lab.dialer.dial(&lab.address.clone(), SMALL);
    lab.dialer.send(ours, b"early");
    lab.settle();
    let [Note::Connected(Ok(())), Note::Sent(Ok(5))] = lab.dialer.seen(ours).notes[..] else {
        panic!("{:?}", lab.dialer.seen(ours).notes)
    };
    lab.accept();
    lab.settle();
    let theirs = lab.server.seen(lab.listener).accepted[0];
    lab.server.receive(theirs);
    lab.settle();
    assert_eq!(lab.server.seen(theirs).received, b"early", "it waited, too");
}

#[test]
fn a_full_pipe_takes_no_more_and_goes_on_when_it_is_read() {
    let mut lab = perfect();
    let (ours, theirs) = lab.connect();
    lab.dialer.send(ours, &pattern(20 << 10, 0));
    lab.settle();
    assert_eq!(lab.dialer.seen(ours).notes.last(), Some(&Note::Sent(Ok(12 << 10))), "4 + 8 KiB");
    assert!(!lab.dialer.resume(ours), "8 KiB are left");
    lab.settle();
    assert!(lab.dialer.seen(ours).is_sending(), "there is no room");
    assert_eq!(lab.network.connections()[0].queued, 12 << 10, "all of it is taken");
    lab.server.receive(theirs);
    lab.settle();
    assert_eq!(lab.server.seen(theirs).received, pattern(20 << 10, 0), "all of it");
}

#[test]
fn an_accepted_connection_has_the_buffers_that_its_accept_names() {
    let mut lab = perfect();
    let ours = lab.dialer.dial(&lab.address.clone(), SMALL);
    lab.dialer.send(ours, &pattern(12 << 10, 0));
    lab.settle();
    // Larger than those of the listener for one direction, and smaller for the other.
    let buffers = SocketBuffers { send: ByteCount::kib(1), receive: ByteCount::kib(24) };
    lab.server.push(Op::Accept { listener: lab.listener, buffers });
    lab.settle();
    let theirs = lab.server.seen(lab.listener).accepted[0];
    for (host, socket, room) in [(&mut lab.dialer, ours, 16), (&mut lab.server, theirs, 9)] {
        host.seen(socket).batch = None;
        host.send(socket, &pattern(64 << 10, 0));
        host.poll();
        let taken = Note::Sent(Ok(room << 10));
        assert_eq!(host.seen(socket).notes.last(), Some(&taken), "4 + 24 less 12, 1 + 8 KiB");
    }
}

#[test]
fn a_receive_stops_when_its_group_is_out_of_buffers_and_the_other_group_is_not() {
    let options = SimOptions { buffers: 1, ..SimOptions::default() };
    let mut lab = Lab::with(1, SimFaults::none(), options);
    let ((ours, theirs), (reply, reply_to)) = (lab.connect(), lab.connect());
    let (third, third_to) = lab.connect();
    for socket in [ours, reply, third] {
        lab.dialer.send(socket, b"data");
    }
    lab.dialer.poll();
    lab.server.receive(theirs);
    lab.server.push(Op::Receive { socket: reply_to, group: BufferGroup::Completion });
    lab.server.receive(third_to);
    lab.settle();
    assert_eq!(lab.server.seen(theirs).notes, [Note::Bytes(4)], "it took the buffer");
    assert_eq!(lab.server.seen(reply_to).notes, [Note::Bytes(4)], "it has buffers of its own");
    let none = Note::Stopped(ReceiveStop::NoBuffers);
    assert_eq!(lab.server.seen(third_to).notes, [none], "it came too late");
    lab.server.receive(third_to);
    lab.settle();
    assert_eq!(lab.server.seen(third_to).received, b"data", "nothing is lost");
    assert_eq!(lab.network.injected().total(), 0, "no fault is needed for it");
}

#[test]
fn bytes_come_in_pieces_of_a_buffer() {
    let mut lab = perfect();
    lab.accept();
    let ours = lab.dialer.dial(&lab.address.clone(), SocketBuffers::default());
    lab.dialer.send(ours, &pattern(BUFFER_BYTES + 1, 0));
    lab.settle();
    let theirs = lab.server.seen(lab.listener).accepted[0];
    lab.server.receive(theirs);
    lab.settle();
    let pieces = [Note::Bytes(BUFFER_BYTES), Note::Bytes(1)];
    assert_eq!(lab.server.seen(theirs).notes, pieces, "two");
}

#[test]
fn a_paused_socket_says_so_once_and_stays_silent() {
    let mut lab = perfect();
    let (ours, theirs) = lab.connect();
    lab.server.receive(theirs);
    lab.server.push(Op::PauseReceive { socket: theirs });
    lab.server.push(Op::PauseReceive { socket: theirs });
    lab.dialer.send(ours, b"wait");
    lab.settle();
    assert_eq!(lab.server.seen(theirs).notes, [PAUSED], "and no bytes");
    lab.server.push(Op::PauseReceive { socket: theirs });
    lab.settle();
    assert_eq!(lab.server.seen(theirs).notes, [PAUSED], "what does not receive is not paused");
    lab.server.receive(theirs);
    lab.settle();
    assert_eq!(lab.server.seen(theirs).received, b"wait", "nothing is lost");
}

#[test]
fn a_socket_at_the_end_of_its_stream_still_sends() {
    let mut lab = perfect();
    let (ours, theirs) = lab.connect();
    lab.server.receive(theirs);
    lab.dialer.send(ours, b"ask");
    // Behind the send that is in flight.
    lab.dialer.push(Op::ShutdownWrite { socket: ours });
    lab.settle();
    assert_eq!(lab.server.seen(theirs).notes, [Note::Bytes(3), END], "then the end");
    lab.server.receive(theirs);
    lab.server.send(theirs, b"answer");
    lab.dialer.receive(ours);
    lab.settle();
    assert_eq!(lab.dialer.seen(ours).received, b"answer", "after the end");
    assert_eq!(lab.server.seen(theirs).notes.last(), Some(&Note::Sent(Ok(6))), "no second end");
    lab.dialer.send(ours, b"too late");
    lab.settle();
    assert_eq!(lab.dialer.seen(ours).notes.last(), Some(&Note::Sent(Err(Errno::PIPE))), "shut");
}

#[test]
fn closing_with_nothing_in_flight_is_told_by_the_next_poll() {
    let mut lab = perfect();
    let (ours, theirs) = lab.connect();
    lab.server.receive(theirs);
    lab.settle();
    lab.dialer.close(ours);
    assert!(lab.dialer.driver.is_ready(), "there is something to report");
    assert_eq!(lab.dialer.poll(), 1, "this one event");
    assert_eq!(lab.dialer.seen(ours).notes.last(), Some(&Note::Closed), "closed");
    lab.settle();
    assert_eq!(lab.server.seen(theirs).notes, [END], "the peer reads to the end");
}

#[test]
fn closing_brings_the_batch_in_flight_back_before_it_is_closed() {
    let mut lab = perfect();
    let (ours, theirs) = lab.connect();
    lab.dialer.send(ours, &pattern(20 << 10, 0));
    lab.settle();
    lab.dialer.resume(ours);
    lab.dialer.receive(ours);
    lab.settle();
    lab.dialer.close(ours);
    lab.dialer.send(ours, b"late");
    lab.settle();
    let notes = &lab.dialer.seen(ours).notes;
    let [.., late, in_flight, closed] = &notes[..] else { panic!("{notes:?}") };
    assert_eq!([late, in_flight, closed], [&CANCELED, &CANCELED, &Note::Closed], "both are back");
    lab.server.receive(theirs);
    lab.settle();
    let seen = lab.server.seen(theirs);
    assert_eq!(seen.received.len(), 12 << 10, "what was taken is delivered");
    assert_eq!(seen.notes.last(), Some(&END), "and then the end");
}

#[test]
fn the_name_of_a_closed_socket_never_reaches_the_next_one_in_its_place() {
    let mut lab = perfect();
    let (old, _) = lab.connect();
    lab.dialer.receive(old);
    lab.dialer.close(old);
    lab.settle();
    let (new, theirs) = lab.connect();
    assert_eq!(new.slot(), old.slot(), "the same place");
    let driver = &mut lab.dialer.driver;
    driver.push(Op::Send { socket: old, batch: batch(b"SECRET") }).unwrap();
    driver.push(Op::Receive { socket: old, group: BufferGroup::Application }).unwrap();
    driver.push(Op::ShutdownWrite { socket: old }).unwrap();
    driver.push(Op::PauseReceive { socket: old }).unwrap();
    driver.push(Op::Close { socket: old }).unwrap();
    lab.server.receive(theirs);
    lab.dialer.send(new, b"mine");
    lab.settle();
    assert_eq!(lab.server.seen(theirs).received, b"mine", "and nothing of the old name's");
    assert_eq!(lab.dialer.seen(old).notes.last(), Some(&Note::Closed), "nothing under it");
}

#[test]
fn closing_a_listener_ends_its_accept_without_a_word_and_refuses_from_then_on() {
    let mut lab = perfect();
    lab.accept();
    lab.settle();
    lab.server.close(lab.listener);
    let late = lab.dialer.dial(&lab.address.clone(), SMALL);
    lab.settle();
    assert_eq!(lab.server.seen(lab.listener).notes, [Note::Closed], "nothing else");
    let refused = Note::Connected(Err(Errno::CONNREFUSED));
    assert_eq!(lab.dialer.seen(late).notes, [refused], "nobody listens");
}

#[test]
fn accepting_on_what_does_not_listen_stops() {
    let mut lab = perfect();
    let (_, theirs) = lab.connect();
    lab.server.push(Op::Accept { listener: theirs, buffers: SMALL });
    lab.settle();
    assert_eq!(lab.server.seen(theirs).notes, [Note::AcceptStopped(Errno::INVAL)], "EINVAL");
}

#[test]
fn a_connection_without_a_slot_is_closed_and_a_full_table_gives_the_socket_back() {
    let options = SimOptions { sockets_max: 2, ..SimOptions::default() };
    let mut lab = Lab::with(1, SimFaults::none(), options);
    lab.connect();
    let second = lab.dialer.dial(&lab.address.clone(), SMALL);
    lab.dialer.receive(second);
    lab.settle();
    let ended = [Note::Connected(Ok(())), END];
    assert_eq!(lab.dialer.seen(second).notes, ended, "the server has a listener and a peer");
    let socket = lab.network.listen(&address(0), SMALL).unwrap();
    let full = lab.dialer.driver.adopt(socket).unwrap_err();
    assert_eq!(full.sockets_max, 2, "as many as it was built for");
    let address = full.socket.local_address().unwrap();
    assert!(lab.network.listen(&address, SMALL).is_err(), "it is open still");
    drop(full);
    assert!(lab.network.listen(&address, SMALL).is_ok(), "dropped, it is closed");
}

#[test]
fn a_socket_moves_to_another_driver_when_nothing_is_in_flight() {
    let mut lab = perfect();
    let (ours, theirs) = lab.connect();
    lab.dialer.receive(ours);
    assert!(lab.dialer.driver.release(ours).is_none(), "a receive is in flight");
    lab.dialer.push(Op::PauseReceive { socket: ours });
    lab.settle();
    let socket = lab.dialer.driver.release(ours).unwrap();
    assert!(lab.dialer.driver.release(ours).is_none(), "its name is dead");
    let moved = lab.server.driver.adopt(socket).unwrap();
    lab.server.receive(moved);
    lab.server.send(theirs, b"over here");
    lab.settle();
    assert_eq!(lab.server.seen(moved).received, b"over here", "the same connection");
}

#[test]
fn dropping_a_driver_closes_its_sockets() {
    let mut lab = perfect();
    let (ours, _) = lab.connect();
    lab.dialer.receive(ours);
    lab.settle();
    let Lab { network, mut dialer, server, address, .. } = lab;
    drop(server);
    while dialer.poll() > 0 || !network.is_quiet() {}
    assert_eq!(dialer.seen(ours).notes.last(), Some(&END), "closed");
    assert!(network.listen(&address, SMALL).is_ok(), "nobody listens there any more");
    dialer.close(ours);
    assert_eq!(network.connections(), [], "and no end is left");
}

#[test]
fn a_wake_makes_ready_until_the_next_poll_or_park() {
    let mut lab = perfect();
    let waker = lab.dialer.driver.waker();
    assert!(lab.network.is_quiet(), "nothing has happened");
    waker.wake();
    assert!(lab.dialer.driver.is_ready() && !lab.network.is_quiet(), "woken");
    assert_eq!(lab.dialer.poll(), 0, "a wake is no event");
    assert!(!lab.dialer.driver.is_ready(), "it has done its work");
    waker.wake();
    lab.dialer.driver.park(None).unwrap();
    assert!(!lab.dialer.driver.is_ready(), "that is what it is for");
    drop(lab);
    waker.wake();
}

#[test]
fn no_more_operations_start_in_one_poll_than_the_queue_holds() {
    let options = SimOptions { submissions: 2, ..SimOptions::default() };
    let mut lab = Lab::with(1, SimFaults::none(), options);
    let dials: Vec<_> = (0..5).map(|_| lab.dialer.dial(&lab.address.clone(), SMALL)).collect();
    let polls: Vec<_> = (0..4).map(|_| lab.dialer.poll()).collect();
    assert_eq!(polls, [2, 2, 1, 0], "two at a time");
    assert_eq!(lab.dialer.driver.system_calls(), 3, "the last poll did nothing");
    let connected = Note::Connected(Ok(()));
    assert!(dials.iter().all(|dial| lab.dialer.seen(*dial).has(&connected)), "all in the end");
}
