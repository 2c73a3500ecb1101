//! What a foreign runtime watches instead of the ring.

use core::task::{Context, Poll};
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::driver::Driver;

use super::Uring;

/// Tells a runtime that a ring has something to do.
///
/// The kernel signals an eventfd for each completion, also for one that it has put off, with one
/// exception: while it serves a write to an eventfd it signals no other one. The waker of the ring
/// is such a write, so it is watched as well.
#[derive(Debug)]
pub(crate) struct RingSignal {
    completions: AsyncFd<OwnedFd>,
    waker: AsyncFd<OwnedFd>,
}

impl RingSignal {
    /// Ready once something has happened since the last time that it was.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (mut is_ready, mut byte) = (false, [0_u8; 8]);
        while let Poll::Ready(ready) = self.completions.poll_read_ready(context) {
            // The counter is taken first: what is signalled from here on makes it readable anew.
            // One that is empty was signalled for completions that a turn has seen already.
            rustix::io::read(self.completions.get_ref(), &mut byte).ok();
            ready?.clear_ready();
            is_ready = true;
        }
        while let Poll::Ready(ready) = self.waker.poll_read_ready(context) {
            // The counter stays for the ring, and each write to it is an edge of its own.
            ready?.clear_ready();
            is_ready = true;
        }
        if is_ready { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

impl Uring {
    /// The signal of this ring, watched by the runtime that this runs in.
    pub(crate) fn signal(&self) -> io::Result<RingSignal> {
        let completions = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        self.ring.signal(&completions)?;
        let waker = self.waker.descriptor.try_clone()?;
        Ok(RingSignal { completions: watch(completions)?, waker: watch(waker)? })
    }

    /// Hands queued operations over. Whether to wait for the signal then: not if something is known
    /// already, or the waker was used.
    pub(crate) fn hand_over(&mut self) -> io::Result<bool> {
        self.flush()?;
        let is_woken = self.ring.take_wake();
        Ok(!is_woken && !self.is_ready())
    }
}

fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: The descriptor is open, and an `OwnedFd` stays the same one until it is dropped,
    // which `AsyncFd` does last: nobody takes it out in between.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    watched.map_err(Into::into)
}
