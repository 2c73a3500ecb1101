//! Each pitfall of `io_uring` that was measured, against the kernel that runs the test.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod buffers;
mod closing;
mod connecting;
mod dropping;
mod pausing;
mod sending;
mod signals;
mod support;
mod waking;

use static_assertions::{assert_impl_all, assert_not_impl_any};
use ztransport::driver::{Driver, Wake};
use ztransport::uring::{Uring, UringWaker};

// The kernel answers EEXIST to any thread but the one that made the ring; here it does not compile.
assert_not_impl_any!(Uring: Send, Sync);
assert_impl_all!(Uring: Driver);
assert_impl_all!(UringWaker: Wake, Send, Sync);
