//! Moves records between Linux processes over `io_uring` or epoll.
//!
//! `ztransport` decides nothing: it feeds the state machines of [`zcore`] and carries out what they
//! say. One thread, one driver and the connections assigned to it are a *shard*; shards share
//! nothing but the lanes that other threads send through.

mod batch;
mod chain;
pub mod clock;
mod close;
mod doorbell;
pub mod driver;
pub mod epoll;
pub mod errno;
pub mod event;
mod ingress;
mod lane;
pub mod limits;
mod link;
#[cfg(all(test, loom))]
mod models;
pub mod op;
mod pair;
mod peer;
mod peers;
mod permits;
pub mod probe;
mod random;
mod reconnect;
mod record;
mod shard;
pub mod sim;
mod slots;
pub mod socket;
mod sync;
pub mod token;
#[cfg(feature = "tokio_uring")]
pub mod tokio_uring;
#[expect(unsafe_code, reason = "the only module that talks to io_uring")]
pub mod uring;
mod wait_space;

pub use batch::{Batch, HandedOver, SEGMENTS_MAX, SealedRecord};
pub use chain::Ordinal;
pub use close::CloseReason;
pub use doorbell::{Doorbell, Errand};
pub use ingress::{DropReason, Expectation, Ingress, Prospect};
pub use lane::{Lane, LaneContext, LaneSnapshot, Limit, Refusal, Submitted};
pub use peer::{Peer, PeerState, ReceiveSnapshot};
pub use peers::{ByteLimits, Peers, PeersFull};
pub use permits::{Permit, Permits};
pub use record::{Incoming, Outgoing};
pub use shard::{
    Crew, Listener, Lobby, Shard, ShardControl, ShardGauge, ShardPlan, ShardSockets, TopologyPlan,
    Turn,
};
pub use wait_space::{WaitEnd, WaitSpace, Waiting};
