//! What a shard hands to its host.

use std::sync::Arc;

use zcore::{Instant, Settlement};

use crate::batch::HandedOver;
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

    /// Requests leave for the kernel, for the first and only time.
    fn handed_over(&mut self, peer: &Arc<Peer>, requests: &[HandedOver]);

    /// A pair ended: what was handed over may or may not have reached the peer, and no answer to it
    /// can come any more.
    fn link_down(&mut self, peer: &Arc<Peer>, reason: CloseReason, prospect: Prospect);

    /// A peer is back, and has said what it took of the pair before, or nothing.
    fn settled(&mut self, peer: &Arc<Peer>, settlement: &Settlement);

    /// A peer whose pair has ended will most likely not come back as the same process: its address
    /// refuses connections.
    fn lost_hope(&mut self, peer: &Arc<Peer>);

    /// A peer is gone for good, with everything that was queued for it.
    fn detached(&mut self, peer: &Arc<Peer>);

    /// A queued request is larger than the peer takes that came back: it is not sent (D-06).
    fn too_large(&mut self, peer: &Arc<Peer>, id: u64);

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

/// Whether a peer whose pair has ended may still tell what it took of it (D-25).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Prospect {
    /// If it lives and can be reached, it has by then.
    Until(Instant),
    /// It will not: it has said goodbye, or was sent away.
    Never,
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
    /// Its connection broke before all of it was handed to the kernel, or the peer says after its
    /// return that it has not taken it. Requests are not counted: their callers are told.
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
