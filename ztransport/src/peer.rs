//! One peer, as every thread sees it.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use zcore::wire::Label;
use zcore::{ByteCount, HighWaterMark, ReceiveQueue};

use crate::doorbell::Errand;
use crate::lane::Lane;

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
    is_unwanted: AtomicBool,
}

/// What a shard publishes of a peer's receive queue.
#[derive(Debug)]
struct ReceiveGauge {
    mark: HighWaterMark,
    accounted: AtomicU64,
    peak: AtomicU64,
    carried: AtomicU64,
    carried_peak: AtomicU64,
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
    /// Bytes that were received behind a record without room, and are not charged yet.
    pub carried: ByteCount,
    /// The most bytes that were so at once.
    pub carried_peak: ByteCount,
}

/// Where a peer is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) slot: u32,
    pub(crate) topology: u16,
    pub(crate) shard: u16,
}

impl Peer {
    /// A peer that has not connected, with its Application and its Completion lane.
    pub(crate) fn new(
        place: Place,
        (application, completion): (Arc<Lane>, Arc<Lane>),
        receive: HighWaterMark,
    ) -> Self {
        let Place { slot, topology, shard } = place;
        Self {
            slot,
            topology,
            shard,
            node: OnceLock::new(),
            application,
            completion,
            state: AtomicU8::new(DISCONNECTED),
            gauge: ReceiveGauge {
                mark: receive,
                accounted: AtomicU64::new(0),
                peak: AtomicU64::new(0),
                carried: AtomicU64::new(0),
                carried_peak: AtomicU64::new(0),
            },
            generation: AtomicU64::new(0),
            refusal: AtomicU8::new(0),
            is_unwanted: AtomicBool::new(false),
        }
    }

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
        let ReceiveGauge { mark, accounted, peak, carried, carried_peak } = &self.gauge;
        let bytes = |number: &AtomicU64| ByteCount::new(number.load(Ordering::Relaxed));
        ReceiveSnapshot {
            accounted: bytes(accounted),
            peak: bytes(peak),
            mark: *mark,
            carried: bytes(carried),
            carried_peak: bytes(carried_peak),
        }
    }

    /// Asks its shard to detach it for good (D-18); it does in its next turn, and a second time
    /// nothing.
    pub fn detach(&self) {
        self.is_unwanted.store(true, Ordering::Release);
        self.application.ask(Errand::Detach);
    }

    /// Whether it is to be detached. Its slot alone does not say so: another peer may have it by now.
    pub(crate) fn is_unwanted(&self) -> bool {
        self.is_unwanted.load(Ordering::Acquire)
    }

    pub(crate) fn learn_node(&self, node: Label) {
        self.node.get_or_init(|| node);
    }

    pub(crate) fn set_connected(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.refusal.store(0, Ordering::Relaxed);
        self.enter(CONNECTED);
    }

    pub(crate) fn set_leaving(&self) {
        self.enter(LEAVING);
    }

    pub(crate) fn set_disconnected(&self) {
        self.enter(DISCONNECTED);
    }

    pub(crate) fn set_detached(&self) {
        self.enter(DETACHED);
    }

    /// Only its shard calls this. Who is gone for good stays so, whatever its connections still do.
    fn enter(&self, state: u8) {
        if self.state() != PeerState::Detached {
            self.state.store(state, Ordering::Release);
        }
    }

    pub(crate) fn set_refusal(&self, code: u8) {
        self.refusal.store(code, Ordering::Relaxed);
    }

    pub(crate) fn publish(&self, queue: &ReceiveQueue) {
        let account = queue.account();
        self.gauge.accounted.store(account.accounted().get(), Ordering::Relaxed);
        self.gauge.peak.store(account.peak().get(), Ordering::Relaxed);
    }

    pub(crate) fn publish_carried(&self, carried: u64) {
        self.gauge.carried.store(carried, Ordering::Relaxed);
        // Only its shard writes: what it reads here is what it wrote.
        if carried > self.gauge.carried_peak.load(Ordering::Relaxed) {
            self.gauge.carried_peak.store(carried, Ordering::Relaxed);
        }
    }
}

const DISCONNECTED: u8 = 0;
const CONNECTED: u8 = 1;
const DETACHED: u8 = 2;
const LEAVING: u8 = 3;
