//! The ZLink Framework: messaging between Linux servers in which overload shows up as "send got
//! slow", never as "a message vanished" or "the process ran out of memory".
//!
//! A [`Host`] is one instance: it listens, dials, sends, requests and runs handlers. Describe it
//! with a [`HostBuilder`], take part in a [`RouteMesh`] or a [`ClientServer`] channel, and call
//! through a [`Caller`].
//!
//! * A send completes when this host has accepted it; without room it waits and ends once.
//! * An accepted message is never dropped for load.
//! * A reply gets through while everything else is full.
//! * An [`Error`] says where the operation stood and what is certain, never why the other side was
//!   slow.
//!
//! The library prints nothing and starts one thread, `zlink-shard-0`, or none with
//! [`HostBuilder::block_on`].
#![forbid(unsafe_code)]

mod assembly;
mod builder;
#[cfg(feature = "cli")]
pub mod cli;
pub mod clock;
mod dispatch;
mod engine;
mod error;
mod host;
mod messaging;
mod observe;
mod options;
mod threads;
mod topology;

pub use builder::{HostBuilder, StartError};
pub use dispatch::RunningLimit;
pub use error::{Error, ErrorKind};
pub use host::{DRAIN_DEADLINE_DEFAULT, DrainReport, Host, OnShard};
pub use messaging::{
    Caller, FromMessage, Handler, IntoPayload, IntoRequestHandler, IntoSendHandler, Json, Message,
    Mismatch, Payload, Rejection, Reply, RequestCall,
};
pub use observe::{
    HandlerStatus, JobQueueStatus, PeerStatus, QueueStatus, ShardStatus, Status, WorstCase,
};
pub use options::{ConfigError, ConfigErrors, Dispatch};
pub use topology::{ChannelServer, ClientServer, MeshPeer, RouteMesh};

pub use zcore::{ApplicationJobQueueProfile, ByteCount, Certainty, HighWaterMark, Instant, Stage};
pub use ztransport::driver::DriverKind;
pub use ztransport::epoll::EpollUnavailable;
pub use ztransport::probe::Unavailable;
pub use ztransport::socket::{SocketAddress, SocketBuffers};
pub use ztransport::{DropReason, PeerState};

/// The programs of the README, which must compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
