//! Runs handlers: on a shard's own thread, or on Tokio.
//!
//! A [`Job`] is a message that has its permit and whose handler has not begun. Two executors take
//! jobs, [`LocalTasks`] on a shard and [`TokioRunner`] on a Tokio runtime; both ask one
//! [`StartGate`] before they start a handler. The life of a job, in this order:
//!
//! 1. `submit`: it sits in a run queue and holds its permit (B-12).
//! 2. The gate gives a [`Slot`](gate::Slot); until then it waits and holds its permit (D-14).
//! 3. [`Start::start`] returns the permit and calls the user's callback (B-11).
//! 4. Its future is polled until it ends; it holds the slot and no permit (B-13).
//! 5. The future is dropped first, the slot is given back after.
//!
//! Both executors make the first polls of one queue in arrival order (D-03). Neither has a bound of
//! its own: every queued job holds a permit, so the limit of permits bounds the queues, and the
//! gate bounds what has started.
//!
//! Nothing here runs foreign code (a job's drop, a future's drop, a waker) under one of its locks.

mod counts;
mod gate;
mod held;
mod job;
mod local;
mod ready;
mod tasks;
#[cfg(test)]
mod tests;
#[cfg(feature = "tokio")]
mod tokio_runner;

pub(crate) use counts::DispatchCounts;
pub use gate::RunningLimit;
pub(crate) use gate::StartGate;
#[cfg(feature = "tokio")]
pub(crate) use job::Job;
pub(crate) use job::{HandlerFuture, Start, caught};
pub(crate) use local::LocalTasks;
#[cfg(feature = "tokio")]
pub(crate) use tokio_runner::{PairQueue, TokioRunner};
