//! A whole shard over the simulated network, and the caller that sends through it.

use core::cell::RefCell;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;

use zcore::wire::{Kind, Label, RouteHash, TopologyKind};
use zcore::{
    ByteCount, Family, HighWaterMark, Instant, JobQueue, PermitLimit, Quota, SourceSlot, Thresholds,
};

use crate::clock::{Clock, VirtualClock};
use crate::random::Random;
use crate::sim::{Sim, SimId, SimNetwork, SimOptions};
use crate::socket::{SocketAddress, SocketBuffers};
use crate::{
    ByteLimits, Doorbell, LaneContext, Limit, Listener, Ordinal, Outgoing, Peers, Permits, Shard,
    ShardControl, ShardPlan, ShardSockets, Submitted, TopologyPlan, Turn, WaitEnd, WaitSpace,
    Waiting,
};

use super::recorder::{Ledger, Recorder, is_request, payload};

/// A host: its shard, and the caller that sends numbered records through it.
#[derive(Debug)]
pub(super) struct Party {
    /// `None` once it has drained.
    shard: Option<Shard<Sim, Recorder>>,
    control: Arc<ShardControl>,
    bell: Arc<Doorbell>,
    peers: Arc<Peers>,
    pub(super) ledger: Rc<RefCell<Ledger>>,
    driver: SimId,
    other: Label,
    records: u64,
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
    pub(super) listens: Option<SocketAddress>,
    pub(super) dials: Option<SocketAddress>,
    pub(super) size: Size,
    pub(super) kind: TopologyKind,
    /// How many records it sends.
    pub(super) records: u64,
}

/// How large everything is: small enough that the queues, the buffers of the kernel and of the
/// driver, and the permits are full most of the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    send: ByteCount,
    receive: ByteCount,
    sockets: SocketBuffers,
    driver: SimOptions,
    permits: u32,
}

impl Size {
    pub(super) fn draw(random: &mut Random) -> Self {
        let mut kib = |most: u64| ByteCount::kib(1 + random.below(most));
        let (send, receive) = (kib(96), kib(48));
        let sockets = SocketBuffers { send: kib(16), receive: kib(16) };
        let mut count = |most: u64| 1 + u16::try_from(random.below(most)).unwrap();
        let (buffers, submissions, permits) = (count(4), count(16).into(), count(6).into());
        let driver = SimOptions { sockets_max: 16, buffers, submissions };
        Self { send, receive, sockets, driver, permits }
    }
}

impl Party {
    pub(super) fn new(setup: Setup<'_>) -> Self {
        let Setup { network, clock, name, other, listens, dials, size, kind, records } = setup;
        let clock: Arc<dyn Clock> = Arc::<VirtualClock>::clone(clock);
        let bell = Arc::new(Doorbell::new(PEERS_MAX));
        let quota = Quota::with_default_share(16, ByteCount::mib(1));
        let lanes = LaneContext {
            space: Arc::new(WaitSpace::new([quota; Family::COUNT])),
            bell: Arc::clone(&bell),
            timekeeper: Arc::clone(&bell),
            clock: Arc::clone(&clock),
        };
        let limits = ByteLimits {
            send: HighWaterMark::Limit(size.send),
            receive: HighWaterMark::Limit(size.receive),
            message_size_max: ByteCount::kib(64),
        };
        let peers = Arc::new(Peers::new(limits, PEERS_MAX, vec![lanes.clone()]));
        let slots = vec![SourceSlot::EMPTY; PEERS_MAX as usize].into_boxed_slice();
        let permits = PermitLimit::new(size.permits).unwrap();
        let queue = JobQueue::new(slots, permits, Thresholds::DEFAULT).unwrap();
        let other = Label::new(other).unwrap();
        let listen = |address| {
            let socket = network.listen(&address, size.sockets).unwrap();
            Listener { topology: 0, socket }
        };
        let dial = |address| (peers.add(0, Some(other)).unwrap(), address);
        let topology = TopologyPlan {
            kind,
            name: Label::new("orders").unwrap(),
            dials: dials.map(dial).into_iter().collect(),
        };
        let control = Arc::new(ShardControl::default());
        let plan = ShardPlan {
            node: Label::new(name).unwrap(),
            incarnation: u64::from(name.as_bytes()[0]),
            topologies: vec![topology],
            buffers: size.sockets,
            peers: Arc::clone(&peers),
            permits: Arc::new(Permits::new(queue, clock)),
            lanes,
            control: Arc::clone(&control),
            index: 0,
            lobby: Arc::default(),
            gauge: Arc::default(),
            spin: Duration::ZERO,
        };
        let ledger = Rc::new(RefCell::new(Ledger::default()));
        let recorder = Recorder::new(Rc::clone(&ledger));
        let sim = network.driver(size.driver);
        let driver = sim.id();
        let sockets = ShardSockets::alone(&bell, listens.map(listen).into_iter().collect());
        let shard = Some(Shard::new(sim, recorder, plan, sockets).unwrap());
        Self { shard, control, bell, peers, ledger, driver, other, records, next: 0, waiting: None }
    }

    /// The name of its driver in the network.
    pub(super) const fn driver(&self) -> SimId {
        self.driver
    }

    /// How many records it sends in all.
    pub(super) const fn records(&self) -> u64 {
        self.records
    }

    /// How far its caller has come: the next number, and whether a call waits.
    pub(super) const fn progress(&self) -> (u64, bool) {
        (self.next, self.waiting.is_some())
    }

    /// Whether all of its records are admitted.
    pub(super) fn has_sent(&self) -> bool {
        self.progress() == (self.records, false)
    }

    /// Asks it to send what was admitted, to finish what was accepted, and to end.
    pub(super) fn drain(&self, deadline: Instant) {
        self.control.drain(deadline);
        self.bell.knock();
    }

    /// A turn of its shard, which is dropped when it is over.
    pub(super) fn turn(&mut self) -> Turn {
        let turn = self.shard.as_mut().map_or(Turn::Over, |shard| shard.turn().unwrap());
        if turn == Turn::Over {
            self.shard = None;
        }
        turn
    }

    pub(super) const fn is_over(&self) -> bool {
        self.shard.is_none()
    }

    /// Sends numbered records as long as there is room. Whether it came to anything.
    pub(super) fn send(&mut self) -> bool {
        let before = self.progress();
        if !self.is_over() && self.take_admission() {
            self.submit();
        }
        before != self.progress()
    }

    /// Takes in that the call which waits has ended. Whether none waits.
    fn take_admission(&mut self) -> bool {
        let Some((number, waiting)) = &mut self.waiting else { return true };
        let number = *number;
        match Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => return false,
            Poll::Ready(WaitEnd::Admitted(ordinal)) => self.admitted(number, ordinal),
            Poll::Ready(end @ (WaitEnd::Expired | WaitEnd::Ended(_) | WaitEnd::TooLarge)) => {
                panic!("{number} ended as {end:?}")
            }
        }
        self.waiting = None;
        true
    }

    fn submit(&mut self) {
        let Some(peer) = self.peers.find(0, &self.other) else { return };
        while self.next < self.records {
            let number = self.next;
            self.next += 1;
            let (kind, family) = if is_request(number) {
                // Before it is sent, so that its reply cannot come first.
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
                    return;
                }
                Submitted::Refused(refusal) => panic!("{number} was refused: {refusal:?}"),
            }
        }
    }

    /// A request may have been answered, and its link may have broken, before its caller looks.
    fn admitted(&self, number: u64, ordinal: Ordinal) {
        let mut ledger = self.ledger.borrow_mut();
        ledger.ordinals.insert(number, ordinal);
        if let Some(place) = ledger.pending.get_mut(&number) {
            *place = Some(ordinal);
        }
    }
}

const PEERS_MAX: u32 = 4;
