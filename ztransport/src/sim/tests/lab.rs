//! Hosts that drive one simulated network, each with a watch on what its driver says.

use std::collections::BTreeMap;

use bytes::Bytes;
use rustix::io::Errno;
use zcore::ByteCount;

use crate::batch::Batch;
use crate::driver::{Driver, SocketSetup};
use crate::event::{Event, ReceiveStop};
use crate::op::{BufferGroup, Op};
use crate::sim::{Sim, SimFaults, SimNetwork, SimOptions};
use crate::socket::{SocketAddress, SocketBuffers, Watch};
use crate::token::SocketId;

/// Small enough that a transfer fills it many times.
pub(super) const SMALL: SocketBuffers =
    SocketBuffers { send: ByteCount::kib(4), receive: ByteCount::kib(8) };

/// What happened to one socket, apart from its bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Note {
    Accepted(SocketId),
    AcceptStopped(Errno),
    Connected(Result<(), Errno>),
    Bytes(usize),
    Stopped(ReceiveStop),
    Sent(Result<usize, Errno>),
    Closed,
}

/// What is known of one socket, and what may happen to it.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) notes: Vec<Note>,
    pub(super) received: Vec<u8>,
    pub(super) accepted: Vec<SocketId>,
    /// The batch that came back last.
    pub(super) batch: Option<Batch>,
    in_flight: InFlight,
    life: Life,
}

/// What may still happen to a socket.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Life {
    #[default]
    Open,
    /// Nothing more is received.
    Ended,
    Closed,
}

/// The operations that are not answered yet.
#[derive(Debug, Default)]
struct InFlight {
    accepts: u32,
    connects: u32,
    receives: u32,
    /// Bytes of the batches that were pushed.
    batches: Vec<u64>,
    closes: u32,
}

impl Seen {
    pub(super) fn has(&self, note: &Note) -> bool {
        self.notes.contains(note)
    }

    pub(super) fn is_accepting(&self) -> bool {
        self.in_flight.accepts > 0
    }

    pub(super) fn is_receiving(&self) -> bool {
        self.in_flight.receives > 0
    }

    pub(super) fn is_sending(&self) -> bool {
        !self.in_flight.batches.is_empty()
    }

    /// Whether nothing more will be received.
    pub(super) fn has_ended(&self) -> bool {
        self.life == Life::Ended
    }

    /// The contract of a driver, event by event.
    fn check(&mut self, socket: SocketId, note: &Note) {
        assert!(self.life != Life::Closed, "{socket:?} is closed, yet {note:?}");
        let is_end = matches!(note, Note::Sent(_) | Note::Closed);
        assert!(is_end || self.in_flight.closes == 0, "{socket:?} is closing, yet {note:?}");
        let InFlight { accepts, connects, receives, batches, closes } = &mut self.in_flight;
        let answered = match note {
            Note::Accepted(_) => return assert!(*accepts > 0, "{socket:?} does not accept"),
            Note::Bytes(length) => {
                assert!(*length > 0, "an event without bytes");
                return assert!(*receives > 0, "{socket:?} does not receive");
            }
            Note::Sent(_) => {
                let pushed = batches.pop();
                let unsent = self.batch.as_ref().map(Batch::unsent);
                return assert!(unsent.is_some() && pushed == unsent, "the batch as it was pushed");
            }
            Note::AcceptStopped(_) => accepts,
            Note::Connected(_) => connects,
            Note::Stopped(reason) => {
                assert!(self.life == Life::Open, "{socket:?} has ended, yet {note:?}");
                if matches!(reason, ReceiveStop::EndOfStream | ReceiveStop::Failed(_)) {
                    self.life = Life::Ended;
                }
                receives
            }
            Note::Closed => {
                self.life = Life::Closed;
                assert!(batches.is_empty(), "{socket:?} took a batch along");
                closes
            }
        };
        assert!(*answered > 0, "{socket:?}: nobody asked for {note:?}");
        *answered -= 1;
    }
}

/// A driver and what it has said.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) driver: Sim,
    seen: BTreeMap<SocketId, Seen>,
    /// Everything in its order.
    pub(super) trace: Vec<(SocketId, Note)>,
}

impl Host {
    pub(super) fn seen(&mut self, socket: SocketId) -> &mut Seen {
        self.seen.entry(socket).or_default()
    }

    pub(super) fn push(&mut self, op: Op) {
        match &op {
            Op::Accept { listener, .. } => self.seen(*listener).in_flight.accepts += 1,
            Op::Connect { socket, .. } => self.seen(*socket).in_flight.connects += 1,
            Op::Receive { socket, .. } => {
                let seen = self.seen(*socket);
                seen.in_flight.receives += u32::from(seen.life == Life::Open);
            }
            Op::Send { socket, batch } => {
                self.seen(*socket).in_flight.batches.push(batch.unsent());
            }
            Op::Close { socket } => self.seen(*socket).in_flight.closes += 1,
            Op::Watch { .. } | Op::PauseReceive { .. } | Op::ShutdownWrite { .. } => {}
        }
        self.driver.push(op).unwrap();
    }

    pub(super) fn receive(&mut self, socket: SocketId) {
        self.push(Op::Receive { socket, group: BufferGroup::Application });
    }

    pub(super) fn send(&mut self, socket: SocketId, bytes: &[u8]) {
        self.push(Op::Send { socket, batch: batch(bytes) });
    }

    pub(super) fn close(&mut self, socket: SocketId) {
        self.push(Op::Close { socket });
    }

    pub(super) fn open(&mut self, buffers: SocketBuffers) -> SocketId {
        let setup = SocketSetup { buffers, watch: Watch::Application };
        self.driver.open(&address(0), setup).unwrap()
    }

    pub(super) fn dial(&mut self, address: &SocketAddress, buffers: SocketBuffers) -> SocketId {
        let socket = self.open(buffers);
        self.push(Op::Connect { socket, address: address.clone() });
        socket
    }

    /// One poll. How many events there were.
    pub(super) fn poll(&mut self) -> usize {
        let Self { driver, seen, trace } = self;
        driver.poll(|event| note(seen, trace, event)).unwrap()
    }

    /// Polls until there are events. How often that was.
    #[track_caller]
    pub(super) fn polls_to_event(&mut self) -> u64 {
        (1..=POLLS_MAX).find(|_| self.poll() > 0).unwrap()
    }

    /// Sends what is left of the batch that came back, if anything is. Whether all has left.
    pub(super) fn resume(&mut self, socket: SocketId) -> bool {
        let Some(mut batch) = self.seen(socket).batch.take() else { return false };
        let sent = |note: &Note| if let Note::Sent(sent) = note { Some(*sent) } else { None };
        let bytes = self.seen(socket).notes.iter().rev().find_map(sent).unwrap();
        batch.advance(bytes.map_or(0, |bytes| bytes as u64));
        if batch.unsent() == 0 {
            return true;
        }
        if bytes.is_ok() {
            self.push(Op::Send { socket, batch });
        }
        false
    }
}

fn note(all: &mut BTreeMap<SocketId, Seen>, trace: &mut Vec<(SocketId, Note)>, event: Event<'_>) {
    let (socket, note) = match event {
        Event::Accepted { listener, socket } => {
            all.entry(listener).or_default().accepted.push(socket);
            let fresh = all.insert(socket, Seen::default());
            assert!(fresh.is_none(), "{socket:?} was the name of another one");
            (listener, Note::Accepted(socket))
        }
        Event::AcceptStopped { listener, errno } => (listener, Note::AcceptStopped(errno)),
        Event::Connected { socket, outcome } => (socket, Note::Connected(outcome)),
        Event::Received { socket, bytes } => {
            all.entry(socket).or_default().received.extend_from_slice(bytes);
            (socket, Note::Bytes(bytes.len()))
        }
        Event::ReceiveStopped { socket, reason } => (socket, Note::Stopped(reason)),
        Event::Sent { socket, outcome, batch } => {
            all.entry(socket).or_default().batch = Some(batch);
            (socket, Note::Sent(outcome))
        }
        Event::Closed { socket } => (socket, Note::Closed),
    };
    let seen = all.entry(socket).or_default();
    seen.check(socket, &note);
    seen.notes.push(note.clone());
    trace.push((socket, note));
}

/// Two hosts and a network: the first dials, the second listens.
#[derive(Debug)]
pub(super) struct Lab {
    pub(super) network: SimNetwork,
    pub(super) dialer: Host,
    pub(super) server: Host,
    pub(super) address: SocketAddress,
    pub(super) listener: SocketId,
}

impl Lab {
    pub(super) fn new(seed: u64, faults: SimFaults) -> Self {
        Self::with(seed, faults, SimOptions::default())
    }

    pub(super) fn with(seed: u64, faults: SimFaults, options: SimOptions) -> Self {
        let network = SimNetwork::new(seed, faults);
        let host = || {
            let driver = network.driver(options);
            Host { driver, seen: BTreeMap::new(), trace: Vec::new() }
        };
        let (dialer, mut server) = (host(), host());
        let listening = network.listen(&address(0), SMALL).unwrap();
        let address = listening.local_address().unwrap();
        let listener = server.driver.adopt(listening).unwrap();
        Self { network, dialer, server, address, listener }
    }

    pub(super) fn accept(&mut self) {
        let listener = self.listener;
        self.server.push(Op::Accept { listener, buffers: SMALL });
    }

    /// A connection: the dialer's end and the server's.
    #[track_caller]
    pub(super) fn connect(&mut self) -> (SocketId, SocketId) {
        if self.server.seen(self.listener).in_flight.accepts == 0 {
            self.accept();
        }
        let ours = self.dialer.dial(&self.address, SMALL);
        let listener = self.listener;
        self.until(|lab| {
            lab.dialer.seen(ours).has(&Note::Connected(Ok(())))
                && !lab.server.seen(listener).accepted.is_empty()
        });
        let theirs = self.server.seen(listener).accepted.pop().unwrap();
        (ours, theirs)
    }

    /// One poll of each. How many events there were.
    pub(super) fn turn(&mut self) -> usize {
        self.dialer.poll() + self.server.poll()
    }

    /// Turns until `condition` holds.
    #[track_caller]
    pub(super) fn until(&mut self, mut condition: impl FnMut(&mut Self) -> bool) {
        let mut turns = 0;
        while !condition(self) {
            let is_quiet = self.network.is_quiet();
            assert!(self.turn() == 0 || !is_quiet, "a quiet network reported something");
            turns += 1;
            assert!(turns < TURNS_MAX, "this goes nowhere: {:?}", self.network);
            assert!(!is_quiet, "nothing happens any more: {:?}", self.network);
        }
    }

    /// Turns until nothing is in transit.
    #[track_caller]
    pub(super) fn settle(&mut self) {
        self.until(|lab| lab.network.is_quiet());
    }
}

pub(super) fn address(port: u16) -> SocketAddress {
    SocketAddress::Tcp(([10, 0, 0, 1], port).into())
}

pub(super) fn batch(bytes: &[u8]) -> Batch {
    let mut batch = Batch::default();
    // In pieces, so that sends end within segments and between them.
    for segment in bytes.chunks(1_000) {
        batch.push_segment(Bytes::copy_from_slice(segment));
    }
    batch
}

/// Bytes that show where they belong: each word is its own number.
pub(super) fn pattern(bytes: usize, first: u32) -> Vec<u8> {
    let mut pattern = vec![0; bytes];
    for (number, word) in (first..).zip(pattern.chunks_exact_mut(4)) {
        word.copy_from_slice(&number.to_le_bytes());
    }
    pattern
}

/// Compares without printing all of it.
#[track_caller]
pub(super) fn assert_same(got: &[u8], expected: &[u8], what: &str) {
    if got != expected {
        let differs = got.iter().zip(expected).position(|(left, right)| left != right);
        assert_eq!(differs, None, "{what}: the first byte that differs");
        assert_eq!(got.len(), expected.len(), "{what}: the length");
    }
}

/// How many polls an event may need: more than anything is late.
const POLLS_MAX: u64 = 100;

/// How many turns a test may need. The longest needs some thousands.
const TURNS_MAX: u32 = 200_000;
