//! The sockets of a driver, and where their operations stand.
//!
//! Every time is a number of polls of the driver.

use rustix::io::Errno;

use super::net::EndId;
use crate::batch::Batch;
use crate::op::BufferGroup;
use crate::socket::{SocketAddress, SocketBuffers};

/// A socket and what is in flight for it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) end: EndId,
    pub(super) connect: Option<Connect>,
    pub(super) accept: Option<Accept>,
    pub(super) receive: Receive,
    pub(super) send: Option<Send>,
    pub(super) ending: Ending,
    /// Whether the last receive stopped for want of buffers before it brought a byte.
    pub(super) is_starved: bool,
}

/// When an operation goes on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Due {
    /// It is in the submission queue.
    Queued,
    /// With this poll.
    At(u64),
}

impl Due {
    pub(super) const fn has_come(self, now: u64) -> bool {
        match self {
            Self::Queued => false,
            Self::At(poll) => poll <= now,
        }
    }
}

/// A connect in flight.
#[derive(Debug)]
pub(super) struct Connect {
    pub(super) address: SocketAddress,
    pub(super) due: Due,
    pub(super) fate: Fate,
    /// What it has come to, once that is known and not yet reported.
    pub(super) outcome: Option<Result<(), Errno>>,
}

/// What a connect will meet, whoever listens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    /// Whoever listens.
    Listener,
    Failure(Errno),
}

/// An accept in flight.
#[derive(Debug)]
pub(super) struct Accept {
    pub(super) buffers: SocketBuffers,
    pub(super) due: Due,
    pub(super) late: Late,
}

/// Where the receiving side stands.
#[derive(Debug)]
pub(super) enum Receive {
    Idle,
    Armed(Arm),
    /// At the end of the stream, or failed.
    Over,
}

/// A receive in flight.
#[derive(Debug)]
pub(super) struct Arm {
    pub(super) group: BufferGroup,
    pub(super) due: Due,
    pub(super) late: Late,
    /// When it stops, if it was paused.
    pub(super) pause: Option<Due>,
}

/// Whether what has arrived is held back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Late {
    /// It was not asked yet.
    Unknown,
    /// It is, until this poll.
    Until(u64),
}

/// A send in flight.
#[derive(Debug)]
pub(super) struct Send {
    pub(super) batch: Batch,
    pub(super) due: Due,
    /// What it has come to, once that is known and not yet reported.
    pub(super) outcome: Option<Result<usize, Errno>>,
}

/// What happens once something that is in flight has come back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ending {
    None,
    /// No more is sent once the send in flight is back.
    EndStream,
    /// The socket is closed once nothing is in flight.
    Close(Due),
}

impl Entry {
    pub(super) const fn new(end: EndId) -> Self {
        Self {
            end,
            connect: None,
            accept: None,
            receive: Receive::Idle,
            send: None,
            ending: Ending::None,
            is_starved: false,
        }
    }

    pub(super) const fn is_closing(&self) -> bool {
        matches!(self.ending, Ending::Close(_))
    }

    pub(super) const fn is_armed(&self) -> bool {
        matches!(self.receive, Receive::Armed(_))
    }

    /// Whether nothing is in flight.
    pub(super) const fn is_quiet(&self) -> bool {
        !self.is_closing()
            && self.connect.is_none()
            && self.accept.is_none()
            && self.send.is_none()
            && !self.is_armed()
    }
}
