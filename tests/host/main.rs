//! Whole hosts in one process, over real sockets.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod answers;
mod calls;
mod client_server;
mod deadlock;
mod dispatch;
mod jam;
mod lifetimes;
mod options;
mod permits;
mod requests;
mod sending;
mod shutdown;
mod targets;
mod waiting;
mod withdrawing;
mod world;
