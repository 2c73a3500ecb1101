//! A socket moves from one driver to another.

use ztransport::op::Op;
use ztransport::socket::SocketBuffers;

use crate::seen::{END_OF_STREAM, Note, PAUSED};
use crate::stand::{Size, Stand};
use crate::world::{World, pattern};

pub(crate) fn a_released_socket_brings_the_bytes_that_wait_in_it<S: Stand>(world: &mut World<S>) {
    let other = world.add_sized(Size::default());
    let (ours, theirs) = world.pair(SocketBuffers::default());
    world.receive(theirs);
    world.carry(ours, theirs, b"who I am");
    world.pause(theirs);
    world.until_noted(theirs, &PAUSED);
    world.send(ours, b", and what I want");
    world.until_sent(ours);
    let socket = world.release(theirs).unwrap();
    let moved = world.adopt(other, socket);
    world.receive(moved);
    world.until_received(moved, 17);
    assert_eq!(world.seen(moved).received, b", and what I want", "none is lost and none twice");
    world.receive(ours);
    world.carry(moved, ours, b"from elsewhere");
    world.close_and_wait(moved);
    world.until_noted(ours, &END_OF_STREAM);
}

pub(crate) fn a_socket_with_something_in_flight_is_not_released<S: Stand>(world: &mut World<S>) {
    let (ours, theirs) = world.pair(SocketBuffers::default());
    world.receive(theirs);
    assert!(world.release(theirs).is_none(), "it receives");
    world.pause(theirs);
    world.until_noted(theirs, &PAUSED);
    let (full, _reader) = world.full_pair(&pattern(world.scale.bulk));
    assert!(world.release(full).is_none(), "it sends");
    let address = world.stand.tcp();
    let (listener, _) = world.listen(0, &address, SocketBuffers::default());
    assert!(world.release(listener).is_none(), "it accepts");
    let socket = world.release(theirs).unwrap();
    assert!(world.release(theirs).is_none(), "it is gone already");
    let again = world.adopt(0, socket);
    world.receive(again);
    world.carry(ours, again, b"the same connection");
}

pub(crate) fn the_name_of_a_released_socket_is_dead<S: Stand>(world: &mut World<S>) {
    let other = world.add_sized(Size::default());
    let (ours, theirs) = world.pair(SocketBuffers::default());
    let socket = world.release(theirs).unwrap();
    let notes = world.seen(theirs).notes.len();
    world.push(0, Op::Close { socket: theirs.id });
    world.poll();
    let moved = world.adopt(other, socket);
    world.receive(moved);
    world.carry(ours, moved, b"it was not closed");
    assert_eq!(world.seen(theirs).notes.len(), notes, "nothing more under the old name");
    assert!(!world.seen(theirs).has(&Note::Closed), "least of all that it was closed");
}

pub(crate) fn a_listener_moves_with_the_connections_that_wait_for_it<S: Stand>(
    world: &mut World<S>,
) {
    let other = world.add_sized(Size::default());
    let address = world.stand.tcp();
    let (address, socket) = world.stand.listen(&address, SocketBuffers::default()).unwrap();
    let first = world.adopt(0, socket);
    let waiting = world.open(0, &address, SocketBuffers::default());
    world.connect(waiting, address);
    world.until_noted(waiting, &Note::Connected(Ok(())));
    let socket = world.release(first).unwrap();
    let listener = world.adopt(other, socket);
    world.accept(listener, SocketBuffers::default());
    world.until_noted(listener, &Note::Accepted);
    let accepted = world.seen(listener).accepted[0];
    world.receive(accepted);
    world.carry(waiting, accepted, b"here");
}
