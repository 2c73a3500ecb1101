//! Where a host's time comes from.

pub use ztransport::clock::{Clock, MonotonicClock, VirtualClock};
