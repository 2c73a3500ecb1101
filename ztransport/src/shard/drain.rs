//! How a shard ends: nothing new, everything admitted, then goodbye.
//!
//! The draining side says goodbye behind its last message. The peer answers by ending its side of
//! the Application lane, so that nothing of it is lost in a socket that closes. Replies flow until
//! the end.

use std::sync::Arc;

use bytes::Bytes;
use zcore::wire::{Goodbye, GoodbyeReason, Kind, Lane, RouteHash};
use zcore::{Ending, Instant};

use super::connections::{Connections, Phase};
use crate::close::CloseReason;
use crate::ingress::{DropReason, Ingress};
use crate::limits::LINGER_MAX;
use crate::link::{Receiving, Stage};
use crate::op::Op;
use crate::pair::{PairPhase, Remote};
use crate::record::Outgoing;
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

    /// Begins to drain.
    pub(super) fn drain(&mut self, deadline: Instant) {
        if !self.is_serving() {
            return;
        }
        self.phase = Phase::Draining(deadline);
        self.close_listeners();
        let peers: Vec<_> = self.remotes().map(|remote| Arc::clone(&remote.peer)).collect();
        for peer in peers {
            let is_up = self.remote(peer.slot()).is_some_and(|remote| remote.is_up());
            if is_up {
                let none = RouteHash::default();
                let goodbye = Outgoing::new(Kind::Goodbye, 0, none, goodbye_payload());
                peer.application().submit_control(goodbye);
                self.flush(peer.slot(), Lane::Application);
            } else {
                self.end_pair(peer.slot(), CloseReason::Shutdown);
            }
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

    /// The peer drains: send it no more, once what the kernel has is gone.
    pub(super) fn take_goodbye(&mut self, peer: u32) {
        let Some(remote) = self.remote(peer) else { return };
        let Some(pair) = remote.pair.as_mut().filter(|pair| pair.phase == PairPhase::Up) else {
            return;
        };
        pair.phase = PairPhase::Leaving;
        remote.peer.application().link_down();
        self.finish_goodbye(peer);
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
        if matches!(link.stage, Stage::Closing { .. } | Stage::Lingering { .. }) {
            return;
        }
        let is_stranger = link.stage.peer().is_none();
        link.stage = Stage::Lingering { peer: link.stage.peer() };
        if is_stranger {
            self.strangers = self.strangers.saturating_sub(1);
        }
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
        let peers: Vec<_> = self.remotes().map(|remote| Arc::clone(&remote.peer)).collect();
        for peer in peers {
            self.end_pair(peer.slot(), CloseReason::Shutdown);
            let dropped =
                peer.application().end(Ending::Detached) + peer.completion().end(Ending::Detached);
            if dropped > 0 {
                self.ingress.dropped(&peer, dropped, DropReason::Shutdown);
            }
        }
    }

    /// Everything admitted is sent, everything received is handled, and each peer knows.
    fn is_drained(&self) -> bool {
        self.ingress.is_idle()
            && self.remotes().all(|remote| {
                let peer = &remote.peer;
                let is_quiet = remote.ready.is_empty() && remote.receive.counts().records == 0;
                let is_sent = !remote.is_up()
                    || (peer.application().is_flushed() && peer.completion().is_flushed());
                is_quiet && is_sent && (!remote.is_up() || self.has_answered(remote))
            })
    }

    fn has_answered(&self, remote: &Remote) -> bool {
        let Some(pair) = remote.pair else { return true };
        self.links()
            .any(|link| link.socket == pair.application && link.receiving == Receiving::Ended)
    }
}

/// The reason "drain" and no hint when to come back.
fn goodbye_payload() -> Bytes {
    let goodbye = Goodbye { reason: GoodbyeReason::Drain, window_ms: 0 };
    Bytes::copy_from_slice(&goodbye.encode())
}
