//! The loops that run a shard to its end on a thread of its own.

use std::io;
use std::os::fd::OwnedFd;

use ztransport::Shard;
use ztransport::driver::Driver;
use ztransport::epoll::{Epoll, EpollOptions};
use ztransport::uring::{Uring, UringOptions};

use super::recorder::Recorder;

/// Something that runs a shard to its end.
pub(super) trait Loop: 'static {
    type Driver: Driver<Socket = OwnedFd>;

    /// As tests are named.
    const NAME: &'static str;

    /// Why there is none on this machine.
    fn missing() -> Option<String>;

    /// A driver, made on the thread that is to run it.
    fn driver() -> Self::Driver;

    fn run(shard: Shard<Self::Driver, Recorder>) -> io::Result<()>;
}

/// The shard's own loop over `io_uring`.
pub(super) struct UringLoop;

impl Loop for UringLoop {
    type Driver = Uring;

    const NAME: &'static str = "uring";

    fn missing() -> Option<String> {
        ztests::io_uring_missing()
    }

    fn driver() -> Uring {
        Uring::new(UringOptions { sockets_max: SOCKETS_MAX, ..UringOptions::default() }).unwrap()
    }

    fn run(shard: Shard<Uring, Recorder>) -> io::Result<()> {
        shard.run()
    }
}

/// A loop inside a runtime of tokio-uring.
pub(super) struct TokioUringLoop;

impl Loop for TokioUringLoop {
    type Driver = Uring;

    const NAME: &'static str = "tokio_uring";

    fn missing() -> Option<String> {
        UringLoop::missing()
    }

    fn driver() -> Uring {
        UringLoop::driver()
    }

    fn run(shard: Shard<Uring, Recorder>) -> io::Result<()> {
        ztransport::tokio_uring::run(shard)
    }
}

/// The shard's own loop over epoll.
pub(super) struct EpollLoop;

impl Loop for EpollLoop {
    type Driver = Epoll;

    const NAME: &'static str = "epoll";

    fn missing() -> Option<String> {
        None
    }

    fn driver() -> Epoll {
        Epoll::new(EpollOptions { sockets_max: SOCKETS_MAX }).unwrap()
    }

    fn run(shard: Shard<Epoll, Recorder>) -> io::Result<()> {
        shard.run()
    }
}

/// A listener, one pair, and the pairs that it takes the place of.
pub(super) const SOCKETS_MAX: u32 = 16;
