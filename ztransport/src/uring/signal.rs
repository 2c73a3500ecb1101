//! What a foreign runtime watches instead of the ring: an eventfd.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::driver::Driver;

use super::Uring;

impl Uring {
    /// An eventfd that the kernel signals for each completion, also for one that it has put off,
    /// watched by the runtime that this runs in.
    pub(crate) fn completion_signal(&self) -> io::Result<AsyncFd<OwnedFd>> {
        let signal = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        self.ring.signal(&signal)?;
        // SAFETY: The descriptor is open, and an `OwnedFd` stays the same one until it is dropped,
        // which `AsyncFd` does last: nobody takes it out in between.
        let watched = unsafe { AsyncFd::register_with_interest(signal, Interest::READABLE) };
        watched.map_err(Into::into)
    }

    /// Hands queued operations over. Whether to wait for the signal then: not if something is known
    /// already, or the waker was used.
    pub(crate) fn hand_over(&mut self) -> io::Result<bool> {
        self.flush()?;
        let is_woken = self.ring.take_wake();
        Ok(!is_woken && !self.is_ready())
    }
}
