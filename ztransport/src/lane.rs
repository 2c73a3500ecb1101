//! One direction of one connection: the queue that admits, and the chain that is sent.
//!
//! Any thread submits; the shard of the lane seals and sends. An admitted record is charged and
//! encoded in place, without a hop to another thread. Lock order: lane, wait space.

use core::fmt;
use std::sync::{Arc, PoisonError};

use zcore::{
    ByteCount, Ending, Family, HighWaterMark, Instant, SendQueue, Submission, Timeout, WaiterToken,
};

use crate::batch::SealedRecord;
use crate::chain::{Chain, Ordinal, Retracted};
use crate::clock::Clock;
use crate::doorbell::{Doorbell, Errand};
use crate::record::Outgoing;
use crate::sync::{Mutex, MutexGuard};
use crate::wait_space::{Settled, WaitSpace, Waiting};

mod ending;
mod shipping;
mod sizing;
mod state;

pub(crate) use sizing::Oversize;
use state::{LaneLink, LaneState};

/// What the lanes of a host share.
#[derive(Clone, Debug)]
pub struct LaneContext {
    /// Where calls wait for room.
    pub space: Arc<WaitSpace>,
    /// The shard that sends.
    pub bell: Arc<Doorbell>,
    /// The shard that ends calls whose deadline has passed.
    pub timekeeper: Arc<Doorbell>,
    /// The host's time.
    pub clock: Arc<dyn Clock>,
}

/// A lane, shared between its shard and everybody who sends.
pub struct Lane {
    peer: u32,
    errand: Errand,
    context: LaneContext,
    state: Mutex<LaneState>,
}

/// A change that ends waiting calls.
#[derive(Clone, Copy, Debug)]
enum Step {
    Withdraw(WaiterToken),
    Expire(WaiterToken),
    End(Ending),
}

/// How long a call may wait for room.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// Until an instant that was fixed before.
    At(Instant),
    /// From the moment it has to wait.
    Within(Timeout),
}

impl Limit {
    fn deadline(self, now: Instant) -> Instant {
        match self {
            Self::At(deadline) => deadline,
            Self::Within(timeout) => now.saturating_add(timeout.get()),
        }
    }
}

/// What became of a submission at once.
#[derive(Debug)]
pub enum Submitted {
    /// The record is queued.
    Admitted(Ordinal),
    /// There is no room; the future ends when there is, or when there will not be.
    Waiting(Waiting),
    /// Nothing of the record is kept.
    Refused(Refusal),
}

/// Why a lane did not take a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// It is larger than the target takes.
    TooLarge,
    /// It would have had to wait, and too many calls wait already (B-68).
    WaitSpaceFull,
    /// The lane has ended.
    Ended(Ending),
    /// It answers a request of a pair that is gone.
    Stale,
}

/// A lane's numbers, as of one moment.
#[derive(Clone, Copy, Debug)]
pub struct LaneSnapshot {
    /// Bytes that are charged now.
    pub accounted: ByteCount,
    /// The most bytes that were charged at once.
    pub peak: ByteCount,
    /// The high-water mark in force.
    pub mark: HighWaterMark,
    /// Calls that wait for room now.
    pub waiting: u32,
    /// Calls that had to wait, ever.
    pub waits: u64,
}

impl Lane {
    /// An empty lane of the peer in slot `peer`, whose shard is told with `errand`.
    pub(crate) fn new(peer: u32, errand: Errand, context: LaneContext, queue: SendQueue) -> Self {
        let state = LaneState {
            queue,
            chain: Chain::default(),
            message_size_max: ByteCount::MAX,
            link: LaneLink::Absent,
            in_flight: 0,
            epoch: 0,
            waits: 0,
            controls: Vec::new(),
        };
        Self { peer, errand, context, state: Mutex::new(state) }
    }

    /// Submits a record. The clock is read only if it has to wait, and then under the lock, so that
    /// the wait begins when it is queued.
    pub fn submit(self: &Arc<Self>, record: Outgoing, family: Family, limit: Limit) -> Submitted {
        let state = self.lock();
        self.submit_locked(state, record, (family, limit))
    }

    /// Submits the answer to a request that came with `epoch`. The pair of that request may be gone
    /// by now, and its requester with it: ids mean something within one pair only (BU-11).
    pub fn submit_reply(self: &Arc<Self>, record: Outgoing, limit: Limit, epoch: u64) -> Submitted {
        let state = self.lock();
        if state.epoch != epoch {
            return Submitted::Refused(Refusal::Stale);
        }
        self.submit_locked(state, record, (Family::Reply, limit))
    }

    fn submit_locked(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, LaneState>,
        mut record: Outgoing,
        (family, limit): (Family, Limit),
    ) -> Submitted {
        if record.message_size() > state.message_size_max {
            // Before the record: its payload's owner may want this very lock.
            drop(state);
            return Submitted::Refused(Refusal::TooLarge);
        }
        let charge = record.charge();
        match state.queue.submit(charge) {
            Submission::Admitted => {
                let ordinal = state.chain.push(&mut record);
                let must_ring = state.must_ring();
                drop(state);
                drop(record);
                if must_ring {
                    self.ring();
                }
                Submitted::Admitted(ordinal)
            }
            Submission::MustWait => {
                let now = self.context.clock.now();
                let deadline = limit.deadline(now);
                let mut table = self.context.space.lock();
                let Ok(token) = state.queue.wait(&mut table.pool, family, charge, deadline) else {
                    drop(table);
                    drop(state);
                    return Submitted::Refused(Refusal::WaitSpaceFull);
                };
                state.waits += 1;
                let call = table.keep(token, record);
                drop(table);
                drop(state);
                self.context.timekeeper.wake_by(deadline);
                Submitted::Waiting(Waiting::new(Arc::clone(self), token, call, now))
            }
            Submission::TooLarge => {
                drop(state);
                Submitted::Refused(Refusal::TooLarge)
            }
            Submission::Ended(ending) => {
                drop(state);
                Submitted::Refused(Refusal::Ended(ending))
            }
        }
    }

    /// Queues a control record behind what is admitted, at once. One that is queued already stands
    /// for the newer one (D-24).
    pub(crate) fn submit_control(&self, mut record: Outgoing) {
        let mut state = self.lock();
        let sealed = state.chain.sealed();
        state.controls.retain(|(_, ordinal)| *ordinal >= sealed);
        if state.controls.iter().any(|(kind, _)| *kind == record.kind) {
            return;
        }
        if state.queue.submit_control(record.charge()) == Submission::Admitted {
            let kind = record.kind;
            let ordinal = state.chain.push(&mut record);
            state.controls.push((kind, ordinal));
            let must_ring = state.must_ring();
            drop(state);
            if must_ring {
                self.ring();
            }
        }
    }

    /// Takes an admitted record back if it has not been handed to the kernel. Whether it was.
    pub fn retract(&self, ordinal: Ordinal) -> bool {
        let mut state = self.lock();
        let Some(Retracted { record, payload, .. }) = state.chain.retract(ordinal) else {
            return false;
        };
        let settled = self.release(&mut state, core::iter::once(record));
        let must_ring = settled.admitted > 0 && state.must_ring();
        drop(state);
        if must_ring {
            self.ring();
        }
        settled.finish();
        drop(payload);
        true
    }

    /// The lane's numbers.
    pub fn snapshot(&self) -> LaneSnapshot {
        let state = self.lock();
        let account = state.queue.account();
        LaneSnapshot {
            accounted: account.accounted(),
            peak: account.peak(),
            mark: account.mark(),
            waiting: state.queue.waiting(),
            waits: state.waits,
        }
    }

    /// Gives memory back that an idle lane does not need.
    pub(crate) fn rest(&self) {
        self.lock().chain.rest();
    }

    /// Ends a waiting call whose deadline has passed.
    pub(crate) fn expire(&self, token: WaiterToken, now: Instant) {
        let mut state = self.lock();
        let (settled, _) = self.settle(&mut state, Step::Expire(token), now);
        let must_ring = settled.admitted > 0 && state.must_ring();
        drop(state);
        if must_ring {
            self.ring();
        }
        settled.finish();
    }

    /// Takes a waiting call out, because its caller gave up.
    pub(crate) fn withdraw(&self, token: WaiterToken) {
        let mut state = self.lock();
        let now = self.context.clock.now();
        let (settled, record) = self.settle(&mut state, Step::Withdraw(token), now);
        let must_ring = settled.admitted > 0 && state.must_ring();
        drop(state);
        drop(record);
        if must_ring {
            self.ring();
        }
        settled.finish();
    }

    /// Releases records; waiters are looked at only if there are any.
    fn release(
        &self,
        state: &mut LaneState,
        records: impl Iterator<Item = SealedRecord>,
    ) -> Settled {
        let mut settled = Settled::default();
        if !state.queue.is_waited_for() {
            for record in records {
                state.queue.release(record.charge);
            }
            return settled;
        }
        let now = self.context.clock.now();
        let mut table = self.context.space.lock();
        let (pool, mut settling) = table.split();
        for record in records {
            for effect in state.queue.sent(pool, record.charge, now) {
                settling.settle(effect, &mut state.chain, &mut settled);
            }
        }
        settled
    }

    fn settle(
        &self,
        state: &mut LaneState,
        step: Step,
        now: Instant,
    ) -> (Settled, Option<Outgoing>) {
        let mut settled = Settled::default();
        let mut table = self.context.space.lock();
        let record = match step {
            Step::Withdraw(token) => table.forget(token),
            Step::Expire(_) | Step::End(_) => None,
        };
        let LaneState { queue, chain, .. } = state;
        let (pool, mut settling) = table.split();
        let effects = match step {
            Step::Expire(token) => Some(queue.expire(pool, token, now)),
            Step::End(ending) => Some(queue.end(pool, ending, now)),
            Step::Withdraw(token) => queue.withdraw(pool, token, now),
        };
        for effect in effects.into_iter().flatten() {
            settling.settle(effect, chain, &mut settled);
        }
        (settled, record)
    }

    fn ring(&self) {
        self.ask(self.errand);
    }

    /// Leaves an errand for the shard of the lane.
    pub(crate) fn ask(&self, errand: Errand) {
        self.context.bell.ring(self.peer, errand);
    }

    fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, errand, context: _, state: _ } = self;
        f.debug_struct("Lane")
            .field("peer", peer)
            .field("errand", errand)
            .field("snapshot", &self.snapshot())
            .finish_non_exhaustive()
    }
}
