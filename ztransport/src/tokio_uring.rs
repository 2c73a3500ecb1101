//! A second loop: a shard inside a runtime of tokio-uring, beside what else runs there.
//!
//! Tokio cannot watch the ring of a shard itself: with deferred task run its descriptor never becomes
//! readable. The kernel signals an eventfd instead, and that Tokio watches. Such a shard costs a few
//! microseconds and system calls more for an isolated message than one with a thread of its own, and
//! nothing more when there are many.
//!
//! The sockets of tokio-uring are not used: a read that is dropped loses what it has read.

use core::future::poll_fn;
use core::time::Duration;
use std::io;

use ::tokio::time::timeout;

use crate::ingress::Ingress;
use crate::shard::{Shard, Turn};
use crate::uring::{RingSignal, Uring};

/// Runs a shard inside [`tokio_uring::start`] on the calling thread, which made its driver, until
/// its host has drained.
///
/// [`tokio_uring::start`]: ::tokio_uring::start
///
/// # Errors
///
/// As [`Shard::run`]; and what `io_uring_register_eventfd(3)` and Tokio say.
pub fn run<I: Ingress>(shard: Shard<Uring, I>) -> io::Result<()> {
    ::tokio_uring::start(host(shard))
}

/// Runs a shard as a task of the runtime that is there already. Other tasks get their turn after each
/// of the shard's; one that holds the thread holds its connections up.
///
/// # Errors
///
/// As [`run`].
pub async fn host<I: Ingress>(mut shard: Shard<Uring, I>) -> io::Result<()> {
    let signal = shard.driver().signal()?;
    loop {
        match shard.turn()? {
            Turn::Busy => ::tokio::task::yield_now().await,
            Turn::Idle => sleep(&mut shard, &signal).await?,
            Turn::Over => return Ok(()),
        }
    }
}

async fn sleep<I: Ingress>(shard: &mut Shard<Uring, I>, signal: &RingSignal) -> io::Result<()> {
    let Some(nap) = shard.lie_down() else {
        ::tokio::task::yield_now().await;
        return Ok(());
    };
    let outcome = if shard.driver().hand_over()? {
        until_signalled(signal, nap.longest).await
    } else {
        ::tokio::task::yield_now().await;
        Ok(())
    };
    shard.wake_up();
    outcome
}

async fn until_signalled(signal: &RingSignal, longest: Option<Duration>) -> io::Result<()> {
    let signalled = poll_fn(|context| signal.poll(context));
    match longest {
        Some(longest) => timeout(longest, signalled).await.unwrap_or(Ok(())),
        None => signalled.await,
    }
}
