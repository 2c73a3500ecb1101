//! What the tests of all crates share.

mod skip;

pub use skip::skip;
