//! Whole hosts in one process, over real sockets.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod calls;
mod deadlock;
mod jam;
mod sending;
mod withdrawing;
mod world;
