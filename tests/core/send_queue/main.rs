//! What a send queue promises, proved on `zcore` alone: no socket, no clock, no thread.
//!
//! Read in this order: [`model`] is the plainly right queue; [`world`] runs the real one beside it
//! and compares after every step; [`exhaustive`] walks all short histories and [`long_histories`]
//! random long ones; [`laws`] states each promise by its contract id; [`deadlines`] and
//! [`embedded`] look at the parts.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, helpers of tests included"
)]

mod deadlines;
mod embedded;
mod exhaustive;
mod laws;
mod long_histories;
mod model;
mod world;
