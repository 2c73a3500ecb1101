//! One direction of one connection: the queue that admits, and the chain that is sent.
//!
//! Any thread submits; the shard of the lane seals and sends. An admitted record is charged and
//! encoded in place, without a hop to another thread. Lock order: lane, wait space.

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use zcore::{
    ByteCount, Ending, Family, HighWaterMark, Instant, SendQueue, Submission, Timeout, WaiterToken,
};

use crate::batch::{Batch, SealedRecord};
use crate::chain::{Chain, Ordinal};
use crate::clock::Clock;
use crate::doorbell::{Doorbell, Errand};
use crate::limits::{BATCH_MAX, SMALL_BATCH_MAX, SMALL_RECORD};
use crate::record::Outgoing;
use crate::wait_space::{Settled, WaitSpace, Waiting};

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

#[derive(Debug)]
struct LaneState {
    queue: SendQueue,
    chain: Chain,
    link: LaneLink,
    /// Records below this were handed to a link that broke.
    lost_below: Ordinal,
    /// Calls that waited.
    waits: u64,
    /// Control records queued and not sealed, by kind.
    controls: Vec<(zcore::wire::Kind, Ordinal)>,
}

/// Whether records may leave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LaneLink {
    /// There is no link.
    Absent,
    /// There is one, and no batch is in flight.
    Idle,
    /// A batch is in flight.
    Busy,
    /// The link is gone, and its last batch has not come back.
    Stale,
}

impl LaneLink {
    const fn up(self) -> Self {
        match self {
            Self::Absent | Self::Idle => Self::Idle,
            Self::Busy | Self::Stale => Self::Busy,
        }
    }

    const fn down(self) -> Self {
        match self {
            Self::Absent | Self::Idle => Self::Absent,
            Self::Busy | Self::Stale => Self::Stale,
        }
    }

    const fn batch_back(self) -> Self {
        match self {
            Self::Absent | Self::Stale => Self::Absent,
            Self::Idle | Self::Busy => Self::Idle,
        }
    }
}

impl LaneState {
    /// Whether the shard must be told of new records. While a batch is in flight its completion
    /// seals again, and a lane without a link is told when it gets one.
    fn must_ring(&self) -> bool {
        self.link == LaneLink::Idle
    }

    fn batch_done(&mut self) {
        self.link = self.link.batch_back();
        self.chain.trim();
    }

    /// The most bytes of one batch: a quarter of the mark, so that room comes back in steps, and
    /// less while records are small, so that both sides of the socket work at the same time.
    fn batch_max(&self) -> u64 {
        let account = self.queue.account();
        let average = account.accounted().get() / self.chain.len().max(1);
        let ceiling = if average < SMALL_RECORD { SMALL_BATCH_MAX } else { BATCH_MAX };
        match account.mark() {
            HighWaterMark::Limit(mark) => ceiling.min(mark.get() / 4),
            HighWaterMark::Unlimited => ceiling,
        }
    }
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
    fn deadline(self, clock: &dyn Clock) -> Instant {
        match self {
            Self::At(deadline) => deadline,
            Self::Within(timeout) => clock.now().saturating_add(timeout.get()),
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
            link: LaneLink::Absent,
            lost_below: Ordinal::default(),
            waits: 0,
            controls: Vec::new(),
        };
        Self { peer, errand, context, state: Mutex::new(state) }
    }

    /// Submits a record. The clock is read only if it has to wait, and then under the lock, so that
    /// the wait begins when it is queued.
    pub fn submit(self: &Arc<Self>, record: Outgoing, family: Family, limit: Limit) -> Submitted {
        let charge = record.charge();
        let mut state = self.lock();
        match state.queue.submit(charge) {
            Submission::Admitted => {
                let ordinal = state.chain.push(record);
                let must_ring = state.must_ring();
                drop(state);
                if must_ring {
                    self.ring();
                }
                Submitted::Admitted(ordinal)
            }
            Submission::MustWait => {
                let deadline = limit.deadline(&*self.context.clock);
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
                Submitted::Waiting(Waiting::new(Arc::clone(self), token, call))
            }
            Submission::TooLarge => Submitted::Refused(Refusal::TooLarge),
            Submission::Ended(ending) => Submitted::Refused(Refusal::Ended(ending)),
        }
    }

    /// Queues a control record behind what is admitted, at once. One that is queued already stands
    /// for the newer one (D-24).
    pub(crate) fn submit_control(&self, record: Outgoing) {
        let mut state = self.lock();
        let sealed = state.chain.sealed();
        state.controls.retain(|(_, ordinal)| *ordinal >= sealed);
        if state.controls.iter().any(|(kind, _)| *kind == record.kind) {
            return;
        }
        if state.queue.submit_control(record.charge()) == Submission::Admitted {
            let kind = record.kind;
            let ordinal = state.chain.push(record);
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
        let Some(record) = state.chain.retract(ordinal) else { return false };
        let settled = self.release(&mut state, core::iter::once(record));
        let must_ring = settled.admitted > 0 && state.must_ring();
        drop(state);
        if must_ring {
            self.ring();
        }
        settled.finish();
        true
    }

    /// Whether a record was handed to the kernel.
    pub fn is_sealed(&self, ordinal: Ordinal) -> bool {
        ordinal < self.lock().chain.sealed()
    }

    /// Records with lower ordinals were handed to a link that broke: whether the peer has them cannot
    /// be known.
    pub fn lost_below(&self) -> Ordinal {
        self.lock().lost_below
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

    /// Ends the lane: every waiting call ends, later ones are refused. With [`Ending::Detached`]
    /// the queued records are dropped; how many those were.
    pub(crate) fn end(&self, ending: Ending) -> u64 {
        let mut state = self.lock();
        let dropped = if ending == Ending::Detached { state.chain.clear() } else { 0 };
        let now = self.context.clock.now();
        let (settled, _) = self.settle(&mut state, Step::End(ending), now);
        drop(state);
        settled.finish();
        dropped
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

    /// Sets the charge of the largest message that the peer takes.
    pub(crate) fn set_charge_max(&self, charge_max: ByteCount) {
        self.lock().queue.set_charge_max(charge_max);
    }

    /// Lets records leave over a new link.
    pub(crate) fn link_up(&self) {
        {
            let mut state = self.lock();
            state.link = state.link.up();
        }
        self.ring();
    }

    /// Keeps records back: the link is gone. What was handed over by then.
    pub(crate) fn link_down(&self) -> Ordinal {
        let mut state = self.lock();
        state.link = state.link.down();
        state.lost_below = state.chain.sealed();
        state.lost_below
    }

    /// Cuts the next batch. The shard never waits for a lane: a busy one rings again.
    pub(crate) fn seal(&self) -> Option<Batch> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.ring();
                return None;
            }
        };
        if state.link != LaneLink::Idle {
            return None;
        }
        let bytes_max = state.batch_max();
        let batch = state.chain.seal(bytes_max, || self.context.clock.now())?;
        state.link = LaneLink::Busy;
        Some(batch)
    }

    /// Takes in that the kernel took `bytes` of a batch. The batch goes on while `unsent` is not
    /// zero.
    pub(crate) fn sent(&self, batch: &mut Batch, bytes: u64) {
        let mut state = self.lock();
        let settled = self.release(&mut state, batch.advance(bytes));
        if batch.unsent() == 0 {
            state.batch_done();
        }
        drop(state);
        settled.finish();
    }

    /// Takes in that the rest of a batch will not be sent: its link is gone. Whether the peer has
    /// those records cannot be known. How many messages there were.
    pub(crate) fn lost(&self, batch: &Batch) -> u64 {
        let mut state = self.lock();
        let settled = self.release(&mut state, batch.unsent_records().iter().copied());
        state.batch_done();
        drop(state);
        settled.finish();
        let messages = batch.unsent_records().iter().filter(|record| !record.kind.is_control());
        messages.count() as u64
    }

    /// Whether everything that was admitted has been sent.
    pub(crate) fn is_flushed(&self) -> bool {
        let state = self.lock();
        state.chain.is_empty() && matches!(state.link, LaneLink::Absent | LaneLink::Idle)
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
        self.context.bell.ring(self.peer, self.errand);
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
