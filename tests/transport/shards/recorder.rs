//! A host that writes down what it is given, and answers requests with what they say.

use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Waker};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use zcore::wire::{Kind, RouteHash};
use zcore::{Instant, Settlement};
use ztransport::{
    CloseReason, DropReason, Expectation, HandedOver, Incoming, Ingress, Limit, Outgoing, Peer,
    Permit, Prospect, Submitted, Waiting,
};

use super::tale::{Entry, Ledger};

/// The host's side of a shard.
#[derive(Debug)]
pub(super) struct Recorder {
    ledger: Arc<Mutex<Ledger>>,
    /// Whether handlers run.
    gate: Arc<AtomicBool>,
    jobs: VecDeque<(Arc<Peer>, Incoming, Permit)>,
    /// Replies that wait for room.
    replies: Vec<Waiting>,
}

impl Recorder {
    pub(super) const fn new(ledger: Arc<Mutex<Ledger>>, gate: Arc<AtomicBool>) -> Self {
        Self { ledger, gate, jobs: VecDeque::new(), replies: Vec::new() }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    fn handle(&mut self, (peer, record, permit): (Arc<Peer>, Incoming, Permit)) {
        permit.start();
        let head = record.head();
        if head.kind != Kind::Request {
            return;
        }
        let reply = Outgoing::new(Kind::Reply, head.id, RouteHash::NONE, record.payload());
        let limit = Limit::At(Instant::FAR_FUTURE);
        match peer.completion().submit_reply(reply, limit, record.epoch()) {
            Submitted::Waiting(waiting) => self.replies.push(waiting),
            Submitted::Admitted(_) | Submitted::Refused(_) => {}
        }
    }
}

impl Ingress for Recorder {
    fn deliver(&mut self, peer: &Arc<Peer>, record: Incoming, permit: Permit) {
        self.ledger().delivered.push(Entry::of(&record));
        self.jobs.push_back((Arc::clone(peer), record, permit));
    }

    fn expects(&mut self, _peer: &Arc<Peer>, id: u64) -> Expectation {
        let is_pending = self.ledger().pending.contains(&id);
        if is_pending { Expectation::Wanted } else { Expectation::NeverIssued }
    }

    fn complete(&mut self, _peer: &Arc<Peer>, record: Incoming) {
        let mut ledger = self.ledger();
        let was_pending = ledger.pending.remove(&record.head().id);
        assert!(was_pending, "request {} was answered twice", record.head().id);
        ledger.completed.push(Entry::of(&record));
    }

    fn link_up(&mut self, _peer: &Arc<Peer>) {
        self.ledger().links.push("up");
    }

    fn handed_over(&mut self, _peer: &Arc<Peer>, _requests: &[HandedOver]) {}

    fn link_down(&mut self, _peer: &Arc<Peer>, reason: CloseReason, _prospect: Prospect) {
        self.ledger().link_down(reason);
    }

    fn settled(&mut self, _peer: &Arc<Peer>, _settlement: &Settlement) {
        self.ledger().settled += 1;
    }

    fn lost_hope(&mut self, _peer: &Arc<Peer>) {}

    fn detached(&mut self, _peer: &Arc<Peer>) {
        panic!("nobody detaches a peer here");
    }

    fn too_large(&mut self, _peer: &Arc<Peer>, id: u64) {
        panic!("request {id} is as large as its peer takes");
    }

    fn rejected(&mut self, reason: CloseReason) {
        self.ledger().rejected(reason);
    }

    fn dropped(&mut self, _peer: &Arc<Peer>, records: u64, reason: DropReason) {
        self.ledger().dropped(records, reason);
    }

    fn run(&mut self, _now: Instant) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.replies.retain_mut(|reply| Pin::new(reply).poll(&mut context).is_pending());
        if self.gate.load(Ordering::Acquire) {
            while let Some(job) = self.jobs.pop_front() {
                self.handle(job);
            }
        }
        false
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.replies.is_empty() && self.ledger().pending.is_empty()
    }
}
