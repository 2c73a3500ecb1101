//! Pairs come up, end, and come back.

use std::sync::Arc;

use zcore::wire::{Hello, Lane, TopologyKind};
use zcore::{ByteCount, Ending};

use super::connections::{Connections, Intent, Phase};
use super::greeting::fresh_pair_id;
use super::timers::Timer;
use crate::close::CloseReason;
use crate::ingress::{DropReason, Ingress};
use crate::limits::{CONNECT_TIMEOUT, GREETING_TIMEOUT};
use crate::link::{Link, Stage};
use crate::op::Op;
use crate::pair::{Origin, Pair, PairPhase};
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
        self.end_pair(peer, CloseReason::Failed(rustix::io::Errno::MFILE));
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
        let Some(remote) = self.remote(peer) else { return };
        let Some(pair) = &mut remote.pair else { return };
        pair.phase = PairPhase::Up;
        pair.incarnation = hello.incarnation;
        let pair = *pair;
        if let Some(dial) = &mut remote.dial {
            dial.backoff.reset();
        }
        let shared = Arc::clone(&remote.peer);
        // Both sides have a limit; the smaller one binds (D-06).
        let size_max = ByteCount::new(own.min(u64::from(hello.max_message_size)));
        shared.application().set_message_size_max(size_max);
        shared.completion().set_message_size_max(size_max);
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

    /// Ends a pair: both connections go. What is queued waits for the next one, charged (B-23).
    pub(super) fn end_pair(&mut self, peer: u32, reason: CloseReason) {
        let Some(remote) = self.remote(peer) else { return };
        let pair = remote.pair.take();
        let shared = Arc::clone(&remote.peer);
        if let Some(pair) = pair {
            for socket in LANES.into_iter().filter_map(|lane| pair.socket(lane)) {
                self.drop_unfinished(socket);
                self.shut(socket);
            }
            if let Some(remote) = self.remote(peer) {
                remote.forget_controls();
                shared.publish(&remote.receive);
            }
            if pair.is_up() {
                let handed_over = shared.application().link_down();
                // Whoever waits for these replies has ended its requests, or is gone.
                let (epoch, lost) = shared.completion().restart();
                if let Some(remote) = self.remote(peer) {
                    remote.epoch = epoch;
                }
                if lost > 0 {
                    self.ingress.dropped(&shared, lost, DropReason::ConnectionLost);
                }
                shared.set_disconnected();
                self.ingress.link_down(&shared, handed_over, reason);
            } else {
                self.ingress.rejected(reason);
            }
        }
        self.plan_dial(peer);
    }

    /// Forgets a client of a ClientServer channel that is gone, once what it sent is handled and
    /// its connections are closed: this host never calls it, and another client may need its place (D-26).
    pub(super) fn forget_client(&mut self, peer: u32) {
        let Some(remote) = self.remote(peer) else { return };
        let is_gone = remote.pair.is_none() && remote.dial.is_none() && remote.ready.is_empty();
        let (shared, source) = (Arc::clone(&remote.peer), remote.source);
        let topology = self.plan.topologies.get(usize::from(shared.topology()));
        let is_client = topology.is_some_and(|plan| plan.kind == TopologyKind::ClientServer);
        // A batch that is still in flight comes back under the name of this place.
        let has_links = || self.links().any(|link| link.stage.peer() == Some(peer));
        if is_gone && is_client && self.is_serving() && !has_links() {
            shared.set_detached();
            shared.application().end(Ending::Detached);
            shared.completion().end(Ending::Detached);
            self.plan.permits.unregister(source, self.now);
            self.forget_remote(peer);
            self.plan.peers.remove(&shared);
        }
    }

    /// Detaches a peer for good: its waiting calls end, its queued records are dropped and counted
    /// (D-18).
    pub(super) fn detach(&mut self, peer: u32) {
        self.end_pair(peer, CloseReason::Goodbye);
        let Some(remote) = self.remote(peer) else { return };
        remote.dial = None;
        let shared = Arc::clone(&remote.peer);
        shared.set_detached();
        let dropped =
            shared.application().end(Ending::Detached) + shared.completion().end(Ending::Detached);
        if dropped > 0 {
            self.ingress.dropped(&shared, dropped, DropReason::PeerGone);
        }
    }

    fn begin_pair(&mut self, peer: u32, socket: SocketId) -> bool {
        let Some(id) = fresh_pair_id() else { return false };
        let Some(remote) = self.remote(peer) else { return false };
        if remote.pair.is_some() {
            return false;
        }
        remote.generation = remote.generation.saturating_add(1);
        remote.pair = Some(Pair {
            id,
            generation: remote.generation,
            incarnation: 0,
            origin: Origin::Dialed,
            application: socket,
            completion: None,
            phase: PairPhase::Greeting,
            shard: 0,
        });
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
            remote.receive.lane_closed();
            if let Some(head) = unfinished {
                remote.receive.discard(head.charge());
            }
        }
    }
}
