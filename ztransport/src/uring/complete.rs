//! Completions, and what they mean to a socket.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::Shutdown;

use crate::driver::Driver;
use crate::errno::{Meaning, meaning};
use crate::event::{Event, ReceiveStop};
use crate::op::BufferGroup;
use crate::socket;
use crate::token::SocketId;

use super::Uring;
use super::ring::Completion;
use super::table::{Ending, Receive};
use super::token::{Kind, Token};

/// What follows a completion of a receive.
enum Next {
    /// More completions.
    Nothing,
    /// The kernel has ended a receive that nobody wanted to end.
    ArmAgain(BufferGroup),
    Stop(ReceiveStop),
}

impl Uring {
    /// Handles one completion.
    pub(super) fn complete(
        &mut self,
        completion: &Completion,
        report: &mut impl FnMut(Event<'_>),
    ) -> io::Result<()> {
        let Some(token) = self.claim(completion) else {
            self.stale_completions += 1;
            self.discard(completion);
            return Ok(());
        };
        let socket = token.socket;
        match token.kind {
            Kind::Connect => self.connected(socket, completion, report),
            Kind::Accept => self.accepted(socket, completion, report)?,
            Kind::ReceiveApplication => {
                self.received(socket, BufferGroup::Application, completion, report)?;
            }
            Kind::ReceiveCompletion => {
                self.received(socket, BufferGroup::Completion, completion, report)?;
            }
            Kind::Send => self.sent(socket, completion, report)?,
            // What a cancel says tells nothing: only the operation's own completion counts.
            Kind::CancelReceive | Kind::CancelSocket | Kind::Wake | Kind::CancelAll => {}
        }
        self.close_if_quiet(socket, report);
        Ok(())
    }

    /// Takes back what a completion brings that nobody waits for.
    pub(super) fn discard(&mut self, completion: &Completion) {
        let Some(token) = Token::unpack(completion.user_data) else { return };
        match token.kind {
            Kind::Accept => drop(accepted_socket(completion)),
            Kind::ReceiveApplication => self.recycle(BufferGroup::Application, completion),
            Kind::ReceiveCompletion => self.recycle(BufferGroup::Completion, completion),
            Kind::Connect
            | Kind::Send
            | Kind::CancelReceive
            | Kind::CancelSocket
            | Kind::Wake
            | Kind::CancelAll => {}
        }
    }

    /// Finds the operation in flight that a completion belongs to; a final one ends its flight.
    fn claim(&mut self, completion: &Completion) -> Option<Token> {
        let token = Token::unpack(completion.user_data)?;
        let in_flight = &mut self.table.get(token.socket)?.in_flight;
        let known = if completion.is_final() {
            in_flight.remove(token.kind)
        } else {
            in_flight.contains(token.kind)
        };
        known.then_some(token)
    }

    fn connected(
        &mut self,
        socket: SocketId,
        completion: &Completion,
        report: &mut impl FnMut(Event<'_>),
    ) {
        let Some(entry) = self.table.get(socket) else { return };
        entry.connect = None;
        if !entry.is_closing() {
            report(Event::Connected { socket, outcome: completion.outcome().map(drop) });
        }
    }

    fn accepted(
        &mut self,
        listener: SocketId,
        completion: &Completion,
        report: &mut impl FnMut(Event<'_>),
    ) -> io::Result<()> {
        let accepted = accepted_socket(completion);
        // On a closing listener the connection is dropped, and with it closed.
        let Some(entry) = self.table.get(listener).filter(|entry| !entry.is_closing()) else {
            return Ok(());
        };
        let buffers = entry.accepts_with;
        match accepted {
            Err(errno) => report(Event::AcceptStopped { listener, errno }),
            Ok(connection) => {
                // One that cannot be set up has broken already.
                let prepared = socket::prepare_accepted(&connection, buffers).is_ok();
                if let (true, Ok(socket)) = (prepared, self.adopt(connection)) {
                    report(Event::Accepted { listener, socket });
                }
                if completion.is_final() {
                    return self.start_accept(listener);
                }
            }
        }
        Ok(())
    }

    fn received(
        &mut self,
        socket: SocketId,
        group: BufferGroup,
        completion: &Completion,
        report: &mut impl FnMut(Event<'_>),
    ) -> io::Result<()> {
        let Some(entry) = self.table.get(socket) else { return Ok(()) };
        let closing = entry.is_closing();
        if let (Ok(length @ 1..), Some(buffer), false) =
            (completion.outcome(), completion.buffer(), closing)
        {
            let bytes = self.group(group).bytes(buffer, length as usize);
            debug_assert!(bytes.is_some(), "{length} bytes in buffer {buffer}");
            if let Some(bytes) = bytes {
                report(Event::Received { socket, bytes });
            }
        }
        self.recycle(group, completion);
        if closing {
            return Ok(());
        }
        match self.follow(socket, completion) {
            Next::Nothing => Ok(()),
            Next::ArmAgain(group) => self.arm_receive(socket, group),
            Next::Stop(reason) => {
                report(Event::ReceiveStopped { socket, reason });
                Ok(())
            }
        }
    }

    /// Decides what follows a completion of a receive, and moves the socket there.
    fn follow(&mut self, socket: SocketId, completion: &Completion) -> Next {
        if !completion.is_final() {
            return Next::Nothing;
        }
        let Some(entry) = self.table.get(socket) else { return Next::Nothing };
        let next = match (completion.outcome(), entry.receive) {
            (Ok(0), _) => Next::Stop(ReceiveStop::EndOfStream),
            // Ended by an overflow, or by a cancel: either way what arrived was delivered.
            (Ok(_), Receive::Armed(group)) => Next::ArmAgain(group),
            (Err(Errno::NOBUFS), Receive::Armed(_)) => Next::Stop(ReceiveStop::NoBuffers),
            (Ok(_) | Err(Errno::NOBUFS | Errno::CANCELED), Receive::Pausing(_)) => {
                Next::Stop(ReceiveStop::Paused)
            }
            (Err(errno), state) => match (meaning(errno), state) {
                (Meaning::Again, Receive::Armed(group)) => Next::ArmAgain(group),
                (Meaning::Again, Receive::Pausing(_)) => Next::Stop(ReceiveStop::Paused),
                _ => Next::Stop(ReceiveStop::Failed(errno)),
            },
            (Ok(_), Receive::Idle | Receive::Over) => Next::Nothing,
        };
        entry.receive = match next {
            Next::Nothing => entry.receive,
            Next::ArmAgain(group) => Receive::Armed(group),
            Next::Stop(ReceiveStop::Paused | ReceiveStop::NoBuffers) => Receive::Idle,
            Next::Stop(ReceiveStop::EndOfStream | ReceiveStop::Failed(_)) => Receive::Over,
        };
        next
    }

    fn sent(
        &mut self,
        socket: SocketId,
        completion: &Completion,
        report: &mut impl FnMut(Event<'_>),
    ) -> io::Result<()> {
        let Some(entry) = self.table.get(socket) else { return Ok(()) };
        let outcome = completion.outcome().map(|bytes| bytes as usize);
        let again = outcome.is_err_and(|errno| meaning(errno) == Meaning::Again);
        if again && !entry.is_closing() {
            return self.submit_send(socket);
        }
        if entry.ending == Ending::ShutdownWrite {
            entry.ending = Ending::None;
            entry.shutdown(Shutdown::Write);
        }
        if let Some(memory) = entry.send.take() {
            let batch = self.table.take_batch(memory);
            report(Event::Sent { socket, outcome, batch });
        }
        Ok(())
    }

    /// Closes a socket that was only waiting for what was in flight.
    fn close_if_quiet(&mut self, socket: SocketId, report: &mut impl FnMut(Event<'_>)) {
        let closing = self.table.get(socket).is_some_and(|entry| entry.is_closing());
        if closing && self.table.remove(socket).is_some() {
            report(Event::Closed { socket });
        }
    }

    fn recycle(&mut self, group: BufferGroup, completion: &Completion) {
        if let Some(buffer) = completion.buffer() {
            self.group(group).recycle(buffer);
        }
    }
}

/// The descriptor that an accept brought.
fn accepted_socket(completion: &Completion) -> Result<OwnedFd, Errno> {
    completion.outcome()?;
    // SAFETY: The kernel has just installed this descriptor for this completion, which is handled
    // once; nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(completion.result) })
}
