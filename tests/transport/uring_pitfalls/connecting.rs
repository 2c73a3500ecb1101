//! Connecting and accepting.

use core::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use rustix::io::Errno;
use ztransport::driver::Driver;
use ztransport::op::Op;
use ztransport::socket::{self, SocketAddress, SocketBuffers};

use crate::support::{Note, World, tcp};

#[track_caller]
fn outcome(world: &mut World, address: SocketAddress) -> Result<(), Errno> {
    let connecting = socket::open_for(&address, SocketBuffers::default()).unwrap();
    let socket = world.driver.adopt(connecting).unwrap();
    world.push(Op::Connect { socket, address });
    world.until(|world| !world.seen(socket).notes.is_empty());
    let note = world.seen(socket).notes.pop();
    if let Some(Note::Connected(outcome)) = note { Ok(outcome) } else { Err(note) }.unwrap()
}

#[test]
fn connecting_to_a_port_that_nobody_listens_on_is_refused() {
    let Some(mut world) = World::new() else { return };
    // Bound, it keeps the port from whoever else opens a listener meanwhile.
    let bound = socket::open_for(&tcp(), SocketBuffers::default()).unwrap();
    rustix::net::bind(&bound, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket::local_address(&bound).unwrap();
    assert_eq!(outcome(&mut world, address), Err(Errno::CONNREFUSED), "nobody listens");
}

#[test]
fn connecting_to_a_path_that_does_not_exist_says_so() {
    let Some(mut world) = World::new() else { return };
    let address = SocketAddress::Unix(PathBuf::from("/nonexistent/zlink.sock"));
    assert_eq!(outcome(&mut world, address), Err(Errno::NOENT), "no such file");
}

#[test]
fn connecting_to_a_path_that_is_too_long_is_an_outcome_and_no_panic() {
    let Some(mut world) = World::new() else { return };
    let address = SocketAddress::Unix(PathBuf::from("x".repeat(200)));
    assert_eq!(outcome(&mut world, address), Err(Errno::NAMETOOLONG), "200 bytes");
}

#[test]
fn one_accept_takes_many_connections_none_of_which_survives_an_exec() {
    let Some(mut world) = World::new() else { return };
    let listening = socket::listen(&tcp(), SocketBuffers::default()).unwrap();
    let address = socket::local_address(&listening).unwrap();
    let listener = world.driver.adopt(listening).unwrap();
    world.accept(listener);
    let connections: Vec<_> = (0..24).map(|_| outcome(&mut world, address.clone())).collect();
    assert!(connections.iter().all(Result::is_ok), "all are connected");
    world.until(|world| world.seen(listener).accepted.len() == connections.len());
    for accepted in core::mem::take(&mut world.seen(listener).accepted) {
        let accepted = world.driver.release(accepted).unwrap();
        let flags = rustix::io::fcntl_getfd(&accepted).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "closed on exec");
    }
}

#[test]
fn accepting_on_what_does_not_listen_stops() {
    let Some(mut world) = World::new() else { return };
    let (ours, _peer) = world.connection(SocketBuffers::default());
    world.accept(ours);
    world.until_noted(ours, &Note::AcceptStopped(Errno::INVAL));
}

#[test]
fn a_full_table_gives_the_socket_back() {
    let Some(mut world) = World::new() else { return };
    let open = || socket::open_for(&tcp(), SocketBuffers::default()).unwrap();
    for _ in 0..64 {
        world.driver.adopt(open()).unwrap();
    }
    let full = world.driver.adopt(open()).unwrap_err();
    assert_eq!(full.sockets_max, 64, "as many as the driver was built for");
    assert!(rustix::io::fcntl_getfd(&full.socket).is_ok(), "still open");
}
