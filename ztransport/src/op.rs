//! What a shard asks of its driver.

use crate::batch::Batch;
use crate::socket::{SocketAddress, SocketBuffers, Watch};
use crate::token::SocketId;

/// Which provided buffers a connection receives into.
///
/// Completion connections have a group of their own, so that data can never starve replies of
/// buffers (B-52).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BufferGroup {
    /// Messages, requests and control.
    Application,
    /// Terminal replies and error replies.
    Completion,
}

/// One operation. Each is answered by events of [`crate::event::Event`], unless it says otherwise.
#[derive(Debug)]
pub enum Op {
    /// Accepts connections on a listening socket until it fails or is closed. One that has broken
    /// already, or finds no slot, is closed: its peer tries again.
    Accept {
        /// A listening socket.
        listener: SocketId,
        /// What the kernel may hold for each connection.
        buffers: SocketBuffers,
    },
    /// Connects a fresh socket.
    Connect {
        /// A socket that is not connected.
        socket: SocketId,
        /// Where to.
        address: SocketAddress,
    },
    /// Receives until paused, failed or at the end of the stream.
    Receive {
        /// A connected socket that is not receiving.
        socket: SocketId,
        /// Where the bytes land.
        group: BufferGroup,
    },
    /// Has the kernel notice that the peer of a connection is gone (D-16). Answered by no event.
    Watch {
        /// A connected socket.
        socket: SocketId,
        /// How.
        watch: Watch,
    },
    /// Stops receiving. Bytes may still arrive until `ReceiveStopped` does.
    PauseReceive {
        /// A socket that is receiving.
        socket: SocketId,
    },
    /// Sends as much of a batch as the socket takes. At most one is in flight for a socket: two
    /// would reorder the stream as soon as the first comes up short.
    Send {
        /// A connected socket with no send in flight.
        socket: SocketId,
        /// What to send; comes back with the `Sent` event.
        batch: Batch,
    },
    /// Sends no more; the peer reads to the end of the stream.
    ShutdownWrite {
        /// A connected socket.
        socket: SocketId,
    },
    /// Cancels whatever is in flight, closes the socket once nothing is, and then says `Closed`.
    Close {
        /// Any socket of this driver.
        socket: SocketId,
    },
}
