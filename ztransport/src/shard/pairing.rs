//! Pairs come up, end, and come back.

use std::sync::Arc;

use rustix::io::Errno;
use zcore::ByteCount;
use zcore::wire::{Hello, Lane};

use super::connections::{Connections, Intent, Phase};
use super::greeting::fresh_pair_id;
use super::timers::Timer;
use crate::close::CloseReason;
use crate::ingress::{DropReason, Ingress, Prospect};
use crate::lane::Oversize;
use crate::limits::{CONNECT_TIMEOUT, GREETING_TIMEOUT, RETURN_MAX};
use crate::link::{Link, Stage};
use crate::op::Op;
use crate::pair::{Origin, Pair, PairPhase, Remote};
use crate::peer::Peer;
use crate::socket::SocketAddress;
use crate::token::SocketId;

/// Both connections of a pair.
const LANES: [Lane; 2] = [Lane::Application, Lane::Completion];

impl<I: Ingress> Connections<I> {
    /// Dials a peer whose time has come, unless it is there already.
    pub(super) fn dial(&mut self, peer: u32) {
        let may_dial = self.may_dial(peer);
        let now = self.now;
        let Some(remote) = self.remote(peer) else { return };
        let Some(dial) = &mut remote.dial else { return };
        if dial.at.is_none_or(|at| at > now) {
            return;
        }
        dial.at = None;
        if !may_dial || remote.pair.is_some() {
            return;
        }
        let address = dial.address.clone();
        self.intend(Intent::Dial { peer, lane: Lane::Application, address });
    }

    /// A host that drains connects only to peers for which it still holds messages (D-19).
    fn may_dial(&mut self, peer: u32) -> bool {
        let phase = self.phase;
        let Some(remote) = self.remote(peer) else { return false };
        match phase {
            Phase::Serving => true,
            Phase::Draining(_) => !remote.peer.application().is_flushed(),
            Phase::Lingering(_) => false,
        }
    }

    /// The Application lane is greeted: dial the other one, to the same shard.
    pub(super) fn dial_completion(&mut self, peer: u32, shard: u16) {
        let Some(remote) = self.remote(peer) else { return };
        let address = remote.dial.as_ref().map(|dial| dial.address.clone());
        if let (Some(pair), Some(address)) = (&mut remote.pair, address) {
            pair.shard = shard;
            self.intend(Intent::Dial { peer, lane: Lane::Completion, address });
        }
    }

    /// A socket for one lane is open: connect it.
    pub(super) fn dialing(
        &mut self,
        peer: u32,
        lane: Lane,
        socket: SocketId,
        address: SocketAddress,
    ) {
        let has_place = match lane {
            Lane::Application => self.begin_pair(peer, socket),
            Lane::Completion => self.complete_pair(peer, socket),
        };
        if !has_place {
            self.push(Op::Close { socket });
            return;
        }
        self.add_link(Link::new(socket, Stage::Connecting { peer }, lane, self.now));
        let limit = CONNECT_TIMEOUT.saturating_add(GREETING_TIMEOUT);
        self.timers.insert((self.now.saturating_add(limit), Timer::Greeting(socket)));
        self.push(Op::Connect { socket, address });
    }

    /// No socket could be opened for a peer.
    pub(super) fn dial_failed(&mut self, peer: u32) {
        self.end_pair(peer, CloseReason::Failed(Errno::MFILE));
    }

    /// A connection that we dialed is there.
    pub(super) fn connected(&mut self, socket: SocketId) {
        if self.link(socket).is_some_and(|link| matches!(link.stage, Stage::Connecting { .. })) {
            self.greet(socket);
        }
    }

    /// Both lanes have greeted: records flow.
    pub(super) fn pair_up(&mut self, peer: u32, hello: &Hello) {
        let own = self.plan.peers.limits().message_size_max.get();
        let now = self.now;
        let limits = LANES.map(|lane| (lane, self.wire_limits(lane)));
        let Some(pair) = self.remote(peer).and_then(|remote| remote.pair) else { return };
        // A run that was not heard before has nothing to say of the pair before it.
        self.settle(peer, &pair);
        let Some(remote) = self.remote(peer) else { return };
        remote.memory.given.begin(pair.incarnation, pair.generation);
        remote.pair = Some(Pair { phase: PairPhase::Up, ..pair });
        if let Some(dial) = &mut remote.dial {
            dial.backoff.reset();
        }
        let shared = Arc::clone(&remote.peer);
        // Both sides have a limit; the smaller one binds (D-06).
        let size_max = ByteCount::new(own.min(u64::from(hello.max_message_size)));
        shared.completion().limit_messages(size_max);
        self.refuse_larger(&shared, size_max);
        shared.set_connected();
        shared.application().link_up();
        shared.completion().link_up();
        self.ingress.link_up(&shared);
        self.watch_liveness(peer);
        if !self.is_serving() {
            self.say_goodbye(peer);
        }
        for (lane, wire_limits) in limits {
            let Some(socket) = pair.socket(lane) else { continue };
            if let Some(link) = self.link(socket) {
                link.inbound.open(wire_limits);
                link.heard_at = now;
            }
            self.resume(socket);
        }
    }

    /// The peer has said what it took of the pair before: whoever waits for an answer is told, and
    /// what is lost is counted (D-25).
    pub(super) fn settle(&mut self, peer: u32, pair: &Pair) {
        let Some(remote) = self.remote(peer) else { return };
        if !remote.memory.given.is_open() {
            return;
        }
        let settlement = remote.memory.given.settle(pair.incarnation, pair.heard);
        let shared = Arc::clone(&remote.peer);
        self.ingress.settled(&shared, &settlement);
        if settlement.lost() > 0 {
            self.ingress.dropped(&shared, settlement.lost(), DropReason::ConnectionLost);
        }
    }

    /// Settles the pair before as soon as its peer says hello again, though the new pair may fail:
    /// the hello after that speaks of the new one.
    pub(super) fn settle_early(&mut self, peer: u32, pair: &Pair) {
        let is_told =
            |remote: &mut Remote| remote.memory.given.is_told(pair.incarnation, pair.heard);
        if self.remote(peer).is_some_and(is_told) {
            self.settle(peer, pair);
        }
    }

    fn refuse_larger(&mut self, peer: &Arc<Peer>, size_max: ByteCount) {
        let Oversize { one_way, requests } = peer.application().limit_messages(size_max);
        if one_way > 0 {
            self.ingress.dropped(peer, one_way, DropReason::Oversize);
        }
        for id in requests {
            self.ingress.too_large(peer, id);
        }
    }

    /// Ends a pair: both connections go. What is queued waits for the next one, charged (B-23).
    pub(super) fn end_pair(&mut self, peer: u32, reason: CloseReason) {
        let Some(remote) = self.remote(peer) else { return };
        // A challenger has nobody left to prove anything against.
        let pair = core::mem::replace(&mut remote.pair, remote.challenger.take());
        let next = remote.pair.map(|next| next.application);
        if let Some(link) = next.and_then(|socket| self.link(socket)) {
            link.stage = Stage::Joined { peer };
        }
        if let Some(pair) = pair {
            for socket in LANES.into_iter().filter_map(|lane| pair.socket(lane)) {
                self.drop_unfinished(socket);
                self.shut(socket);
            }
            let Some(remote) = self.remote(peer) else { return };
            let farewell = remote.forget_controls();
            remote.peer.publish(&remote.receive);
            if pair.is_up() {
                let is_over = pair.has_goodbye() || farewell.is_some();
                self.break_link(peer, reason, is_over.then_some(Prospect::Never));
            } else {
                self.ingress.rejected(reason);
                self.lose_hope(peer, reason);
            }
            if let Some(farewell) = farewell {
                self.heed(peer, farewell);
            }
        }
        self.plan_dial(peer);
    }

    /// Both lanes of a pair that was up are gone.
    fn break_link(&mut self, peer: u32, reason: CloseReason, prospect: Option<Prospect>) {
        let until = self.now.saturating_add(RETURN_MAX);
        let Some(remote) = self.remote(peer) else { return };
        let shared = Arc::clone(&remote.peer);
        shared.application().link_down();
        // Whoever waits for these replies has ended its requests, or is gone.
        let (epoch, lost) = shared.completion().restart();
        remote.epoch = epoch;
        if lost > 0 {
            self.ingress.dropped(&shared, lost, DropReason::ConnectionLost);
        }
        shared.set_disconnected();
        self.ingress.link_down(&shared, reason, prospect.unwrap_or(Prospect::Until(until)));
    }

    /// Nobody listens where a peer did: its process has ended, so nobody waits for what it would tell.
    /// If it lives after all, what is lost is still counted.
    fn lose_hope(&mut self, peer: u32, reason: CloseReason) {
        let is_nobody = reason == CloseReason::Failed(Errno::CONNREFUSED);
        let Some(remote) = self.remote(peer) else { return };
        if is_nobody && remote.memory.given.is_open() {
            let shared = Arc::clone(&remote.peer);
            self.ingress.lost_hope(&shared);
        }
    }

    /// Ends the attempt of another run to take a peer's pair over.
    pub(super) fn drop_challenger(&mut self, peer: u32, reason: CloseReason) {
        if let Some(pair) = self.remote(peer).and_then(|remote| remote.challenger.take()) {
            self.shut(pair.application);
            self.ingress.rejected(reason);
        }
    }

    fn begin_pair(&mut self, peer: u32, socket: SocketId) -> bool {
        let Some(id) = fresh_pair_id() else { return false };
        let Some(remote) = self.remote(peer) else { return false };
        if remote.pair.is_some() {
            return false;
        }
        remote.pair = Some(Pair::dialed(id, socket));
        true
    }

    fn complete_pair(&mut self, peer: u32, socket: SocketId) -> bool {
        let Some(pair) = self.remote(peer).and_then(|remote| remote.pair.as_mut()) else {
            return false;
        };
        let has_place = pair.origin == Origin::Dialed && pair.completion.is_none();
        if has_place {
            pair.completion = Some(socket);
        }
        has_place
    }

    fn plan_dial(&mut self, peer: u32) {
        let now = self.now;
        if !self.may_dial(peer) {
            return;
        }
        let Some(dial) = self.remote(peer).and_then(|remote| remote.dial.as_mut()) else { return };
        let at = now.saturating_add(dial.backoff.next_delay());
        dial.at = Some(at);
        self.timers.insert((at, Timer::Dial(peer)));
    }

    /// Gives back what a record was charged whose rest will not arrive.
    fn drop_unfinished(&mut self, socket: SocketId) {
        let Some((link, remote, _)) = self.joined(socket) else { return };
        let unfinished = link.inbound.take_unfinished();
        if link.lane == Lane::Application {
            remote.peer.publish_carried(0);
            remote.receive.lane_closed();
            if let Some(head) = unfinished {
                remote.receive.discard(head.charge());
            }
        }
    }
}
