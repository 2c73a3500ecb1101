//! The earliest deadline of a bounded set whose timeouts differ.

use crate::time::Instant;

/// Storage for one deadline; lent by the caller, one for each key.
#[derive(Clone, Copy, Debug)]
pub struct DeadlineSlot {
    /// When the key of this index is due.
    deadline: Instant,
    /// Where in the heap the key of this index stands, or [`ABSENT`].
    place: u32,
    /// Which key stands at this place of the heap.
    key: u32,
}

impl DeadlineSlot {
    /// A slot that holds nothing.
    pub const EMPTY: Self = Self { deadline: Instant::EPOCH, place: ABSENT, key: ABSENT };
}

const ABSENT: u32 = u32::MAX;

/// Deadlines by key, as an indexed binary heap.
///
/// Inserting and removing are O(log n), the earliest is O(1). A removed deadline is gone at once:
/// a cancelled call leaves no timer behind. Keys are indices into the lent storage.
///
/// ```
/// use zcore::{DeadlineSlot, Deadlines, Instant};
/// let mut deadlines = Deadlines::new([DeadlineSlot::EMPTY; 4]);
/// assert!(deadlines.insert(2, Instant::from_nanos(30)));
/// assert!(deadlines.insert(0, Instant::from_nanos(10)));
/// assert_eq!(deadlines.earliest(), Some((0, Instant::from_nanos(10))));
/// assert!(deadlines.remove(0));
/// assert_eq!(deadlines.earliest(), Some((2, Instant::from_nanos(30))));
/// assert!(!deadlines.insert(4, Instant::from_nanos(1)), "there is no slot 4");
/// ```
#[derive(Clone, Debug)]
pub struct Deadlines<S> {
    slots: S,
    len: u32,
}

impl<S: AsRef<[DeadlineSlot]> + AsMut<[DeadlineSlot]>> Deadlines<S> {
    /// An empty set over `slots`, whose contents are overwritten.
    pub fn new(mut slots: S) -> Self {
        slots.as_mut().fill(DeadlineSlot::EMPTY);
        Self { slots, len: 0 }
    }

    /// Sets the deadline of a key that has none. `false` if it has one already, or no slot.
    pub fn insert(&mut self, key: u32, deadline: Instant) -> bool {
        let place = self.len;
        match self.slot_mut(key) {
            Some(slot) if slot.place == ABSENT => {
                slot.deadline = deadline;
                slot.place = place;
            }
            Some(_) | None => return false,
        }
        self.len = self.len.saturating_add(1);
        self.put(place, key);
        self.sift_up(place);
        self.assert_invariants();
        true
    }

    /// Drops the deadline of a key. `false` if it had none.
    pub fn remove(&mut self, key: u32) -> bool {
        let Some(place) = self.place_of(key) else { return false };
        let last = self.len.saturating_sub(1);
        let moved = self.key_at(last);
        self.len = last;
        if let Some(slot) = self.slot_mut(key) {
            slot.place = ABSENT;
        }
        if place != last {
            self.put(place, moved);
            self.sift_up(place);
            self.sift_down(place);
        }
        self.assert_invariants();
        true
    }

    /// The key that is due first, and when.
    pub fn earliest(&self) -> Option<(u32, Instant)> {
        if self.len == 0 {
            return None;
        }
        let key = self.key_at(0);
        Some((key, self.deadline_of(key)))
    }

    /// When `key` is due, if it has a deadline.
    pub fn get(&self, key: u32) -> Option<Instant> {
        self.place_of(key).map(|_| self.deadline_of(key))
    }

    /// How many keys have a deadline.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether no key has a deadline.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn sift_up(&mut self, mut place: u32) {
        while place > 0 {
            let parent = place.saturating_sub(1) / 2;
            if !self.is_before(place, parent) {
                return;
            }
            self.swap(place, parent);
            place = parent;
        }
    }

    fn sift_down(&mut self, mut place: u32) {
        loop {
            let left = place.saturating_mul(2).saturating_add(1);
            if left >= self.len {
                return;
            }
            let right = left.saturating_add(1);
            let child = if right < self.len && self.is_before(right, left) { right } else { left };
            if !self.is_before(child, place) {
                return;
            }
            self.swap(child, place);
            place = child;
        }
    }

    fn is_before(&self, place: u32, other: u32) -> bool {
        self.deadline_of(self.key_at(place)) < self.deadline_of(self.key_at(other))
    }

    fn swap(&mut self, place: u32, other: u32) {
        let (key, other_key) = (self.key_at(place), self.key_at(other));
        self.put(place, other_key);
        self.put(other, key);
    }

    fn put(&mut self, place: u32, key: u32) {
        if let Some(slot) = self.slot_mut(place) {
            slot.key = key;
        }
        if let Some(slot) = self.slot_mut(key) {
            slot.place = place;
        }
    }

    fn key_at(&self, place: u32) -> u32 {
        self.slot(place).map_or(ABSENT, |slot| slot.key)
    }

    fn place_of(&self, key: u32) -> Option<u32> {
        self.slot(key).map(|slot| slot.place).filter(|place| *place != ABSENT)
    }

    fn deadline_of(&self, key: u32) -> Instant {
        self.slot(key).map_or(Instant::FAR_FUTURE, |slot| slot.deadline)
    }

    fn slot(&self, index: u32) -> Option<&DeadlineSlot> {
        self.slots.as_ref().get(usize::try_from(index).ok()?)
    }

    fn slot_mut(&mut self, index: u32) -> Option<&mut DeadlineSlot> {
        self.slots.as_mut().get_mut(usize::try_from(index).ok()?)
    }

    fn assert_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        for place in 0..self.len {
            let key = self.key_at(place);
            debug_assert!(
                self.place_of(key) == Some(place),
                "key {key} is at {:?}, not {place}",
                self.place_of(key)
            );
            let parent = place.saturating_sub(1) / 2;
            debug_assert!(!self.is_before(place, parent), "place {place} is due before its parent");
        }
    }
}
