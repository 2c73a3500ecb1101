//! Admission to one target's ordinary send queue: admit, wait, refuse, expire.
//!
//! The queue holds no records, only what they are charged. A submission is admitted when it fits
//! the high-water mark and nobody waits before it; otherwise it waits in the host's wait space
//! until bytes drain, its deadline passes, its caller gives up, or the queue ends.

use crate::account::{Account, HighWaterMark};
use crate::charge::Charge;
use crate::deadlines::DeadlineSlot;
use crate::time::Instant;
use crate::units::ByteCount;
use crate::waiters::{Family, Line, NewWaiter, WaitSpaceFull, WaiterSlot, WaiterToken, Waiters};

/// Names a send queue within its host.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct QueueId(u32);

impl QueueId {
    /// Names the queue at `index`.
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The index.
    pub const fn index(self) -> u32 {
        self.0
    }
}

/// What becomes of a submission at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Submission {
    /// It is charged and belongs to the queue.
    Admitted,
    /// There is no room: [`SendQueue::wait`], or give up. Nothing is charged.
    MustWait,
    /// It is larger than any message of this target may be. Nothing is charged.
    TooLarge,
    /// The queue takes nothing any more.
    Ended(Ending),
}

/// Why a queue takes nothing any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ending {
    /// The host shuts down; admitted records are still sent (BO-08).
    Closed,
    /// The target is gone; admitted records are gone with it (D-18).
    Detached,
}

/// What must be done for a waiting operation. Each ends it; none comes twice.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// It is charged: put its record into the queue, then complete it.
    Admit(WaiterToken),
    /// Its deadline has passed.
    Expire(WaiterToken),
    /// The queue has ended.
    Refuse(WaiterToken, Ending),
}

/// The ordinary send queue of one target.
///
/// ```
/// use core::time::Duration;
/// use zcore::{
///     ByteCount, Charge, DeadlineSlot, Effect, Family, HighWaterMark, Instant, QueueId, Quota,
///     SendQueue, Submission, WaiterSlot, Waiters,
/// };
/// let slots = [WaiterSlot::EMPTY; 2];
/// let mut waiters = Waiters::new(slots, [DeadlineSlot::EMPTY; 2], [Quota::DEFAULT; 5]);
/// let mark = HighWaterMark::Limit(ByteCount::new(200));
/// let mut queue = SendQueue::new(QueueId::new(0), mark, ByteCount::kib(1));
/// let charge = Charge::of_encoded(100);
///
/// assert_eq!(queue.submit(charge), Submission::Admitted);
/// assert_eq!(queue.submit(charge), Submission::MustWait);
/// let deadline = Instant::EPOCH.saturating_add(Duration::from_secs(1));
/// let token = queue.wait(&mut waiters, Family::Send, charge, deadline).unwrap();
///
/// let drained = Instant::from_nanos(5);
/// assert!(queue.sent(&mut waiters, charge, drained).eq([Effect::Admit(token)]));
/// assert!(queue.withdraw(&mut waiters, token, drained).is_none(), "it has ended already");
/// ```
#[derive(Clone, Debug)]
pub struct SendQueue {
    id: QueueId,
    account: Account,
    charge_max: ByteCount,
    line: Line,
    ended: Option<Ending>,
}

impl SendQueue {
    /// An empty queue. `charge_max` is the charge of the largest message that the target takes.
    pub const fn new(id: QueueId, mark: HighWaterMark, charge_max: ByteCount) -> Self {
        Self { id, account: Account::new(mark), charge_max, line: Line::EMPTY, ended: None }
    }

    /// Takes a record in, if it fits and nobody waits before it. O(1), reads no clock.
    pub fn submit(&mut self, charge: Charge) -> Submission {
        if let Some(ending) = self.ended {
            return Submission::Ended(ending);
        }
        if charge.bytes() > self.charge_max {
            return Submission::TooLarge;
        }
        if !self.line.is_empty() || !self.account.admits(charge) {
            return Submission::MustWait;
        }
        self.account.charge(charge);
        Submission::Admitted
    }

    /// Takes a control record in, at once and behind what is admitted (D-24). A closed queue takes
    /// it, too: the goodbye follows the last message. The caller keeps to one record of each kind.
    pub fn submit_control(&mut self, charge: Charge) -> Submission {
        if self.ended == Some(Ending::Detached) {
            return Submission::Ended(Ending::Detached);
        }
        self.account.charge(charge);
        Submission::Admitted
    }

    /// Lets a submission wait that had to.
    ///
    /// Belongs to the same turn as the [`SendQueue::submit`] that said so: a waiter that joins after
    /// the last record has left is looked at only when the next call settles waiters.
    ///
    /// # Errors
    ///
    /// [`WaitSpaceFull`] when the family's share, or this queue's part of it, is taken (B-68).
    pub fn wait<S, D>(
        &mut self,
        waiters: &mut Waiters<S, D>,
        family: Family,
        charge: Charge,
        deadline: Instant,
    ) -> Result<WaiterToken, WaitSpaceFull>
    where
        S: AsRef<[WaiterSlot]> + AsMut<[WaiterSlot]>,
        D: AsRef<[DeadlineSlot]> + AsMut<[DeadlineSlot]>,
    {
        let waiter = NewWaiter { queue: self.id, family, charge, deadline };
        let token = waiters.push(&mut self.line, waiter);
        waiters.assert_line(&self.line);
        token
    }

    /// Takes back what a record was charged, because the kernel has it, and admits waiters once the
    /// queue has drained to its low-water mark (BO-04).
    pub fn sent<'queue, S, D>(
        &'queue mut self,
        waiters: &'queue mut Waiters<S, D>,
        charge: Charge,
        now: Instant,
    ) -> Effects<'queue, S, D> {
        self.release(charge);
        let gate = if self.account.is_low() { Gate::Open } else { Gate::Shut };
        self.effects(waiters, gate, now)
    }

    /// Takes back what a record was charged without looking at waiters: the fast path of
    /// [`SendQueue::sent`] while [`SendQueue::is_waited_for`] is false.
    pub fn release(&mut self, charge: Charge) {
        if self.ended != Some(Ending::Detached) {
            self.account.release(charge);
        }
    }

    /// Takes a waiter out, because its caller gave up, and admits whatever now fits. `None` if the
    /// operation has ended already or waits for another queue.
    pub fn withdraw<'queue, S, D>(
        &'queue mut self,
        waiters: &'queue mut Waiters<S, D>,
        token: WaiterToken,
        now: Instant,
    ) -> Option<Effects<'queue, S, D>>
    where
        S: AsRef<[WaiterSlot]> + AsMut<[WaiterSlot]>,
        D: AsRef<[DeadlineSlot]> + AsMut<[DeadlineSlot]>,
    {
        waiters.deadline_of(self.id, token)?;
        waiters.remove(&mut self.line, token)?;
        Some(self.effects(waiters, Gate::Open, now))
    }

    /// Ends a waiter whose deadline has passed, and admits whatever now fits. Does nothing to a
    /// waiter that has ended, is not due by `now` or waits for another queue.
    pub fn expire<'queue, S, D>(
        &'queue mut self,
        waiters: &'queue mut Waiters<S, D>,
        token: WaiterToken,
        now: Instant,
    ) -> Effects<'queue, S, D>
    where
        S: AsRef<[WaiterSlot]> + AsMut<[WaiterSlot]>,
        D: AsRef<[DeadlineSlot]> + AsMut<[DeadlineSlot]>,
    {
        let due = waiters.deadline_of(self.id, token).is_some_and(|deadline| deadline <= now);
        let gate = if due { Gate::Open } else { Gate::Shut };
        let mut effects = self.effects(waiters, gate, now);
        effects.expired = due.then_some(token);
        effects
    }

    /// Changes the high-water mark. A higher one admits whatever fits at once; a lower one drops
    /// nothing (D-04).
    pub const fn set_mark<'queue, S, D>(
        &'queue mut self,
        waiters: &'queue mut Waiters<S, D>,
        mark: HighWaterMark,
        now: Instant,
    ) -> Effects<'queue, S, D> {
        self.account.set_mark(mark);
        self.effects(waiters, Gate::Open, now)
    }

    /// Ends the queue. Every waiter is refused; after [`Ending::Detached`] nothing is accounted any
    /// more, because the records are gone, and nothing that comes later changes that.
    pub fn end<'queue, S, D>(
        &'queue mut self,
        waiters: &'queue mut Waiters<S, D>,
        ending: Ending,
        now: Instant,
    ) -> Effects<'queue, S, D> {
        if self.ended != Some(Ending::Detached) {
            self.ended = Some(ending);
        }
        if ending == Ending::Detached {
            self.account.release_all();
        }
        self.effects(waiters, Gate::Shut, now)
    }

    /// An empty queue in the place of this one, with its name and limits; what was counted so far, its
    /// peak among it, goes on.
    #[must_use]
    pub fn renewed(&self) -> Self {
        let mut account = self.account.clone();
        account.release_all();
        let Self { id, charge_max, .. } = *self;
        Self { id, account, charge_max, line: Line::EMPTY, ended: None }
    }

    /// Sets the charge of the largest message that the target takes.
    pub const fn set_charge_max(&mut self, charge_max: ByteCount) {
        self.charge_max = charge_max;
    }

    /// The bytes it holds, and its mark.
    pub const fn account(&self) -> &Account {
        &self.account
    }

    /// Whether anybody waits for room.
    pub const fn is_waited_for(&self) -> bool {
        !self.line.is_empty()
    }

    /// How many operations wait for room.
    pub fn waiting(&self) -> u32 {
        self.line.len()
    }

    const fn effects<'queue, S, D>(
        &'queue mut self,
        waiters: &'queue mut Waiters<S, D>,
        gate: Gate,
        now: Instant,
    ) -> Effects<'queue, S, D> {
        // Waiters left by unread effects of `end` are refused by whatever call comes next.
        let gate = match self.ended {
            Some(ending) => Gate::Ended(ending),
            None => gate,
        };
        Effects { queue: self, waiters, expired: None, gate, now }
    }
}

#[derive(Clone, Copy, Debug)]
enum Gate {
    Open,
    Shut,
    Ended(Ending),
}

/// What a call settled, waiter by waiter, oldest first.
///
/// Each step settles the front waiter, so no queue of effects needs a bound.
#[must_use = "an effect that is not carried out leaves its submitter waiting"]
#[derive(Debug)]
pub struct Effects<'queue, S, D> {
    queue: &'queue mut SendQueue,
    waiters: &'queue mut Waiters<S, D>,
    expired: Option<WaiterToken>,
    gate: Gate,
    now: Instant,
}

impl<S, D> Iterator for Effects<'_, S, D>
where
    S: AsRef<[WaiterSlot]> + AsMut<[WaiterSlot]>,
    D: AsRef<[DeadlineSlot]> + AsMut<[DeadlineSlot]>,
{
    type Item = Effect;

    fn next(&mut self) -> Option<Effect> {
        let effect = self.settle();
        self.waiters.assert_line(&self.queue.line);
        effect
    }
}

impl<S, D> Effects<'_, S, D>
where
    S: AsRef<[WaiterSlot]> + AsMut<[WaiterSlot]>,
    D: AsRef<[DeadlineSlot]> + AsMut<[DeadlineSlot]>,
{
    fn settle(&mut self) -> Option<Effect> {
        if let Some(token) = self.expired.take() {
            self.waiters.remove(&mut self.queue.line, token)?;
            return Some(Effect::Expire(token));
        }
        let front = self.waiters.front(&self.queue.line)?;
        let effect = match self.gate {
            Gate::Ended(ending) => Effect::Refuse(front.token, ending),
            // Room that appears after a deadline comes too late, even before its timer (B-92).
            Gate::Open if front.deadline <= self.now => Effect::Expire(front.token),
            Gate::Open if self.queue.account.admits(front.charge) => {
                self.queue.account.charge(front.charge);
                Effect::Admit(front.token)
            }
            Gate::Open | Gate::Shut => return None,
        };
        self.waiters.remove(&mut self.queue.line, front.token)?;
        Some(effect)
    }
}
