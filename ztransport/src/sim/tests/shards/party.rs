//! A whole shard over the simulated network, with a host that writes down what it is given.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use zcore::wire::{Kind, Label, RouteHash, TopologyKind};
use zcore::{
    ByteCount, Family, HighWaterMark, Instant, JobQueue, PermitLimit, Quota, SourceSlot, Thresholds,
};

use crate::clock::{Clock, VirtualClock};
use crate::sim::{Sim, SimId, SimNetwork, SimOptions};
use crate::socket::{SocketAddress, SocketBuffers};
use crate::{
    ByteLimits, CloseReason, Crew, Doorbell, DropReason, Expectation, Incoming, Ingress,
    LaneContext, Limit, Listener, Ordinal, Outgoing, Peer, Peers, Permit, Permits, Shard,
    ShardControl, ShardPlan, ShardSockets, Submitted, TopologyPlan, Turn, WaitEnd, WaitSpace,
    Waiting,
};

/// Every third record is a request.
pub(super) const fn is_request(number: u64) -> bool {
    number % 3 == 2
}

/// The payload of a record says which it is, throughout: from 8 bytes to some 20 KB, so that some
/// are copied, some ride as segments, and some do not fit into a buffer of the kernel.
fn payload(number: u64) -> Bytes {
    let words = [1, 3, 40, 127, 129, 500, 2_500][usize::try_from(number % 7).unwrap()];
    Bytes::from(number.to_le_bytes().repeat(words))
}

/// The number that a payload tells, and whether it is whole.
fn number(payload: &Bytes) -> u64 {
    let number = u64::from_le_bytes(*payload.first_chunk().unwrap());
    assert_eq!(*payload, self::payload(number), "the payload of {number}");
    number
}

/// What a host was given.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The numbers of messages and requests, in the order of their handlers.
    pub(super) handled: Vec<u64>,
    /// The numbers of the requests that were answered, in the order of their replies.
    pub(super) answered: Vec<u64>,
    /// Requests that are not answered, and where they stand in their lane once they are admitted.
    pub(super) pending: BTreeMap<u64, Option<Ordinal>>,
    /// Requests that may or may not have been answered when their link broke.
    pub(super) lost: Vec<u64>,
    /// Where each record that was admitted stands in its lane.
    pub(super) ordinals: BTreeMap<u64, Ordinal>,
    /// Up to where records had been handed over, each time that a link broke.
    pub(super) handed_over: Vec<Ordinal>,
    pub(super) dropped: u64,
    pub(super) links_up: u64,
    pub(super) links_down: Vec<CloseReason>,
    pub(super) rejected: Vec<CloseReason>,
}

/// The host's side of a shard: it handles a few records a turn, in order.
#[derive(Debug)]
struct Recorder {
    ledger: Rc<RefCell<Ledger>>,
    jobs: VecDeque<(Arc<Peer>, Incoming, Permit)>,
    /// Replies that wait for room.
    replies: Vec<Waiting>,
}

/// Records that are handled in one turn: fewer than may arrive, so that permits run out.
const JOBS_A_TURN: usize = 2;

impl Recorder {
    fn handle(&mut self, (peer, record, permit): (Arc<Peer>, Incoming, Permit)) {
        permit.start();
        let number = number(&record.payload());
        self.ledger.borrow_mut().handled.push(number);
        assert_eq!(record.head().kind == Kind::Request, is_request(number), "{number}");
        if record.head().kind == Kind::Request {
            let (id, none) = (record.head().id, RouteHash::NONE);
            let reply = Outgoing::new(Kind::Reply, id, none, record.payload());
            let limit = Limit::At(Instant::FAR_FUTURE);
            match peer.completion().submit_reply(reply, limit, record.epoch()) {
                Submitted::Waiting(waiting) => self.replies.push(waiting),
                Submitted::Admitted(_) | Submitted::Refused(_) => {}
            }
        }
    }
}

impl Ingress for Recorder {
    fn deliver(&mut self, peer: &Arc<Peer>, record: Incoming, permit: Permit) {
        self.jobs.push_back((Arc::clone(peer), record, permit));
    }

    fn expects(&mut self, _peer: &Arc<Peer>, id: u64) -> Expectation {
        let ledger = self.ledger.borrow();
        if ledger.pending.contains_key(&id) {
            Expectation::Wanted
        } else if ledger.lost.contains(&id) {
            Expectation::Late
        } else {
            Expectation::NeverIssued
        }
    }

    fn complete(&mut self, _peer: &Arc<Peer>, record: Incoming) {
        let id = record.head().id;
        assert_eq!(number(&record.payload()), id, "the reply to its own request");
        let mut ledger = self.ledger.borrow_mut();
        if ledger.pending.remove(&id).is_some() {
            ledger.answered.push(id);
        }
    }

    fn link_up(&mut self, _peer: &Arc<Peer>) {
        self.ledger.borrow_mut().links_up += 1;
    }

    fn link_down(&mut self, _peer: &Arc<Peer>, handed_over: Ordinal, reason: CloseReason) {
        let mut ledger = self.ledger.borrow_mut();
        ledger.links_down.push(reason);
        ledger.handed_over.push(handed_over);
        let Ledger { pending, lost, .. } = &mut *ledger;
        pending.retain(|id, ordinal| {
            let is_lost = ordinal.is_some_and(|ordinal| ordinal < handed_over);
            if is_lost {
                lost.push(*id);
            }
            !is_lost
        });
    }

    fn rejected(&mut self, reason: CloseReason) {
        self.ledger.borrow_mut().rejected.push(reason);
    }

    fn dropped(&mut self, _peer: &Arc<Peer>, records: u64, _reason: DropReason) {
        self.ledger.borrow_mut().dropped += records;
    }

    fn run(&mut self, _now: Instant) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.replies.retain_mut(|reply| Pin::new(reply).poll(&mut context).is_pending());
        for _ in 0..JOBS_A_TURN {
            let Some(job) = self.jobs.pop_front() else { break };
            self.handle(job);
        }
        !self.jobs.is_empty()
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn is_idle(&self) -> bool {
        let has_pending = !self.ledger.borrow().pending.is_empty();
        self.jobs.is_empty() && self.replies.is_empty() && !has_pending
    }
}

/// A host: its shard, and the caller that sends numbered records through it.
#[derive(Debug)]
pub(super) struct Party {
    shard: Shard<Sim, Recorder>,
    control: Arc<ShardControl>,
    bell: Arc<Doorbell>,
    peers: Arc<Peers>,
    pub(super) ledger: Rc<RefCell<Ledger>>,
    driver: SimId,
    other: Label,
    /// The next number to be sent.
    next: u64,
    /// The call that waits for room, and its number.
    waiting: Option<(u64, Waiting)>,
}

/// What one party is built from.
pub(super) struct Setup<'lab> {
    pub(super) network: &'lab SimNetwork,
    pub(super) clock: &'lab Arc<VirtualClock>,
    pub(super) name: &'static str,
    pub(super) other: &'static str,
    pub(super) place: Place<'lab>,
}

/// Which side a party is on.
pub(super) enum Place<'lab> {
    Listens(&'lab SocketAddress),
    Dials(&'lab SocketAddress),
}

impl Party {
    pub(super) fn new(setup: Setup<'_>) -> Self {
        let Setup { network, clock, name, other, place } = setup;
        let clock: Arc<dyn Clock> = Arc::<VirtualClock>::clone(clock);
        let bell = Arc::new(Doorbell::new(PEERS_MAX));
        let lanes = LaneContext {
            space: Arc::new(WaitSpace::new([Quota::with_default_share(16, ByteCount::mib(1)); 5])),
            bell: Arc::clone(&bell),
            timekeeper: Arc::clone(&bell),
            clock: Arc::clone(&clock),
        };
        let peers = Arc::new(Peers::new(LIMITS, PEERS_MAX, vec![lanes.clone()]));
        let slots = vec![SourceSlot::EMPTY; PEERS_MAX as usize].into_boxed_slice();
        let permits = PermitLimit::new(PERMITS).unwrap();
        let queue = JobQueue::new(slots, permits, Thresholds::DEFAULT).unwrap();
        let other = Label::new(other).unwrap();
        let (mut dials, mut listeners) = (Vec::new(), Vec::new());
        match place {
            Place::Listens(address) => {
                let socket = network.listen(address, BUFFERS).unwrap();
                listeners.push(Listener { topology: 0, socket });
            }
            Place::Dials(address) => {
                let peer = peers.add(0, Some(other)).unwrap();
                dials.push((peer, address.clone()));
            }
        }
        let control = Arc::new(ShardControl::default());
        let (kind, mesh) = (TopologyKind::RouteMesh, Label::new("mesh").unwrap());
        let plan = ShardPlan {
            node: Label::new(name).unwrap(),
            incarnation: u64::from(name.as_bytes()[0]),
            topologies: vec![TopologyPlan { kind, name: mesh, dials }],
            buffers: BUFFERS,
            peers: Arc::clone(&peers),
            permits: Arc::new(Permits::new(queue, clock)),
            lanes,
            control: Arc::clone(&control),
            index: 0,
            strangers: Arc::default(),
            gauge: Arc::default(),
            spin: Duration::ZERO,
        };
        let sockets = ShardSockets { listeners, crew: Crew::new([Arc::clone(&bell)]) };
        let ledger = Rc::new(RefCell::new(Ledger::default()));
        let (jobs, replies) = (VecDeque::new(), Vec::new());
        let recorder = Recorder { ledger: Rc::clone(&ledger), jobs, replies };
        let sim = network.driver(SimOptions { sockets_max: 16, ..SimOptions::default() });
        let driver = sim.id();
        let shard = Shard::new(sim, recorder, plan, sockets).unwrap();
        Self { shard, control, bell, peers, ledger, driver, other, next: 0, waiting: None }
    }

    /// The name of its driver in the network.
    pub(super) const fn driver(&self) -> SimId {
        self.driver
    }

    /// How far its caller has come: the next number, and whether a call waits.
    pub(super) const fn progress(&self) -> (u64, bool) {
        (self.next, self.waiting.is_some())
    }

    /// Asks it to send what was admitted, to finish what was accepted, and to end.
    pub(super) fn drain(&self, deadline: Instant) {
        self.control.drain(deadline);
        self.bell.knock();
    }

    pub(super) fn turn(&mut self) -> Turn {
        self.shard.turn().unwrap()
    }

    /// Sends numbered records up to `total`, as long as there is room. Whether all are admitted.
    pub(super) fn send_up_to(&mut self, total: u64) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        if let Some((number, waiting)) = &mut self.waiting {
            match Pin::new(waiting).poll(&mut context) {
                Poll::Pending => return false,
                Poll::Ready(WaitEnd::Admitted(ordinal)) => {
                    let number = *number;
                    self.admitted(number, ordinal);
                }
                Poll::Ready(end) => panic!("{number} ended as {end:?}"),
            }
            self.waiting = None;
        }
        let Some(peer) = self.peers.find(0, &self.other) else { return false };
        while self.next < total {
            let number = self.next;
            self.next += 1;
            let (kind, family) = if is_request(number) {
                self.ledger.borrow_mut().pending.insert(number, None);
                (Kind::Request, Family::Request)
            } else {
                (Kind::Send, Family::Send)
            };
            let record = Outgoing::new(kind, number, RouteHash::of(&[b"route"]), payload(number));
            match peer.application().submit(record, family, Limit::At(Instant::FAR_FUTURE)) {
                Submitted::Admitted(ordinal) => self.admitted(number, ordinal),
                Submitted::Waiting(waiting) => {
                    self.waiting = Some((number, waiting));
                    return false;
                }
                Submitted::Refused(refusal) => panic!("{number} was refused: {refusal:?}"),
            }
        }
        true
    }

    /// A link may have broken between the admission of a waiting call and its caller's next look.
    fn admitted(&self, number: u64, ordinal: Ordinal) {
        let lost_below = self.peers.find(0, &self.other).map(|it| it.application().lost_below());
        let mut ledger = self.ledger.borrow_mut();
        ledger.ordinals.insert(number, ordinal);
        if !ledger.pending.contains_key(&number) {
            return;
        }
        if lost_below.is_some_and(|lost_below| ordinal < lost_below) {
            ledger.pending.remove(&number);
            ledger.lost.push(number);
        } else {
            ledger.pending.insert(number, Some(ordinal));
        }
    }
}

/// Small enough that both queues, the kernel's buffers and the permits are full most of the time.
const LIMITS: ByteLimits = ByteLimits {
    send: HighWaterMark::Limit(ByteCount::kib(64)),
    receive: HighWaterMark::Limit(ByteCount::kib(32)),
    message_size_max: ByteCount::kib(64),
};

const BUFFERS: SocketBuffers =
    SocketBuffers { send: ByteCount::kib(8), receive: ByteCount::kib(8) };

const PERMITS: u32 = 4;

const PEERS_MAX: u32 = 4;
