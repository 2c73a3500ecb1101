//! What a script works with: drivers, what they have said of each socket, and a loop that runs them
//! until something is true.

use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rustix::io::Errno;
use zcore::{ByteCount, Instant};
use ztests::alone::{self, NoNewProcess};
use ztransport::Batch;
use ztransport::driver::{Driver, SocketSetup};
use ztransport::event::{Event, ReceiveStop};
use ztransport::op::{BufferGroup, Op};
use ztransport::socket::{SocketAddress, SocketBuffers, Watch};
use ztransport::token::SocketId;

use crate::stand::{Size, SocketOf, Stand};
use crate::trace::{Hidden, Origin, Story, Trace};

/// Small enough that megabytes do not fit, whatever the kernel adds.
pub(crate) const SMALL: SocketBuffers =
    SocketBuffers { send: ByteCount::kib(16), receive: ByteCount::kib(16) };

/// A socket of one of the drivers of a world.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct End {
    /// Which driver.
    pub(crate) at: usize,
    pub(crate) id: SocketId,
}

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

impl Note {
    /// The outcome of a connect.
    pub(crate) const fn connected(&self) -> Option<Result<(), Errno>> {
        if let Self::Connected(outcome) = self { Some(*outcome) } else { None }
    }

    /// The outcome of a send.
    pub(crate) const fn sent(&self) -> Option<Result<usize, Errno>> {
        if let Self::Sent(outcome) = self { Some(*outcome) } else { None }
    }
}

/// The peer has ended its side.
pub(crate) const END_OF_STREAM: Note = Note::Stopped(ReceiveStop::EndOfStream);

/// Receiving was stopped by a pause.
pub(crate) const PAUSED: Note = Note::Stopped(ReceiveStop::Paused);

/// What is known of one socket.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) notes: Vec<Note>,
    /// All of it; scripts do not take it out.
    pub(crate) received: Vec<u8>,
    pub(crate) accepted: Vec<End>,
    /// The batch that came back last.
    pub(crate) batch: Option<Batch>,
    /// How often the buffers ran out. It was armed again each time.
    pub(crate) no_buffers: u32,
    group: Option<BufferGroup>,
    is_given_away: bool,
    story: Story,
}

impl Seen {
    pub(crate) fn has(&self, note: &Note) -> bool {
        self.notes.contains(note)
    }
}

pub(crate) struct World<S: Stand> {
    drivers: Vec<S::Driver>,
    pub(crate) stand: S,
    /// The name of the test that plays here.
    test: &'static str,
    seen: BTreeMap<End, Seen>,
    no_process: Option<NoNewProcess>,
}

impl<S: Stand> World<S> {
    /// A world with one driver.
    pub(crate) fn new(test: &'static str, stand: S, driver: impl FnOnce(&S) -> S::Driver) -> Self {
        let no_process = Some(NoNewProcess::hold());
        let drivers = vec![driver(&stand)];
        Self { drivers, stand, test, seen: BTreeMap::new(), no_process }
    }

    /// Whether this process plays this script and nothing else. If not, one has that does.
    #[track_caller]
    pub(crate) fn is_alone(&mut self, options: &[&str]) -> bool {
        drop(self.no_process.take());
        let is_alone = alone::is_alone(self.test, options);
        self.no_process = Some(NoNewProcess::hold());
        is_alone
    }

    /// One more driver on the same network.
    pub(crate) fn add(&mut self, driver: S::Driver) -> usize {
        self.drivers.push(driver);
        self.drivers.len() - 1
    }

    pub(crate) fn add_sized(&mut self, size: Size) -> usize {
        let driver = self.stand.driver(size);
        self.add(driver)
    }

    /// The driver that every world has.
    pub(crate) fn driver(&mut self) -> &mut S::Driver {
        &mut self.drivers[0]
    }

    pub(crate) fn driver_at(&mut self, at: usize) -> &mut S::Driver {
        &mut self.drivers[at]
    }

    /// Takes the driver that was added last out of the world.
    pub(crate) fn take_driver(&mut self) -> S::Driver {
        self.drivers.pop().unwrap()
    }

    pub(crate) fn seen(&mut self, end: End) -> &mut Seen {
        self.seen.entry(end).or_default()
    }

    pub(crate) fn now(&self) -> Instant {
        self.stand.now()
    }

    pub(crate) fn push(&mut self, at: usize, op: Op) {
        self.drivers[at].push(op).unwrap();
    }

    pub(crate) fn adopt(&mut self, at: usize, socket: SocketOf<S>) -> End {
        let id = self.drivers[at].adopt(socket).unwrap();
        End { at, id }
    }

    /// Gives a socket away, for another driver to adopt.
    pub(crate) fn release(&mut self, end: End) -> Option<SocketOf<S>> {
        let released = self.drivers[end.at].release(end.id);
        self.seen(end).is_given_away |= released.is_some();
        released
    }

    /// A socket to be connected to `address`.
    pub(crate) fn open(
        &mut self,
        at: usize,
        address: &SocketAddress,
        buffers: SocketBuffers,
    ) -> End {
        let setup = SocketSetup { buffers, watch: Watch::Application };
        let end = End { at, id: self.drivers[at].open(address, setup).unwrap() };
        self.seen(end).story.origin = Origin::Opened;
        end
    }

    /// Accepts at an address of the stand's choice. The listener, and where it listens.
    pub(crate) fn listen(
        &mut self,
        at: usize,
        address: &SocketAddress,
        buffers: SocketBuffers,
    ) -> (End, SocketAddress) {
        let (address, socket) = self.stand.listen(address, buffers).unwrap();
        let listener = self.adopt(at, socket);
        self.accept(listener, buffers);
        (listener, address)
    }

    pub(crate) fn accept(&mut self, listener: End, buffers: SocketBuffers) {
        self.push(listener.at, Op::Accept { listener: listener.id, buffers });
    }

    pub(crate) fn connect(&mut self, end: End, address: SocketAddress) {
        self.push(end.at, Op::Connect { socket: end.id, address });
    }

    pub(crate) fn receive(&mut self, end: End) {
        self.receive_into(end, BufferGroup::Application);
    }

    pub(crate) fn receive_into(&mut self, end: End, group: BufferGroup) {
        self.seen(end).group = Some(group);
        self.push(end.at, Op::Receive { socket: end.id, group });
    }

    pub(crate) fn pause(&mut self, end: End) {
        self.push(end.at, Op::PauseReceive { socket: end.id });
    }

    pub(crate) fn send(&mut self, end: End, bytes: &[u8]) {
        self.send_batch(end, batch(bytes));
    }

    pub(crate) fn send_batch(&mut self, end: End, batch: Batch) {
        self.seen(end).story.sending(batch.unsent());
        self.push(end.at, Op::Send { socket: end.id, batch });
    }

    pub(crate) fn shutdown(&mut self, end: End) {
        self.push(end.at, Op::ShutdownWrite { socket: end.id });
    }

    pub(crate) fn close(&mut self, end: End) {
        self.push(end.at, Op::Close { socket: end.id });
    }

    /// Closes a socket and waits until it is.
    #[track_caller]
    pub(crate) fn close_and_wait(&mut self, end: End) {
        self.close(end);
        self.until_noted(end, &Note::Closed);
    }

    /// One poll of every driver. How many events there were.
    pub(crate) fn poll(&mut self) -> usize {
        let mut events = 0;
        for (at, driver) in self.drivers.iter_mut().enumerate() {
            let seen = &mut self.seen;
            events += driver.poll(|event| note(seen, at, event)).unwrap();
        }
        self.arm_again();
        events
    }

    /// Whoever runs out of buffers has to receive again.
    fn arm_again(&mut self) {
        let mut dry = Vec::new();
        for (end, seen) in &mut self.seen {
            let before = seen.notes.len();
            seen.notes.retain(|note| *note != Note::Stopped(ReceiveStop::NoBuffers));
            if seen.notes.len() < before {
                seen.no_buffers += 1;
                dry.extend(seen.group.map(|group| (*end, group)));
            }
        }
        for (end, group) in dry {
            self.receive_into(end, group);
        }
    }

    /// Runs the drivers until `condition` holds; it is asked once after each poll with events.
    #[track_caller]
    pub(crate) fn until(&mut self, mut condition: impl FnMut(&mut Self) -> bool) {
        let (mut idle, mut turns) = (Duration::ZERO, 0);
        while !condition(self) {
            turns += 1;
            assert!(turns < TURNS_MAX, "this goes nowhere: {:?}", self.notes());
            if self.poll() > 0 {
                idle = Duration::ZERO;
                continue;
            }
            assert!(idle < PATIENCE, "nothing happens any more: {:?}", self.notes());
            idle += self.rest();
        }
    }

    /// Runs the drivers and `step` until a moment passes in which nothing happens. Whoever looks too
    /// early sees less.
    pub(crate) fn until_quiet(&mut self, mut step: impl FnMut(&mut Self)) {
        loop {
            let events = self.poll();
            step(self);
            if events == 0 && !self.driver().is_ready() {
                self.driver().park(Some(MOMENT)).unwrap();
                if !self.driver().is_ready() && self.poll() == 0 {
                    return;
                }
            }
        }
    }

    /// Lets drivers sleep. Several take turns, so none may sleep for long.
    fn rest(&mut self) -> Duration {
        let park = if self.drivers.len() > 1 { GLANCE } else { PARK };
        for driver in &mut self.drivers {
            if driver.is_ready() {
                return Duration::ZERO;
            }
            driver.park(Some(park)).unwrap();
        }
        park
    }

    #[track_caller]
    pub(crate) fn until_noted(&mut self, end: End, note: &Note) {
        self.until(|world| world.seen(end).has(note));
    }

    #[track_caller]
    pub(crate) fn until_received(&mut self, end: End, bytes: usize) {
        self.until(|world| world.seen(end).received.len() >= bytes);
    }

    /// Sends what is left of the batch that came back, if anything is. Whether all has left.
    pub(crate) fn resume(&mut self, end: End) -> bool {
        let Some(mut batch) = self.seen(end).batch.take() else { return false };
        let bytes = self.seen(end).notes.iter().rev().find_map(Note::sent).unwrap().unwrap();
        batch.advance(bytes as u64);
        if batch.unsent() == 0 {
            return true;
        }
        self.push(end.at, Op::Send { socket: end.id, batch });
        false
    }

    /// Sends bytes from one end to the other, which is receiving.
    #[track_caller]
    pub(crate) fn carry(&mut self, from: End, to: End, bytes: &[u8]) {
        let before = self.seen(to).received.len();
        self.send(from, bytes);
        self.until(|world| world.resume(from));
        self.until_received(to, before + bytes.len());
        assert_same(&self.seen(to).received[before..], bytes);
    }

    /// Connects `at`'s driver to a listener that accepts. The connecting end first.
    #[track_caller]
    pub(crate) fn connect_to(
        &mut self,
        at: usize,
        listener: End,
        address: &SocketAddress,
        buffers: SocketBuffers,
    ) -> (End, End) {
        let connecting = self.open(at, address, buffers);
        self.connect(connecting, address.clone());
        self.until_noted(connecting, &Note::Connected(Ok(())));
        self.until(|world| !world.seen(listener).accepted.is_empty());
        let accepted = self.seen(listener).accepted.pop().unwrap();
        (connecting, accepted)
    }

    /// Two ends of a connection, the connecting one first.
    #[track_caller]
    pub(crate) fn pair_at(
        &mut self,
        address: &SocketAddress,
        buffers: SocketBuffers,
    ) -> (End, End) {
        let (listener, address) = self.listen(0, address, buffers);
        let ends = self.connect_to(0, listener, &address, buffers);
        self.close_and_wait(listener);
        ends
    }

    #[track_caller]
    pub(crate) fn pair(&mut self, buffers: SocketBuffers) -> (End, End) {
        let address = self.stand.tcp();
        self.pair_at(&address, buffers)
    }

    /// Two ends of a connection that takes no more bytes from the first: a send is in flight.
    #[track_caller]
    pub(crate) fn full_pair(&mut self, batch: impl Fn() -> Batch) -> (End, End) {
        let address = self.stand.unix();
        let (ours, theirs) = self.pair_at(&address, SMALL);
        self.send_batch(ours, batch());
        self.until(|world| world.seen(ours).batch.take().is_some());
        self.send_batch(ours, batch());
        assert_eq!(self.poll(), 0, "the socket takes more than the first send has left");
        (ours, theirs)
    }

    /// What has been seen so far.
    pub(crate) fn trace(&self) -> Trace {
        Trace::new(self.seen.values().map(|seen| seen.story.summary(&seen.received)))
    }

    /// Leaves the pauses of a socket out of the trace.
    pub(crate) fn hide_pauses(&mut self, end: End) {
        self.seen(end).story.hidden = Hidden::Pauses;
    }

    /// Leaves what a socket reads out of the trace.
    pub(crate) fn hide_reads(&mut self, end: End) {
        self.seen(end).story.hidden = Hidden::Reads;
    }

    /// Closes every socket that is open, and sees that each of them says so.
    #[track_caller]
    pub(crate) fn close_all(&mut self) {
        let drivers = self.drivers.len();
        let is_open = |end: &End, seen: &Seen| {
            end.at < drivers && !seen.is_given_away && !seen.has(&Note::Closed)
        };
        let open: BTreeSet<_> = self
            .seen
            .iter()
            .filter(|(end, seen)| is_open(end, seen))
            .map(|(end, _)| *end)
            .collect();
        for end in &open {
            self.seen(*end).group = None;
            self.close(*end);
        }
        self.until(|world| open.iter().all(|end| world.seen(*end).has(&Note::Closed)));
        self.drivers.iter().for_each(S::assert_sound);
    }

    fn notes(&self) -> BTreeMap<End, &[Note]> {
        self.seen
            .iter()
            .map(|(end, seen)| (*end, &seen.notes[seen.notes.len().saturating_sub(8)..]))
            .collect()
    }
}

fn note(all: &mut BTreeMap<End, Seen>, at: usize, event: Event<'_>) {
    let end = |id: SocketId| End { at, id };
    let (socket, note) = match event {
        Event::Accepted { listener, socket } => {
            all.entry(end(socket)).or_default().story.origin = Origin::Accepted;
            let listening = all.entry(end(listener)).or_default();
            listening.story.accepted();
            listening.accepted.push(end(socket));
            (listener, Note::Accepted)
        }
        Event::AcceptStopped { listener, errno } => {
            all.entry(end(listener)).or_default().story.accept_stopped(errno);
            (listener, Note::AcceptStopped(errno))
        }
        Event::Connected { socket, outcome } => {
            all.entry(end(socket)).or_default().story.connected(outcome);
            (socket, Note::Connected(outcome))
        }
        Event::Received { socket, bytes } => {
            assert!(!bytes.is_empty(), "an event without bytes");
            let Seen { received, story, .. } = all.entry(end(socket)).or_default();
            story.received(append(received, bytes));
            (socket, Note::Bytes(bytes.len()))
        }
        Event::ReceiveStopped { socket, reason } => {
            all.entry(end(socket)).or_default().story.stopped(reason);
            (socket, Note::Stopped(reason))
        }
        Event::Sent { socket, outcome, batch } => {
            let seen = all.entry(end(socket)).or_default();
            seen.story.sent(outcome);
            assert!(seen.batch.replace(batch).is_none(), "two batches in flight");
            (socket, Note::Sent(outcome))
        }
        Event::Closed { socket } => {
            all.entry(end(socket)).or_default().story.closed();
            (socket, Note::Closed)
        }
    };
    let seen = all.entry(end(socket)).or_default();
    assert!(!seen.has(&Note::Closed), "{socket:?} is closed, yet {note:?}");
    seen.notes.push(note);
}

fn append(all: &mut Vec<u8>, bytes: &[u8]) -> Range<usize> {
    let from = all.len();
    all.extend_from_slice(bytes);
    from..all.len()
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

/// How long one sleep lasts at most, alone and among several drivers.
const PARK: Duration = Duration::from_secs(1);
const GLANCE: Duration = Duration::from_millis(1);

/// Long enough for the kernel to hand on what it has.
const MOMENT: Duration = Duration::from_millis(20);

/// How long nothing may happen. Only a test that fails ever waits for that.
const PATIENCE: Duration = Duration::from_mins(2);

/// How many polls a test may need. The longest needs a few thousand.
const TURNS_MAX: u32 = 10_000_000;
