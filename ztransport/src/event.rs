//! What a driver tells its shard.

use rustix::io::Errno;

use crate::batch::Batch;
use crate::token::SocketId;

/// Why a socket stopped receiving.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReceiveStop {
    /// It was paused.
    Paused,
    /// The peer sends no more; sending to it still works.
    EndOfStream,
    /// The buffer group was empty. Nothing is lost: the bytes wait in the socket.
    NoBuffers,
    /// The socket failed.
    Failed(Errno),
}

/// One thing that happened. Bytes are borrowed for the call only: the buffer goes back to the
/// kernel behind it.
#[derive(Debug)]
pub enum Event<'buffer> {
    /// A connection was accepted. It is watched like an Application lane until it says more.
    Accepted {
        /// The listening socket.
        listener: SocketId,
        /// The new connection.
        socket: SocketId,
    },
    /// Accepting ended; the shard decides when to start again.
    AcceptStopped {
        /// The listening socket.
        listener: SocketId,
        /// Why.
        errno: Errno,
    },
    /// A connect ended.
    Connected {
        /// The socket.
        socket: SocketId,
        /// Whether it is connected.
        outcome: Result<(), Errno>,
    },
    /// Bytes arrived, in order, never empty.
    Received {
        /// The socket.
        socket: SocketId,
        /// The bytes.
        bytes: &'buffer [u8],
    },
    /// No more bytes arrive until the next `Receive`.
    ReceiveStopped {
        /// The socket.
        socket: SocketId,
        /// Why.
        reason: ReceiveStop,
    },
    /// A send ended.
    Sent {
        /// The socket.
        socket: SocketId,
        /// How many bytes the kernel took, possibly fewer than the batch holds.
        outcome: Result<usize, Errno>,
        /// The batch, as it was pushed.
        batch: Batch,
    },
    /// The socket is closed and its name will not be used again.
    Closed {
        /// The socket.
        socket: SocketId,
    },
}
