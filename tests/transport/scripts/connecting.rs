//! Connecting and accepting.

use std::path::PathBuf;

use rustix::io::Errno;
use ztransport::driver::{Driver, SocketSetup};
use ztransport::socket::{SocketAddress, SocketBuffers, Watch};

use crate::seen::{END_OF_STREAM, Note};
use crate::stand::{Size, Stand};
use crate::world::World;

#[track_caller]
fn outcome<S: Stand>(world: &mut World<S>, address: SocketAddress) -> Result<(), Errno> {
    let connecting = world.open(0, &address, SocketBuffers::default());
    world.connect(connecting, address);
    let mut told = None;
    world.until(|world| {
        told = world.seen(connecting).notes.iter().find_map(Note::connected);
        told.is_some()
    });
    told.unwrap()
}

pub(crate) fn connecting_to_a_port_that_nobody_listens_on_is_refused<S: Stand>(
    world: &mut World<S>,
) {
    let address = world.stand.nobody();
    assert_eq!(outcome(world, address), Err(Errno::CONNREFUSED), "nobody listens");
}

pub(crate) fn connecting_to_a_path_that_does_not_exist_says_so<S: Stand>(world: &mut World<S>) {
    let address = SocketAddress::Unix(PathBuf::from("/nonexistent/zlink.sock"));
    assert_eq!(outcome(world, address), Err(Errno::NOENT), "no such file");
}

pub(crate) fn connecting_to_a_path_that_is_too_long_is_an_outcome_and_no_panic<S: Stand>(
    world: &mut World<S>,
) {
    let address = SocketAddress::Unix(PathBuf::from("x".repeat(200)));
    assert_eq!(outcome(world, address), Err(Errno::NAMETOOLONG), "200 bytes");
}

pub(crate) fn connecting_where_a_listener_was_is_refused<S: Stand>(world: &mut World<S>) {
    let address = world.stand.tcp();
    let (listener, address) = world.listen(0, &address, SocketBuffers::default());
    world.close_and_wait(listener);
    assert_eq!(outcome(world, address), Err(Errno::CONNREFUSED), "nobody listens any more");
}

pub(crate) fn one_accept_takes_many_connections<S: Stand>(world: &mut World<S>) {
    let address = world.stand.tcp();
    let (listener, address) = world.listen(0, &address, SocketBuffers::default());
    for _ in 0..24 {
        assert_eq!(outcome(world, address.clone()), Ok(()), "connected");
    }
    world.until(|world| world.seen(listener).accepted.len() == 24);
    world.seen(listener).accepted.dedup();
    assert_eq!(world.seen(listener).accepted.len(), 24, "each is another one");
}

pub(crate) fn connections_that_came_before_the_accept_are_taken<S: Stand>(world: &mut World<S>) {
    let address = world.stand.tcp();
    let (address, socket) = world.stand.listen(&address, SocketBuffers::default()).unwrap();
    let listener = world.adopt(0, socket);
    for _ in 0..3 {
        assert_eq!(outcome(world, address.clone()), Ok(()), "connected");
    }
    world.accept(listener, SocketBuffers::default());
    world.until(|world| world.seen(listener).accepted.len() == 3);
}

pub(crate) fn accepting_on_what_does_not_listen_stops<S: Stand>(world: &mut World<S>) {
    let (ours, _theirs) = world.pair(SocketBuffers::default());
    world.accept(ours, SocketBuffers::default());
    world.until_noted(ours, &Note::AcceptStopped(Errno::INVAL));
}

pub(crate) fn a_full_table_gives_the_socket_back<S: Stand>(world: &mut World<S>) {
    let small = world.add_sized(Size { sockets_max: 4, ..Size::default() });
    let listen = |world: &mut World<S>| {
        let address = world.stand.tcp();
        world.stand.listen(&address, SocketBuffers::default()).unwrap().1
    };
    for _ in 0..4 {
        let socket = listen(world);
        let end = world.adopt(small, socket);
        world.seen(end);
    }
    let one_more = listen(world);
    let full = world.driver_at(small).adopt(one_more).unwrap_err();
    assert_eq!(full.sockets_max, 4, "as many as the driver was built for");
    let setup = SocketSetup { buffers: SocketBuffers::default(), watch: Watch::Application };
    let address = world.stand.tcp();
    let refused = world.driver_at(small).open(&address, setup).unwrap_err();
    assert_eq!(Errno::from_io_error(&refused), Some(Errno::MFILE), "nor is one opened");
    // It is a whole socket still.
    let end = world.adopt(0, full.socket);
    world.accept(end, SocketBuffers::default());
}

pub(crate) fn a_connection_that_finds_a_full_table_is_closed_and_a_later_one_is_taken<S: Stand>(
    world: &mut World<S>,
) {
    let small = world.add_sized(Size { sockets_max: 2, ..Size::default() });
    let address = world.stand.tcp();
    let (listener, address) = world.listen(small, &address, SocketBuffers::default());
    let (_, first) = world.connect_to(0, listener, &address, SocketBuffers::default());
    let turned_away = world.open(0, &address, SocketBuffers::default());
    world.connect(turned_away, address.clone());
    world.until_noted(turned_away, &Note::Connected(Ok(())));
    world.receive(turned_away);
    world.until_noted(turned_away, &END_OF_STREAM);
    world.close_and_wait(first);
    let (ours, theirs) = world.connect_to(0, listener, &address, SocketBuffers::default());
    world.receive(theirs);
    world.carry(ours, theirs, b"room again");
}
