//! Peers that are gone for good: sent away by the operator, gone by their own word, or clients that
//! have left (D-18).

use std::sync::Arc;

use zcore::wire::{GoodbyeReason, Lane, TopologyKind};

use super::connections::Connections;
use super::drain::goodbye;
use super::timers::Timer;
use crate::close::CloseReason;
use crate::ingress::{DropReason, Ingress};
use crate::limits::LINGER_MAX;
use crate::pair::{Pair, PairPhase};
use crate::peer::PeerState;
use crate::record::Outgoing;

impl<I: Ingress> Connections<I> {
    /// Detaches a peer, because the operator says so. Both connections of a pair that is up end
    /// behind a goodbye; a node that comes back comes as a new peer.
    pub(super) fn detach(&mut self, peer: u32) {
        let is_serving = self.is_serving();
        let Some(remote) = self.remote(peer) else { return };
        // The slot may have passed to another peer since the errand was left.
        if !remote.peer.is_unwanted() || remote.peer.state() == PeerState::Detached {
            return;
        }
        let pair = remote.pair.filter(Pair::is_up);
        let may_speak = is_serving && pair.is_some_and(|pair| pair.phase == PairPhase::Up);
        let last_word = may_speak.then(|| goodbye(GoodbyeReason::Stopped));
        self.drop_challenger(peer, CloseReason::Goodbye);
        self.give_up(peer, last_word);
        if pair.is_none() {
            self.end_pair(peer, CloseReason::Goodbye);
            self.forget_gone(peer);
            return;
        }
        self.flush(peer, Lane::Application);
        self.finish_detaching(peer);
    }

    /// Ends everything that waits for a peer: calls that wait for room, what is queued, requests
    /// without an answer, and the next attempt to dial.
    fn give_up(&mut self, peer: u32, last_word: Option<Outgoing>) {
        let Some(remote) = self.remote(peer) else { return };
        remote.dial = None;
        let shared = Arc::clone(&remote.peer);
        shared.set_detached();
        self.plan.peers.forget_node(&shared);
        let dropped = shared.application().detach(last_word) + shared.completion().detach(None);
        if dropped > 0 {
            self.ingress.dropped(&shared, dropped, DropReason::PeerGone);
        }
        self.ingress.detached(&shared);
        self.timers.insert((self.now.saturating_add(LINGER_MAX), Timer::Farewell(peer)));
    }

    /// Acts on the reason of a goodbye: one that goes for good is a peer no longer.
    pub(super) fn heed(&mut self, peer: u32, reason: GoodbyeReason) {
        match reason {
            GoodbyeReason::Stopped => self.give_up(peer, None),
            GoodbyeReason::Drain
            | GoodbyeReason::ProtocolError
            | GoodbyeReason::SilentPeer
            | GoodbyeReason::Replaced => {}
        }
    }

    /// Ends both connections to a peer that the operator sends away, once it has been told.
    pub(super) fn finish_detaching(&mut self, peer: u32) {
        let Some(remote) = self.remote(peer) else { return };
        let Some(pair) = remote.pair.filter(Pair::is_up) else { return };
        let shared = &remote.peer;
        if shared.is_unwanted() && shared.application().is_flushed() {
            for lane in [Lane::Application, Lane::Completion] {
                if let Some(socket) = pair.socket(lane) {
                    self.linger(socket);
                }
            }
        }
    }

    /// A peer that is gone for good has not ended its connections by now.
    pub(super) fn end_farewell(&mut self, peer: u32) {
        if self.remote(peer).is_some_and(|remote| remote.peer.state() == PeerState::Detached) {
            self.end_pair(peer, CloseReason::Goodbye);
            self.forget_gone(peer);
        }
    }

    /// Forgets a peer that is gone for good, and a client of a ClientServer channel that is gone:
    /// this host never calls that one, and another client may need its place (D-26). What they sent
    /// is handled first, and their connections are closed.
    pub(super) fn forget_gone(&mut self, peer: u32) {
        let Some(remote) = self.remote(peer) else { return };
        let (shared, source) = (Arc::clone(&remote.peer), remote.source);
        let is_detached = shared.state() == PeerState::Detached;
        let is_gone = remote.pair.is_none() && remote.dial.is_none();
        let is_handled = remote.ready.is_empty();
        let topology = self.plan.topologies.get(usize::from(shared.topology()));
        let is_client = topology.is_some_and(|plan| plan.kind == TopologyKind::ClientServer);
        let may_go = is_detached || is_client && is_gone && self.is_serving();
        // A batch that is still in flight comes back under the name of this place.
        let has_links = || self.links().any(|link| link.stage.peer() == Some(peer));
        if !may_go || !is_handled || has_links() {
            return;
        }
        // The connections of one that was sent away have ended one by one.
        self.end_pair(peer, CloseReason::Goodbye);
        let forgotten = self.forget_remote(peer);
        if !is_detached {
            shared.set_detached();
            shared.application().detach(None);
            shared.completion().detach(None);
            if let (Some(remote), Some(node)) = (forgotten, shared.node()) {
                self.plan.lobby.departed().keep(
                    (shared.topology(), *node),
                    remote.memory,
                    self.now,
                );
            }
        }
        self.plan.permits.unregister(source, self.now);
        self.plan.peers.remove(&shared);
    }
}
