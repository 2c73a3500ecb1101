//! What a host counts, and what it shows.

mod counters;
mod status;

pub(crate) use counters::Counters;
pub use status::{HandlerStatus, JobQueueStatus, PeerStatus, QueueStatus, ShardStatus, Status};
