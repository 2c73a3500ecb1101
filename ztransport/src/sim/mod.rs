//! A simulated network, and drivers over it.
//!
//! Everything happens in the calls of those who use it: there is no thread, no clock and no kernel
//! behind it. The same seed and the same calls give the same events, bit for bit. A driver's time
//! is the number of its polls: what is late is late by so many of them. [`SimFaults`] says what
//! goes wrong and how often.
//!
//! # What a connection does
//!
//! It is two pipes, each as large as the sender's send buffer and the receiver's receive buffer
//! together. A send takes what there is room for. As Linux does over TCP:
//!
//! * An end that is closed with nothing unread is an end of stream to its peer. The peer's next
//!   send is taken and lost, and those behind it fail with `EPIPE`.
//! * An end that is closed with bytes unread resets the connection. The peer still receives what
//!   had come as far as its own receive buffer, the rest is lost. `ECONNRESET` is said once, to
//!   whichever operation comes first; from then on a send fails with `EPIPE`, and a receive finds
//!   the end of the stream.
//! * A listener that is closed resets the connections in its backlog.
//!
//! Unix sockets are simulated with the same rules, but for a path under which nobody ever listened,
//! which is `ENOENT`. Addresses are compared as they are: a wildcard is an address like any other.
//!
//! Closing a socket with operations in flight brings its batch back, as sent if it had been taken
//! and with `ECANCELED` otherwise, and then says that it is closed.

mod connection;
mod engine;
mod faults;
pub mod limits;
mod net;
mod network;
mod pipe;
mod step;
mod table;
#[cfg(test)]
mod tests;

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;

use crate::driver::{Driver, SocketSetup, SocketTableFull, Wake};
use crate::event::Event;
use crate::op::Op;
use crate::socket::SocketAddress;
use crate::token::SocketId;

use step::Report;

pub use connection::Way;
pub use faults::{Fault, Rate, SimCounts, SimFaults};
pub use network::{ConnectionId, SimConnection, SimNetwork, SimSocket};

/// How large a driver is. Nothing of it grows. A zero counts as one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SimOptions {
    /// Sockets that it holds at once.
    pub sockets_max: u32,
    /// Provided buffers of each group: so many pieces of [`limits::BUFFER_BYTES`] are received in
    /// one poll.
    pub buffers: u16,
    /// Operations that start in one poll; what is pushed beyond them starts with later ones.
    pub submissions: u32,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            sockets_max: limits::SOCKETS_DEFAULT,
            buffers: limits::BUFFERS_DEFAULT,
            submissions: limits::SUBMISSIONS_DEFAULT,
        }
    }
}

impl SimOptions {
    fn at_least_one(self) -> Self {
        let Self { sockets_max, buffers, submissions } = self;
        Self {
            sockets_max: sockets_max.max(1),
            buffers: buffers.max(1),
            submissions: submissions.max(1),
        }
    }
}

/// Names a driver of a network.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct SimId(u32);

/// A [`Driver`] over a [`SimNetwork`]. Dropping it closes its sockets.
pub struct Sim {
    id: SimId,
    network: SimNetwork,
    woken: Arc<AtomicBool>,
}

impl Sim {
    /// Its name in the network, for scripts.
    pub const fn id(&self) -> SimId {
        self.id
    }
}

impl Driver for Sim {
    type Waker = SimWaker;
    type Socket = SimSocket;

    /// # Panics
    ///
    /// If the socket is one of another network.
    fn adopt(&mut self, socket: SimSocket) -> Result<SocketId, SocketTableFull<SimSocket>> {
        assert!(socket.belongs_to(&self.network), "a socket of another network");
        let end = socket.into_end();
        self.network.adopt(self.id, end).map_err(|sockets_max| {
            let socket = self.network.socket(end);
            SocketTableFull { socket, sockets_max }
        })
    }

    fn open(&mut self, _address: &SocketAddress, setup: SocketSetup) -> io::Result<SocketId> {
        let socket = self.network.open(setup.buffers);
        self.adopt(socket).map_err(|_| Errno::MFILE.into())
    }

    fn release(&mut self, socket: SocketId) -> Option<SimSocket> {
        let end = self.network.with_engine(self.id, |engine, _| engine.release(socket))??;
        Some(self.network.socket(end))
    }

    /// Always succeeds.
    fn push(&mut self, op: Op) -> io::Result<()> {
        let refused = self.network.with_engine(self.id, |engine, net| engine.push(op, net));
        // A payload's owner may run code of its own, so it is dropped here, outside the lock.
        drop(refused);
        Ok(())
    }

    /// Always succeeds.
    fn poll(&mut self, mut sink: impl FnMut(Event<'_>)) -> io::Result<usize> {
        let reports = self.network.poll(self.id);
        let events = reports.len();
        for report in reports {
            match report {
                Report::Event(event) => sink(event),
                Report::Received { socket, bytes } => {
                    sink(Event::Received { socket, bytes: &bytes });
                }
            }
        }
        Ok(events)
    }

    const SEES_KERNEL: bool = false;

    /// Whether a poll, this one or a later one, would come to something although nobody else does
    /// anything: or was woken. What a script holds back does not count.
    fn is_ready(&self) -> bool {
        self.network.is_ready(self.id)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.network.with_engine(self.id, engine::Engine::start_queued);
        Ok(())
    }

    /// Never sleeps: time is the caller's. Operations that were pushed are handed over.
    fn park(&mut self, _longest: Option<Duration>) -> io::Result<()> {
        self.woken.store(false, Ordering::Release);
        self.flush()
    }

    /// No bound: a script may keep a pause waiting for as long as it likes.
    fn carry_max(&self) -> u64 {
        u64::MAX
    }

    fn waker(&self) -> SimWaker {
        SimWaker { woken: Arc::clone(&self.woken) }
    }

    /// Polls in which an operation started or something was reported: the real driver would have
    /// entered the kernel for these.
    fn system_calls(&self) -> u64 {
        self.network.with_engine(self.id, |engine, _| engine.busy_polls).unwrap_or_default()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let engine = self.network.remove(self.id);
        // Batches are dropped here, outside the lock.
        drop(engine);
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, network: _, woken } = self;
        f.debug_struct("Sim")
            .field("id", id)
            .field("woken", woken)
            .field("ready", &self.is_ready())
            .finish_non_exhaustive()
    }
}

/// Wakes a [`Sim`]: it is ready until its next poll or park. May outlive it, and then does nothing.
#[derive(Clone, Debug)]
pub struct SimWaker {
    woken: Arc<AtomicBool>,
}

impl Wake for SimWaker {
    fn wake(&self) {
        self.woken.store(true, Ordering::Release);
    }
}
