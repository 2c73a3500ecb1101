//! What a shard hands to its host.

use std::sync::Arc;

use zcore::Instant;

use crate::chain::Ordinal;
use crate::close::CloseReason;
use crate::peer::Peer;
use crate::permits::Permit;
use crate::record::Incoming;

/// Whether somebody waits for a reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Expectation {
    /// Its request is pending.
    Wanted,
    /// Its request has ended; the reply is skipped (BU-11).
    Late,
    /// There was no such request: the peer breaks the protocol.
    NeverIssued,
}

/// The host's side of a shard. All calls come from the shard's thread, none under a lock.
pub trait Ingress {
    /// Takes a message or a request, with the permit of its job.
    fn deliver(&mut self, peer: &Arc<Peer>, record: Incoming, permit: Permit);

    /// Whether the reply to request `id` is still wanted.
    fn expects(&mut self, peer: &Arc<Peer>, id: u64) -> Expectation;

    /// Takes a reply or an error reply.
    fn complete(&mut self, peer: &Arc<Peer>, record: Incoming);

    /// A pair came up.
    fn link_up(&mut self, peer: &Arc<Peer>);

    /// A pair ended. Records of the Application lane below `handed_over` may or may not have
    /// reached the peer.
    fn link_down(&mut self, peer: &Arc<Peer>, handed_over: Ordinal, reason: CloseReason);

    /// A connection ended that had not become half of a pair that was up.
    fn rejected(&mut self, reason: CloseReason);

    /// Records were given up: how many, and why.
    fn dropped(&mut self, peer: &Arc<Peer>, records: u64, reason: DropReason);

    /// Runs what is ready on this thread, for a while. Whether there is more.
    fn run(&mut self, now: Instant) -> bool;

    /// When the host next has something to do, if nothing else happens.
    fn next_deadline(&self) -> Option<Instant>;

    /// Whether no accepted work is left.
    fn is_idle(&self) -> bool;
}

/// Why an accepted record was given up. Never for load.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DropReason {
    /// No handler is registered for its route.
    NoHandler,
    /// Its payload is not what the handler takes.
    DecodeError,
    /// The host shut down before it was sent or handled.
    Shutdown,
    /// Its target was detached.
    PeerGone,
    /// It is above the limit of the peer that came back.
    Oversize,
    /// It was handed to the kernel and its connection broke.
    ConnectionLost,
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = 6;

    /// Each reason once.
    pub const ALL: [Self; Self::COUNT] = [
        Self::NoHandler,
        Self::DecodeError,
        Self::Shutdown,
        Self::PeerGone,
        Self::Oversize,
        Self::ConnectionLost,
    ];

    /// The label in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoHandler => "no_handler",
            Self::DecodeError => "decode_error",
            Self::Shutdown => "shutdown",
            Self::PeerGone => "peer_gone",
            Self::Oversize => "oversize",
            Self::ConnectionLost => "connection_lost",
        }
    }
}
