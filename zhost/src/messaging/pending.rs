//! Requests that wait for their replies. Removing an entry is the claim: each call ends once.

use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zcore::{DeadlineSlot, Deadlines, Instant};
use ztransport::{Expectation, Incoming, Ordinal};

/// Requests of one host that are not answered yet (D-15).
pub(crate) const PENDING_MAX: u32 = 65_536;

const SLOT_BITS: u32 = 20;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
const _: () = assert!(PENDING_MAX < 1 << SLOT_BITS, "a slot must fit its part of an id");

/// How a request ended that was admitted.
#[derive(Clone, Debug)]
pub(crate) enum RequestEnd {
    /// A reply or an error reply.
    Answered(Incoming),
    /// Its time was over.
    Expired,
    /// Its connection broke after it was handed to the kernel.
    LinkLost,
    /// This host ended.
    ShutDown,
}

/// One request, seen from its future and from whoever ends it.
#[derive(Debug, Default)]
pub(crate) struct RequestCell {
    state: Mutex<CellState>,
}

#[derive(Debug, Default)]
struct CellState {
    end: Option<RequestEnd>,
    waker: Option<Waker>,
}

impl RequestCell {
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<RequestEnd> {
        let waker = context.waker().clone();
        let mut state = self.lock();
        if let Some(end) = state.end.take() {
            return Poll::Ready(end);
        }
        let replaced = state.waker.replace(waker);
        drop(state);
        drop(replaced);
        Poll::Pending
    }

    fn end(&self, end: RequestEnd) {
        let waker = {
            let mut state = self.lock();
            state.end = Some(end);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, CellState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Slot {
    /// Raised each time the slot is taken; part of the id.
    generation: u64,
    /// Whom the request of this generation went to; nobody else may answer it.
    peer: u32,
    entry: Option<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Its place in the Application lane, once it has one.
    ordinal: Option<Ordinal>,
    cell: Arc<RequestCell>,
}

/// The pending requests of a host. Its lock is taken alone.
#[derive(Debug)]
pub(crate) struct Pending {
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    deadlines: Deadlines<Box<[DeadlineSlot]>>,
    open: u32,
}

impl Pending {
    pub(crate) fn new() -> Self {
        let deadlines = vec![DeadlineSlot::EMPTY; PENDING_MAX as usize].into_boxed_slice();
        let deadlines = Deadlines::new(deadlines);
        Self {
            table: Mutex::new(Table { slots: Vec::new(), free: Vec::new(), deadlines, open: 0 }),
        }
    }

    /// Registers a request before it is submitted, so that its reply cannot come first. `None` when
    /// as many as possible are pending.
    pub(crate) fn register(&self, peer: u32) -> Option<(u64, Arc<RequestCell>)> {
        let mut table = self.lock();
        let slot = if let Some(slot) = table.free.pop() {
            slot
        } else {
            let slot = u32::try_from(table.slots.len()).ok().filter(|s| *s < PENDING_MAX)?;
            table.slots.push(Slot { generation: 0, peer, entry: None });
            slot
        };
        let cell = Arc::new(RequestCell::default());
        let entry = Entry { ordinal: None, cell: Arc::clone(&cell) };
        let place = table.slots.get_mut(slot as usize)?;
        place.generation += 1;
        place.peer = peer;
        place.entry = Some(entry);
        let id = (place.generation << SLOT_BITS) | u64::from(slot);
        table.open += 1;
        Some((id, cell))
    }

    /// Notes that a request was admitted, and when its time is over. `false` if it has ended.
    pub(crate) fn admitted(&self, id: u64, ordinal: Ordinal, deadline: Instant) -> bool {
        let mut table = self.lock();
        let Some(entry) = table.entry(id) else { return false };
        entry.ordinal = Some(ordinal);
        table.deadlines.insert(slot_of(id), deadline)
    }

    /// Takes a request out without an end, because its caller is the one who ends it. `false` if it
    /// has ended already.
    pub(crate) fn forget(&self, id: u64) -> bool {
        self.lock().take(id).is_some()
    }

    /// Whether a reply is wanted.
    pub(crate) fn expects(&self, peer: u32, id: u64) -> Expectation {
        let table = self.lock();
        let generation = id >> SLOT_BITS;
        let Some(slot) = table.slots.get(slot_of(id) as usize) else {
            return Expectation::NeverIssued;
        };
        if slot.generation == generation && slot.peer == peer {
            return if slot.entry.is_some() { Expectation::Wanted } else { Expectation::Late };
        }
        // Whom an earlier request of the slot went to is not known any more.
        if (1..slot.generation).contains(&generation) {
            Expectation::Late
        } else {
            Expectation::NeverIssued
        }
    }

    /// Ends a request with its answer. `false` if it came too late.
    pub(crate) fn answer(&self, peer: u32, record: Incoming) -> bool {
        let entry = {
            let mut table = self.lock();
            let id = record.head().id;
            let slot = table.slots.get(slot_of(id) as usize);
            if slot.is_some_and(|slot| slot.peer == peer) { table.take(id) } else { None }
        };
        let is_wanted = entry.is_some();
        if let Some(entry) = entry {
            entry.cell.end(RequestEnd::Answered(record));
        }
        is_wanted
    }

    /// When the first request's time is over.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.lock().deadlines.earliest().map(|(_, deadline)| deadline)
    }

    /// Ends the requests whose time is over. How many.
    pub(crate) fn expire(&self, now: Instant) -> u64 {
        let mut expired = 0;
        loop {
            let mut table = self.lock();
            let due = table.deadlines.earliest().filter(|(_, deadline)| *deadline <= now);
            let Some((slot, _)) = due else { return expired };
            let entry = table.take_slot(slot);
            drop(table);
            expired += 1;
            if let Some(entry) = entry {
                entry.cell.end(RequestEnd::Expired);
            }
        }
    }

    /// Ends the requests of a peer that were handed to a connection which broke.
    pub(crate) fn link_lost(&self, peer: u32, handed_over: Ordinal) {
        self.end_where(&RequestEnd::LinkLost, |slot, entry| {
            slot.peer == peer && entry.ordinal.is_some_and(|ordinal| ordinal < handed_over)
        });
    }

    /// Ends one request that was handed to a connection which broke.
    pub(crate) fn link_lost_for(&self, id: u64) {
        let entry = self.lock().take(id);
        if let Some(entry) = entry {
            entry.cell.end(RequestEnd::LinkLost);
        }
    }

    /// Ends every request, because the host ends.
    pub(crate) fn shut_down(&self) {
        self.end_where(&RequestEnd::ShutDown, |_, _| true);
    }

    /// How many are pending.
    pub(crate) fn open(&self) -> u32 {
        self.lock().open
    }

    fn end_where(&self, end: &RequestEnd, matches: impl Fn(&Slot, &Entry) -> bool) {
        let slots = self.lock().slots.len();
        for slot in 0..slots {
            let mut table = self.lock();
            let place = table.slots.get(slot);
            let found = place.and_then(|place| place.entry.as_ref().map(|entry| (place, entry)));
            if found.is_none_or(|(place, entry)| !matches(place, entry)) {
                continue;
            }
            let entry = table.take_slot(u32::try_from(slot).unwrap_or(u32::MAX));
            drop(table);
            if let Some(entry) = entry {
                entry.cell.end(end.clone());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn entry(&mut self, id: u64) -> Option<&mut Entry> {
        let slot = self.slots.get_mut(slot_of(id) as usize)?;
        if slot.generation == id >> SLOT_BITS { slot.entry.as_mut() } else { None }
    }

    fn take(&mut self, id: u64) -> Option<Entry> {
        self.entry(id)?;
        self.take_slot(slot_of(id))
    }

    fn take_slot(&mut self, slot: u32) -> Option<Entry> {
        self.deadlines.remove(slot);
        let entry = self.slots.get_mut(slot as usize)?.entry.take()?;
        self.free.push(slot);
        self.open -= 1;
        Some(entry)
    }
}

fn slot_of(id: u64) -> u32 {
    u32::try_from(id & SLOT_MASK).unwrap_or(u32::MAX)
}
