//! One driver's operations: what was pushed, what starts, and what is in flight.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

use rustix::io::Errno;

use super::faults::Fault;
use super::limits::{LATE_POLLS_MAX, SLOW_CONNECT_POLLS_MAX};
use super::net::{Acceptable, EndId, Net};
use super::pipe::Readable;
use super::table::{Accept, Arm, Connect, Due, Ending, Entry, Fate, Late, Receive, Send};
use super::{SimId, SimOptions};
use crate::batch::Batch;
use crate::event::Event;
use crate::op::{BufferGroup, Op};
use crate::slots::Slots;
use crate::socket::{SocketAddress, SocketBuffers};
use crate::token::SocketId;

/// The state of one driver.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) id: SimId,
    pub(super) options: SimOptions,
    pub(super) table: Slots<Entry>,
    /// Polls so far: the driver's time.
    pub(super) now: u64,
    queue: VecDeque<(SocketId, Step)>,
    /// Until which poll nothing leaves the queue.
    stalled: Late,
    /// What is known without the network.
    pub(super) answers: VecDeque<Event<'static>>,
    pub(super) woken: Arc<AtomicBool>,
    /// A spurious wake is to come.
    pub(super) is_startled: bool,
    pub(super) busy_polls: u64,
    pub(super) tally: Tally,
}

/// What is queued for a socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    Connect,
    Accept,
    Receive,
    Pause,
    Send,
    Close,
}

/// Operations that were begun and ended, ever.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) sends_begun: u64,
    pub(super) sends_ended: u64,
    pub(super) arms_begun: u64,
    pub(super) arms_ended: u64,
}

impl Engine {
    pub(super) fn new(id: SimId, options: SimOptions, woken: Arc<AtomicBool>) -> Self {
        let options = options.at_least_one();
        Self {
            id,
            options,
            table: Slots::new(options.sockets_max),
            now: 0,
            queue: VecDeque::new(),
            stalled: Late::Unknown,
            answers: VecDeque::new(),
            woken,
            is_startled: false,
            busy_polls: 0,
            tally: Tally::default(),
        }
    }

    /// Takes an end in, or gives it back when all slots are taken.
    pub(super) fn adopt(&mut self, end: EndId) -> Result<SocketId, EndId> {
        self.table.insert(Entry::new(end)).map_err(|entry| entry.end)
    }

    /// Gives an end away, unless something is in flight for it.
    pub(super) fn release(&mut self, socket: SocketId) -> Option<EndId> {
        self.table.get(socket).filter(|entry| entry.is_quiet())?;
        self.table.remove(socket).map(|entry| entry.end)
    }

    /// Takes an operation. A batch that nobody waits for any more is given back, to be dropped
    /// where no lock is held.
    pub(super) fn push(&mut self, op: Op, net: &mut Net) -> Option<Batch> {
        match op {
            Op::Accept { listener, buffers } => self.push_accept(listener, buffers),
            Op::Connect { socket, address } => self.push_connect(socket, address),
            Op::Receive { socket, group } => self.push_receive(socket, group),
            // What keepalive would notice does not happen here: a connection breaks only by a fault or
            // by a script, and then both ends are told.
            Op::Watch { .. } => {}
            Op::PauseReceive { socket } => self.push_pause(socket),
            Op::Send { socket, batch } => return self.push_send(socket, batch),
            Op::ShutdownWrite { socket } => self.end_stream(socket, net),
            Op::Close { socket } => self.push_close(socket, net),
        }
        None
    }

    /// Starts what is queued, as far as one handover goes.
    pub(super) fn start_queued(&mut self, net: &mut Net) -> bool {
        if self.queue.is_empty() || self.is_stalled(net) {
            return false;
        }
        let handed_over = self.queue.len().min(self.options.submissions as usize);
        for (socket, step) in self.queue.drain(..handed_over) {
            if let Some(entry) = self.table.get(socket) {
                start(entry, step, self.now, net);
            }
        }
        true
    }

    /// Whether a poll would come to something without anybody else doing anything.
    pub(super) fn is_ready(&self, net: &Net) -> bool {
        self.is_startled
            || self.woken.load(Ordering::Acquire)
            || !self.answers.is_empty()
            || !self.queue.is_empty()
            || self.table.iter().any(|(_, entry)| self.may_go_on(entry, net))
    }

    fn may_go_on(&self, entry: &Entry, net: &Net) -> bool {
        if entry.is_closing() {
            return true;
        }
        if let Some(connect) = &entry.connect {
            let waits = connect.outcome.is_none()
                && connect.due.has_come(self.now)
                && connect.fate == Fate::Listener
                && net.must_wait(self.id, &connect.address);
            return !waits;
        }
        let accepts = entry.accept.is_some() && net.acceptable(entry.end) != Acceptable::Nothing;
        let sends = entry
            .send
            .as_ref()
            .is_some_and(|send| send.outcome.is_some() || net.is_writable(entry.end));
        let receives = match &entry.receive {
            Receive::Armed(arm) => {
                arm.pause.is_some() || net.readable(entry.end) != Readable::Nothing
            }
            Receive::Idle | Receive::Over => false,
        };
        accepts || sends || receives
    }

    /// Whether the queue does not move now.
    const fn is_stalled(&mut self, net: &mut Net) -> bool {
        match self.stalled {
            Late::Until(poll) if poll > self.now => true,
            Late::Until(_) => {
                self.stalled = Late::Unknown;
                false
            }
            Late::Unknown => {
                let stalls = net.dice.strikes(Fault::QueueFull);
                if stalls {
                    self.stalled = Late::Until(self.now + net.dice.delay(LATE_POLLS_MAX));
                }
                stalls
            }
        }
    }

    fn push_accept(&mut self, listener: SocketId, buffers: SocketBuffers) {
        let Some(entry) = self.open_entry(listener) else { return };
        if entry.accept.is_some() {
            debug_assert!(false, "{listener:?} is accepting already");
            return;
        }
        entry.accept = Some(Accept { buffers, due: Due::Queued, late: Late::Unknown });
        self.queue.push_back((listener, Step::Accept));
    }

    fn push_connect(&mut self, socket: SocketId, address: SocketAddress) {
        let Some(entry) = self.open_entry(socket) else { return };
        if entry.connect.is_some() {
            debug_assert!(false, "{socket:?} is connecting already");
            return;
        }
        let (due, fate) = (Due::Queued, Fate::Listener);
        entry.connect = Some(Connect { address, due, fate, outcome: None });
        self.queue.push_back((socket, Step::Connect));
    }

    fn push_receive(&mut self, socket: SocketId, group: BufferGroup) {
        let Some(entry) = self.open_entry(socket) else { return };
        match entry.receive {
            Receive::Idle => {
                let (due, late) = (Due::Queued, Late::Unknown);
                entry.receive = Receive::Armed(Arm { group, due, late, pause: None });
                self.tally.arms_begun += 1;
                self.queue.push_back((socket, Step::Receive));
            }
            // Said once; a stream does not begin again.
            Receive::Over => {}
            Receive::Armed(_) => debug_assert!(false, "{socket:?} is receiving already"),
        }
    }

    fn push_pause(&mut self, socket: SocketId) {
        let Some(entry) = self.open_entry(socket) else { return };
        // Otherwise it has stopped or is stopping already, and `ReceiveStopped` says so.
        let Receive::Armed(arm) = &mut entry.receive else { return };
        if arm.pause.is_none() {
            arm.pause = Some(Due::Queued);
            self.queue.push_back((socket, Step::Pause));
        }
    }

    fn push_send(&mut self, socket: SocketId, batch: Batch) -> Option<Batch> {
        let refused = match self.table.get(socket) {
            None => return Some(batch),
            Some(entry) if entry.is_closing() => Errno::CANCELED,
            Some(entry) if entry.send.is_some() => {
                debug_assert!(false, "{socket:?} is sending already");
                Errno::ALREADY
            }
            Some(entry) => {
                entry.send = Some(Send { batch, due: Due::Queued, outcome: None });
                self.tally.sends_begun += 1;
                self.queue.push_back((socket, Step::Send));
                return None;
            }
        };
        self.tally.sends_begun += 1;
        self.answers.push_back(Event::Sent { socket, outcome: Err(refused), batch });
        None
    }

    fn end_stream(&mut self, socket: SocketId, net: &mut Net) {
        let Some(entry) = self.open_entry(socket) else { return };
        if entry.send.is_some() {
            entry.ending = Ending::EndStream;
        } else {
            net.end_stream(entry.end);
        }
    }

    /// The peer hears of it at once, whenever it is reported.
    fn push_close(&mut self, socket: SocketId, net: &mut Net) {
        let Some(entry) = self.open_entry(socket) else { return };
        if !entry.is_quiet() {
            net.shut_down(entry.end);
            entry.ending = Ending::Close(Due::Queued);
            self.queue.push_back((socket, Step::Close));
            return;
        }
        if let Some(entry) = self.table.remove(socket) {
            net.close(entry.end);
        }
        self.answers.push_back(Event::Closed { socket });
    }

    /// A socket that is neither gone nor closing.
    fn open_entry(&mut self, socket: SocketId) -> Option<&mut Entry> {
        self.table.get(socket).filter(|entry| !entry.is_closing())
    }

    pub(super) fn assert_invariants(&self, net: &Net) {
        let Tally { sends_begun, sends_ended, arms_begun, arms_ended } = self.tally;
        let is_batch = |event: &&Event<'_>| matches!(event, Event::Sent { .. });
        let answered = self.answers.iter().filter(is_batch).count();
        let sending = self.table.iter().filter(|(_, entry)| entry.send.is_some()).count();
        let held = (answered + sending) as u64;
        assert_eq!(sends_begun, sends_ended + held, "each batch is here or was given back");
        let armed = self.table.iter().filter(|(_, entry)| entry.is_armed()).count() as u64;
        assert_eq!(arms_begun, arms_ended + armed, "each receive goes on or was told to stop");
        for (socket, entry) in self.table.iter() {
            assert!(net.is_open(entry.end), "{socket:?} names an open end");
        }
    }
}

/// An operation leaves the queue.
fn start(entry: &mut Entry, step: Step, now: u64, net: &mut Net) {
    match step {
        Step::Connect => {
            if let Some(connect) = &mut entry.connect {
                start_connect(connect, now, net);
            }
        }
        Step::Accept => {
            if let Some(accept) = &mut entry.accept {
                accept.due = Due::At(now);
            }
        }
        Step::Receive => {
            if let Receive::Armed(arm) = &mut entry.receive {
                arm.due = Due::At(now);
            }
        }
        Step::Pause => {
            // A receive that was armed since was not meant.
            if let Receive::Armed(Arm { pause: Some(pause), .. }) = &mut entry.receive {
                let dice = &mut net.dice;
                let late =
                    if dice.threatens(Fault::LateData) { dice.delay(LATE_POLLS_MAX) } else { 0 };
                *pause = Due::At(now + late);
            }
        }
        Step::Send => {
            if let Some(send) = &mut entry.send {
                send.due = Due::At(now);
            }
        }
        Step::Close => entry.ending = Ending::Close(Due::At(now + net.dice.lateness())),
    }
}

fn start_connect(connect: &mut Connect, now: u64, net: &mut Net) {
    let dice = &mut net.dice;
    connect.fate = if dice.strikes(Fault::Refused) {
        Fate::Failure(Errno::CONNREFUSED)
    } else if dice.strikes(Fault::TimedOut) {
        Fate::Failure(Errno::TIMEDOUT)
    } else {
        Fate::Listener
    };
    let is_slow =
        connect.fate == Fate::Failure(Errno::TIMEDOUT) || dice.strikes(Fault::SlowConnect);
    let delay = if is_slow { dice.delay(SLOW_CONNECT_POLLS_MAX) } else { 0 };
    connect.due = Due::At(now + delay);
}
