//! What a host counts, and what it shows.

mod counters;
mod status;
mod worst_case;

pub(crate) use counters::Counters;
pub use status::{HandlerStatus, JobQueueStatus, PeerStatus, QueueStatus, ShardStatus, Status};
pub use worst_case::WorstCase;
