//! What a host does about connections that others open: let them join a pair, or say why not.

use std::sync::Arc;

use zcore::wire::{Hello, Lane, Refusal, Role};
use zcore::{Order, Ruling, Run, Standing, rule_on_dial};

use super::connections::Connections;
use super::timers::Timer;
use crate::close::CloseReason;
use crate::ingress::Ingress;
use crate::limits::{GREETING_TIMEOUT, HALF_PAIRS_MAX};
use crate::link::{Link, Stage};
use crate::op::Op;
use crate::pair::{Origin, Pair};
use crate::socket::Watch;
use crate::token::SocketId;

/// A pair that a connection has joined, and the stage that it has come to with that.
type Seat = (Pair, Stage);

impl<I: Ingress> Connections<I> {
    /// A connection was accepted: wait for its hello, but not for ever, and not for too many.
    pub(super) fn accepted(&mut self, topology: u16, socket: SocketId) {
        let is_full = self.plan.lobby.enter() > HALF_PAIRS_MAX;
        self.add_stranger(topology, socket);
        if is_full {
            self.close_link(socket, CloseReason::Refusing(Refusal::TooManyPeers.code()));
        } else {
            self.await_hello(socket);
        }
    }

    /// A connection of somebody who is counted among the strangers, and has not been heard yet.
    pub(super) fn add_stranger(&mut self, topology: u16, socket: SocketId) {
        let stage = Stage::Accepted { topology };
        self.add_link(Link::new(socket, stage, Lane::Application, self.now));
    }

    /// Whoever does not say in time who they are is closed.
    pub(super) fn await_hello(&mut self, socket: SocketId) {
        if !self.is_serving() {
            self.close_link(socket, CloseReason::Refusing(Refusal::TooManyPeers.code()));
            return;
        }
        self.timers.insert((self.now.saturating_add(GREETING_TIMEOUT), Timer::Greeting(socket)));
        self.receive(socket);
    }

    /// The acceptor's side: join a pair, or say why not.
    pub(super) fn take_dial(&mut self, socket: SocketId, topology: u16, hello: &Hello) {
        match self.place(socket, topology, hello) {
            Ok((pair, stage)) => {
                self.plan.lobby.leave();
                if let Some(link) = self.link(socket) {
                    link.lane = hello.lane;
                    link.stage = stage;
                }
                if let Some(answer) = self.hello(Role::Accept, hello.lane, &pair, topology) {
                    self.say(socket, &answer);
                }
                if let (Lane::Completion, Some(peer)) = (hello.lane, stage.peer()) {
                    self.push(Op::Watch { socket, watch: Watch::Completion });
                    // Replies must not wait for buffers that data has taken: change the group.
                    self.pause(socket);
                    self.pair_up(peer, hello);
                }
            }
            Err(refusal) => self.refuse(socket, topology, hello, refusal),
        }
    }

    /// Finds the pair that a hello belongs to, making it for the first of its two connections.
    fn place(&mut self, socket: SocketId, topology: u16, hello: &Hello) -> Result<Seat, Refusal> {
        self.check_dial(topology, hello)?;
        match hello.lane {
            Lane::Application => {
                let peer = self.host_peer(socket, topology, hello)?;
                self.join(peer, socket, hello)
            }
            Lane::Completion => {
                let known = self.plan.peers.find(topology, &hello.node);
                let peer = known.ok_or(Refusal::UnknownPair)?;
                self.complete(peer.slot(), socket, hello)
            }
        }
    }

    pub(super) fn check_dial(&self, topology: u16, hello: &Hello) -> Result<(), Refusal> {
        let plan = self.plan.topologies.get(usize::from(topology));
        let plan = plan.ok_or(Refusal::WrongTopology)?;
        if hello.role != Role::Dial {
            return Err(Refusal::WrongRole);
        }
        if hello.topology != plan.name || hello.topology_kind != plan.kind {
            return Err(Refusal::WrongTopology);
        }
        if hello.node == self.plan.node {
            return Err(Refusal::SelfConnect);
        }
        if !self.is_serving() {
            return Err(Refusal::NotAccepting);
        }
        Ok(())
    }

    /// The place of the peer that dials, a new one if it has none.
    fn host_peer(
        &mut self,
        socket: SocketId,
        topology: u16,
        hello: &Hello,
    ) -> Result<u32, Refusal> {
        let own = self.plan.index;
        let room = self.link(socket).and_then(|link| link.reservation.take());
        let peer = self.plan.peers.find_or_add(own, room, topology, hello.node);
        let peer = peer.map_err(|_| Refusal::TooManyPeers)?;
        if peer.shard() != own {
            // Two connections of one new peer came at once, to two shards.
            return Err(Refusal::DuplicatePair);
        }
        let slot = peer.slot();
        if self.adopt_peer(Arc::clone(&peer), None) {
            let memory = self.plan.lobby.departed().take(topology, &hello.node, self.now);
            if let (Some(remote), Some(memory)) = (self.remote(slot), memory) {
                remote.memory = memory;
            }
        }
        if self.remote(slot).is_none() {
            self.plan.peers.remove(&peer);
            return Err(Refusal::TooManyPeers);
        }
        Ok(slot)
    }

    /// The first connection of a pair: what becomes of the one that is there is the core's to say.
    fn join(&mut self, peer: u32, socket: SocketId, hello: &Hello) -> Result<Seat, Refusal> {
        let order = if self.plan.node < hello.node { Order::Smaller } else { Order::Larger };
        let remote = self.remote(peer).ok_or(Refusal::TooManyPeers)?;
        if remote.knows(hello.pair) {
            return Err(Refusal::DuplicatePair);
        }
        let standing = remote.pair.as_ref().map_or(Standing::Apart, Pair::standing);
        let said = Run { incarnation: hello.incarnation, heard: hello.generation };
        let holder = remote.pair.as_ref().and_then(Pair::holder);
        let speaker = remote.memory.acquaintance.speaker(said, holder);
        let ruling = rule_on_dial(order, standing, speaker);
        match ruling {
            Ruling::Refuse(refusal) => return Err(refusal),
            Ruling::Replace => {
                self.drop_challenger(peer, CloseReason::Replaced);
                self.end_pair(peer, CloseReason::Replaced);
            }
            Ruling::Challenge => self.drop_challenger(peer, CloseReason::Replaced),
            Ruling::Join => {}
        }
        let mut pair = Pair::accepted(hello, socket);
        pair.shard = self.plan.index;
        self.settle_early(peer, &pair);
        let remote = self.remote(peer).ok_or(Refusal::TooManyPeers)?;
        let memory = &mut remote.memory;
        pair.generation = memory.acquaintance.accept(hello.incarnation, hello.generation);
        pair.said = memory.claims.statement();
        if ruling == Ruling::Challenge {
            remote.challenger = Some(pair);
            return Ok((pair, Stage::Challenging { peer }));
        }
        remote.pair = Some(pair);
        Ok((pair, Stage::Joined { peer }))
    }

    /// The second connection of a pair, which shows that its dialer lives.
    fn complete(&mut self, peer: u32, socket: SocketId, hello: &Hello) -> Result<Seat, Refusal> {
        let remote = self.remote(peer).ok_or(Refusal::UnknownPair)?;
        if remote.challenger.is_some_and(|challenger| challenger.is_named_by(hello)) {
            self.end_pair(peer, CloseReason::Replaced);
        }
        let remote = self.remote(peer).ok_or(Refusal::UnknownPair)?;
        let pair = remote.pair.as_mut().ok_or(Refusal::UnknownPair)?;
        if !pair.is_named_by(hello) || pair.origin != Origin::Accepted {
            return Err(Refusal::UnknownPair);
        }
        if pair.completion.is_some() {
            return Err(Refusal::DuplicatePair);
        }
        pair.completion = Some(socket);
        let memory = &mut remote.memory;
        memory.acquaintance.agree(pair.incarnation, pair.generation);
        memory.claims.begin(pair.generation);
        Ok((*pair, Stage::Joined { peer }))
    }

    /// Says no, and closes once that is said.
    pub(super) fn refuse(
        &mut self,
        socket: SocketId,
        topology: u16,
        hello: &Hello,
        refusal: Refusal,
    ) {
        self.ingress.rejected(CloseReason::Refusing(refusal.code()));
        let pair = Pair::accepted(hello, socket);
        if let Some(mut answer) = self.hello(Role::Refuse, hello.lane, &pair, topology) {
            answer.refusal = Some(refusal);
            if refusal == Refusal::StaleGeneration {
                answer.last_generation = self.heard_of(topology, hello);
            }
            self.say(socket, &answer);
        }
        self.linger(socket);
    }

    /// The highest generation that was heard from the run that says hello; 0 for none.
    fn heard_of(&mut self, topology: u16, hello: &Hello) -> u32 {
        let peer = self.plan.peers.find(topology, &hello.node);
        let remote = peer.and_then(|peer| self.remote(peer.slot()));
        remote
            .and_then(|remote| remote.memory.acquaintance.heard(hello.incarnation))
            .unwrap_or_default()
    }
}
