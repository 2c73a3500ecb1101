//! Operations on their way to the kernel.

use std::io;

use io_uring::types::CancelBuilder;
use io_uring::{opcode, squeue};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, SocketFlags};

use crate::batch::Batch;
use crate::event::Event;
use crate::op::{BufferGroup, Op};
use crate::socket::{self, SocketAddress, Watch};
use crate::token::SocketId;

use super::Uring;
use super::table::{Ending, Entry, Receive};
use super::token::{Kind, Token};

impl Uring {
    pub(super) fn start(&mut self, op: Op) -> io::Result<()> {
        match op {
            Op::Accept { listener, buffers } => {
                if let Some(entry) = self.open_entry(listener) {
                    entry.accepts_with = buffers;
                }
                self.start_accept(listener)
            }
            Op::Connect { socket, address } => self.start_connect(socket, &address),
            Op::Receive { socket, group } => self.start_receive(socket, group),
            Op::Watch { socket, watch } => {
                self.watch(socket, watch);
                Ok(())
            }
            Op::PauseReceive { socket } => self.pause_receive(socket),
            Op::Send { socket, batch } => self.start_send(socket, batch),
            Op::ShutdownWrite { socket } => {
                self.shutdown_write(socket);
                Ok(())
            }
            Op::Close { socket } => self.close(socket),
        }
    }

    pub(super) fn start_accept(&mut self, listener: SocketId) -> io::Result<()> {
        let Some(entry) = self.open_entry(listener) else { return Ok(()) };
        if entry.in_flight.contains(Kind::Accept) {
            debug_assert!(false, "{listener:?} is accepting already");
            return Ok(());
        }
        let accept = opcode::AcceptMulti::new(entry.fd()).flags(bits(SocketFlags::CLOEXEC.bits()));
        // SAFETY: A multishot accept is given no address, so it points to no memory.
        unsafe { self.submit(listener, Kind::Accept, accept.build()) }
    }

    fn start_connect(&mut self, socket: SocketId, address: &SocketAddress) -> io::Result<()> {
        let Some(entry) = self.open_entry(socket) else { return Ok(()) };
        if entry.in_flight.contains(Kind::Connect) {
            debug_assert!(false, "{socket:?} is connecting already");
            return Ok(());
        }
        let address = match address.encode() {
            Ok(address) => entry.connect.insert(Box::new(address)),
            Err(errno) => {
                self.answers.push_back(Event::Connected { socket, outcome: Err(errno) });
                return Ok(());
            }
        };
        let (start, length) = (address.as_ptr().cast(), address.addr_len());
        let connect = opcode::Connect::new(entry.fd(), start, length).build();
        // SAFETY: The address is boxed in the socket's entry, which keeps it until `connected`
        // has the final completion.
        unsafe { self.submit(socket, Kind::Connect, connect) }
    }

    /// An error means that there is no connection, and its other operations say so.
    fn watch(&mut self, socket: SocketId, watch: Watch) {
        if let Some(entry) = self.open_entry(socket) {
            socket::keep_alive(&entry.socket, watch).ok();
        }
    }

    fn start_receive(&mut self, socket: SocketId, group: BufferGroup) -> io::Result<()> {
        let Some(entry) = self.open_entry(socket) else { return Ok(()) };
        match entry.receive {
            Receive::Idle => self.arm_receive(socket, group),
            // Said once; a stream does not begin again.
            Receive::Over => Ok(()),
            Receive::Armed(_) | Receive::Pausing(_) => {
                debug_assert!(false, "{socket:?} is receiving already");
                Ok(())
            }
        }
    }

    pub(super) fn arm_receive(&mut self, socket: SocketId, group: BufferGroup) -> io::Result<()> {
        let Some(entry) = self.open_entry(socket) else { return Ok(()) };
        entry.receive = Receive::Armed(group);
        let receive = opcode::RecvMulti::new(entry.fd(), group_id(group)).build();
        // SAFETY: It writes only to buffers of its group, and those outlive all operations.
        unsafe { self.submit(socket, Kind::receive(group), receive) }
    }

    fn pause_receive(&mut self, socket: SocketId) -> io::Result<()> {
        let Some(entry) = self.open_entry(socket) else { return Ok(()) };
        // Otherwise it has stopped or is stopping already, and `ReceiveStopped` says so.
        let Receive::Armed(group) = entry.receive else { return Ok(()) };
        entry.receive = Receive::Pausing(group);
        let receive = Token::new(Kind::receive(group), socket).pack();
        let cancel = opcode::AsyncCancel2::new(CancelBuilder::user_data(receive)).build();
        // SAFETY: A cancel points to no memory.
        unsafe { self.submit(socket, Kind::CancelReceive, cancel) }
    }

    fn start_send(&mut self, socket: SocketId, batch: Batch) -> io::Result<()> {
        let refused = match self.table.get(socket) {
            None => return Ok(()),
            Some(entry) if entry.is_closing() => Some(Errno::CANCELED),
            Some(entry) if entry.in_flight.contains(Kind::Send) => {
                debug_assert!(false, "{socket:?} is sending already");
                Some(Errno::ALREADY)
            }
            Some(_) => None,
        };
        if let Some(errno) = refused {
            // The batch comes back even so: its records have been charged for.
            self.answers.push_back(Event::Sent { socket, outcome: Err(errno), batch });
            return Ok(());
        }
        let memory = self.table.lay_out(batch);
        if let Some(entry) = self.table.get(socket) {
            entry.send = Some(memory);
        }
        self.submit_send(socket)
    }

    /// Submits what the socket's entry holds to be sent.
    pub(super) fn submit_send(&mut self, socket: SocketId) -> io::Result<()> {
        let Some(entry) = self.table.get(socket) else { return Ok(()) };
        let Some(memory) = &entry.send else { return Ok(()) };
        // Without MSG_WAITALL: what has left is reported at once, so that room is given back.
        let send = opcode::SendMsg::new(entry.fd(), memory.header().cast())
            .flags(SendFlags::NOSIGNAL.bits());
        // SAFETY: Header, list and segments belong to the boxed memory in the socket's entry,
        // which keeps them untouched until `sent` has the final completion.
        unsafe { self.submit(socket, Kind::Send, send.build()) }
    }

    /// A system call of its own: `io_uring` would hand a shutdown to a worker thread, which costs
    /// far more than the call, and that never blocks.
    fn shutdown_write(&mut self, socket: SocketId) {
        let Some(entry) = self.open_entry(socket) else { return };
        if entry.in_flight.contains(Kind::Send) {
            entry.ending = Ending::ShutdownWrite;
        } else {
            entry.shutdown(Shutdown::Write);
        }
    }

    fn close(&mut self, socket: SocketId) -> io::Result<()> {
        let Some(entry) = self.open_entry(socket) else { return Ok(()) };
        if entry.in_flight.is_empty() {
            drop(self.table.remove(socket));
            self.answers.push_back(Event::Closed { socket });
            return Ok(());
        }
        entry.ending = Ending::Close;
        // First, because a cancel alone leaves the peer without a FIN for as long as anything
        // else keeps the socket.
        entry.shutdown(Shutdown::Both);
        let cancel = opcode::AsyncCancel2::new(CancelBuilder::fd(entry.fd()).all()).build();
        // SAFETY: A cancel points to no memory.
        unsafe { self.submit(socket, Kind::CancelSocket, cancel) }
    }

    /// Queues an operation of a socket.
    ///
    /// # Safety
    ///
    /// What `operation` points to must stay in place until its final completion was taken.
    unsafe fn submit(
        &mut self,
        socket: SocketId,
        kind: Kind,
        operation: squeue::Entry,
    ) -> io::Result<()> {
        let operation = operation.user_data(Token::new(kind, socket).pack());
        // SAFETY: The caller keeps what the operation points to.
        unsafe { self.ring.push(&operation) }?;
        if let Some(entry) = self.table.get(socket) {
            entry.in_flight.insert(kind);
        }
        Ok(())
    }

    /// A socket that is neither gone nor closing.
    fn open_entry(&mut self, socket: SocketId) -> Option<&mut Entry> {
        self.table.get(socket).filter(|entry| !entry.is_closing())
    }
}

/// The kernel's number of a group: its place in `Uring::groups`.
const fn group_id(group: BufferGroup) -> u16 {
    match group {
        BufferGroup::Application => 0,
        BufferGroup::Completion => 1,
    }
}

/// Flags as `io_uring`'s older operations take them.
const fn bits(flags: u32) -> i32 {
    flags.cast_signed()
}

#[cfg(test)]
mod tests {
    use crate::driver::Driver;
    use crate::op::Op;
    use crate::socket::{SocketBuffers, Watch, open_for};
    use crate::uring::{Uring, UringOptions};
    use rustix::net::sockopt;

    #[test]
    fn a_watched_socket_is_kept_alive_as_its_lane_needs() {
        // Without a ring there is nothing to show.
        let Ok(mut uring) = Uring::new(UringOptions::default()) else { return };
        for (watch, timeout_ms) in [(Watch::Application, 0), (Watch::Completion, 15_000)] {
            let address = "127.0.0.1:0".parse().unwrap();
            let seen = open_for(&address, SocketBuffers::default()).unwrap();
            let socket = uring.adopt(seen.try_clone().unwrap()).unwrap();
            assert!(!sockopt::socket_keepalive(&seen).unwrap(), "not yet");
            uring.push(Op::Watch { socket, watch }).unwrap();
            assert!(sockopt::socket_keepalive(&seen).unwrap(), "{watch:?}");
            assert_eq!(sockopt::tcp_user_timeout(&seen).unwrap(), timeout_ms, "{watch:?}");
            uring.push(Op::Close { socket }).unwrap();
            uring.push(Op::Watch { socket, watch }).unwrap();
        }
    }
}
