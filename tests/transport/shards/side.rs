//! One of the two hosts: its shard's plan, and the caller that sends through it.

use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use zcore::wire::{Kind, Label, RouteHash, TopologyKind};
use zcore::{
    ByteCount, Family, HighWaterMark, Instant, JobQueue, PermitLimit, Quota, SourceSlot, Thresholds,
};
use ztransport::clock::{Clock, VirtualClock};
use ztransport::limits::SPIN_WINDOW;
use ztransport::socket::{SocketAddress, SocketBuffers};
use ztransport::{
    ByteLimits, Doorbell, LaneContext, Limit, Outgoing, Peer, Peers, Permits, ShardControl,
    ShardPlan, Submitted, TopologyPlan, WaitEnd, WaitSpace, Waiting,
};

use super::recorder::Recorder;
use super::tale::Ledger;

/// How tight a host is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) mark: ByteCount,
    pub(super) permits: u32,
    pub(super) buffers: SocketBuffers,
}

impl Limits {
    /// Everything that a script sends finds room.
    pub(super) const ROOMY: Self = Self {
        mark: ByteCount::mib(8),
        permits: 1_024,
        buffers: SocketBuffers { send: ByteCount::kib(256), receive: ByteCount::kib(256) },
    };

    /// Full within a moment.
    pub(super) const TIGHT: Self = Self {
        mark: ByteCount::kib(64),
        permits: 4,
        buffers: SocketBuffers { send: ByteCount::kib(16), receive: ByteCount::kib(16) },
    };
}

/// A host, seen from the test's thread.
pub(super) struct Side {
    name: Label,
    other: Label,
    limits: Limits,
    peers: Arc<Peers>,
    permits: Arc<Permits>,
    lanes: LaneContext,
    control: Arc<ShardControl>,
    ledger: Arc<Mutex<Ledger>>,
    gate: Arc<AtomicBool>,
    outbox: VecDeque<Outgoing>,
    /// The call that waits for room, and its number.
    waiting: Option<(u64, Waiting)>,
}

impl Side {
    pub(super) fn new(name: &str, other: &str, limits: Limits, clock: &Arc<VirtualClock>) -> Self {
        let clock: Arc<dyn Clock> = Arc::<VirtualClock>::clone(clock);
        let bell = Arc::new(Doorbell::new(PEERS_MAX));
        let quota = Quota::with_default_share(16, ByteCount::mib(4));
        let lanes = LaneContext {
            space: Arc::new(WaitSpace::new([quota; Family::COUNT])),
            bell: Arc::clone(&bell),
            timekeeper: bell,
            clock: Arc::clone(&clock),
        };
        let mark = HighWaterMark::Limit(limits.mark);
        let bytes = ByteLimits { send: mark, receive: mark, message_size_max: MESSAGE_SIZE_MAX };
        let slots = vec![SourceSlot::EMPTY; PEERS_MAX as usize].into_boxed_slice();
        let permit_limit = PermitLimit::new(limits.permits).unwrap();
        let queue = JobQueue::new(slots, permit_limit, Thresholds::DEFAULT).unwrap();
        Self {
            name: Label::new(name).unwrap(),
            other: Label::new(other).unwrap(),
            limits,
            peers: Arc::new(Peers::new(bytes, PEERS_MAX, vec![lanes.clone()])),
            permits: Arc::new(Permits::new(queue, clock)),
            lanes,
            control: Arc::default(),
            ledger: Arc::default(),
            gate: Arc::new(AtomicBool::new(true)),
            outbox: VecDeque::new(),
            waiting: None,
        }
    }

    /// What its shard is built from.
    pub(super) fn plan(&self, dials: Option<SocketAddress>) -> (ShardPlan, Recorder) {
        let dials = dials.map(|address| {
            let peer = self.peers.add(0, Some(self.other)).unwrap();
            (peer, address)
        });
        let topology = TopologyPlan {
            kind: TopologyKind::RouteMesh,
            name: Label::new("mesh").unwrap(),
            dials: dials.into_iter().collect(),
        };
        let plan = ShardPlan {
            node: self.name,
            incarnation: 1,
            topologies: vec![topology],
            buffers: self.limits.buffers,
            peers: Arc::clone(&self.peers),
            permits: Arc::clone(&self.permits),
            lanes: self.lanes.clone(),
            control: Arc::clone(&self.control),
            index: 0,
            lobby: Arc::default(),
            gauge: Arc::default(),
            spin: SPIN_WINDOW,
        };
        (plan, Recorder::new(Arc::clone(&self.ledger), Arc::clone(&self.gate)))
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    /// The other side, once it is known.
    pub(super) fn peer(&self) -> Option<Arc<Peer>> {
        self.peers.find(0, &self.other)
    }

    /// Bytes that its receive queue holds.
    pub(super) fn received_bytes(&self) -> ByteCount {
        self.peer().map_or(ByteCount::ZERO, |peer| peer.receive_queue().accounted)
    }

    /// Whether a call waits for room.
    pub(super) const fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether everything that it was to send is admitted.
    pub(super) fn is_admitted(&self) -> bool {
        self.outbox.is_empty() && self.waiting.is_none()
    }

    /// Lets handlers run, or not.
    pub(super) fn set_gate(&self, gate: Gate) {
        self.gate.store(gate == Gate::Open, Ordering::Release);
        self.lanes.bell.knock();
    }

    /// Asks it to end once everything is said.
    pub(super) fn drain(&self) {
        let deadline = self.lanes.clock.now().saturating_add(DRAIN_MAX);
        self.control.drain(deadline);
        self.lanes.bell.knock();
    }

    /// Asks it to end now.
    pub(super) fn end_at_once(&self) {
        self.control.drain(self.lanes.clock.now());
        self.lanes.bell.knock();
    }

    /// A message of so many bytes, to be sent when there is room.
    pub(super) fn message(&mut self, number: u64, length: usize) {
        let payload = payload(number, length);
        self.outbox.push_back(Outgoing::new(Kind::Send, number, route(), payload));
    }

    /// A request of so many bytes, alike. Its reply says the same.
    pub(super) fn request(&mut self, number: u64, length: usize) {
        let payload = payload(number, length);
        self.outbox.push_back(Outgoing::new(Kind::Request, number, route(), payload));
    }

    /// Sends what there is to send, as far as there is room.
    pub(super) fn pump(&mut self) {
        let Some(peer) = self.peer() else { return };
        loop {
            if let Some((number, mut waiting)) = self.waiting.take() {
                let mut context = Context::from_waker(Waker::noop());
                match Pin::new(&mut waiting).poll(&mut context) {
                    Poll::Pending => {
                        self.waiting = Some((number, waiting));
                        return;
                    }
                    Poll::Ready(WaitEnd::Admitted(_)) => {}
                    Poll::Ready(end) => panic!("{number} ended as {end:?}"),
                }
            }
            let Some(record) = self.outbox.pop_front() else { return };
            let number = record.id;
            let family = if record.kind == Kind::Request {
                self.ledger().pending.insert(number);
                Family::Request
            } else {
                Family::Send
            };
            match peer.application().submit(record, family, Limit::At(Instant::FAR_FUTURE)) {
                Submitted::Admitted(_) => {}
                Submitted::Waiting(waiting) => self.waiting = Some((number, waiting)),
                Submitted::Refused(refusal) => panic!("{number} was refused: {refusal:?}"),
            }
        }
    }
}

/// Whether handlers run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Gate {
    Open,
    Shut,
}

/// Says which record it is, throughout.
fn payload(number: u64, length: usize) -> Bytes {
    number.to_le_bytes().into_iter().cycle().take(length).collect()
}

const fn route() -> RouteHash {
    RouteHash::of(&[b"route"])
}

/// Larger than any mark, so that some records do not fit below it.
const MESSAGE_SIZE_MAX: ByteCount = ByteCount::mib(2);

const PEERS_MAX: u32 = 4;

/// Longer than any script lets time pass.
const DRAIN_MAX: Duration = Duration::from_hours(1);
