//! What a script works with: drivers, what they have said of each socket, and a loop that runs them
//! until something is true.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use zcore::{ByteCount, Instant};
use ztests::alone::{self, NoNewProcess};
use ztransport::Batch;
use ztransport::driver::{Driver, SocketSetup};
use ztransport::event::ReceiveStop;
use ztransport::op::{BufferGroup, Op};
use ztransport::socket::{SocketAddress, SocketBuffers, Watch};

use crate::seen::{self, End, Life, Note, Seen, Sending};
use crate::stand::{Rest, Scale, Size, SocketOf, Stand};
use crate::trace::{Hidden, Origin, Trace};

/// Small enough that megabytes do not fit, whatever the kernel adds.
pub(crate) const SMALL: SocketBuffers =
    SocketBuffers { send: ByteCount::kib(16), receive: ByteCount::kib(16) };

pub(crate) struct World<S: Stand> {
    drivers: Vec<S::Driver>,
    pub(crate) stand: S,
    pub(crate) scale: Scale,
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
        Self { drivers, stand, scale: S::SCALE, test, seen: BTreeMap::new(), no_process }
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
        if released.is_some() {
            self.seen(end).life = Life::GivenAway;
        }
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

    /// Sends all of it, with as many sends as that takes.
    pub(crate) fn send(&mut self, end: End, bytes: &[u8]) {
        self.send_batch(end, batch(bytes));
    }

    pub(crate) fn send_batch(&mut self, end: End, batch: Batch) {
        self.begin_to_send(end, batch, Sending::ToTheEnd);
    }

    /// Sends as much as one send takes.
    pub(crate) fn send_once(&mut self, end: End, bytes: &[u8]) {
        self.begin_to_send(end, batch(bytes), Sending::Once);
    }

    fn begin_to_send(&mut self, end: End, batch: Batch, sending: Sending) {
        let seen = self.seen(end);
        assert_eq!(seen.sending, Sending::Nothing, "one batch at a time");
        seen.batch = None;
        seen.sending = sending;
        seen.story.sending(batch.unsent());
        self.push(end.at, Op::Send { socket: end.id, batch });
    }

    pub(crate) fn shutdown(&mut self, end: End) {
        self.push(end.at, Op::ShutdownWrite { socket: end.id });
    }

    pub(crate) fn close(&mut self, end: End) {
        self.seen(end).life = Life::Closing;
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
            events += driver.poll(|event| seen::note(seen, at, event)).unwrap();
        }
        if events > 0 {
            self.go_on();
        }
        events
    }

    /// Does what every user of a driver has to: sends what a short send has left, and receives again
    /// after running out of buffers.
    fn go_on(&mut self) {
        let mut ops = Vec::new();
        for (end, seen) in &mut self.seen {
            if let Some(batch) = seen.rest_to_send() {
                ops.push((end.at, Op::Send { socket: end.id, batch }));
            }
            let before = seen.notes.len();
            seen.notes.retain(|note| *note != Note::Stopped(ReceiveStop::NoBuffers));
            if let (true, Some(group)) = (seen.notes.len() < before, seen.group) {
                seen.no_buffers += 1;
                ops.push((end.at, Op::Receive { socket: end.id, group }));
            }
        }
        for (at, op) in ops {
            self.push(at, op);
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
            match self.stand.rest(&mut self.drivers) {
                Rest::Awake => {}
                Rest::Slept(span) => idle += span,
                Rest::ForEver => idle = PATIENCE,
            }
            assert!(idle < PATIENCE, "nothing happens any more: {:?}", self.notes());
        }
    }

    /// Runs the drivers until nothing is under way. Whoever looks too early sees less.
    pub(crate) fn until_quiet(&mut self) {
        let (mut calm, mut turns) = (0, 0);
        while calm < 2 {
            turns += 1;
            assert!(turns < TURNS_MAX, "this goes nowhere: {:?}", self.notes());
            let events = self.poll();
            if events > 0 || !self.stand.is_quiet(&self.drivers[0]) {
                calm = 0;
                continue;
            }
            calm += 1;
            self.stand.pass_a_moment(&mut self.drivers[0]);
        }
    }

    /// Lets the first driver sleep.
    pub(crate) fn park(&mut self, longest: Duration) {
        self.stand.park(&mut self.drivers[0], longest);
    }

    #[track_caller]
    pub(crate) fn until_noted(&mut self, end: End, note: &Note) {
        self.until(|world| world.seen(end).has(note));
    }

    #[track_caller]
    pub(crate) fn until_received(&mut self, end: End, bytes: usize) {
        self.until(|world| world.seen(end).received.len() >= bytes);
    }

    /// Waits until a batch has left, or failed to.
    #[track_caller]
    pub(crate) fn until_sent(&mut self, end: End) {
        self.until(|world| world.seen(end).sending == Sending::Nothing);
    }

    /// Sends bytes from one end to the other, which is receiving.
    #[track_caller]
    pub(crate) fn carry(&mut self, from: End, to: End, bytes: &[u8]) {
        let before = self.seen(to).received.len();
        self.send(from, bytes);
        self.until_sent(from);
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
    pub(crate) fn full_pair(&mut self, bytes: &[u8]) -> (End, End) {
        let address = self.stand.unix();
        let (ours, theirs) = self.pair_at(&address, SMALL);
        self.send(ours, bytes);
        self.until_quiet();
        assert_eq!(self.seen(ours).sending, Sending::ToTheEnd, "there was no room for all");
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

    /// Leaves what a socket sends out of the trace.
    pub(crate) fn hide_writes(&mut self, end: End) {
        self.seen(end).story.hidden = Hidden::Writes;
    }

    /// Closes every socket that is open, and sees that each of them says so.
    #[track_caller]
    pub(crate) fn close_all(&mut self) {
        let drivers = self.drivers.len();
        let is_open = |end: &End, seen: &Seen| {
            end.at < drivers && seen.life != Life::GivenAway && !seen.has(&Note::Closed)
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

    /// The last that was seen of some sockets, for a failure.
    fn notes(&self) -> BTreeMap<End, &[Note]> {
        let last = |seen: &Seen| seen.notes.len().saturating_sub(8);
        self.seen
            .iter()
            .filter(|(_, seen)| !seen.has(&Note::Closed))
            .map(|(end, seen)| (*end, &seen.notes[last(seen)..]))
            .take(12)
            .collect()
    }
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

/// How long nothing may happen. Only a test that fails ever waits for that.
const PATIENCE: Duration = Duration::from_mins(2);

/// How many polls a test may need. The longest needs a few thousand.
const TURNS_MAX: u32 = 10_000_000;
