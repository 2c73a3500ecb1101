//! What the tests of all crates share.

pub mod alone;
pub mod forbidden;
pub mod proxy;
mod skip;

pub use skip::{io_uring_missing, run_or_skip, skip};
