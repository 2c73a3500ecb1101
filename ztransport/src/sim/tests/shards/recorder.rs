//! A host that writes down what its shard hands to it, and answers requests.

use core::cell::RefCell;
use core::pin::Pin;
use core::task::{Context, Waker};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use zcore::wire::{Kind, RouteHash};
use zcore::{Instant, Progress, Settlement};

use crate::{
    CloseReason, DropReason, Expectation, HandedOver, Incoming, Ingress, Limit, Ordinal, Outgoing,
    Peer, Permit, Prospect, Submitted, Waiting,
};

/// Every third record is a request.
pub(super) const fn is_request(number: u64) -> bool {
    number % 3 == 2
}

/// The payload of a record says which it is, throughout: from 8 bytes to some 20 KB, so that some
/// are copied, some ride as segments, and some do not fit into a buffer of the kernel.
pub(super) fn payload(number: u64) -> Bytes {
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
    /// Requests that are with the peer, or on their way there.
    away: BTreeSet<u64>,
    /// Requests whose link broke, until the peer says what it took.
    pub(super) stranded: BTreeSet<u64>,
    /// Requests that ended without an answer.
    pub(super) lost: Vec<u64>,
    /// Where each record that was admitted stands in its lane.
    pub(super) ordinals: BTreeMap<u64, Ordinal>,
    pub(super) dropped: u64,
    /// How often a peer came back and did not say what it had taken.
    pub(super) untold: u64,
    pub(super) links_up: u64,
    pub(super) links_down: Vec<CloseReason>,
    pub(super) rejected: Vec<CloseReason>,
}

/// It handles a few records a turn, in order.
#[derive(Debug)]
pub(super) struct Recorder {
    ledger: Rc<RefCell<Ledger>>,
    jobs: VecDeque<(Arc<Peer>, Incoming, Permit)>,
    /// Replies that wait for room.
    replies: Vec<Waiting>,
}

/// Records that are handled in one turn: fewer than may arrive, so that permits run out.
const JOBS_A_TURN: usize = 2;

impl Recorder {
    pub(super) const fn new(ledger: Rc<RefCell<Ledger>>) -> Self {
        Self { ledger, jobs: VecDeque::new(), replies: Vec::new() }
    }

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
        } else if ledger.stranded.contains(&id) || ledger.lost.contains(&id) {
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
            ledger.away.remove(&id);
            ledger.answered.push(id);
        }
    }

    fn link_up(&mut self, _peer: &Arc<Peer>) {
        self.ledger.borrow_mut().links_up += 1;
    }

    fn handed_over(&mut self, _peer: &Arc<Peer>, requests: &[HandedOver]) {
        let mut ledger = self.ledger.borrow_mut();
        ledger.away.extend(requests.iter().map(|request| request.id));
    }

    fn link_down(&mut self, _peer: &Arc<Peer>, reason: CloseReason, prospect: Prospect) {
        let mut ledger = self.ledger.borrow_mut();
        ledger.links_down.push(reason);
        let away = core::mem::take(&mut ledger.away);
        ledger.pending.retain(|id, _| !away.contains(id));
        match prospect {
            Prospect::Until(_) => ledger.stranded.extend(away),
            Prospect::Never => ledger.lost.extend(away),
        }
    }

    fn settled(&mut self, _peer: &Arc<Peer>, settlement: &Settlement) {
        let mut ledger = self.ledger.borrow_mut();
        if settlement.progress(0) == Progress::HandedToKernel {
            ledger.untold += 1;
        }
        let stranded = core::mem::take(&mut ledger.stranded);
        ledger.lost.extend(stranded);
    }

    fn lost_hope(&mut self, _peer: &Arc<Peer>) {
        let mut ledger = self.ledger.borrow_mut();
        let stranded = core::mem::take(&mut ledger.stranded);
        ledger.lost.extend(stranded);
    }

    fn detached(&mut self, _peer: &Arc<Peer>) {
        panic!("nobody detaches a peer here");
    }

    fn too_large(&mut self, _peer: &Arc<Peer>, id: u64) {
        panic!("request {id} is as large as its peer takes");
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
