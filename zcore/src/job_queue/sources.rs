//! The ingress sources of a host and the two lines in which they stand.

use core::time::Duration;

use crate::time::Instant;

/// Names one registered source of a job queue; dead as soon as it is unregistered.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SourceId {
    slot: u32,
    generation: u32,
}

impl SourceId {
    /// The index of the slot: a host keeps what belongs to the source under it.
    pub const fn slot(self) -> u32 {
        self.slot
    }
}

/// Every slot of the job queue has a source already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SourcesFull;

impl core::fmt::Display for SourcesFull {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("every source slot of the job queue is taken")
    }
}

impl core::error::Error for SourcesFull {}

/// Storage for one source; lent by the caller.
#[derive(Clone, Copy, Debug)]
pub struct SourceSlot {
    /// Odd while a source lives here.
    generation: u32,
    place: Place,
    /// Permits that the source holds and has not yet claimed a record with.
    reserved: u32,
    /// Since when the source stands in its line.
    since: Instant,
    /// The source behind in the same line, or the next free slot.
    next: u32,
    prev: u32,
}

impl SourceSlot {
    /// A slot that holds nothing.
    pub const EMPTY: Self = Self {
        generation: 0,
        place: Place::Idle,
        reserved: 0,
        since: Instant::EPOCH,
        next: NONE,
        prev: NONE,
    };

    const fn is_live(&self) -> bool {
        self.generation % 2 == 1
    }
}

impl Default for SourceSlot {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Where a source stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// In no line.
    Idle,
    /// In the line for a permit.
    Waiting,
    /// In the line of those that were handed a permit and have not claimed it.
    Granted,
}

const NONE: u32 = u32::MAX;

/// What is asked of a source before it is served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) place: Place,
    pub(super) reserved: u32,
}

/// What a source gave back when it left its line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surrendered {
    pub(super) permits: u32,
    /// How long it had waited, if it was waiting.
    pub(super) waited: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    head: u32,
    tail: u32,
    len: u32,
}

impl Line {
    const EMPTY: Self = Self { head: NONE, tail: NONE, len: 0 };
}

/// The slots, the free list through them, and both lines. Every operation is O(1).
///
/// A source that leaves is unlinked at once, so that a line holds only live sources (B-41).
#[derive(Clone, Debug)]
pub(super) struct Sources<S> {
    slots: S,
    free: u32,
    waiting: Line,
    granted: Line,
}

impl<S> Sources<S> {
    pub(super) const fn waiting(&self) -> u32 {
        self.waiting.len
    }

    const fn line_mut(&mut self, place: Place) -> Option<&mut Line> {
        match place {
            Place::Idle => None,
            Place::Waiting => Some(&mut self.waiting),
            Place::Granted => Some(&mut self.granted),
        }
    }
}

impl<S: AsRef<[SourceSlot]> + AsMut<[SourceSlot]>> Sources<S> {
    /// Overwrites what `slots` hold.
    pub(super) fn new(mut slots: S) -> Self {
        let last = u32::try_from(slots.as_ref().len()).unwrap_or(NONE);
        for (index, slot) in (0_u32..last).zip(slots.as_mut()) {
            let next = index.saturating_add(1);
            *slot = SourceSlot { next: if next < last { next } else { NONE }, ..SourceSlot::EMPTY };
        }
        let free = if last == 0 { NONE } else { 0 };
        Self { slots, free, waiting: Line::EMPTY, granted: Line::EMPTY }
    }

    pub(super) fn register(&mut self) -> Result<SourceId, SourcesFull> {
        let index = self.free;
        let Some(slot) = self.slot_mut(index) else { return Err(SourcesFull) };
        let next_free = slot.next;
        let generation = slot.generation.wrapping_add(1);
        *slot = SourceSlot { generation, ..SourceSlot::EMPTY };
        self.free = next_free;
        Ok(SourceId { slot: index, generation })
    }

    /// Makes the slot of a source free for another. The source must have surrendered.
    pub(super) fn unregister(&mut self, source: SourceId) {
        let next = self.free;
        let Some(slot) = self.live_mut(source) else { return };
        debug_assert!(slot.place == Place::Idle, "a source that leaves stands in no line");
        slot.generation = slot.generation.wrapping_add(1);
        slot.next = next;
        self.free = source.slot;
    }

    pub(super) fn standing(&self, source: SourceId) -> Option<Standing> {
        let slot = self.slot(source.slot)?;
        (slot.generation == source.generation)
            .then_some(Standing { place: slot.place, reserved: slot.reserved })
    }

    pub(super) fn reserve(&mut self, source: SourceId, permits: u32) {
        if let Some(slot) = self.live_mut(source) {
            slot.reserved = slot.reserved.saturating_add(permits);
        }
    }

    pub(super) fn wait(&mut self, source: SourceId, now: Instant) {
        self.push(Place::Waiting, source.slot, now);
    }

    /// Uses one reserved permit up, and leaves the line of granted sources with it.
    pub(super) fn claim(&mut self, source: SourceId) -> bool {
        let Some(slot) = self.live_mut(source) else { return false };
        let Some(rest) = slot.reserved.checked_sub(1) else { return false };
        slot.reserved = rest;
        if slot.place == Place::Granted {
            self.unlink(source.slot);
        }
        true
    }

    /// Takes everything from a source and out of its line. `None` if the source is unknown.
    pub(super) fn surrender(&mut self, source: SourceId, now: Instant) -> Option<Surrendered> {
        let slot = self.live_mut(source)?;
        let permits = slot.reserved;
        slot.reserved = 0;
        let waited = (slot.place == Place::Waiting).then_some(now.since(slot.since));
        self.unlink(source.slot);
        Some(Surrendered { permits, waited })
    }

    /// Hands one permit to the source that has waited longest, and says how long (B-39).
    pub(super) fn grant_oldest(&mut self, now: Instant) -> Option<(SourceId, Duration)> {
        let index = self.waiting.head;
        let slot = self.slot_mut(index)?;
        slot.reserved = slot.reserved.saturating_add(1);
        let source = SourceId { slot: index, generation: slot.generation };
        let waited = now.since(slot.since);
        self.unlink(index);
        self.push(Place::Granted, index, now);
        Some((source, waited))
    }

    /// Takes the oldest grant back and moves its source to the tail of the waiting line. `false` if
    /// there is no grant.
    pub(super) fn revoke_oldest(&mut self, now: Instant) -> bool {
        let index = self.granted.head;
        let Some(slot) = self.slot_mut(index) else { return false };
        slot.reserved = slot.reserved.saturating_sub(1);
        self.unlink(index);
        self.push(Place::Waiting, index, now);
        true
    }

    /// When the oldest unclaimed grant was given.
    pub(super) fn oldest_grant(&self) -> Option<Instant> {
        self.slot(self.granted.head).map(|slot| slot.since)
    }

    fn push(&mut self, place: Place, index: u32, now: Instant) {
        let Some(line) = self.line_mut(place) else { return };
        let tail = line.tail;
        line.tail = index;
        line.len = line.len.saturating_add(1);
        if tail == NONE {
            line.head = index;
        }
        if let Some(before) = self.slot_mut(tail) {
            before.next = index;
        }
        if let Some(slot) = self.slot_mut(index) {
            slot.place = place;
            slot.since = now;
            slot.prev = tail;
            slot.next = NONE;
        }
    }

    fn unlink(&mut self, index: u32) {
        let Some(slot) = self.slot_mut(index) else { return };
        let SourceSlot { place, next, prev, .. } = *slot;
        slot.place = Place::Idle;
        slot.next = NONE;
        slot.prev = NONE;
        let Some(line) = self.line_mut(place) else { return };
        line.len = line.len.saturating_sub(1);
        if prev == NONE {
            line.head = next;
        }
        if next == NONE {
            line.tail = prev;
        }
        if let Some(before) = self.slot_mut(prev) {
            before.next = next;
        }
        if let Some(behind) = self.slot_mut(next) {
            behind.prev = prev;
        }
    }

    fn live_mut(&mut self, source: SourceId) -> Option<&mut SourceSlot> {
        self.slot_mut(source.slot).filter(|slot| slot.generation == source.generation)
    }

    fn slot(&self, index: u32) -> Option<&SourceSlot> {
        self.slots.as_ref().get(usize::try_from(index).ok()?)
    }

    fn slot_mut(&mut self, index: u32) -> Option<&mut SourceSlot> {
        self.slots.as_mut().get_mut(usize::try_from(index).ok()?)
    }

    /// Walks everything and compares it with what the queue counts.
    pub(super) fn assert_invariants(&self, reserved: u32) {
        let mut held = 0_u32;
        for slot in self.slots.as_ref() {
            held = held.saturating_add(slot.reserved);
            if !slot.is_live() {
                debug_assert!(slot.reserved == 0, "a free slot holds {} permits", slot.reserved);
            }
        }
        debug_assert!(held == reserved, "sources hold {held} permits, not {reserved}");
        self.assert_line(self.waiting, Place::Waiting, 0);
        self.assert_line(self.granted, Place::Granted, 1);
    }

    fn assert_line(&self, line: Line, place: Place, reserved: u32) {
        let (mut index, mut before, mut len) = (line.head, NONE, 0_u32);
        let mut since = Instant::EPOCH;
        while let Some(slot) = self.slot(index) {
            debug_assert!(slot.is_live(), "slot {index} is linked but free");
            debug_assert!(slot.place == place, "slot {index} is {:?} in {place:?}", slot.place);
            debug_assert!(slot.reserved == reserved, "slot {index} holds {}", slot.reserved);
            debug_assert!(slot.prev == before, "slot {index} follows {before}, not {}", slot.prev);
            debug_assert!(slot.since >= since, "slot {index} came before the one ahead of it");
            (since, before, index) = (slot.since, index, slot.next);
            len = len.saturating_add(1);
        }
        debug_assert!(line.tail == before, "the tail is {}, the last is {before}", line.tail);
        debug_assert!(line.len == len, "the line holds {len}, not {}", line.len);
    }
}
