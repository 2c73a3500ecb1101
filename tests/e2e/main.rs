//! Two processes or two hosts over real sockets: what a user of the program and a caller of the
//! library see.
//!
//! The contract's own times (a minute at ten times the handler's speed) are for the soak run; here
//! runs last as long as it takes to fill every queue and to drain it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod demo;
mod forbidden;
mod in_process;
mod kill;
mod program;
