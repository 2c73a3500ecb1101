//! The peers of a host, as every thread sees them.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use zcore::wire::Label;
use zcore::{ByteCount, Charge, Ending, HighWaterMark, QueueId, ReceiveQueue, SendQueue, limits};

use crate::doorbell::Errand;
use crate::lane::{Lane, LaneContext};
use crate::limits::REPLY_BYTES_MAX;

/// Whether a peer can be reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PeerState {
    /// No pair is up; admitted records wait, charged (B-23).
    Disconnected,
    /// Both connections are up.
    Connected,
    /// It has said goodbye: replies still flow, new messages wait for its return.
    Leaving,
    /// It is gone for good (D-18).
    Detached,
}

/// A peer: its lanes, and what its shard publishes of it.
#[derive(Debug)]
pub struct Peer {
    slot: u32,
    topology: u16,
    shard: u16,
    node: OnceLock<Label>,
    application: Arc<Lane>,
    completion: Arc<Lane>,
    state: AtomicU8,
    gauge: ReceiveGauge,
    generation: AtomicU64,
    refusal: AtomicU8,
}

/// What a shard publishes of a peer's receive queue.
#[derive(Debug)]
struct ReceiveGauge {
    mark: HighWaterMark,
    accounted: AtomicU64,
    peak: AtomicU64,
}

/// A receive queue's numbers, as its shard last published them.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveSnapshot {
    /// Bytes that are charged now.
    pub accounted: ByteCount,
    /// The most bytes that were charged at once.
    pub peak: ByteCount,
    /// The high-water mark in force.
    pub mark: HighWaterMark,
}

impl Peer {
    /// Its place in the host's table.
    pub const fn slot(&self) -> u32 {
        self.slot
    }

    /// The topology it belongs to.
    pub const fn topology(&self) -> u16 {
        self.topology
    }

    /// The shard that has its connections.
    pub const fn shard(&self) -> u16 {
        self.shard
    }

    /// Its node id, once it is known.
    pub fn node(&self) -> Option<&Label> {
        self.node.get()
    }

    /// Messages, requests and control.
    pub const fn application(&self) -> &Arc<Lane> {
        &self.application
    }

    /// Terminal replies and error replies.
    pub const fn completion(&self) -> &Arc<Lane> {
        &self.completion
    }

    /// Whether it can be reached.
    pub fn state(&self) -> PeerState {
        match self.state.load(Ordering::Acquire) {
            CONNECTED => PeerState::Connected,
            LEAVING => PeerState::Leaving,
            DETACHED => PeerState::Detached,
            _ => PeerState::Disconnected,
        }
    }

    /// How often its pair came up.
    pub fn pairs(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// The wire code of its last refusal to talk to this host, if there was one.
    pub fn refusal(&self) -> Option<u8> {
        match self.refusal.load(Ordering::Relaxed) {
            0 => None,
            code => Some(code),
        }
    }

    /// What its shard published of its receive queue.
    pub fn receive_queue(&self) -> ReceiveSnapshot {
        let ReceiveGauge { mark, accounted, peak } = &self.gauge;
        ReceiveSnapshot {
            accounted: ByteCount::new(accounted.load(Ordering::Relaxed)),
            peak: ByteCount::new(peak.load(Ordering::Relaxed)),
            mark: *mark,
        }
    }

    pub(crate) fn learn_node(&self, node: Label) {
        self.node.get_or_init(|| node);
    }

    pub(crate) fn set_connected(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.refusal.store(0, Ordering::Relaxed);
        self.state.store(CONNECTED, Ordering::Release);
    }

    pub(crate) fn set_leaving(&self) {
        self.state.store(LEAVING, Ordering::Release);
    }

    pub(crate) fn set_disconnected(&self) {
        self.state.store(DISCONNECTED, Ordering::Release);
    }

    pub(crate) fn set_detached(&self) {
        self.state.store(DETACHED, Ordering::Release);
    }

    pub(crate) fn set_refusal(&self, code: u8) {
        self.refusal.store(code, Ordering::Relaxed);
    }

    pub(crate) fn publish(&self, queue: &ReceiveQueue) {
        let account = queue.account();
        self.gauge.accounted.store(account.accounted().get(), Ordering::Relaxed);
        self.gauge.peak.store(account.peak().get(), Ordering::Relaxed);
    }
}

const DISCONNECTED: u8 = 0;
const CONNECTED: u8 = 1;
const DETACHED: u8 = 2;
const LEAVING: u8 = 3;

/// The byte limits of each peer.
#[derive(Clone, Copy, Debug)]
pub struct ByteLimits {
    /// Of the send queue.
    pub send: HighWaterMark,
    /// Of the receive queue.
    pub receive: HighWaterMark,
    /// Payload plus metadata of one message.
    pub message_size_max: ByteCount,
}

/// There are as many peers as the host was built for (D-26).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PeersFull;

/// All peers of a host.
#[derive(Debug)]
pub struct Peers {
    limits: ByteLimits,
    slots_max: u32,
    /// What the lanes of a peer share, by the shard that has its connections.
    lanes: Vec<LaneContext>,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    slots: Vec<Option<Arc<Peer>>>,
    free: Vec<u32>,
    by_node: BTreeMap<(u16, Label), u32>,
    /// How many peers each shard has, those that are on their way to it included.
    loads: Vec<u32>,
}

impl Table {
    fn find(&self, topology: u16, node: &Label) -> Option<Arc<Peer>> {
        let slot = *self.by_node.get(&(topology, *node))?;
        self.slots.get(usize::try_from(slot).ok()?).cloned().flatten()
    }

    fn add_load(&mut self, shard: u16) {
        if let Some(load) = self.loads.get_mut(usize::from(shard)) {
            *load += 1;
        }
    }

    fn take_load(&mut self, shard: u16) {
        if let Some(load) = self.loads.get_mut(usize::from(shard)) {
            debug_assert!(*load > 0, "shard {shard} has a peer");
            *load = load.saturating_sub(1);
        }
    }

    /// The shard with the fewest peers.
    fn least_loaded(&self) -> u16 {
        let least = (0_u16..).zip(&self.loads).min_by_key(|(_, load)| **load);
        least.map_or(0, |(shard, _)| shard)
    }
}

impl Peers {
    /// No peers yet, at most `peers_max`, for as many shards as there are `lanes`; at least one.
    pub fn new(limits: ByteLimits, peers_max: u32, lanes: Vec<LaneContext>) -> Self {
        debug_assert!(!lanes.is_empty(), "a host has a shard");
        let loads = vec![0; lanes.len()];
        let table = Table { slots: Vec::new(), free: Vec::new(), by_node: BTreeMap::new(), loads };
        Self { limits, slots_max: peers_max, lanes, table: Mutex::new(table) }
    }

    /// The byte limits of each peer.
    pub const fn limits(&self) -> &ByteLimits {
        &self.limits
    }

    /// Adds a peer, whose node id may not be known yet, to the shard that has the fewest.
    ///
    /// # Errors
    ///
    /// [`PeersFull`] when there are as many as the host was built for.
    pub fn add(&self, topology: u16, node: Option<Label>) -> Result<Arc<Peer>, PeersFull> {
        let mut table = self.lock();
        let shard = table.least_loaded();
        self.add_to(&mut table, shard, topology, node)
    }

    /// The peer with a node id, added to `shard` if there is none.
    ///
    /// # Errors
    ///
    /// As [`Peers::add`].
    pub(crate) fn find_or_add(
        &self,
        shard: u16,
        topology: u16,
        node: Label,
    ) -> Result<Arc<Peer>, PeersFull> {
        let mut table = self.lock();
        match table.find(topology, &node) {
            Some(peer) => Ok(peer),
            None => self.add_to(&mut table, shard, topology, Some(node)),
        }
    }

    /// Keeps room for one more peer on the shard that has the fewest.
    pub(crate) fn reserve(self: &Arc<Self>) -> Reservation {
        let mut table = self.lock();
        let shard = table.least_loaded();
        table.add_load(shard);
        drop(table);
        Reservation { peers: Arc::clone(self), shard }
    }

    fn add_to(
        &self,
        table: &mut Table,
        shard: u16,
        topology: u16,
        node: Option<Label>,
    ) -> Result<Arc<Peer>, PeersFull> {
        let context = self.lanes.get(usize::from(shard)).ok_or(PeersFull)?;
        let slot = match table.free.last() {
            Some(slot) => *slot,
            None => u32::try_from(table.slots.len()).map_err(|_| PeersFull)?,
        };
        if slot >= self.slots_max {
            return Err(PeersFull);
        }
        let charge_max = largest_charge(self.limits.message_size_max);
        let ordinary = SendQueue::new(QueueId::new(slot * 2), self.limits.send, charge_max);
        // Replies have no public mark (B-117), only what may wait unsent for one peer (D-15).
        let replies = HighWaterMark::Limit(ByteCount::new(REPLY_BYTES_MAX));
        let terminal = SendQueue::new(QueueId::new(slot * 2 + 1), replies, charge_max);
        let lane = |errand, queue| {
            let lane = Lane::new(slot, errand, context.clone(), queue);
            lane.set_message_size_max(self.limits.message_size_max);
            Arc::new(lane)
        };
        let peer = Arc::new(Peer {
            slot,
            topology,
            shard,
            node: OnceLock::new(),
            application: lane(Errand::SendApplication, ordinary),
            completion: lane(Errand::SendCompletion, terminal),
            state: AtomicU8::new(DISCONNECTED),
            gauge: ReceiveGauge {
                mark: self.limits.receive,
                accounted: AtomicU64::new(0),
                peak: AtomicU64::new(0),
            },
            generation: AtomicU64::new(0),
            refusal: AtomicU8::new(0),
        });
        if let Some(node) = node {
            peer.learn_node(node);
            table.by_node.insert((topology, node), slot);
        }
        if table.free.pop().is_none() {
            table.slots.push(None);
        }
        table.add_load(shard);
        if let Some(place) = table.slots.get_mut(usize::try_from(slot).unwrap_or(usize::MAX)) {
            *place = Some(Arc::clone(&peer));
        }
        Ok(peer)
    }

    /// The peer with a node id.
    pub fn find(&self, topology: u16, node: &Label) -> Option<Arc<Peer>> {
        self.lock().find(topology, node)
    }

    /// Forgets a peer whose lanes have ended; its place is free for another.
    pub(crate) fn remove(&self, peer: &Peer) {
        let mut table = self.lock();
        let index = usize::try_from(peer.slot).unwrap_or(usize::MAX);
        let place = table.slots.get_mut(index).and_then(Option::take);
        if place.is_some() {
            table.free.push(peer.slot);
            table.take_load(peer.shard);
            if let Some(node) = peer.node() {
                table.by_node.remove(&(peer.topology, *node));
            }
        }
        // The last reference may be this one: it is dropped outside the lock.
        drop(table);
        drop(place);
    }

    /// Notes the node id of a peer that was known by its address only. `false` if another peer has
    /// that id.
    pub(crate) fn learn_node(&self, peer: &Peer, node: Label) -> bool {
        let mut table = self.lock();
        let slot = *table.by_node.entry((peer.topology, node)).or_insert(peer.slot);
        if slot == peer.slot {
            peer.learn_node(node);
        }
        slot == peer.slot && peer.node() == Some(&node)
    }

    /// The peer in a slot.
    pub fn get(&self, slot: u32) -> Option<Arc<Peer>> {
        self.lock().slots.get(usize::try_from(slot).ok()?).cloned().flatten()
    }

    /// Every peer, in the order in which they were added.
    pub fn all(&self) -> Vec<Arc<Peer>> {
        self.lock().slots.iter().flatten().cloned().collect()
    }

    /// Ends every Application lane: waiting calls end, admitted records are still sent.
    pub fn close(&self) {
        for peer in self.all() {
            peer.application.end(Ending::Closed);
        }
    }

    /// Ends every lane: nothing is sent any more.
    pub fn close_all(&self) {
        for peer in self.all() {
            peer.application.end(Ending::Closed);
            peer.completion.end(Ending::Closed);
        }
    }

    /// The lane of a send queue.
    pub(crate) fn lane(&self, queue: QueueId) -> Option<Arc<Lane>> {
        let peer = self.get(queue.index() / 2)?;
        let lane =
            if queue.index().is_multiple_of(2) { &peer.application } else { &peer.completion };
        Some(Arc::clone(lane))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room for a peer that is on its way to its shard: whoever comes after it sees it there.
#[derive(Debug)]
pub(crate) struct Reservation {
    peers: Arc<Peers>,
    shard: u16,
}

impl Reservation {
    /// Where the peer goes.
    pub(crate) const fn shard(&self) -> u16 {
        self.shard
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.peers.lock().take_load(self.shard);
    }
}

/// What the largest message of a peer is charged.
pub(crate) const fn largest_charge(message_size_max: ByteCount) -> ByteCount {
    let encoded = message_size_max.get().saturating_add(limits::RECORD_HEAD_MAX);
    Charge::of_encoded(encoded).bytes()
}
