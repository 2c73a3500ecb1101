//! Bytes come in, become charged records, and leave with a permit.

use std::sync::Arc;

use bytes::Bytes;
use zcore::Flow;
use zcore::wire::{Kind, Lane, RouteHash};

use super::connections::Connections;
use crate::close::CloseReason;
use crate::ingress::Ingress;
use crate::limits::{GREETING_CARRY_MAX, RECORDS_A_TURN};
use crate::link::{Fed, Receiving, Stage};
use crate::pair::{ApplicationGate, CompletionGate, Pair, farewell_of};
use crate::permits::Permit;
use crate::record::{Incoming, Outgoing};
use crate::token::SocketId;

impl<I: Ingress> Connections<I> {
    /// Bytes arrived.
    pub(super) fn received(&mut self, socket: SocketId, bytes: &[u8]) {
        let now = self.now;
        let Some(link) = self.link(socket) else { return };
        link.heard_at = now;
        match link.stage {
            Stage::Accepted { .. } | Stage::Greeting { .. } => {
                link.inbound.carry(bytes);
                if link.inbound.carried().len() > GREETING_CARRY_MAX {
                    self.close_link(socket, CloseReason::BadHello);
                    return;
                }
                self.take_greeting(socket);
            }
            Stage::Moving { .. } => {
                link.inbound.carry(bytes);
                if link.inbound.carried().len() > GREETING_CARRY_MAX {
                    self.close_link(socket, CloseReason::BadHello);
                }
            }
            Stage::Joined { .. } | Stage::Challenging { .. } => {
                let fed = self.feed(socket, Some(bytes));
                self.after_feed(socket, fed);
            }
            // The peer has been told that nothing of it is taken any more.
            Stage::Connecting { .. } | Stage::Lingering { .. } | Stage::Closing { .. } => {}
        }
    }

    /// Decodes what was carried, and receives again once all of it is used.
    pub(super) fn resume(&mut self, socket: SocketId) {
        let Some(link) = self.link(socket) else { return };
        match link.stage {
            Stage::Joined { .. } | Stage::Challenging { .. } => {
                let fed = self.feed(socket, None);
                self.after_feed(socket, fed);
            }
            Stage::Accepted { .. } | Stage::Greeting { .. } | Stage::Lingering { .. } => {
                self.receive(socket);
            }
            Stage::Moving { topology, shard } => self.give_away(socket, topology, shard),
            Stage::Connecting { .. } | Stage::Closing { .. } => {}
        }
    }

    /// The peer ended its side of a connection. What it sent before is still taken in.
    pub(super) fn peer_ended(&mut self, socket: SocketId) {
        let is_draining = !self.is_serving();
        let Some(link) = self.link(socket) else { return };
        let (stage, lane) = (link.stage, link.lane);
        let is_joined = matches!(stage, Stage::Joined { .. });
        if is_joined && (link.inbound.has_carry() || link.inbound.is_blocked()) {
            return;
        }
        match stage {
            // Behind a goodbye of either side only the messages end; replies still flow.
            Stage::Joined { peer }
                if lane == Lane::Application && (is_draining || self.has_goodbye(peer)) => {}
            Stage::Joined { peer } => self.end_pair(peer, CloseReason::PeerClosed),
            Stage::Lingering { .. } => self.shut(socket),
            Stage::Accepted { .. }
            | Stage::Moving { .. }
            | Stage::Connecting { .. }
            | Stage::Greeting { .. }
            | Stage::Challenging { .. } => {
                self.close_link(socket, CloseReason::PeerClosed);
            }
            Stage::Closing { .. } => {}
        }
    }

    fn has_goodbye(&mut self, peer: u32) -> bool {
        self.remote(peer).and_then(|remote| remote.pair).is_some_and(|pair| pair.has_goodbye())
    }

    /// Puts a peer with ready records into the line of those to be served.
    pub(super) fn activate(&mut self, peer: u32) {
        let Some(remote) = self.remote(peer) else { return };
        if !remote.ready.is_empty() && !remote.is_active {
            remote.is_active = true;
            self.active.push_back(peer);
        }
    }

    /// Hands records over for which there are permits. Whether some are left that could go on.
    pub(super) fn hand_over(&mut self) -> bool {
        for _ in 0..self.active.len() {
            let Some(peer) = self.active.pop_front() else { break };
            self.hand_over_from(peer);
        }
        !self.active.is_empty()
    }

    /// One peer's share of a turn. Its permits are claimed first: with none free, nothing leaves
    /// the receive queue, and the peer is in the permits' line (B-10).
    fn hand_over_from(&mut self, peer: u32) {
        let now = self.now;
        let permits = Arc::clone(&self.plan.permits);
        let mut taken = core::mem::take(&mut self.permits);
        let Some(remote) = self.remote(peer) else { return };
        remote.is_active = false;
        let ready = u32::try_from(remote.ready.len()).unwrap_or(u32::MAX);
        permits.take(remote.source, ready.min(RECORDS_A_TURN), now, &mut taken);
        let served = taken.len();
        let mut may_resume = false;
        for permit in taken.drain(..) {
            may_resume |= self.hand_one_over(peer, permit);
        }
        self.permits = taken;
        if served > 0 {
            self.activate(peer);
        }
        let Some(remote) = self.remote(peer) else { return };
        remote.peer.publish(&remote.receive);
        let application = remote.pair.filter(Pair::is_up).map(|pair| pair.application);
        if let (true, Some(socket)) = (may_resume, application) {
            self.resume(socket);
        }
        self.forget_gone(peer);
    }

    /// The receive queue gives its charge back before the handler begins (B-08).
    fn hand_one_over(&mut self, peer: u32, permit: Permit) -> bool {
        let Some(remote) = self.remote(peer) else { return false };
        let Some(record) = remote.ready.pop_front() else { return false };
        let flow = remote.receive.hand_over(record.head().charge());
        let shared = Arc::clone(&remote.peer);
        match record.head().kind {
            Kind::Send | Kind::Request => self.ingress.deliver(&shared, record, permit),
            Kind::Probe | Kind::ProbeAnswer | Kind::SendReady | Kind::Goodbye => {
                permit.classify_as_control();
                self.take_control(peer, &record);
            }
            // The decoder lets these kinds in on the other lane only.
            Kind::Reply | Kind::ErrorReply => permit.classify_as_control(),
        }
        flow == Flow::Resume
    }

    fn take_control(&mut self, peer: u32, record: &Incoming) {
        let head = record.head();
        match head.kind {
            Kind::Probe => {
                let none = RouteHash::default();
                let answer = Outgoing::new(Kind::ProbeAnswer, head.id, none, Bytes::new());
                if let Some(remote) = self.remote(peer) {
                    remote.peer.application().submit_control(answer);
                }
            }
            Kind::Goodbye => self.take_goodbye(peer, farewell_of(record)),
            // Any byte counts as a sign of life; send-ready is shown, never obeyed (D-13).
            Kind::ProbeAnswer | Kind::SendReady => {}
            Kind::Send | Kind::Request | Kind::Reply | Kind::ErrorReply => {
                debug_assert!(false, "{:?} is no control record", head.kind);
            }
        }
    }

    /// Decodes fresh bytes, or carried ones.
    fn feed(
        &mut self,
        socket: SocketId,
        fresh: Option<&[u8]>,
    ) -> Result<Fed, zcore::wire::WireError> {
        let Some((link, remote, ingress)) = self.joined(socket) else { return Ok(Fed::Drained) };
        match link.lane {
            Lane::Application => {
                let receive = &mut remote.receive;
                let (ready, epoch) = (&mut remote.ready, remote.epoch);
                let claims = &mut remote.memory.claims;
                let mut gate = ApplicationGate { receive, ready, claims, epoch };
                match fresh {
                    Some(bytes) => link.inbound.feed(bytes, &mut gate),
                    None => link.inbound.resume(&mut gate),
                }
            }
            Lane::Completion => {
                let mut gate = CompletionGate { peer: &remote.peer, ingress };
                match fresh {
                    Some(bytes) => link.inbound.feed(bytes, &mut gate),
                    None => link.inbound.resume(&mut gate),
                }
            }
        }
    }

    fn after_feed(&mut self, socket: SocketId, fed: Result<Fed, zcore::wire::WireError>) {
        let carry_max = self.carry_max;
        let Some((link, remote, _)) = self.joined(socket) else { return };
        let (peer, is_ended) = (remote.peer.slot(), link.receiving == Receiving::Ended);
        let carried = link.inbound.carried().len() as u64;
        // A peer that sends ahead of its pair may have brought some along from another shard.
        let carried_max = carry_max.saturating_add(GREETING_CARRY_MAX as u64);
        debug_assert!(carried <= carried_max, "{carried} B are carried, {carried_max} at most");
        if link.lane == Lane::Application {
            remote.peer.publish(&remote.receive);
            remote.peer.publish_carried(carried);
        }
        match fed {
            Ok(Fed::Drained) if is_ended => self.peer_ended(socket),
            Ok(Fed::Drained) => self.receive(socket),
            Ok(Fed::Blocked) => self.pause(socket),
            Ok(Fed::Broken) => self.end_pair(peer, CloseReason::NeverIssued),
            Err(error) => self.end_pair(peer, CloseReason::Malformed(error)),
        }
        self.activate(peer);
    }
}
