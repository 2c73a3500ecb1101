//! Operations as they are asked for.
//!
//! What can be done at once is tried at once; what came of it is reported by the next poll.

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{Shutdown, SocketAddrAny};

use super::Epoll;
use super::table::{AfterSend, Connecting, Receiving, Sending};
use crate::batch::Batch;
use crate::event::Event;
use crate::op::Op;
use crate::socket::{self, SocketAddress, SocketBuffers, Watch};
use crate::token::SocketId;

impl Epoll {
    pub(super) fn start(&mut self, op: Op) {
        match op {
            Op::Accept { listener, buffers } => self.start_accept(listener, buffers),
            Op::Connect { socket, address } => self.start_connect(socket, &address),
            // One buffer serves all: whatever it holds has been shown before anybody else needs it.
            Op::Receive { socket, group: _ } => self.start_receive(socket),
            Op::Watch { socket, watch } => self.watch(socket, watch),
            Op::PauseReceive { socket } => self.pause_receive(socket),
            Op::Send { socket, batch } => self.start_send(socket, batch),
            Op::ShutdownWrite { socket } => self.shutdown_write(socket),
            Op::Close { socket } => self.close(socket),
        }
    }

    fn start_accept(&mut self, listener: SocketId, buffers: SocketBuffers) {
        let Some(entry) = self.table.open(listener) else { return };
        debug_assert!(entry.accepting.is_none(), "{listener:?} is accepting already");
        entry.accepting = Some(buffers);
        entry.readiness.try_read();
        self.table.schedule(listener);
    }

    fn start_connect(&mut self, socket: SocketId, address: &SocketAddress) {
        let Some(entry) = self.table.open(socket) else { return };
        if !matches!(entry.connecting, Connecting::Idle) {
            debug_assert!(false, "{socket:?} is connecting already");
            return;
        }
        match address.encode() {
            Ok(encoded) => self.try_connect(socket, Box::new(encoded)),
            Err(errno) => entry.connecting = Connecting::Ended(Err(errno)),
        }
        self.table.schedule(socket);
    }

    /// Tries to connect once. Only a Unix listener with a full backlog is tried again.
    pub(super) fn try_connect(&mut self, socket: SocketId, address: Box<SocketAddrAny>) {
        let Some(entry) = self.table.open(socket) else { return };
        self.system_calls += 1;
        entry.connecting = match retry_on_intr(|| rustix::net::connect(&entry.socket, &*address)) {
            Err(Errno::INPROGRESS | Errno::ALREADY) => {
                entry.readiness.connecting();
                Connecting::UnderWay
            }
            Err(Errno::AGAIN) if is_unix(&address) => {
                self.backlogged.push_back(socket);
                Connecting::Backlogged(address)
            }
            outcome => Connecting::Ended(outcome),
        };
    }

    fn start_receive(&mut self, socket: SocketId) {
        let Some(entry) = self.table.open(socket) else { return };
        match entry.receiving {
            Receiving::Idle => entry.receiving = Receiving::Armed,
            // Said once; a stream does not begin again.
            Receiving::Over => return,
            Receiving::Armed | Receiving::Pausing => {
                debug_assert!(false, "{socket:?} is receiving already");
                return;
            }
        }
        self.table.schedule(socket);
    }

    fn pause_receive(&mut self, socket: SocketId) {
        let Some(entry) = self.table.open(socket) else { return };
        // Otherwise it has stopped or is stopping already, and `ReceiveStopped` says so.
        if entry.receiving == Receiving::Armed {
            entry.receiving = Receiving::Pausing;
            self.table.schedule(socket);
        }
    }

    /// An error means that there is no connection, and its other operations say so.
    fn watch(&mut self, socket: SocketId, watch: Watch) {
        if let Some(entry) = self.table.open(socket) {
            socket::keep_alive(&entry.socket, watch).ok();
        }
    }

    fn start_send(&mut self, socket: SocketId, batch: Batch) {
        let refused = match self.table.get(socket) {
            None => return,
            Some(entry) if entry.is_closing() => Errno::CANCELED,
            Some(entry) if matches!(entry.sending, Sending::Idle) => {
                entry.sending = Sending::Waiting(batch);
                self.try_send(socket);
                self.table.schedule(socket);
                return;
            }
            Some(_) => {
                debug_assert!(false, "{socket:?} is sending already");
                Errno::ALREADY
            }
        };
        // The batch comes back even so: its records have been charged for.
        self.answers.push_back(Event::Sent { socket, outcome: Err(refused), batch });
    }

    fn shutdown_write(&mut self, socket: SocketId) {
        let Some(entry) = self.table.open(socket) else { return };
        match entry.sending {
            Sending::Waiting(_) => entry.after_send = AfterSend::Shutdown,
            Sending::Idle | Sending::Ended(..) => {
                self.system_calls += 1;
                entry.shutdown(Shutdown::Write);
            }
        }
    }

    fn close(&mut self, socket: SocketId) {
        let Some(entry) = self.table.open(socket) else { return };
        if entry.is_in_flight() {
            // A close alone leaves the peer without a FIN for as long as anything else keeps the
            // socket. With nothing under way, input that nobody reads is answered by a reset.
            self.system_calls += 1;
            entry.shutdown(Shutdown::Both);
        }
        let returned = match entry.close() {
            Sending::Idle => None,
            Sending::Waiting(batch) => Some((Err(Errno::CANCELED), batch)),
            Sending::Ended(outcome, batch) => Some((outcome, batch)),
        };
        if let Some((outcome, batch)) = returned {
            self.answers.push_back(Event::Sent { socket, outcome, batch });
        }
        self.table.schedule(socket);
    }
}

fn is_unix(address: &SocketAddrAny) -> bool {
    address.address_family() == rustix::net::AddressFamily::UNIX
}
