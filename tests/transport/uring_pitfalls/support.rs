//! A driver, what it has said of each socket, and a loop that runs it until something is true.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use bytes::Bytes;
use rustix::io::Errno;
use zcore::ByteCount;
use ztransport::Batch;
use ztransport::driver::Driver;
use ztransport::event::{Event, ReceiveStop};
use ztransport::op::{BufferGroup, Op};
use ztransport::socket::{self, SocketAddress, SocketBuffers};
use ztransport::token::SocketId;
use ztransport::uring::{Uring, UringOptions};

/// Small enough that megabytes do not fit, whatever the kernel adds.
pub(crate) const SMALL: SocketBuffers =
    SocketBuffers { send: ByteCount::kib(16), receive: ByteCount::kib(16) };

/// What happened to one socket, apart from its bytes.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Note {
    Accepted,
    AcceptStopped(Errno),
    Connected(Result<(), Errno>),
    Bytes(usize),
    Stopped(ReceiveStop),
    Sent(Result<usize, Errno>),
    Closed,
}

/// What is known of one socket.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) notes: Vec<Note>,
    pub(crate) received: Vec<u8>,
    pub(crate) accepted: Vec<SocketId>,
    /// The batch that came back last.
    pub(crate) batch: Option<Batch>,
}

impl Seen {
    pub(crate) fn has(&self, note: &Note) -> bool {
        self.notes.contains(note)
    }
}

pub(crate) struct World {
    pub(crate) driver: Uring,
    seen: BTreeMap<SocketId, Seen>,
    /// No test starts a process meanwhile: until its exec that has every descriptor of this one, and
    /// what a test closes would not be closed.
    _no_spawn: RwLockReadGuard<'static, ()>,
}

/// Written while a process starts, read by everything that has descriptors. One world for a thread
/// at a time: a second one might wait behind a process that waits for the first.
static SPAWN: RwLock<()> = RwLock::new(());

/// Whether this process runs the named test and no other. If not, starts one that does, through
/// `env` with these options, and sees that it passes.
#[track_caller]
pub(crate) fn is_alone(test: &str, options: &[&str]) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new("env");
    command.args(options).arg(std::env::current_exe().unwrap()).args(["--exact", test]);
    command.env(ALONE, "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    let nobody_else = SPAWN.write().unwrap_or_else(PoisonError::into_inner);
    let process = command.spawn();
    drop(nobody_else);
    let ended = process.unwrap().wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && said.contains("1 passed"), "{said}");
    false
}

const ALONE: &str = "ZLINK_TEST_ALONE";

impl World {
    /// `None` where there is no `io_uring`.
    pub(crate) fn new() -> Option<Self> {
        Self::with(UringOptions { sockets_max: 64, ..UringOptions::default() })
    }

    #[expect(clippy::print_stdout, reason = "CI counts skipped tests by this line")]
    pub(crate) fn with(options: UringOptions) -> Option<Self> {
        if let Err(unavailable) = ztransport::probe::probe() {
            println!("skipped: io_uring: {unavailable}");
            return None;
        }
        let no_spawn = SPAWN.read().unwrap_or_else(PoisonError::into_inner);
        let driver = Uring::new(options).unwrap();
        Some(Self { driver, seen: BTreeMap::new(), _no_spawn: no_spawn })
    }

    pub(crate) fn seen(&mut self, socket: SocketId) -> &mut Seen {
        self.seen.entry(socket).or_default()
    }

    pub(crate) fn push(&mut self, op: Op) {
        self.driver.push(op).unwrap();
    }

    pub(crate) fn accept(&mut self, listener: SocketId) {
        self.accept_with(listener, SocketBuffers::default());
    }

    fn accept_with(&mut self, listener: SocketId, buffers: SocketBuffers) {
        self.push(Op::Accept { listener, buffers });
    }

    pub(crate) fn receive(&mut self, socket: SocketId) {
        self.push(Op::Receive { socket, group: BufferGroup::Application });
    }

    pub(crate) fn send(&mut self, socket: SocketId, bytes: &[u8]) {
        self.push(Op::Send { socket, batch: batch(bytes) });
    }

    /// One poll. How many events there were.
    pub(crate) fn poll(&mut self) -> usize {
        let seen = &mut self.seen;
        self.driver.poll(|event| note(seen, event)).unwrap()
    }

    /// Runs the driver until `condition` holds; it is asked once after each poll with events.
    #[track_caller]
    pub(crate) fn until(&mut self, mut condition: impl FnMut(&mut Self) -> bool) {
        let (mut idle, mut turns) = (0, 0);
        while !condition(self) {
            turns += 1;
            assert!(turns < TURNS_MAX, "this goes nowhere: {:?}", self.notes());
            if self.poll() > 0 {
                idle = 0;
                continue;
            }
            if !self.driver.is_ready() {
                idle += 1;
                assert!(idle < IDLE_MAX, "nothing happens any more: {:?}", self.notes());
                self.driver.park(Some(PARK)).unwrap();
            }
        }
    }

    #[track_caller]
    pub(crate) fn until_noted(&mut self, socket: SocketId, note: &Note) {
        self.until(|world| world.seen(socket).has(note));
    }

    #[track_caller]
    pub(crate) fn until_received(&mut self, socket: SocketId, bytes: usize) {
        self.until(|world| world.seen(socket).received.len() >= bytes);
    }

    /// Sends what is left of the batch that came back, if anything is. Whether all has left.
    pub(crate) fn resume(&mut self, socket: SocketId) -> bool {
        let Some(mut batch) = self.seen(socket).batch.take() else { return false };
        let sent = |note: &Note| if let Note::Sent(sent) = note { Some(*sent) } else { None };
        let bytes = self.seen(socket).notes.iter().rev().find_map(sent).unwrap().unwrap();
        batch.advance(bytes as u64);
        if batch.unsent() == 0 {
            return true;
        }
        self.push(Op::Send { socket, batch });
        false
    }

    /// An adopted socket and the other end of its connection, outside of the driver.
    pub(crate) fn connection(&mut self, buffers: SocketBuffers) -> (SocketId, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let ours = OwnedFd::from(listener.accept().unwrap().0);
        socket::prepare(&ours, buffers).unwrap();
        (self.driver.adopt(ours).unwrap(), peer)
    }

    /// An adopted socket that takes no more bytes, with a send in flight.
    pub(crate) fn full(&mut self, batch: impl Fn() -> Batch) -> (SocketId, UnixStream) {
        let (ours, peer) = UnixStream::pair().unwrap();
        let ours = self.driver.adopt(ours.into()).unwrap();
        self.push(Op::Send { socket: ours, batch: batch() });
        self.until(|world| world.seen(ours).batch.take().is_some());
        self.push(Op::Send { socket: ours, batch: batch() });
        assert_eq!(self.poll(), 0, "the socket takes more than the first send has left");
        (ours, peer)
    }

    /// Two adopted sockets that are connected through the driver, the connecting one first, and
    /// their listener.
    pub(crate) fn pair(
        &mut self,
        address: &SocketAddress,
        buffers: SocketBuffers,
    ) -> (SocketId, SocketId, SocketId) {
        let listening = socket::listen(address, buffers).unwrap();
        let address = socket::local_address(&listening).unwrap();
        let listener = self.driver.adopt(listening).unwrap();
        self.accept_with(listener, buffers);
        let connecting = socket::open_for(&address, buffers).unwrap();
        let connecting = self.driver.adopt(connecting).unwrap();
        self.push(Op::Connect { socket: connecting, address });
        self.until_noted(connecting, &Note::Connected(Ok(())));
        self.until_noted(listener, &Note::Accepted);
        let accepted = self.seen(listener).accepted.pop().unwrap();
        (connecting, accepted, listener)
    }

    fn notes(&self) -> BTreeMap<SocketId, &[Note]> {
        self.seen
            .iter()
            .map(|(id, seen)| (*id, &seen.notes[seen.notes.len().saturating_sub(8)..]))
            .collect()
    }
}

fn note(all: &mut BTreeMap<SocketId, Seen>, event: Event<'_>) {
    let (socket, note) = match event {
        Event::Accepted { listener, socket } => {
            all.entry(listener).or_default().accepted.push(socket);
            (listener, Note::Accepted)
        }
        Event::AcceptStopped { listener, errno } => (listener, Note::AcceptStopped(errno)),
        Event::Connected { socket, outcome } => (socket, Note::Connected(outcome)),
        Event::Received { socket, bytes } => {
            assert!(!bytes.is_empty(), "an event without bytes");
            all.entry(socket).or_default().received.extend_from_slice(bytes);
            (socket, Note::Bytes(bytes.len()))
        }
        Event::ReceiveStopped { socket, reason } => (socket, Note::Stopped(reason)),
        Event::Sent { socket, outcome, batch } => {
            let held = all.entry(socket).or_default().batch.replace(batch);
            assert!(held.is_none(), "two batches in flight");
            (socket, Note::Sent(outcome))
        }
        Event::Closed { socket } => (socket, Note::Closed),
    };
    let seen = all.entry(socket).or_default();
    assert!(!seen.has(&Note::Closed), "{socket:?} is closed, yet {note:?}");
    seen.notes.push(note);
}

pub(crate) fn tcp() -> SocketAddress {
    "127.0.0.1:0".parse().unwrap()
}

/// A socket file that no other test uses.
pub(crate) fn unix(name: &str) -> SocketAddress {
    let file = format!("zlink-uring-{}-{name}.sock", std::process::id());
    SocketAddress::Unix(std::env::temp_dir().join(file))
}

pub(crate) fn batch(bytes: &[u8]) -> Batch {
    let mut batch = Batch::default();
    batch.push_segment(Bytes::copy_from_slice(bytes));
    batch
}

/// Bytes that show where they belong: each word is its own number.
pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    let mut pattern = vec![0; bytes];
    for (number, word) in (0_u32..).zip(pattern.chunks_exact_mut(4)) {
        word.copy_from_slice(&number.to_le_bytes());
    }
    pattern
}

/// Compares without printing megabytes.
#[track_caller]
pub(crate) fn assert_same(got: &[u8], expected: &[u8]) {
    if got != expected {
        let differs = got.iter().zip(expected).position(|(left, right)| left != right);
        assert_eq!(differs, None, "the first byte that differs");
        assert_eq!(got.len(), expected.len(), "the length");
    }
}

/// How long one sleep lasts at most, and how many may pass without an event. Only a test that
/// fails ever waits for that.
const PARK: Duration = Duration::from_secs(1);
const IDLE_MAX: u32 = 120;

/// How many polls a test may need. The longest needs a few thousand.
const TURNS_MAX: u32 = 1_000_000;
