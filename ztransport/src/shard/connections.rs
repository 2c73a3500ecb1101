//! All connections of a shard: events in, intents out.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use zcore::wire::{Lane, Limits};
use zcore::{Instant, ReceiveQueue};

use super::ShardPlan;
use super::moving::Place;
use super::timers::Timer;
use crate::close::CloseReason;
use crate::doorbell::Errand;
use crate::event::{Event, ReceiveStop};
use crate::ingress::Ingress;
use crate::link::{Link, Receiving, Stage};
use crate::op::Op;
use crate::pair::{Dial, Remote};
use crate::peer::Peer;
use crate::permits::Permit;
use crate::reconnect::Backoff;
use crate::socket::{SocketAddress, SocketBuffers};
use crate::token::SocketId;

/// What the shard's loop is asked to do.
#[derive(Debug)]
pub(super) enum Intent {
    /// Hand an operation to the driver.
    Push(Op),
    /// Open a socket for one lane of a peer.
    Dial { peer: u32, lane: Lane, address: SocketAddress },
    /// Give a connection that has stopped receiving to another shard.
    HandOver { socket: SocketId, place: Place, received: Vec<u8> },
}

/// Where a shard stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// It takes connections and dials.
    Serving,
    /// It sends what was admitted and finishes what was accepted.
    Draining(Instant),
    /// It reads its connections to their ends.
    Lingering(Instant),
}

/// The connections of a shard.
#[derive(Debug)]
pub(super) struct Connections<I> {
    pub(super) plan: ShardPlan,
    pub(super) ingress: I,
    pub(super) now: Instant,
    pub(super) phase: Phase,
    /// By the driver's slot.
    links: Vec<Option<Link>>,
    /// By the peer's slot. Boxed, as the slots are the host's: most of them are other shards'.
    remotes: Vec<Option<Box<Remote>>>,
    listeners: Vec<(SocketId, u16)>,
    intents: VecDeque<Intent>,
    pub(super) timers: BTreeSet<(Instant, Timer)>,
    /// Peers with ready records, the one served longest ago first (D-23).
    pub(super) active: VecDeque<u32>,
    pub(super) permits: Vec<Permit>,
    /// The most that a connection carries behind a record that found no room.
    pub(super) carry_max: u64,
}

impl<I: Ingress> Connections<I> {
    pub(super) const fn new(ingress: I, plan: ShardPlan, carry_max: u64, now: Instant) -> Self {
        Self {
            plan,
            ingress,
            now,
            phase: Phase::Serving,
            links: Vec::new(),
            remotes: Vec::new(),
            listeners: Vec::new(),
            intents: VecDeque::new(),
            timers: BTreeSet::new(),
            active: VecDeque::new(),
            permits: Vec::new(),
            carry_max,
        }
    }

    /// Starts to dial.
    pub(super) fn start(&mut self) {
        let mut dials = Vec::new();
        for plan in &mut self.plan.topologies {
            dials.append(&mut plan.dials);
        }
        for (peer, address) in dials {
            let seed = self.plan.incarnation ^ u64::from(peer.slot()).rotate_left(32);
            let dial = Dial { address, backoff: Backoff::new(seed), at: Some(self.now) };
            let slot = peer.slot();
            if self.adopt_peer(peer, Some(dial)) {
                self.timers.insert((self.now, Timer::Dial(slot)));
            }
        }
    }

    pub(super) const fn begin_turn(&mut self, now: Instant) {
        self.now = now;
    }

    /// Takes an event in.
    pub(super) fn handle(&mut self, event: Event<'_>) {
        match event {
            Event::Accepted { listener, socket } => match self.topology_of(listener) {
                Some(topology) => self.accepted(topology, socket),
                None => self.push(Op::Close { socket }),
            },
            Event::AcceptStopped { listener, errno: _ } => {
                // Out of descriptors, most likely: connections in the backlog wait meanwhile.
                let again = self.now.saturating_add(crate::limits::RECONNECT_DELAY_MIN);
                self.timers.insert((again, Timer::Accept(listener)));
            }
            Event::Connected { socket, outcome } => match outcome {
                Ok(()) => self.connected(socket),
                Err(errno) => self.close_link(socket, CloseReason::Failed(errno)),
            },
            Event::Received { socket, bytes } => self.received(socket, bytes),
            Event::ReceiveStopped { socket, reason } => self.receive_stopped(socket, reason),
            Event::Sent { socket, outcome, batch } => self.sent(socket, outcome, batch),
            Event::Closed { socket } => self.closed(socket),
        }
    }

    /// Runs an errand that another thread left.
    pub(super) fn run_errand(&mut self, peer: u32, errand: Errand) {
        match errand {
            Errand::SendApplication => self.flush(peer, Lane::Application),
            Errand::SendCompletion => self.flush(peer, Lane::Completion),
            Errand::Granted => self.activate(peer),
            Errand::Detach => self.detach(peer),
        }
    }

    /// Hands records over, runs handlers and timers. Whether work is left.
    pub(super) fn run(&mut self) -> bool {
        let phase = self.phase;
        self.run_timers();
        let has_records = self.hand_over();
        let has_jobs = self.ingress.run(self.now);
        self.step_drain();
        has_records || has_jobs || self.phase != phase
    }

    pub(super) fn next_intent(&mut self) -> Option<Intent> {
        self.intents.pop_front()
    }

    pub(super) fn push(&mut self, op: Op) {
        self.intents.push_back(Intent::Push(op));
    }

    pub(super) fn intend(&mut self, intent: Intent) {
        self.intents.push_back(intent);
    }

    pub(super) const fn buffers(&self) -> SocketBuffers {
        self.plan.buffers
    }

    /// A listener is adopted: accept on it.
    pub(super) fn listening(&mut self, topology: u16, socket: SocketId) {
        self.listeners.push((socket, topology));
        self.accept(socket);
    }

    pub(super) fn accept(&mut self, listener: SocketId) {
        self.push(Op::Accept { listener, buffers: self.plan.buffers });
    }

    pub(super) fn listens(&self, socket: SocketId) -> bool {
        self.listeners.iter().any(|(listener, _)| *listener == socket)
    }

    pub(super) fn close_listeners(&mut self) {
        for (listener, _) in core::mem::take(&mut self.listeners) {
            self.push(Op::Close { socket: listener });
        }
    }

    /// Takes a peer in, as a source of jobs. `false` if it has no place or is there already.
    pub(super) fn adopt_peer(&mut self, peer: Arc<Peer>, dial: Option<Dial>) -> bool {
        let slot = index(peer.slot());
        if self.remotes.get(slot).is_some_and(Option::is_some) {
            return false;
        }
        let lanes = &self.plan.lanes;
        let Some(source) = self.plan.permits.register(lanes, peer.slot()) else { return false };
        if self.remotes.len() <= slot {
            self.remotes.resize_with(slot + 1, || None);
        }
        let receive = ReceiveQueue::new(self.plan.peers.limits().receive);
        if let Some(place) = self.remotes.get_mut(slot) {
            *place = Some(Box::new(Remote::new(peer, source, receive, dial)));
        }
        true
    }

    pub(super) fn link(&mut self, socket: SocketId) -> Option<&mut Link> {
        let link = self.links.get_mut(index(socket.slot()))?.as_mut()?;
        (link.socket == socket).then_some(link)
    }

    pub(super) fn remote(&mut self, peer: u32) -> Option<&mut Remote> {
        self.remotes.get_mut(index(peer))?.as_deref_mut()
    }

    /// A connection and the peer it belongs to, and the host.
    pub(super) fn joined(&mut self, socket: SocketId) -> Option<(&mut Link, &mut Remote, &mut I)> {
        let link = self.links.get_mut(index(socket.slot()))?.as_mut()?;
        if link.socket != socket {
            return None;
        }
        let remote = self.remotes.get_mut(index(link.stage.peer()?))?.as_deref_mut()?;
        Some((link, remote, &mut self.ingress))
    }

    pub(super) fn forget_remote(&mut self, peer: u32) -> Option<Box<Remote>> {
        self.remotes.get_mut(index(peer))?.take()
    }

    pub(super) fn remotes(&self) -> impl Iterator<Item = &Remote> {
        self.remotes.iter().flatten().map(Box::as_ref)
    }

    pub(super) fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().flatten()
    }

    pub(super) fn add_link(&mut self, link: Link) {
        let slot = index(link.socket.slot());
        if self.links.len() <= slot {
            self.links.resize_with(slot + 1, || None);
        }
        if let Some(place) = self.links.get_mut(slot) {
            // The driver may hand a slot out again before it has said that it closed.
            debug_assert!(
                place.as_ref().is_none_or(|old| matches!(old.stage, Stage::Closing { .. })),
                "slot {slot} is in use"
            );
            *place = Some(link);
        }
    }

    /// Arms receiving on a connection, unless it is armed or at its end.
    pub(super) fn receive(&mut self, socket: SocketId) {
        let Some(link) = self.link(socket) else { return };
        if link.receiving == Receiving::Off {
            link.receiving = Receiving::On;
            let group = link.group();
            self.push(Op::Receive { socket, group });
        }
    }

    /// Stops receiving on a connection; what arrives until it has stopped is carried.
    pub(super) fn pause(&mut self, socket: SocketId) {
        let Some(link) = self.link(socket) else { return };
        if link.receiving == Receiving::On {
            link.receiving = Receiving::Pausing;
            self.push(Op::PauseReceive { socket });
        }
    }

    /// What a lane of this host takes in.
    pub(super) fn wire_limits(&self, lane: Lane) -> Limits {
        Limits { lane, max_message_size: self.plan.peers.limits().message_size_max }
    }

    /// Closes a connection and whatever cannot live without it.
    pub(super) fn close_link(&mut self, socket: SocketId, reason: CloseReason) {
        let Some(link) = self.link(socket) else { return };
        match link.stage {
            Stage::Closing { .. } => {}
            Stage::Accepted { .. } | Stage::Moving { .. } => {
                self.ingress.rejected(reason);
                self.shut(socket);
            }
            // It was counted when it was refused.
            Stage::Lingering { peer: None } => self.shut(socket),
            Stage::Connecting { peer }
            | Stage::Greeting { peer }
            | Stage::Joined { peer }
            | Stage::Lingering { peer: Some(peer) } => self.end_pair(peer, reason),
            Stage::Challenging { peer } => self.drop_challenger(peer, reason),
        }
    }

    /// Closes one connection at once.
    pub(super) fn shut(&mut self, socket: SocketId) {
        let Some(link) = self.link(socket) else { return };
        let (peer, is_stranger) = (link.stage.peer(), link.stage.is_stranger());
        if !matches!(link.stage, Stage::Closing { .. }) {
            link.stage = Stage::Closing { peer };
            self.push(Op::Close { socket });
        }
        if is_stranger {
            self.plan.lobby.leave();
        }
    }

    fn receive_stopped(&mut self, socket: SocketId, reason: ReceiveStop) {
        let Some(link) = self.link(socket) else { return };
        link.receiving = Receiving::Off;
        match reason {
            ReceiveStop::Paused | ReceiveStop::NoBuffers => self.resume(socket),
            ReceiveStop::EndOfStream => {
                link.receiving = Receiving::Ended;
                self.peer_ended(socket);
            }
            ReceiveStop::Failed(errno) => self.close_link(socket, CloseReason::Failed(errno)),
        }
    }

    fn closed(&mut self, socket: SocketId) {
        let Some(link) = self.link(socket) else { return };
        let peer = link.stage.peer();
        self.forget_link(socket);
        if let Some(peer) = peer {
            self.forget_gone(peer);
        }
    }

    pub(super) fn forget_link(&mut self, socket: SocketId) {
        if let Some(place) = self.links.get_mut(index(socket.slot())) {
            *place = None;
        }
    }

    fn topology_of(&self, listener: SocketId) -> Option<u16> {
        self.listeners.iter().find(|(socket, _)| *socket == listener).map(|(_, topology)| *topology)
    }
}

pub(super) fn index(slot: u32) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}
