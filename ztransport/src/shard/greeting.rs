//! How two connections find out who they are and become a pair.
//!
//! The dialer greets on the Application lane first; the answer names the shard that owns the pair.
//! Then it greets on the Completion lane. Records flow once both lanes have greeted (D-17).

use bytes::Bytes;
use zcore::wire::{HELLO_BYTES, Hello, Lane, PairId, Refusal, Role};

use super::connections::Connections;
use super::timers::Timer;
use crate::batch::Batch;
use crate::close::CloseReason;
use crate::ingress::Ingress;
use crate::limits::{GREETING_TIMEOUT, HALF_PAIRS_MAX, OUTSTANDING_MAX};
use crate::link::{Link, Stage};
use crate::op::Op;
use crate::pair::{Origin, Pair, PairPhase};
use crate::socket::Watch;
use crate::token::SocketId;

impl<I: Ingress> Connections<I> {
    /// A connection was accepted: wait for its hello, but not for ever, and not for too many.
    pub(super) fn accepted(&mut self, topology: u16, socket: SocketId) {
        let link = Link::new(socket, Stage::Accepted { topology }, Lane::Application, self.now);
        self.add_link(link);
        if self.plan.strangers.enter() > HALF_PAIRS_MAX || !self.is_serving() {
            self.close_link(socket, CloseReason::Refusing(Refusal::TooManyPeers.code()));
            return;
        }
        self.timers.insert((self.now.saturating_add(GREETING_TIMEOUT), Timer::Greeting(socket)));
        self.receive(socket);
    }

    /// Says hello on a connection that we dialed.
    pub(super) fn greet(&mut self, socket: SocketId) {
        let Some((link, remote, _)) = self.joined(socket) else { return };
        let (lane, peer) = (link.lane, remote.peer.slot());
        let topology = remote.peer.topology();
        let Some(pair) = remote.pair else { return };
        link.stage = Stage::Greeting { peer };
        if let Some(hello) = self.hello(Role::Dial, lane, &pair, topology) {
            self.say(socket, &hello);
        }
        self.receive(socket);
    }

    /// Takes a hello in, whichever side we are.
    pub(super) fn take_greeting(&mut self, socket: SocketId) {
        let Some(link) = self.link(socket) else { return };
        let stage = link.stage;
        let Some(bytes) = link.inbound.hello() else { return };
        let hello = match Hello::decode(&bytes) {
            Ok(hello) => hello,
            Err(error) => {
                link.inbound.skip_hello();
                self.answer_broken_hello(socket, stage, &bytes, error.refusal());
                return;
            }
        };
        if let Stage::Accepted { topology } = stage
            && self.moves_away(socket, topology, &hello)
        {
            return;
        }
        if let Some(link) = self.link(socket) {
            link.inbound.skip_hello();
        }
        match stage {
            Stage::Accepted { topology } => self.take_dial(socket, topology, &hello),
            Stage::Greeting { peer } => self.take_answer(socket, peer, &hello),
            Stage::Connecting { .. }
            | Stage::Moving { .. }
            | Stage::Joined { .. }
            | Stage::Lingering { .. }
            | Stage::Closing { .. } => {}
        }
    }

    /// The acceptor's side: join a pair, or say why not.
    fn take_dial(&mut self, socket: SocketId, topology: u16, hello: &Hello) {
        match self.place(socket, topology, hello) {
            Ok((peer, pair)) => {
                self.plan.strangers.leave();
                if let Some(link) = self.link(socket) {
                    link.lane = hello.lane;
                    link.stage = Stage::Joined { peer };
                }
                if let Some(answer) = self.hello(Role::Accept, hello.lane, &pair, topology) {
                    self.say(socket, &answer);
                }
                if hello.lane == Lane::Completion {
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
    fn place(
        &mut self,
        socket: SocketId,
        topology: u16,
        hello: &Hello,
    ) -> Result<(u32, Pair), Refusal> {
        self.check_dial(topology, hello)?;
        match hello.lane {
            Lane::Application => {
                let peer = self
                    .plan
                    .peers
                    .find_or_add(self.plan.index, topology, hello.node)
                    .map_err(|_| Refusal::TooManyPeers)?;
                if peer.shard() != self.plan.index {
                    // Two connections of one new peer came at once, to two shards.
                    return Err(Refusal::DuplicatePair);
                }
                let slot = peer.slot();
                self.adopt_peer(peer, None);
                self.clear_for(slot, hello)?;
                let pair = Pair {
                    id: hello.pair,
                    generation: hello.generation,
                    incarnation: hello.incarnation,
                    origin: Origin::Accepted,
                    application: socket,
                    completion: None,
                    phase: PairPhase::Greeting,
                    shard: self.plan.index,
                };
                let remote = self.remote(slot).ok_or(Refusal::TooManyPeers)?;
                remote.pair = Some(pair);
                remote.generation = remote.generation.max(hello.generation);
                Ok((slot, pair))
            }
            Lane::Completion => {
                let known = self.plan.peers.find(topology, &hello.node);
                let peer = known.ok_or(Refusal::UnknownPair)?;
                let remote = self.remote(peer.slot()).ok_or(Refusal::UnknownPair)?;
                let pair = remote.pair.as_mut().ok_or(Refusal::UnknownPair)?;
                if pair.id != hello.pair || pair.origin != Origin::Accepted {
                    return Err(Refusal::UnknownPair);
                }
                if pair.completion.is_some() {
                    return Err(Refusal::DuplicatePair);
                }
                pair.completion = Some(socket);
                Ok((peer.slot(), *pair))
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

    /// Makes room for a new pair of a peer that may have one already.
    fn clear_for(&mut self, peer: u32, hello: &Hello) -> Result<(), Refusal> {
        let is_smaller = self.plan.node < hello.node;
        let Some(remote) = self.remote(peer) else { return Err(Refusal::TooManyPeers) };
        let Some(pair) = remote.pair else { return Ok(()) };
        if pair.id == hello.pair {
            return Err(Refusal::DuplicatePair);
        }
        // A peer that has given our pair up dials with a higher generation, or as another process.
        let is_newer = pair.is_up()
            && (hello.generation > pair.generation || hello.incarnation != pair.incarnation);
        match pair.origin {
            // Both sides dial: the pair of the smaller node id stays.
            Origin::Dialed if is_smaller && !is_newer => Err(Refusal::SimultaneousDial),
            // The peer has given its old pair up, or it would not dial.
            Origin::Dialed | Origin::Accepted => {
                self.end_pair(peer, CloseReason::Replaced);
                Ok(())
            }
        }
    }

    /// The dialer's side: go on, or learn why not.
    fn take_answer(&mut self, socket: SocketId, peer: u32, hello: &Hello) {
        let Some(link) = self.link(socket) else { return };
        let lane = link.lane;
        if hello.role == Role::Refuse {
            let code = hello.refusal.map_or(0, Refusal::code);
            if let Some(remote) = self.remote(peer) {
                remote.peer.set_refusal(code);
            }
            self.end_pair(peer, CloseReason::Refused(code));
            return;
        }
        if !self.is_answer(peer, lane, hello) {
            self.end_pair(peer, CloseReason::BadHello);
            return;
        }
        if let Some(link) = self.link(socket) {
            link.stage = Stage::Joined { peer };
        }
        match lane {
            Lane::Application => self.dial_completion(peer, hello.shard),
            Lane::Completion => self.pair_up(peer, hello),
        }
    }

    /// Whether a hello answers the one that we sent, and comes from whom we meant.
    fn is_answer(&mut self, peer: u32, lane: Lane, hello: &Hello) -> bool {
        let own = self.plan.node;
        let peers = std::sync::Arc::clone(&self.plan.peers);
        let Some(remote) = self.remote(peer) else { return false };
        let Some(pair) = remote.pair else { return false };
        hello.role == Role::Accept
            && hello.lane == lane
            && hello.pair == pair.id
            && hello.generation == pair.generation
            && hello.node != own
            && peers.learn_node(&remote.peer, hello.node)
    }

    /// Says no, and closes once that is said.
    fn refuse(&mut self, socket: SocketId, topology: u16, hello: &Hello, refusal: Refusal) {
        self.ingress.rejected(CloseReason::Refusing(refusal.code()));
        let pair = Pair {
            id: hello.pair,
            generation: hello.generation,
            incarnation: hello.incarnation,
            origin: Origin::Accepted,
            application: socket,
            completion: None,
            phase: PairPhase::Greeting,
            shard: 0,
        };
        if let Some(mut answer) = self.hello(Role::Refuse, hello.lane, &pair, topology) {
            answer.refusal = Some(refusal);
            self.say(socket, &answer);
        }
        self.linger(socket);
    }

    /// Answers bytes that are no hello of ours, if they are at least one of another version.
    fn answer_broken_hello(
        &mut self,
        socket: SocketId,
        stage: Stage,
        bytes: &[u8; HELLO_BYTES],
        refusal: Option<Refusal>,
    ) {
        if let (Stage::Accepted { topology }, Some(refusal)) = (stage, refusal) {
            let lane = Lane::Application;
            let node = self.plan.node;
            let stranger = Hello::answerable(bytes, lane, node);
            self.refuse(socket, topology, &stranger, refusal);
            return;
        }
        self.close_link(socket, CloseReason::BadHello);
    }

    fn hello(&self, role: Role, lane: Lane, pair: &Pair, topology: u16) -> Option<Hello> {
        let plan = self.plan.topologies.get(usize::from(topology))?;
        let size = self.plan.peers.limits().message_size_max.get();
        Some(Hello {
            role,
            refusal: None,
            lane,
            topology_kind: plan.kind,
            shard: pair.shard,
            pair: pair.id,
            generation: pair.generation,
            incarnation: self.plan.incarnation,
            last_generation: 0,
            claimed: 0,
            max_message_size: u32::try_from(size).unwrap_or(u32::MAX),
            outstanding_max: OUTSTANDING_MAX,
            node: self.plan.node,
            topology: plan.name,
        })
    }

    fn say(&mut self, socket: SocketId, hello: &Hello) {
        let Some(link) = self.link(socket) else { return };
        debug_assert!(!link.is_sending, "a hello is the first thing that is sent");
        link.is_sending = true;
        let mut batch = Batch::default();
        batch.push_segment(Bytes::copy_from_slice(&hello.encode()));
        self.push(Op::Send { socket, batch });
    }
}

/// A name for a new pair that nobody can guess.
pub(super) fn fresh_pair_id() -> Option<PairId> {
    let mut bytes = [0; 16];
    let flags = rustix::rand::GetRandomFlags::empty();
    let filled = rustix::rand::getrandom(&mut bytes, flags).ok()?;
    (filled == bytes.len()).then(|| PairId::new(u128::from_le_bytes(bytes)))
}
