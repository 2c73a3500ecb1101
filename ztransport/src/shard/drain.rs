//! How a shard ends: nothing new, everything admitted, then goodbye.
//!
//! The draining side says goodbye behind its last message. The peer answers by ending its side of
//! the Application lane, so that nothing of it is lost in a socket that closes. Replies flow until
//! the end.

use std::sync::Arc;

use bytes::Bytes;
use zcore::Instant;
use zcore::wire::{Goodbye, GoodbyeReason, Kind, Lane, RouteHash};

use super::connections::{Connections, Phase};
use crate::close::CloseReason;
use crate::ingress::{DropReason, Ingress};
use crate::limits::LINGER_MAX;
use crate::link::{Receiving, Stage};
use crate::op::Op;
use crate::pair::{Pair, PairPhase, Remote};
use crate::peer::PeerState;
use crate::record::{Incoming, Outgoing};
use crate::token::SocketId;

impl<I: Ingress> Connections<I> {
    pub(super) fn is_serving(&self) -> bool {
        self.phase == Phase::Serving
    }

    /// Whether nothing is left to do.
    pub(super) fn is_finished(&self) -> bool {
        match self.phase {
            Phase::Serving | Phase::Draining(_) => false,
            Phase::Lingering(deadline) => self.now >= deadline || self.links().next().is_none(),
        }
    }

    /// Begins to drain, or moves the deadline forward.
    pub(super) fn drain(&mut self, deadline: Instant) {
        match self.phase {
            Phase::Serving => {}
            Phase::Draining(earlier) => {
                self.phase = Phase::Draining(deadline.min(earlier));
                return;
            }
            Phase::Lingering(earlier) => {
                self.phase = Phase::Lingering(deadline.min(earlier));
                return;
            }
        }
        self.phase = Phase::Draining(deadline);
        self.close_listeners();
        let peers: Vec<_> = self.remotes().map(|remote| remote.peer.slot()).collect();
        for peer in peers {
            self.say_goodbye(peer);
        }
    }

    /// Says behind the last message that there are no more, if there is a pair to say it to.
    pub(super) fn say_goodbye(&mut self, peer: u32) {
        let Some(remote) = self.remote(peer) else { return };
        // A peer that has said it itself has half-closed, or will.
        if remote.pair.is_some_and(|pair| pair.phase == PairPhase::Up) {
            remote.peer.application().submit_control(goodbye(GoodbyeReason::Drain));
            self.flush(peer, Lane::Application);
        }
    }

    /// Goes on draining: once everything is said and done, ends both lanes of every pair.
    pub(super) fn step_drain(&mut self) {
        let Phase::Draining(deadline) = self.phase else { return };
        if self.now < deadline && !self.is_drained() {
            return;
        }
        let until = deadline.min(self.now.saturating_add(LINGER_MAX));
        self.phase = Phase::Lingering(until);
        let sockets: Vec<_> = self.links().map(|link| link.socket).collect();
        for socket in sockets {
            self.linger(socket);
        }
    }

    /// The peer drains: send it no more, once what the kernel has is gone. A host that drains itself
    /// still sends what it holds: the peer reads to the end.
    pub(super) fn take_goodbye(&mut self, peer: u32, reason: GoodbyeReason) {
        let is_draining = !self.is_serving();
        let Some(remote) = self.remote(peer) else { return };
        let Some(pair) = remote.pair.as_mut().filter(|pair| pair.phase == PairPhase::Up) else {
            return;
        };
        if is_draining {
            pair.phase = PairPhase::Left;
            return;
        }
        pair.phase = PairPhase::Leaving;
        remote.peer.set_leaving();
        remote.peer.application().link_down();
        self.finish_goodbye(peer);
        self.heed(peer, reason);
    }

    /// Ends our side of the Application lane of a leaving peer when nothing is in flight.
    pub(super) fn finish_goodbye(&mut self, peer: u32) {
        let Some(pair) = self.remote(peer).and_then(|remote| remote.pair) else { return };
        let socket = pair.application;
        let is_busy = self.link(socket).is_some_and(|link| link.is_sending);
        if pair.phase != PairPhase::Leaving || is_busy {
            return;
        }
        if let Some(pair) = self.remote(peer).and_then(|remote| remote.pair.as_mut()) {
            pair.phase = PairPhase::Left;
        }
        self.push(Op::ShutdownWrite { socket });
    }

    /// Sends nothing more on a connection, and closes it at the peer's end of stream.
    pub(super) fn linger(&mut self, socket: SocketId) {
        let Some(link) = self.link(socket) else { return };
        match link.stage {
            Stage::Closing { .. } | Stage::Lingering { .. } => return,
            Stage::Connecting { .. } | Stage::Greeting { .. } | Stage::Moving { .. } => {
                self.shut(socket);
                return;
            }
            Stage::Accepted { .. } | Stage::Joined { .. } | Stage::Challenging { .. } => {}
        }
        link.stage = Stage::Lingering { peer: link.stage.peer() };
        self.finish_lingering(socket);
    }

    pub(super) fn finish_lingering(&mut self, socket: SocketId) {
        let Some(link) = self.link(socket) else { return };
        if !matches!(link.stage, Stage::Lingering { .. }) || link.is_sending {
            return;
        }
        if link.receiving == Receiving::Ended {
            self.shut(socket);
        } else {
            self.push(Op::ShutdownWrite { socket });
            self.receive(socket);
        }
    }

    /// Counts what the deadline of the drain cut off. The last call of a shard.
    pub(super) fn abandon(&mut self) {
        let is_message = |record: &&Incoming| !record.head().kind.is_control();
        let peers: Vec<_> = self
            .remotes()
            .map(|remote| {
                let unhandled = remote.ready.iter().filter(is_message).count() as u64;
                (Arc::clone(&remote.peer), unhandled)
            })
            .collect();
        for (peer, unhandled) in peers {
            self.end_pair(peer.slot(), CloseReason::Shutdown);
            let unsent = peer.application().abandon() + peer.completion().abandon();
            if unsent + unhandled > 0 {
                self.ingress.dropped(&peer, unsent + unhandled, DropReason::Shutdown);
            }
        }
    }

    /// Everything admitted is sent, everything received is handled, and each peer knows.
    fn is_drained(&self) -> bool {
        self.ingress.is_idle() && self.remotes().all(|remote| self.has_settled(remote))
    }

    fn has_settled(&self, remote: &Remote) -> bool {
        let peer = &remote.peer;
        if !remote.ready.is_empty() || remote.receive.counts().records > 0 {
            return false;
        }
        if peer.state() == PeerState::Detached {
            return true;
        }
        match remote.pair.filter(Pair::is_up) {
            Some(pair) => {
                peer.application().is_flushed()
                    && peer.completion().is_flushed()
                    && (pair.has_goodbye() || self.is_ended(pair.application))
            }
            // What is held for a peer that only dials itself cannot leave any more.
            None => remote.dial.is_none() || peer.application().is_flushed(),
        }
    }

    fn is_ended(&self, socket: SocketId) -> bool {
        self.links().any(|link| link.socket == socket && link.receiving == Receiving::Ended)
    }
}

/// The last record of an Application lane, without a hint when to come back.
pub(super) fn goodbye(reason: GoodbyeReason) -> Outgoing {
    let goodbye = Goodbye { reason, window_ms: 0 };
    let payload = Bytes::copy_from_slice(&goodbye.encode());
    Outgoing::new(Kind::Goodbye, 0, RouteHash::default(), payload)
}
