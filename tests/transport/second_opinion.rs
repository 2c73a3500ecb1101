//! What other sockets than ours hear of a driver, and say to it: those of the standard library, and
//! for a second opinion those of tokio-uring.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::rc::Rc;
use std::thread;

use ztransport::socket::SocketBuffers;

use crate::replay::CALM;
use crate::seen::END_OF_STREAM;
use crate::stand::{EpollStand, Kernel, Size, Stand, UringStand};
use crate::world::{SMALL, World, assert_same, pattern};

/// What a peer has heard until the end of the connection, and how that came.
#[derive(Debug, Eq, PartialEq)]
struct Heard {
    bytes: Vec<u8>,
    end: Result<(), ErrorKind>,
}

/// Sockets of somebody else.
trait Peer {
    /// Hears the other side to its end.
    fn hear(stream: TcpStream) -> Heard;

    /// The same, and meanwhile says something and ends its own side.
    fn talk(stream: TcpStream, says: Vec<u8>) -> Heard;
}

struct Blocking;

impl Peer for Blocking {
    fn hear(mut stream: TcpStream) -> Heard {
        let mut bytes = Vec::new();
        let end = stream.read_to_end(&mut bytes).map(drop).map_err(|error| error.kind());
        Heard { bytes, end }
    }

    fn talk(stream: TcpStream, says: Vec<u8>) -> Heard {
        let mut speaking = stream.try_clone().unwrap();
        let speaker = thread::spawn(move || {
            speaking.write_all(&says).unwrap();
            speaking.shutdown(Shutdown::Write).unwrap();
        });
        let heard = Self::hear(stream);
        speaker.join().unwrap();
        heard
    }
}

struct TokioUring;

impl TokioUring {
    async fn hear_on(stream: &tokio_uring::net::TcpStream) -> Heard {
        let (mut bytes, mut room) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            let (outcome, back) = stream.read(room).await;
            room = back;
            match outcome {
                Ok(0) => return Heard { bytes, end: Ok(()) },
                Ok(length) => bytes.extend_from_slice(&room[..length]),
                Err(error) => return Heard { bytes, end: Err(error.kind()) },
            }
        }
    }
}

impl Peer for TokioUring {
    fn hear(stream: TcpStream) -> Heard {
        tokio_uring::start(async {
            Self::hear_on(&tokio_uring::net::TcpStream::from_std(stream)).await
        })
    }

    fn talk(stream: TcpStream, says: Vec<u8>) -> Heard {
        tokio_uring::start(async {
            let stream = Rc::new(tokio_uring::net::TcpStream::from_std(stream));
            let speaking = Rc::clone(&stream);
            let speaker = tokio_uring::spawn(async move {
                let (outcome, _) = speaking.write_all(says).await;
                outcome?;
                speaking.shutdown(Shutdown::Write)
            });
            let heard = Self::hear_on(&stream).await;
            let outcome: io::Result<()> = speaker.await.unwrap();
            outcome.unwrap();
            heard
        })
    }
}

/// Plays on a driver of a stand, where both that and a ring for the peer can be had.
fn play<S: Kernel>(script: impl FnOnce(&mut World<S>)) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("second_opinion");
    ztests::run_or_skip(test, S::missing().or_else(UringStand::missing), || {
        let driver = |stand: &S| stand.driver(Size::default());
        let mut world = World::new("second_opinion", S::new(CALM), driver);
        script(&mut world);
        world.close_all();
    });
}

/// Both sides talk at once, through buffers that are far smaller than what they say.
fn both_sides_are_heard_to_their_ends<S: Kernel>() {
    fn with<S: Kernel, P: Peer>(world: &mut World<S>) {
        let (ours, peer) = world.connection(SMALL);
        let bytes = pattern(world.scale.bulk);
        let says: Vec<u8> = bytes.iter().rev().copied().collect();
        let said = says.clone();
        let peer = thread::spawn(move || P::talk(peer, says));
        world.receive(ours);
        world.send(ours, &bytes);
        world.until_sent(ours);
        world.shutdown(ours);
        world.until_noted(ours, &END_OF_STREAM);
        assert_same(&world.seen(ours).received, &said);
        let heard = peer.join().unwrap();
        assert_same(&heard.bytes, &bytes);
        assert_eq!(heard.end, Ok(()), "the end of the stream");
    }
    play::<S>(|world| {
        with::<S, Blocking>(world);
        with::<S, TokioUring>(world);
    });
}

/// Nobody has read what the peer said, and the peer is told.
fn a_close_with_input_unread_is_heard_as_a_reset<S: Kernel>() {
    fn with<S: Kernel, P: Peer>(world: &mut World<S>) -> Heard {
        let (ours, mut peer) = world.connection(SocketBuffers::default());
        peer.write_all(b"nobody reads this").unwrap();
        world.close_and_wait(ours);
        P::hear(peer)
    }
    play::<S>(|world| {
        let reset = Heard { bytes: Vec::new(), end: Err(ErrorKind::ConnectionReset) };
        assert_eq!(with::<S, Blocking>(world), reset, "by the standard library");
        assert_eq!(with::<S, TokioUring>(world), reset, "by tokio-uring");
    });
}

macro_rules! on {
    ($driver:ident, $stand:ty) => {
        mod $driver {
            #[test]
            fn both_sides_are_heard_to_their_ends() {
                super::both_sides_are_heard_to_their_ends::<$stand>();
            }

            #[test]
            fn a_close_with_input_unread_is_heard_as_a_reset() {
                super::a_close_with_input_unread_is_heard_as_a_reset::<$stand>();
            }
        }
    };
}

on!(uring, super::UringStand);
on!(epoll, super::EpollStand);
