//! One poll: what becomes of the operations in flight.

use core::sync::atomic::Ordering;

use rustix::io::Errno;

use super::SimId;
use super::engine::Engine;
use super::faults::Fault;
use super::limits::{BUFFER_BYTES, LATE_POLLS_MAX};
use super::net::{Acceptable, Dialed, Net};
use super::pipe::Readable;
use super::table::{Due, Ending, Entry, Fate, Late, Receive};
use crate::event::{Event, ReceiveStop};
use crate::op::BufferGroup;
use crate::token::SocketId;

/// An event, with bytes of its own.
#[derive(Debug)]
pub(super) enum Report {
    Event(Event<'static>),
    Received { socket: SocketId, bytes: Vec<u8> },
}

/// What one poll works with.
struct Poll<'net> {
    net: &'net mut Net,
    driver: SimId,
    now: u64,
    /// Provided buffers that are left, of each group.
    application: u16,
    completion: u16,
    reports: Vec<Report>,
}

impl Engine {
    /// Moves everything on by one poll, and says what happened.
    pub(super) fn poll(&mut self, net: &mut Net) -> Vec<Report> {
        self.now += 1;
        self.is_startled = false;
        self.woken.store(false, Ordering::Release);
        let has_started = self.start_queued(net);
        let reports = self.answers.drain(..).map(Report::Event).collect();
        let mut order: Vec<SocketId> =
            self.table.iter().filter(|(_, entry)| !entry.is_quiet()).map(|(id, _)| id).collect();
        if order.len() > 1 && net.dice.strikes(Fault::Reordered) {
            net.dice.shuffle(&mut order);
        }
        let buffers = self.options.buffers;
        let (driver, now) = (self.id, self.now);
        let mut poll =
            Poll { net, driver, now, application: buffers, completion: buffers, reports };
        for socket in order {
            self.step(socket, &mut poll);
        }
        let Poll { net, reports, .. } = poll;
        // Only behind events, so that a driver without any comes to rest.
        self.is_startled = !reports.is_empty() && net.dice.strikes(Fault::SpuriousWake);
        self.busy_polls += u64::from(has_started || !reports.is_empty());
        self.count_ends(&reports);
        reports
    }

    fn step(&mut self, socket: SocketId, poll: &mut Poll<'_>) {
        let Some(entry) = self.table.get(socket) else { return };
        if let Ending::Close(due) = entry.ending {
            if due.has_come(poll.now) {
                self.finish_close(socket, poll);
            }
            return;
        }
        if entry.connect.is_some() {
            poll.connect(socket, entry);
        }
        // Nothing else happens to a socket before it is told to be connected.
        if entry.connect.is_none() {
            poll.send(socket, entry);
            poll.receive(socket, entry);
        }
        while let Some(entry) = self.table.get(socket)
            && let Some(accepted) = poll.accept(socket, entry)
        {
            match self.adopt(accepted) {
                Ok(socket_of_it) => {
                    poll.report(Event::Accepted { listener: socket, socket: socket_of_it });
                }
                Err(accepted) => poll.net.close(accepted),
            }
        }
    }

    /// What was in flight comes back, and the name dies.
    fn finish_close(&mut self, socket: SocketId, poll: &mut Poll<'_>) {
        let Some(entry) = self.table.remove(socket) else { return };
        // It ends without a word.
        self.tally.arms_ended += u64::from(entry.is_armed());
        if let Some(send) = entry.send {
            let outcome = send.outcome.unwrap_or(Err(Errno::CANCELED));
            poll.report(Event::Sent { socket, outcome, batch: send.batch });
        }
        poll.net.close(entry.end);
        poll.report(Event::Closed { socket });
    }

    fn count_ends(&mut self, reports: &[Report]) {
        for report in reports {
            match report {
                Report::Event(Event::Sent { .. }) => self.tally.sends_ended += 1,
                Report::Event(Event::ReceiveStopped { .. }) => self.tally.arms_ended += 1,
                Report::Event(
                    Event::Accepted { .. }
                    | Event::AcceptStopped { .. }
                    | Event::Connected { .. }
                    | Event::Received { .. }
                    | Event::Closed { .. },
                )
                | Report::Received { .. } => {}
            }
        }
    }
}

impl Poll<'_> {
    fn report(&mut self, event: Event<'static>) {
        self.reports.push(Report::Event(event));
    }

    fn connect(&mut self, socket: SocketId, entry: &mut Entry) {
        let Some(connect) = &mut entry.connect else { return };
        if !connect.due.has_come(self.now) {
            return;
        }
        if connect.outcome.is_none() {
            let outcome = match connect.fate {
                Fate::Failure(errno) => Err(errno),
                Fate::Listener => match self.net.dial(entry.end, self.driver, &connect.address) {
                    Dialed::Made => Ok(()),
                    Dialed::Failed(errno) => Err(errno),
                    Dialed::Waits => return,
                },
            };
            connect.outcome = Some(outcome);
            connect.due = self.late();
        }
        if let (Some(outcome), true) = (connect.outcome, connect.due.has_come(self.now)) {
            entry.connect = None;
            self.report(Event::Connected { socket, outcome });
        }
    }

    /// The next connection that is accepted, if one is.
    fn accept(&mut self, listener: SocketId, entry: &mut Entry) -> Option<super::net::EndId> {
        let accept = entry.accept.as_mut().filter(|accept| accept.due.has_come(self.now))?;
        let errno = match self.net.acceptable(entry.end) {
            Acceptable::Nothing => return None,
            Acceptable::Connection if self.holds_back(&mut accept.late) => return None,
            Acceptable::Connection if self.net.dice.strikes(Fault::AcceptStopped) => Errno::MFILE,
            Acceptable::Connection => return self.net.accept(entry.end, accept.buffers),
            Acceptable::Never => Errno::INVAL,
        };
        entry.accept = None;
        self.report(Event::AcceptStopped { listener, errno });
        None
    }

    fn send(&mut self, socket: SocketId, entry: &mut Entry) {
        let Some(send) = &mut entry.send else { return };
        if !send.due.has_come(self.now) {
            return;
        }
        if send.outcome.is_none() {
            send.outcome = self.net.send(entry.end, &send.batch);
            if send.outcome.is_none() {
                return;
            }
            send.due = self.late();
            if !send.due.has_come(self.now) {
                return;
            }
        }
        if let Some(send) = entry.send.take()
            && let Some(outcome) = send.outcome
        {
            if entry.ending == Ending::EndStream {
                entry.ending = Ending::None;
                self.net.end_stream(entry.end);
            }
            self.report(Event::Sent { socket, outcome, batch: send.batch });
        }
    }

    fn receive(&mut self, socket: SocketId, entry: &mut Entry) {
        let Some(reason) = self.receive_until_stopped(socket, entry) else { return };
        entry.receive = match reason {
            ReceiveStop::Paused | ReceiveStop::NoBuffers => Receive::Idle,
            ReceiveStop::EndOfStream | ReceiveStop::Failed(_) => Receive::Over,
        };
        self.report(Event::ReceiveStopped { socket, reason });
    }

    fn receive_until_stopped(
        &mut self,
        socket: SocketId,
        entry: &mut Entry,
    ) -> Option<ReceiveStop> {
        let end = entry.end;
        let Receive::Armed(arm) = &mut entry.receive else { return None };
        if !arm.due.has_come(self.now) {
            return None;
        }
        if arm.pause.is_some_and(|pause| pause.has_come(self.now)) {
            return Some(ReceiveStop::Paused);
        }
        if self.net.readable(end) == Readable::Nothing || self.holds_back(&mut arm.late) {
            return None;
        }
        loop {
            let length = match self.net.readable(end) {
                Readable::Nothing => return None,
                Readable::Bytes(length) => length,
                Readable::End => return Some(ReceiveStop::EndOfStream),
                Readable::Failed(errno) => {
                    self.net.tell_reset(end);
                    return Some(ReceiveStop::Failed(errno));
                }
            };
            if !self.take_buffer(arm.group, &mut entry.is_starved) {
                let is_pausing = arm.pause.is_some();
                return Some(if is_pausing { ReceiveStop::Paused } else { ReceiveStop::NoBuffers });
            }
            let whole = length.min(BUFFER_BYTES);
            let is_split = whole > 1 && self.net.dice.strikes(Fault::SplitReceive);
            let length = if is_split { self.net.dice.part_of(whole) } else { whole };
            let bytes = self.net.read(end, length);
            if matches!(arm.pause, Some(Due::At(_))) {
                self.net.dice.count(Fault::LateData);
            }
            self.reports.push(Report::Received { socket, bytes });
            // The rest arrives later, as often as not.
            if is_split && self.net.dice.below(2) == 0 {
                return None;
            }
        }
    }

    /// Takes a buffer of a group, unless there is none.
    const fn take_buffer(&mut self, group: BufferGroup, is_starved: &mut bool) -> bool {
        let left = match group {
            BufferGroup::Application => &mut self.application,
            BufferGroup::Completion => &mut self.completion,
        };
        if *left > 0 && (*is_starved || !self.net.dice.strikes(Fault::NoBuffers)) {
            *left -= 1;
            *is_starved = false;
            return true;
        }
        *is_starved = *left > 0;
        false
    }

    /// When what has just happened is reported.
    const fn late(&mut self) -> Due {
        Due::At(self.now + self.net.dice.lateness())
    }

    /// Whether what has arrived is not noticed yet.
    const fn holds_back(&mut self, late: &mut Late) -> bool {
        match *late {
            Late::Until(poll) if poll > self.now => true,
            Late::Until(_) => {
                *late = Late::Unknown;
                false
            }
            Late::Unknown => {
                let is_late = self.net.dice.strikes(Fault::LateCompletion);
                if is_late {
                    *late = Late::Until(self.now + self.net.dice.delay(LATE_POLLS_MAX));
                }
                is_late
            }
        }
    }
}
