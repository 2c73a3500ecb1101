//! Sockets go on where the kernel, or the shard, has given them something to do.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags, accept_with, recv, sendmsg,
    sockopt,
};

use super::Epoll;
use super::limits::{ACCEPTS_A_POLL_MAX, RECEIVED_A_POLL_MAX};
use super::readiness::Read;
use super::table::{AfterSend, Connecting, Receiving, Sending};
use crate::batch::{Batch, SEGMENTS_MAX};
use crate::event::{Event, ReceiveStop};
use crate::socket;
use crate::token::SocketId;

impl Epoll {
    /// Lets a socket go on, within its share of a poll. If it could go further it is due again.
    pub(super) fn serve(&mut self, socket: SocketId, report: &mut impl FnMut(Event<'_>)) {
        let Some(entry) = self.table.get(socket) else { return };
        if entry.is_closing() {
            drop(self.forget(socket));
            report(Event::Closed { socket });
            return;
        }
        let unwatched = entry.unwatched;
        self.connected(socket, report);
        self.sent(socket, report);
        if let Some(errno) = unwatched {
            self.fail(socket, errno, report);
        } else {
            self.accepted(socket, report);
            self.received(socket, report);
        }
        self.table.schedule(socket);
    }

    /// Takes a socket with nothing in flight out.
    pub(super) fn forget(&mut self, socket: SocketId) -> Option<OwnedFd> {
        let descriptor = self.table.remove(socket)?;
        self.interest.remove(&descriptor);
        Some(descriptor)
    }

    fn connected(&mut self, socket: SocketId, report: &mut impl FnMut(Event<'_>)) {
        let Some(entry) = self.table.open(socket) else { return };
        let outcome = match entry.connecting {
            Connecting::Ended(outcome) => outcome,
            Connecting::UnderWay if entry.readiness.is_writable() => {
                self.system_calls += 1;
                sockopt::socket_error(&entry.socket).and_then(|outcome| outcome)
            }
            Connecting::Idle | Connecting::UnderWay | Connecting::Backlogged(_) => return,
        };
        entry.connecting = Connecting::Idle;
        report(Event::Connected { socket, outcome });
    }

    fn sent(&mut self, socket: SocketId, report: &mut impl FnMut(Event<'_>)) {
        self.try_send(socket);
        let Some(entry) = self.table.open(socket) else { return };
        match core::mem::replace(&mut entry.sending, Sending::Idle) {
            Sending::Ended(outcome, batch) => report(Event::Sent { socket, outcome, batch }),
            unchanged @ (Sending::Idle | Sending::Waiting(_)) => entry.sending = unchanged,
        }
    }

    /// Sends what waits for room, if there may be some.
    pub(super) fn try_send(&mut self, socket: SocketId) {
        let Some(entry) = self.table.open(socket) else { return };
        if !entry.readiness.is_writable() {
            return;
        }
        match core::mem::replace(&mut entry.sending, Sending::Idle) {
            Sending::Waiting(batch) => {
                entry.sending = match transmit(&entry.socket, &batch, &mut self.system_calls) {
                    Err(Errno::AGAIN) => {
                        entry.readiness.write_would_block();
                        Sending::Waiting(batch)
                    }
                    outcome => Sending::Ended(outcome, batch),
                };
            }
            unchanged @ (Sending::Idle | Sending::Ended(..)) => entry.sending = unchanged,
        }
        if entry.after_send == AfterSend::Shutdown && !matches!(entry.sending, Sending::Waiting(_))
        {
            entry.after_send = AfterSend::Nothing;
            self.system_calls += 1;
            entry.shutdown(Shutdown::Write);
        }
    }

    fn accepted(&mut self, listener: SocketId, report: &mut impl FnMut(Event<'_>)) {
        for _ in 0..ACCEPTS_A_POLL_MAX {
            let Some(entry) = self.table.open(listener) else { return };
            let Some(buffers) = entry.accepting else { return };
            if !entry.readiness.is_readable() {
                return;
            }
            self.system_calls += 1;
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match accept_with(&entry.socket, flags) {
                Ok(connection) => {
                    // One that cannot be set up has broken already.
                    let prepared = socket::prepare_accepted(&connection, buffers).is_ok();
                    if let (true, Ok(socket)) = (prepared, self.take_in(connection)) {
                        report(Event::Accepted { listener, socket });
                    }
                }
                Err(Errno::AGAIN) => entry.readiness.after_read(Read::WouldBlock),
                // One that has broken before it was accepted; the next one may be whole.
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => {
                    entry.accepting = None;
                    report(Event::AcceptStopped { listener, errno });
                }
            }
        }
    }

    fn received(&mut self, socket: SocketId, report: &mut impl FnMut(Event<'_>)) {
        let Some(entry) = self.table.open(socket) else { return };
        if entry.receiving == Receiving::Pausing {
            entry.receiving = Receiving::Idle;
            report(Event::ReceiveStopped { socket, reason: ReceiveStop::Paused });
        }
        let mut share = RECEIVED_A_POLL_MAX;
        while entry.receiving == Receiving::Armed && entry.readiness.is_readable() && share > 0 {
            let room = self.buffer.len().min(share);
            let Some(room) = self.buffer.get_mut(..room) else { return };
            self.system_calls += 1;
            let stop = match recv(&entry.socket, &mut *room, RecvFlags::DONTWAIT) {
                Ok((0, _)) => ReceiveStop::EndOfStream,
                Ok((length, _)) => {
                    let read = if length < room.len() { Read::Short } else { Read::Full };
                    entry.readiness.after_read(read);
                    share -= length;
                    let bytes = room.get(..length).unwrap_or_default();
                    report(Event::Received { socket, bytes });
                    continue;
                }
                Err(Errno::AGAIN) => {
                    entry.readiness.after_read(Read::WouldBlock);
                    continue;
                }
                Err(Errno::INTR) => continue,
                Err(errno) => ReceiveStop::Failed(errno),
            };
            entry.receiving = Receiving::Over;
            report(Event::ReceiveStopped { socket, reason: stop });
        }
    }

    /// Ends what is asked of a socket that the kernel does not watch: it would wait for ever.
    fn fail(&mut self, socket: SocketId, errno: Errno, report: &mut impl FnMut(Event<'_>)) {
        let Some(entry) = self.table.open(socket) else { return };
        if !matches!(entry.connecting, Connecting::Idle) {
            entry.connecting = Connecting::Idle;
            report(Event::Connected { socket, outcome: Err(errno) });
        }
        if let Sending::Waiting(batch) = core::mem::replace(&mut entry.sending, Sending::Idle) {
            report(Event::Sent { socket, outcome: Err(errno), batch });
        }
        if entry.accepting.take().is_some() {
            report(Event::AcceptStopped { listener: socket, errno });
        }
        if matches!(entry.receiving, Receiving::Armed | Receiving::Pausing) {
            entry.receiving = Receiving::Over;
            report(Event::ReceiveStopped { socket, reason: ReceiveStop::Failed(errno) });
        }
    }
}

/// Hands the kernel as much of a batch as it takes. Without `MSG_WAITALL`: what has left is
/// reported at once, so that room is given back.
fn transmit(socket: &OwnedFd, batch: &Batch, system_calls: &mut u64) -> Result<usize, Errno> {
    let segments = batch.segments().iter().take(SEGMENTS_MAX);
    let segments: Vec<_> = segments.map(|bytes| IoSlice::new(bytes)).collect();
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        *system_calls += 1;
        match sendmsg(socket, &segments, &mut SendAncillaryBuffer::default(), flags) {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}
