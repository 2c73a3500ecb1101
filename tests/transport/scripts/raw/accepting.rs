//! What the kernel's listeners do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zcore::ByteCount;
use ztransport::driver::Driver;
use ztransport::socket::{self, SocketAddress, SocketBuffers};

use crate::seen::Note;
use crate::stand::Kernel;
use crate::world::World;

pub(crate) fn an_accepted_connection_is_set_up_as_was_asked_and_ends_with_an_exec<S: Kernel>(
    world: &mut World<S>,
) {
    let asked = SocketBuffers { send: ByteCount::kib(32), receive: ByteCount::kib(48) };
    let address = world.stand.tcp();
    let (listener, address) = world.listen(0, &address, asked);
    let (_, accepted) = world.connect_to(0, listener, &address, asked);
    let accepted = world.release(accepted).unwrap();
    let flags = rustix::io::fcntl_getfd(&accepted).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "closed on exec");
    let granted = socket::kernel_buffers(&accepted).unwrap();
    assert_eq!(granted.send, ByteCount::kib(64), "doubled by the kernel");
    assert_eq!(granted.receive, ByteCount::kib(96), "doubled by the kernel");
    assert!(sockopt::tcp_nodelay(&accepted).unwrap(), "sent at once");
    assert!(sockopt::socket_keepalive(&accepted).unwrap(), "watched");
    assert_eq!(sockopt::tcp_user_timeout(&accepted).unwrap(), 0, "as an Application lane");
}

pub(crate) fn accepting_stops_without_descriptors_and_goes_on_when_there_are_some<S: Kernel>(
    world: &mut World<S>,
) {
    // The limit is that of the whole process.
    if !world.is_alone(&[]) {
        return;
    }
    let address = world.stand.tcp();
    let (address, socket) = world.stand.listen(&address, SocketBuffers::default()).unwrap();
    let SocketAddress::Tcp(to) = address else { panic!("{address} is no TCP address") };
    let listener = world.adopt(0, socket);
    let _waiting = TcpStream::connect(to).unwrap();
    let before = getrlimit(Resource::Nofile);
    // What this program has open stays, and nothing more can be opened. A ring reads the limit when
    // it takes an accept, not when somebody comes.
    let none = Rlimit { current: Some(0), maximum: before.maximum };
    setrlimit(Resource::Nofile, none).unwrap();
    world.accept(listener, SocketBuffers::default());
    world.until_noted(listener, &Note::AcceptStopped(Errno::MFILE));
    setrlimit(Resource::Nofile, before).unwrap();
    assert!(!world.seen(listener).has(&Note::Accepted), "it waits in the backlog");
    world.accept(listener, SocketBuffers::default());
    world.until_noted(listener, &Note::Accepted);
}

pub(crate) fn connect_timeout_is_the_callers_and_closing_ends_the_attempt<S: Kernel>(
    world: &mut World<S>,
) {
    let (_deaf, address, _taken) = super::deaf();
    let connecting = world.open(0, &address, SocketBuffers::default());
    world.connect(connecting, address);
    world.until_quiet();
    assert!(world.seen(connecting).notes.is_empty(), "nobody answers");
    world.close_and_wait(connecting);
    assert_eq!(world.seen(connecting).notes, [Note::Closed], "and it was not connected");
}

/// A Unix listener whose backlog is full, and who fills it.
fn full_unix_listener<S: Kernel>(
    world: &World<S>,
) -> (UnixListener, SocketAddress, Vec<UnixStream>) {
    let address = world.stand.unix();
    let SocketAddress::Unix(path) = &address else { panic!("{address} is no path") };
    let listener = UnixListener::bind(path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let to = SocketAddrUnix::new(path.as_path()).unwrap();
    let mut taken = Vec::new();
    loop {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        match rustix::net::connect(&socket, &to) {
            Ok(()) => taken.push(socket.into()),
            Err(errno) => {
                assert_eq!(errno, Errno::AGAIN, "it is full");
                return (listener, address, taken);
            }
        }
    }
}

pub(crate) fn a_connect_waits_for_room_in_the_backlog_of_a_unix_listener<S: Kernel>(
    world: &mut World<S>,
) {
    let (listener, address, taken) = full_unix_listener(world);
    let connecting = world.open(0, &address, SocketBuffers::default());
    world.connect(connecting, address);
    world.until_quiet();
    assert!(world.seen(connecting).notes.is_empty(), "there is no room");
    for _ in &taken {
        listener.accept().unwrap();
    }
    world.until_noted(connecting, &Note::Connected(Ok(())));
    let (mut peer, _) = listener.accept().unwrap();
    world.receive(connecting);
    peer.write_all(b"welcome").unwrap();
    world.until_received(connecting, 7);
}

pub(crate) fn a_connect_that_waits_for_a_unix_listener_can_be_given_up<S: Kernel>(
    world: &mut World<S>,
) {
    let (_listener, address, _taken) = full_unix_listener(world);
    let connecting = world.open(0, &address, SocketBuffers::default());
    world.connect(connecting, address);
    world.until_quiet();
    world.close_and_wait(connecting);
    assert_eq!(world.seen(connecting).notes, [Note::Closed], "and nothing else");
}

pub(crate) fn a_peer_that_is_accepted_and_closed_reads_to_the_end<S: Kernel>(world: &mut World<S>) {
    let (listener, address) = world.tcp_listener();
    let mut peer = TcpStream::connect(address).unwrap();
    world.until_noted(listener, &Note::Accepted);
    let accepted = world.seen(listener).accepted[0];
    world.close(accepted);
    assert!(world.driver().is_ready(), "there is something to tell");
    world.until_noted(accepted, &Note::Closed);
    assert_eq!(peer.read(&mut [0; 8]).unwrap(), 0, "the end of the stream");
}
