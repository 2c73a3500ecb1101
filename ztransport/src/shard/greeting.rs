//! How two connections find out who they are and become a pair, and what a dialer does for it.
//!
//! The dialer greets on the Application lane first; the answer names the shard that owns the pair.
//! Then it greets on the Completion lane. Records flow once both lanes have greeted (D-17).

use bytes::Bytes;
use zcore::wire::{HELLO_BYTES, HELLO_START_BYTES, Hello, HelloError, Lane, PairId, Refusal, Role};

use super::connections::Connections;
use crate::batch::Batch;
use crate::close::CloseReason;
use crate::ingress::Ingress;
use crate::limits::OUTSTANDING_MAX;
use crate::link::Stage;
use crate::op::Op;
use crate::pair::{Pair, PairPhase, statement_of};
use crate::token::SocketId;

impl<I: Ingress> Connections<I> {
    /// Says hello on a connection that we dialed.
    pub(super) fn greet(&mut self, socket: SocketId) {
        let Some((link, remote, _)) = self.joined(socket) else { return };
        let (lane, peer) = (link.lane, remote.peer.slot());
        let topology = remote.peer.topology();
        let memory = &mut remote.memory;
        let Some(pair) = &mut remote.pair else { return };
        match lane {
            Lane::Application => {
                pair.generation = memory.acquaintance.dial();
                pair.phase = PairPhase::Asking;
                pair.said = memory.claims.statement();
            }
            // The acceptor holds the pair for up as soon as it hears this.
            Lane::Completion => memory.claims.begin(pair.generation),
        }
        let pair = *pair;
        link.stage = Stage::Greeting { peer };
        if let Some(hello) = self.hello(Role::Dial, lane, &pair, topology) {
            self.say(socket, &hello);
        }
        self.receive(socket);
    }

    /// Takes a hello in, whichever side we are. Bytes that cannot become one are not waited for.
    pub(super) fn take_greeting(&mut self, socket: SocketId) {
        let Some(link) = self.link(socket) else { return };
        let stage = link.stage;
        let carried = link.inbound.carried();
        if let Err(error) = Hello::check_start(carried) {
            let start = carried.first_chunk().copied();
            self.answer_broken_start(socket, stage, start, error);
            return;
        }
        let Some(bytes) = link.inbound.hello() else { return };
        let hello = match Hello::decode(&bytes) {
            Ok(hello) => hello,
            Err(error) => {
                link.inbound.skip_hello();
                self.answer_broken_hello(socket, stage, &bytes, error);
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
            | Stage::Challenging { .. }
            | Stage::Lingering { .. }
            | Stage::Closing { .. } => {}
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
                if hello.refusal == Some(Refusal::StaleGeneration) {
                    remote.memory.acquaintance.outdated(hello.last_generation);
                }
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
            Lane::Application => {
                self.agree(peer, hello);
                self.dial_completion(peer, hello.shard);
            }
            Lane::Completion => self.pair_up(peer, hello),
        }
    }

    /// Whether a hello answers the one that we sent, and comes from whom we meant.
    fn is_answer(&mut self, peer: u32, lane: Lane, hello: &Hello) -> bool {
        let own = self.plan.node;
        let peers = std::sync::Arc::clone(&self.plan.peers);
        let Some(remote) = self.remote(peer) else { return false };
        let Some(pair) = remote.pair else { return false };
        let is_named = match lane {
            // The acceptor may raise the generation, and says for the first time who it is.
            Lane::Application => hello.pair == pair.id && hello.generation >= pair.generation,
            Lane::Completion => pair.is_named_by(hello),
        };
        is_named
            && hello.role == Role::Accept
            && hello.lane == lane
            && hello.node != own
            && peers.learn_node(&remote.peer, hello.node)
    }

    /// The acceptor has answered, and with that agreed to a pair.
    fn agree(&mut self, peer: u32, hello: &Hello) {
        let Some(remote) = self.remote(peer) else { return };
        let Some(pair) = &mut remote.pair else { return };
        pair.phase = PairPhase::Agreed;
        pair.generation = hello.generation;
        pair.incarnation = hello.incarnation;
        pair.dialed = hello.generation;
        pair.heard = statement_of(hello);
        let pair = *pair;
        remote.memory.acquaintance.agree(hello.incarnation, hello.generation);
        self.settle_early(peer, &pair);
    }

    /// Answers the beginning of a hello of another version, once all that is to be echoed is there.
    fn answer_broken_start(
        &mut self,
        socket: SocketId,
        stage: Stage,
        start: Option<[u8; HELLO_START_BYTES]>,
        error: HelloError,
    ) {
        match (error.refusal(), start) {
            (Some(_), None) => {}
            (refusal, start) => {
                self.turn_down(socket, stage, refusal.zip(start));
            }
        }
    }

    /// Answers bytes that are no hello of ours, if they deserve one.
    fn answer_broken_hello(
        &mut self,
        socket: SocketId,
        stage: Stage,
        bytes: &[u8; HELLO_BYTES],
        error: HelloError,
    ) {
        self.turn_down(socket, stage, error.refusal().zip(bytes.first_chunk().copied()));
    }

    fn turn_down(
        &mut self,
        socket: SocketId,
        stage: Stage,
        answer: Option<(Refusal, [u8; HELLO_START_BYTES])>,
    ) {
        if let (Stage::Accepted { topology }, Some((refusal, start))) = (stage, answer) {
            let stranger = Hello::answerable(&start, Lane::Application, self.plan.node);
            self.refuse(socket, topology, &stranger, refusal);
            return;
        }
        self.close_link(socket, CloseReason::BadHello);
    }

    pub(super) fn hello(
        &self,
        role: Role,
        lane: Lane,
        pair: &Pair,
        topology: u16,
    ) -> Option<Hello> {
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
            last_generation: pair.said.generation,
            claimed: pair.said.claimed.messages,
            claimed_requests: pair.said.claimed.requests,
            max_message_size: u32::try_from(size).unwrap_or(u32::MAX),
            outstanding_max: OUTSTANDING_MAX,
            node: self.plan.node,
            topology: plan.name,
        })
    }

    pub(super) fn say(&mut self, socket: SocketId, hello: &Hello) {
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
