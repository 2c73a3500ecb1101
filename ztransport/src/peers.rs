//! All peers of a host, and which shard has which.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zcore::wire::Label;
use zcore::{ByteCount, Charge, HighWaterMark, QueueId, SendQueue, limits};

use crate::doorbell::Errand;
use crate::lane::{Lane, LaneContext};
use crate::limits::REPLY_BYTES_MAX;
use crate::peer::{Peer, Place};

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

impl ByteLimits {
    /// What the largest message is charged.
    pub const fn charge_max(&self) -> ByteCount {
        largest_charge(self.message_size_max)
    }

    /// The most that the send queue of a peer accounts (D-02).
    pub const fn send_worst_case(&self) -> ByteCount {
        self.send.worst_case(self.charge_max())
    }

    /// The most that the receive queue of a peer accounts (D-02).
    pub const fn receive_worst_case(&self) -> ByteCount {
        self.receive.worst_case(self.charge_max())
    }
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

    fn forget_node(&mut self, peer: &Peer) {
        let Some(node) = peer.node() else { return };
        let key = (peer.topology(), *node);
        // Another peer may have the node id by now.
        if self.by_node.get(&key) == Some(&peer.slot()) {
            self.by_node.remove(&key);
        }
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

    /// The peer with a node id, added to `shard` if there is none; room that was kept for it becomes
    /// its own.
    ///
    /// # Errors
    ///
    /// As [`Peers::add`].
    pub(crate) fn find_or_add(
        &self,
        shard: u16,
        room: Option<Reservation>,
        topology: u16,
        node: Label,
    ) -> Result<Arc<Peer>, PeersFull> {
        let mut table = self.lock();
        if let Some(peer) = table.find(topology, &node) {
            // Its room is given back behind the lock: arguments outlive what this function holds.
            return Ok(peer);
        }
        let peer = self.add_to(&mut table, shard, topology, Some(node))?;
        if let Some(room) = room {
            room.become_a_peer(&mut table);
        }
        Ok(peer)
    }

    /// Keeps room for one more peer on the shard that has the fewest.
    pub(crate) fn reserve(self: &Arc<Self>) -> Reservation {
        let mut table = self.lock();
        let shard = table.least_loaded();
        table.add_load(shard);
        drop(table);
        Reservation { peers: Arc::clone(self), shard, is_kept: true }
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
            lane.limit_messages(self.limits.message_size_max);
            Arc::new(lane)
        };
        let application = lane(Errand::SendApplication, ordinary);
        let completion = lane(Errand::SendCompletion, terminal);
        let place = Place { slot, topology, shard };
        let peer = Arc::new(Peer::new(place, (application, completion), self.limits.receive));
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
        let index = usize::try_from(peer.slot()).unwrap_or(usize::MAX);
        let place = table.slots.get_mut(index).and_then(Option::take);
        if place.is_some() {
            table.free.push(peer.slot());
            table.take_load(peer.shard());
            table.forget_node(peer);
        }
        // The last reference may be this one: it is dropped outside the lock.
        drop(table);
        drop(place);
    }

    /// Gives the node id of a peer free that is gone for good: if the node comes back, it comes as
    /// another one.
    pub(crate) fn forget_node(&self, peer: &Peer) {
        self.lock().forget_node(peer);
    }

    /// Notes the node id of a peer that was known by its address only. `false` if another peer has
    /// that id.
    pub(crate) fn learn_node(&self, peer: &Peer, node: Label) -> bool {
        let mut table = self.lock();
        let slot = *table.by_node.entry((peer.topology(), node)).or_insert_with(|| peer.slot());
        if slot == peer.slot() {
            peer.learn_node(node);
        }
        slot == peer.slot() && peer.node() == Some(&node)
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
            peer.application().close();
        }
    }

    /// Ends every lane: nothing is sent any more.
    pub fn close_all(&self) {
        for peer in self.all() {
            peer.application().close();
            peer.completion().close();
        }
    }

    /// The lane of a send queue.
    pub(crate) fn lane(&self, queue: QueueId) -> Option<Arc<Lane>> {
        let peer = self.get(queue.index() / 2)?;
        let lane =
            if queue.index().is_multiple_of(2) { peer.application() } else { peer.completion() };
        Some(Arc::clone(lane))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room for a peer that is on its way to its shard. Whoever comes after it sees it there, once: before
/// it arrives, as it does, and from then on.
#[derive(Debug)]
pub(crate) struct Reservation {
    peers: Arc<Peers>,
    shard: u16,
    is_kept: bool,
}

impl Reservation {
    /// Where the peer goes.
    pub(crate) const fn shard(&self) -> u16 {
        self.shard
    }

    /// The peer that it was for counts from now on, in the same moment.
    fn become_a_peer(mut self, table: &mut Table) {
        self.is_kept = false;
        table.take_load(self.shard);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.is_kept {
            self.peers.lock().take_load(self.shard);
        }
    }
}

/// What the largest message of a peer is charged.
pub(crate) const fn largest_charge(message_size_max: ByteCount) -> ByteCount {
    let encoded = message_size_max.get().saturating_add(limits::RECORD_HEAD_MAX);
    Charge::of_encoded(encoded).bytes()
}
