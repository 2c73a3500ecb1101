//! The space that holds waiting operations: one pool, many queues.

use core::fmt;

use crate::charge::Charge;
use crate::deadlines::{DeadlineSlot, Deadlines};
use crate::limits;
use crate::send_queue::QueueId;
use crate::time::Instant;
use crate::units::ByteCount;

/// Operation families; each has a share of the wait space that no other can take (D-05).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Family {
    /// One-way sends.
    Send,
    /// Requests.
    Request,
    /// Replies of handlers.
    Reply,
    /// Publications.
    Publish,
    /// Stream messages.
    Stream,
}

impl Family {
    /// How many families there are.
    pub const COUNT: usize = 5;

    /// Each family once.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Send, Self::Request, Self::Reply, Self::Publish, Self::Stream];

    /// The name in errors and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Request => "request",
            Self::Reply => "reply",
            Self::Publish => "publish",
            Self::Stream => "stream",
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Send => 0,
            Self::Request => 1,
            Self::Reply => 2,
            Self::Publish => 3,
            Self::Stream => 4,
        }
    }
}

/// How much one family may keep waiting in a host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Quota {
    operations: u32,
    bytes: ByteCount,
    per_queue: u32,
}

impl Quota {
    /// The default: 4,096 operations, 64 MiB, three quarters of them for one target (D-05).
    pub const DEFAULT: Self =
        Self::with_default_share(limits::WAITING_OPERATIONS_DEFAULT, limits::WAITING_BYTES_DEFAULT);

    /// A quota that keeps nothing: every operation that finds no room ends at once.
    pub const NONE: Self = Self { operations: 0, bytes: ByteCount::ZERO, per_queue: 0 };

    /// `operations` holding at most `bytes`, of which one target may hold all if there are at most
    /// [`limits::SMALL_WAIT_SPACE`], and three quarters, rounded down, otherwise.
    pub const fn with_default_share(operations: u32, bytes: ByteCount) -> Self {
        let per_queue = if operations <= limits::SMALL_WAIT_SPACE {
            operations
        } else {
            operations.saturating_sub(operations.div_ceil(4))
        };
        Self { operations, bytes, per_queue }
    }

    /// The same, with `per_queue` operations for one target.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] when one target could hold none although there are some, or more than all.
    pub const fn per_queue(self, per_queue: u32) -> Result<Self, QuotaError> {
        let least = if self.operations == 0 { 0 } else { 1 };
        if per_queue < least || per_queue > self.operations {
            return Err(QuotaError { per_queue, operations: self.operations });
        }
        Ok(Self { per_queue, ..self })
    }

    /// How many operations may wait.
    pub const fn operations(self) -> u32 {
        self.operations
    }
}

/// A share of one target that is no part of the whole.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QuotaError {
    per_queue: u32,
    operations: u32,
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { per_queue, operations } = self;
        write!(f, "{per_queue} waiting operations for one target; valid is 1..={operations}")
    }
}

impl core::error::Error for QuotaError {}

/// Names one waiting operation; dead as soon as the operation has ended.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct WaiterToken {
    slot: u32,
    generation: u32,
}

impl WaiterToken {
    /// The index of the slot: a host keeps what belongs to the waiter under it.
    pub const fn slot(self) -> u32 {
        self.slot
    }
}

/// There is no place left for one more waiting operation (B-68).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WaitSpaceFull;

/// Storage for one waiting operation; lent by the caller.
#[derive(Clone, Copy, Debug)]
pub struct WaiterSlot {
    /// Odd while a waiter lives here.
    generation: u32,
    queue: QueueId,
    family: Family,
    charge: Charge,
    deadline: Instant,
    /// The waiter behind, or the next free slot.
    next: u32,
    prev: u32,
}

impl WaiterSlot {
    /// A slot that holds nothing.
    pub const EMPTY: Self = Self {
        generation: 0,
        queue: QueueId::new(0),
        family: Family::Send,
        charge: Charge::of_encoded(0),
        deadline: Instant::EPOCH,
        next: NONE,
        prev: NONE,
    };

    const fn is_live(&self) -> bool {
        self.generation % 2 == 1
    }
}

const NONE: u32 = u32::MAX;

/// One queue's waiters, oldest first, as links into the pool.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    head: u32,
    tail: u32,
    counts: [u32; Family::COUNT],
}

impl Line {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE, counts: [0; Family::COUNT] };

    pub(crate) const fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(crate) fn len(&self) -> u32 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    fn count_mut(&mut self, family: Family) -> Option<&mut u32> {
        self.counts.get_mut(family.index())
    }
}

#[derive(Clone, Copy, Debug)]
struct Share {
    quota: Quota,
    operations: u32,
    bytes: ByteCount,
}

/// What stands at the front of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    pub(crate) token: WaiterToken,
    pub(crate) charge: Charge,
    pub(crate) deadline: Instant,
}

/// The wait space of a host (BO-05).
///
/// Every operation on it is O(1), but for the deadline of a waiter, which is O(log n). Nothing is
/// allocated: the slots are lent, one for each operation that may wait.
#[derive(Clone, Debug)]
pub struct Waiters<S, D> {
    slots: S,
    deadlines: Deadlines<D>,
    free: u32,
    shares: [Share; Family::COUNT],
}

impl<S, D> Waiters<S, D>
where
    S: AsRef<[WaiterSlot]> + AsMut<[WaiterSlot]>,
    D: AsRef<[DeadlineSlot]> + AsMut<[DeadlineSlot]>,
{
    /// An empty wait space; `quotas` in the order of [`Family::ALL`].
    ///
    /// The space holds as many operations as the shorter of the two storages has slots, even where
    /// the quotas would allow more.
    pub fn new(mut slots: S, deadlines: D, quotas: [Quota; Family::COUNT]) -> Self {
        let room = slots.as_ref().len().min(deadlines.as_ref().len());
        let last = u32::try_from(room).unwrap_or(NONE);
        for (index, slot) in (0_u32..last).zip(slots.as_mut()) {
            let next = index.saturating_add(1);
            *slot = WaiterSlot { next: if next < last { next } else { NONE }, ..WaiterSlot::EMPTY };
        }
        Self {
            slots,
            deadlines: Deadlines::new(deadlines),
            free: if last == 0 { NONE } else { 0 },
            shares: quotas.map(|quota| Share { quota, operations: 0, bytes: ByteCount::ZERO }),
        }
    }

    /// How many operations of a family wait.
    pub fn waiting(&self, family: Family) -> u32 {
        self.shares.get(family.index()).map_or(0, |share| share.operations)
    }

    /// The bytes that the waiting operations of a family hold.
    pub fn waiting_bytes(&self, family: Family) -> ByteCount {
        self.shares.get(family.index()).map_or(ByteCount::ZERO, |share| share.bytes)
    }

    /// When the first waiter is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.earliest().map(|(_, deadline)| deadline)
    }

    /// The waiter that is due first, if it is due by `now`. It stays until its queue ends it with
    /// [`crate::SendQueue::expire`].
    pub fn first_due(&self, now: Instant) -> Option<(QueueId, WaiterToken)> {
        let (index, deadline) = self.deadlines.earliest()?;
        if deadline > now {
            return None;
        }
        let slot = self.slot(index)?;
        Some((slot.queue, WaiterToken { slot: index, generation: slot.generation }))
    }

    pub(crate) fn push(
        &mut self,
        line: &mut Line,
        waiter: NewWaiter,
    ) -> Result<WaiterToken, WaitSpaceFull> {
        let NewWaiter { queue, family, charge, deadline } = waiter;
        let held = line.count_mut(family).map_or(NONE, |count| *count);
        let bytes = self.reserve(family, charge, held).ok_or(WaitSpaceFull)?;
        let index = self.free;
        let tail = line.tail;
        let Some(slot) = self.slot_mut(index) else { return Err(WaitSpaceFull) };
        let next_free = slot.next;
        let generation = slot.generation.wrapping_add(1);
        *slot = WaiterSlot { generation, queue, family, charge, deadline, next: NONE, prev: tail };
        self.free = next_free;
        match self.slot_mut(tail) {
            Some(last) => last.next = index,
            None => line.head = index,
        }
        line.tail = index;
        self.settle(line, family, bytes, u32::checked_add);
        let inserted = self.deadlines.insert(index, deadline);
        debug_assert!(inserted, "slot {index} was free but had a deadline");
        Ok(WaiterToken { slot: index, generation })
    }

    /// Takes a waiter out of its line. `None` if the token is dead.
    pub(crate) fn remove(&mut self, line: &mut Line, token: WaiterToken) -> Option<Front> {
        let slot = *self.slot(token.slot)?;
        if slot.generation != token.generation || !slot.is_live() {
            return None;
        }
        match self.slot_mut(slot.prev) {
            Some(before) => before.next = slot.next,
            None => line.head = slot.next,
        }
        match self.slot_mut(slot.next) {
            Some(behind) => behind.prev = slot.prev,
            None => line.tail = slot.prev,
        }
        let free = self.free;
        if let Some(vacated) = self.slot_mut(token.slot) {
            vacated.generation = slot.generation.wrapping_add(1);
            vacated.next = free;
        }
        self.free = token.slot;
        let removed = self.deadlines.remove(token.slot);
        debug_assert!(removed, "a live waiter in slot {} had no deadline", token.slot);
        let held = self.waiting_bytes(slot.family);
        let rest = held.saturating_sub(slot.charge.bytes());
        self.settle(line, slot.family, rest, u32::checked_sub);
        Some(Front { token, charge: slot.charge, deadline: slot.deadline })
    }

    pub(crate) fn front(&self, line: &Line) -> Option<Front> {
        let slot = self.slot(line.head)?;
        let token = WaiterToken { slot: line.head, generation: slot.generation };
        Some(Front { token, charge: slot.charge, deadline: slot.deadline })
    }

    /// When a waiter of `queue` is due. `None` if the token is dead or names another queue's: taken
    /// out of the wrong line it would cut that line off.
    pub(crate) fn deadline_of(&self, queue: QueueId, token: WaiterToken) -> Option<Instant> {
        let slot = self.slot(token.slot)?;
        let is_named = slot.generation == token.generation && slot.is_live();
        (is_named && slot.queue == queue).then_some(slot.deadline)
    }

    /// The bytes that the family then holds, if its quota and the queue's share allow one more.
    fn reserve(&self, family: Family, charge: Charge, held_by_queue: u32) -> Option<ByteCount> {
        let share = self.shares.get(family.index())?;
        let bytes = share.bytes.checked_add(charge.bytes())?;
        let fits = share.operations < share.quota.operations
            && held_by_queue < share.quota.per_queue
            && bytes <= share.quota.bytes;
        fits.then_some(bytes)
    }

    /// Counts one waiter more or less, on both sides.
    fn settle(
        &mut self,
        line: &mut Line,
        family: Family,
        bytes: ByteCount,
        step: fn(u32, u32) -> Option<u32>,
    ) {
        if let Some(count) = line.count_mut(family) {
            *count = step(*count, 1).unwrap_or(*count);
        }
        if let Some(share) = self.shares.get_mut(family.index()) {
            share.operations = step(share.operations, 1).unwrap_or(share.operations);
            share.bytes = bytes;
        }
    }

    fn slot(&self, index: u32) -> Option<&WaiterSlot> {
        self.slots.as_ref().get(usize::try_from(index).ok()?)
    }

    fn slot_mut(&mut self, index: u32) -> Option<&mut WaiterSlot> {
        self.slots.as_mut().get_mut(usize::try_from(index).ok()?)
    }

    /// Walks one queue's line and compares it with the counts.
    pub(crate) fn assert_line(&self, line: &Line) {
        if !cfg!(debug_assertions) {
            return;
        }
        let mut counts = [0_u32; Family::COUNT];
        let (mut index, mut before) = (line.head, NONE);
        while let Some(slot) = self.slot(index) {
            debug_assert!(slot.is_live(), "slot {index} is linked but free");
            debug_assert!(slot.prev == before, "slot {index} follows {before}, not {}", slot.prev);
            if let Some(count) = counts.get_mut(slot.family.index()) {
                *count = count.saturating_add(1);
            }
            before = index;
            index = slot.next;
        }
        debug_assert!(line.tail == before, "the tail is {}, the last is {before}", line.tail);
        debug_assert!(counts == line.counts, "the line holds {counts:?}, not {:?}", line.counts);
        debug_assert!(
            self.deadlines.len()
                == self.shares.iter().fold(0, |sum, share| sum.saturating_add(share.operations)),
            "{} deadlines for other numbers of waiters",
            self.deadlines.len()
        );
    }
}

/// What a queue says of an operation that must wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewWaiter {
    pub(crate) queue: QueueId,
    pub(crate) family: Family,
    pub(crate) charge: Charge,
    pub(crate) deadline: Instant,
}
