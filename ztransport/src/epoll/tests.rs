//! What the driver does that no peer sees.

use super::{Epoll, EpollOptions, EpollUnavailable, EpollWaker, limits};
use crate::batch::Batch;
use crate::driver::{Driver, SocketSetup, Wake};
use crate::event::{Event, ReceiveStop};
use crate::op::{BufferGroup, Op};
use crate::socket::{self, SocketAddress, SocketBuffers, Watch};
use crate::token::SocketId;
use bytes::Bytes;
use core::time::Duration;
use rustix::io::Errno;
use rustix::net::SendFlags;
use static_assertions::assert_impl_all;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

assert_impl_all!(Epoll: Driver);
assert_impl_all!(EpollWaker: Wake);

fn driver() -> Epoll {
    Epoll::new(EpollOptions { sockets_max: 16 }).unwrap()
}

fn connection(epoll: &mut Epoll) -> (SocketId, UnixStream) {
    let (ours, peer) = UnixStream::pair().unwrap();
    (epoll.adopt(ours.into()).unwrap(), peer)
}

fn receive(epoll: &mut Epoll, socket: SocketId) {
    epoll.push(Op::Receive { socket, group: BufferGroup::Application }).unwrap();
}

fn send(epoll: &mut Epoll, socket: SocketId, bytes: &[u8]) {
    let mut batch = Batch::default();
    batch.push_segment(Bytes::copy_from_slice(bytes));
    epoll.push(Op::Send { socket, batch }).unwrap();
}

/// One poll: how many bytes each socket received, in order, and the other events.
fn poll(epoll: &mut Epoll) -> (Vec<(SocketId, usize)>, Vec<String>) {
    let (mut received, mut others): (Vec<(SocketId, usize)>, _) = (Vec::new(), Vec::new());
    let count = |event: Event<'_>| match event {
        Event::Received { socket, bytes } => match received.last_mut() {
            Some((last, length)) if *last == socket => *length += bytes.len(),
            Some(_) | None => received.push((socket, bytes.len())),
        },
        event @ (Event::Accepted { .. }
        | Event::AcceptStopped { .. }
        | Event::Connected { .. }
        | Event::ReceiveStopped { .. }
        | Event::Sent { .. }
        | Event::Closed { .. }) => others.push(format!("{event:?}")),
    };
    epoll.poll(count).unwrap();
    (received, others)
}

/// Writes until the kernel takes no more.
fn fill(peer: &mut UnixStream) -> usize {
    peer.set_nonblocking(true).unwrap();
    let mut written = 0;
    loop {
        match peer.write(&[7; 16 << 10]) {
            Ok(bytes) => written += bytes,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "full");
                return written;
            }
        }
    }
}

#[test]
fn an_option_out_of_range_is_named() {
    for sockets_max in [0, 1 << 24] {
        let refused = Epoll::new(EpollOptions { sockets_max }).map(drop).unwrap_err();
        let text = refused.to_string();
        assert_eq!(text, format!("`sockets_max` is {sockets_max}, must be 1 to 16777215"));
    }
}

#[test]
fn each_text_names_its_remedy() {
    for (cause, remedy) in [
        (EpollUnavailable::from(Errno::MFILE), "ulimit -n"),
        (EpollUnavailable::from(Errno::NFILE), "ulimit -n"),
        (EpollUnavailable::from(Errno::NOMEM), "uname -r"),
    ] {
        let text = cause.to_string();
        assert!(text.contains(remedy), "{text}");
        assert!(text.starts_with(char::is_lowercase), "{text}");
        assert!(!text.ends_with('.'), "{text}");
    }
}

#[test]
fn what_the_kernel_does_not_watch_fails_and_does_not_wait() {
    let mut epoll = driver();
    let file = epoll.adopt(plain_file().into()).unwrap();
    receive(&mut epoll, file);
    send(&mut epoll, file, b"x");
    epoll.push(Op::Accept { listener: file, buffers: SocketBuffers::default() }).unwrap();
    assert!(epoll.is_ready(), "it is known at once");
    let (_, said) = poll(&mut epoll);
    let failed = format!("{:?}", ReceiveStop::Failed(Errno::PERM));
    assert!(said.iter().any(|event| event.contains(&failed)), "the receive: {said:?}");
    for event in ["Sent", "AcceptStopped"] {
        assert!(said.iter().any(|said| said.starts_with(event)), "{event}: {said:?}");
    }
    assert!(epoll.release(file).is_some(), "nothing is left in flight");
}

/// Whether the kernel waits in a call on a descriptor.
fn blocks(descriptor: &OwnedFd) -> bool {
    let info = format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd());
    let info = std::fs::read_to_string(info).unwrap();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
    u32::from_str_radix(flags.trim(), 8).unwrap() & O_NONBLOCK == 0
}

const O_NONBLOCK: u32 = 0o4000;

/// A plain file, which epoll does not take.
fn plain_file() -> std::fs::File {
    std::fs::File::open(std::env::current_exe().unwrap()).unwrap()
}

#[test]
fn a_socket_that_is_given_away_blocks_again_and_is_watched_no_more() {
    let mut epoll = driver();
    let (ours, mut peer) = UnixStream::pair().unwrap();
    let adopted = OwnedFd::from(ours.try_clone().unwrap());
    let ours = epoll.adopt(ours.into()).unwrap();
    assert!(!blocks(&adopted), "no call of the driver blocks");
    let released = epoll.release(ours).unwrap();
    assert!(blocks(&released), "as it came");
    peer.write_all(b"x").unwrap();
    epoll.park(Some(Duration::ZERO)).unwrap();
    assert_eq!(poll(&mut epoll), (vec![], vec![]), "nothing of it");
    let again = epoll.adopt(released).unwrap();
    receive(&mut epoll, again);
    epoll.park(None).unwrap();
    assert_eq!(poll(&mut epoll).0, [(again, 1)], "what came meanwhile");
}

#[test]
fn a_round_trip_costs_one_wait_one_receive_and_one_send() {
    let mut epoll = driver();
    let (ours, mut peer) = connection(&mut epoll);
    receive(&mut epoll, ours);
    poll(&mut epoll);
    let before = epoll.system_calls();
    peer.write_all(b"ask").unwrap();
    epoll.park(None).unwrap();
    assert_eq!(poll(&mut epoll).0, [(ours, 3)], "the question");
    send(&mut epoll, ours, b"answer");
    assert_eq!(poll(&mut epoll).1.len(), 1, "sent");
    assert_eq!(epoll.system_calls() - before, 3, "epoll_wait, recv, sendmsg");
    let mut answer = [0; 6];
    peer.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"answer", "it has left before the poll");
}

#[test]
fn a_poll_that_says_nothing_has_asked_the_kernel() {
    let mut epoll = driver();
    let (ours, mut peer) = connection(&mut epoll);
    receive(&mut epoll, ours);
    for _ in 0..3 {
        send(&mut epoll, ours, b"x");
        assert_eq!(poll(&mut epoll).1.len(), 1, "sent");
        peer.write_all(b"y").unwrap();
        assert_eq!(poll(&mut epoll).0, [(ours, 1)], "written just before");
        assert_eq!(poll(&mut epoll), (vec![], vec![]), "nothing more");
    }
}

#[test]
fn a_poll_that_has_nothing_to_say_after_all_asks_the_kernel() {
    let mut epoll = driver();
    let (ours, mut peer) = connection(&mut epoll);
    receive(&mut epoll, ours);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let listener = epoll.adopt(listener.into()).unwrap();
    assert_eq!(poll(&mut epoll), (vec![], vec![]), "nothing yet");
    epoll.push(Op::Accept { listener, buffers: SocketBuffers::default() }).unwrap();
    peer.write_all(b"x").unwrap();
    assert_eq!(poll(&mut epoll).0, [(ours, 1)], "there is no connection to accept");
    epoll.waker().wake();
    epoll.park(None).unwrap();
    peer.write_all(b"y").unwrap();
    assert_eq!(poll(&mut epoll).0, [(ours, 1)], "behind a park that was woken");
}

#[test]
fn whoever_has_had_its_share_goes_on_behind_the_others() {
    let mut epoll = driver();
    let (first, mut first_peer) = connection(&mut epoll);
    let (second, mut second_peer) = connection(&mut epoll);
    let lengths = [&mut first_peer, &mut second_peer].map(|peer| {
        socket::prepare(&peer.try_clone().unwrap().into(), LARGE).unwrap();
        fill(peer)
    });
    for (ours, length) in [first, second].into_iter().zip(lengths) {
        assert!(length > limits::RECEIVED_A_POLL_MAX, "{length} bytes fit into one share");
        receive(&mut epoll, ours);
    }
    let share = limits::RECEIVED_A_POLL_MAX;
    epoll.park(None).unwrap();
    assert_eq!(poll(&mut epoll).0, [(first, share), (second, share)], "one share each");
    assert!(epoll.is_ready(), "there is more");
    let (third, mut third_peer) = connection(&mut epoll);
    third_peer.write_all(b"x").unwrap();
    receive(&mut epoll, third);
    let before = epoll.system_calls();
    epoll.park(None).unwrap();
    assert_eq!(epoll.system_calls(), before, "no sleep while somebody can go on");
    let rests = lengths.map(|length| (length - share).min(share));
    let (received, _) = poll(&mut epoll);
    assert_eq!(received, [(first, rests[0]), (second, rests[1]), (third, 1)], "and so on");
}

#[test]
fn a_due_pause_lets_the_rest_of_one_share_through() {
    let mut epoll = driver();
    let (socket, mut peer) = connection(&mut epoll);
    socket::prepare(&peer.try_clone().unwrap().into(), LARGE).unwrap();
    let length = fill(&mut peer) as u64;
    assert!(length > epoll.carry_max(), "{length} bytes fit into one share");
    receive(&mut epoll, socket);
    let (received, _) = poll(&mut epoll);
    epoll.push(Op::PauseReceive { socket }).unwrap();
    let (behind, said) = poll(&mut epoll);
    let through = received.iter().map(|(_, bytes)| *bytes as u64).sum::<u64>();
    assert_eq!((through, behind), (epoll.carry_max(), vec![]), "one share, and nothing behind it");
    assert!(said[0].contains("Paused"), "{said:?}");
}

const LARGE: SocketBuffers =
    SocketBuffers { send: zcore::ByteCount::kib(4_096), receive: zcore::ByteCount::kib(4_096) };

#[test]
fn bytes_for_a_socket_that_is_paused_do_not_end_a_park() {
    let mut epoll = driver();
    let (paused, mut peer) = connection(&mut epoll);
    let (other, mut other_peer) = connection(&mut epoll);
    receive(&mut epoll, other);
    poll(&mut epoll);
    peer.write_all(b"wait").unwrap();
    drop(peer);
    // A park that ends with those goes on to find nothing, as nothing else comes before it sleeps.
    let parks = format!("/proc/self/task/{}/stat", rustix::thread::gettid().as_raw_nonzero());
    let writer = std::thread::spawn(move || {
        while !std::fs::read_to_string(&parks).unwrap().contains(") S ") {
            std::thread::yield_now();
        }
        other_peer.write_all(b"now").map(|()| other_peer).unwrap()
    });
    epoll.park(None).unwrap();
    assert_eq!(poll(&mut epoll).0, [(other, 3)], "this is what it has waited for");
    drop(writer.join().unwrap());
    receive(&mut epoll, paused);
    let (received, said) = poll(&mut epoll);
    assert_eq!(received, [(paused, 4)], "what came while it was paused");
    assert!(said[0].contains("EndOfStream"), "and the end: {said:?}");
}

#[test]
fn bytes_behind_one_out_of_band_are_not_left_lying() {
    let mut epoll = driver();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let ours = epoll.adopt(listener.accept().unwrap().0.into()).unwrap();
    for (bytes, flags) in [("ab", SendFlags::OOB), ("cd", SendFlags::empty())] {
        rustix::net::send(&peer, bytes.as_bytes(), flags).unwrap();
    }
    receive(&mut epoll, ours);
    epoll.park(None).unwrap();
    let (received, _) = poll(&mut epoll);
    assert_eq!(received, [(ours, 3)], "all but the one that is out of band");
}

#[test]
fn a_connect_waits_for_a_full_backlog() {
    let mut epoll = driver();
    let file = format!("zlink-epoll-{}-backlog.sock", std::process::id());
    let path = std::env::temp_dir().join(file);
    let address = SocketAddress::Unix(path.clone());
    let listener = socket::listen(&address, SocketBuffers::default()).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _first = UnixStream::connect(&path).unwrap();
    let connecting = socket::open_for(&address, SocketBuffers::default()).unwrap();
    let connecting = epoll.adopt(connecting).unwrap();
    epoll.push(Op::Connect { socket: connecting, address }).unwrap();
    assert_eq!(poll(&mut epoll), (vec![], vec![]), "no room");
    assert!(!epoll.is_ready(), "it is not busy meanwhile");
    epoll.park(Some(3 * limits::BACKLOG_RETRY)).unwrap();
    assert_eq!(poll(&mut epoll), (vec![], vec![]), "still none");
    rustix::net::accept(&listener).map(drop).unwrap();
    epoll.park(None).unwrap();
    let (_, said) = poll(&mut epoll);
    assert!(said[0].starts_with("Connected") && said[0].contains("Ok"), "{said:?}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_connect_that_waits_for_a_backlog_can_be_given_up() {
    let mut epoll = driver();
    let file = format!("zlink-epoll-{}-given-up.sock", std::process::id());
    let path = std::env::temp_dir().join(file);
    let address = SocketAddress::Unix(path.clone());
    let listener = socket::listen(&address, SocketBuffers::default()).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _first = UnixStream::connect(&path).unwrap();
    let socket = epoll.open(&address, SETUP).unwrap();
    epoll.push(Op::Connect { socket, address }).unwrap();
    assert!(epoll.release(socket).is_none(), "in flight");
    epoll.push(Op::Close { socket }).unwrap();
    let (_, said) = poll(&mut epoll);
    assert!(said.len() == 1 && said[0].starts_with("Closed"), "nothing else: {said:?}");
    assert!(epoll.backlogged.is_empty(), "it is not tried again");
    std::fs::remove_file(path).unwrap();
}

const SETUP: SocketSetup = SocketSetup { buffers: LARGE, watch: Watch::Application };
