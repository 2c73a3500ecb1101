//! What a user of the seam relies on, one script for each thing.
//!
//! A script opens both ends of its connections through the driver, so that any network will do.
//! Those in `raw` hold one end themselves and need the kernel's.

pub(crate) mod closing;
pub(crate) mod connecting;
pub(crate) mod crowds;
pub(crate) mod moving;
pub(crate) mod pausing;
mod raw;
pub(crate) mod sending;
pub(crate) mod waking;

pub(crate) use raw::{accepting, deaf, dropping, peers, sigpipe, threads};
