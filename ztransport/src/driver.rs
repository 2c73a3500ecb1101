//! The seam between a shard and the kernel.

use core::fmt;
use core::time::Duration;
use std::io;

use crate::event::Event;
use crate::op::Op;
use crate::socket::{SocketAddress, SocketBuffers, Watch};
use crate::token::SocketId;

/// Carries out operations and reports what became of them.
///
/// A driver belongs to one thread. Nothing in it blocks but [`Driver::park`].
pub trait Driver {
    /// Wakes the driver's thread out of [`Driver::park`].
    type Waker: Wake;

    /// A socket that no driver holds: a descriptor, where the kernel is the network.
    type Socket: fmt::Debug + Send + 'static;

    /// Takes a socket in. The driver closes it, and nobody else.
    ///
    /// # Errors
    ///
    /// [`SocketTableFull`] gives the socket back when all slots are taken.
    fn adopt(&mut self, socket: Self::Socket) -> Result<SocketId, SocketTableFull<Self::Socket>>;

    /// Opens a socket to be connected to `address`.
    ///
    /// # Errors
    ///
    /// What socket(2) and setsockopt(2) say; `EMFILE` when all slots are taken.
    fn open(&mut self, address: &SocketAddress, setup: SocketSetup) -> io::Result<SocketId>;

    /// Gives a socket away, for another driver to adopt; its name is dead then. `None` while
    /// anything is in flight for it.
    fn release(&mut self, socket: SocketId) -> Option<Self::Socket>;

    /// Takes an operation. It starts with the next [`Driver::poll`], [`Driver::flush`] or
    /// [`Driver::park`] at the latest. An operation on a socket that is gone is ignored.
    ///
    /// # Errors
    ///
    /// What `io_uring_enter(2)` says when a full submission queue cannot be handed over. A driver
    /// over epoll has no queue and returns none.
    fn push(&mut self, op: Op) -> io::Result<()>;

    /// Reports what has happened, without waiting, and says how many events that were. Some of it
    /// may be left for the next poll, but never all of it.
    ///
    /// # Errors
    ///
    /// What `io_uring_enter(2)` or `epoll_wait(2)` says; the driver is then unusable.
    fn poll(&mut self, sink: impl FnMut(Event<'_>)) -> io::Result<usize>;

    /// Whether [`Driver::is_ready`] notices what the kernel does. Then a shard may spin on it.
    const SEES_KERNEL: bool;

    /// Whether [`Driver::poll`] would find something, as far as that is known without a system call,
    /// and apart from what pushed operations come to at once.
    fn is_ready(&self) -> bool;

    /// Starts what was pushed. No system call if that is nothing.
    ///
    /// # Errors
    ///
    /// As [`Driver::poll`].
    fn flush(&mut self) -> io::Result<()>;

    /// Starts what was pushed, and sleeps until something happens, the waker is used, or `longest`
    /// has passed. It may return early.
    ///
    /// # Errors
    ///
    /// As [`Driver::poll`].
    fn park(&mut self, longest: Option<Duration>) -> io::Result<()>;

    /// The most bytes of one connection that are still reported once a pause is due: from the event on
    /// that made it due, if [`Op::PauseReceive`] is pushed before the next poll.
    fn carry_max(&self) -> u64;

    /// A handle that any thread may use.
    fn waker(&self) -> Self::Waker;

    /// System calls so far, apart from those that set a socket up and those of wakers.
    fn system_calls(&self) -> u64;
}

/// Which driver moves the bytes of a host.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum DriverKind {
    /// `io_uring`, or `epoll` where that is missing or forbidden.
    #[default]
    Auto,
    /// `io_uring` or nothing.
    Uring,
    /// `epoll`, on any kernel and in any container.
    Epoll,
}

/// How a socket is opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SocketSetup {
    /// What the kernel may hold for it.
    pub buffers: SocketBuffers,
    /// How a peer that is gone is noticed.
    pub watch: Watch,
}

/// Ends a sleep from another thread.
pub trait Wake: Clone + Send + Sync + 'static {
    /// Makes the current or the next [`Driver::park`] return. One system call.
    fn wake(&self);
}

/// The driver holds as many sockets as it was built for.
#[derive(Debug)]
pub struct SocketTableFull<S> {
    /// The socket that found no place.
    pub socket: S,
    /// How many there are.
    pub sockets_max: u32,
}
