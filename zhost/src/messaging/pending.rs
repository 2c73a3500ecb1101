//! Requests that wait for their replies. Removing an entry is the claim: each call ends once.

use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zcore::{DeadlineSlot, Deadlines, Instant, Progress, Settlement};
use ztransport::{Expectation, HandedOver, Incoming};

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
    /// Its connection broke after it was handed to the kernel. How far it came, as far as the peer
    /// has told since.
    LinkLost(Progress),
    /// Its target is gone for good. How far it had come.
    Detached(Progress),
    /// It is larger than its target takes since that came back, and was not sent.
    TooLarge,
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
    journey: Journey,
    cell: Arc<RequestCell>,
}

/// Where a request is that has no answer.
#[derive(Clone, Copy, Debug)]
enum Journey {
    /// It waits for room, or is queued.
    Here,
    /// It was handed to the kernel: its number among the messages of its pair.
    Away(u64),
    /// Its pair has ended since. No answer can come any more, only word of how far it came, and that
    /// until then.
    Stranded(u64, Instant),
}

impl Journey {
    /// How far a request came if it ends now.
    const fn progress(self) -> Progress {
        match self {
            Self::Here => Progress::Queued,
            Self::Away(_) | Self::Stranded(..) => Progress::HandedToKernel,
        }
    }
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
        let entry = Entry { journey: Journey::Here, cell: Arc::clone(&cell) };
        let place = table.slots.get_mut(slot as usize)?;
        place.generation += 1;
        place.peer = peer;
        place.entry = Some(entry);
        let id = (place.generation << SLOT_BITS) | u64::from(slot);
        table.open += 1;
        Some((id, cell))
    }

    /// Notes that a request was admitted, and when its time is over. `false` if it has ended.
    pub(crate) fn admitted(&self, id: u64, deadline: Instant) -> bool {
        let mut table = self.lock();
        let Some(entry) = table.entry(id) else { return false };
        let deadline = match entry.journey {
            // All of that may have happened before its caller came to say so.
            Journey::Stranded(_, until) => deadline.min(until),
            Journey::Here | Journey::Away(_) => deadline,
        };
        table.end_by(slot_of(id), deadline);
        true
    }

    /// Notes that requests leave for the kernel.
    pub(crate) fn handed_over(&self, requests: &[HandedOver]) {
        let mut table = self.lock();
        for HandedOver { id, number } in requests {
            if let Some(entry) = table.entry(*id) {
                entry.journey = Journey::Away(*number);
            }
        }
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
            return match slot.entry.as_ref().map(|entry| entry.journey) {
                Some(Journey::Away(_)) => Expectation::Wanted,
                // The peer cannot have heard of it.
                Some(Journey::Here) => Expectation::NeverIssued,
                // A pair answers its own requests only (BU-11).
                Some(Journey::Stranded(..)) | None => Expectation::Late,
            };
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

    /// Ends the requests whose time is over.
    pub(crate) fn expire(&self, now: Instant) {
        loop {
            let mut table = self.lock();
            let due = table.deadlines.earliest().filter(|(_, deadline)| *deadline <= now);
            let Some((slot, _)) = due else { return };
            let entry = table.take_slot(slot);
            drop(table);
            let Some(entry) = entry else { continue };
            entry.cell.end(match entry.journey {
                Journey::Here | Journey::Away(_) => RequestEnd::Expired,
                // Why it has no answer is known, and that it will have none.
                Journey::Stranded(..) => RequestEnd::LinkLost(Progress::HandedToKernel),
            });
        }
    }

    /// The connection of a peer broke: those of its requests that were handed over have no answer to
    /// expect. They wait for what it tells when it comes back, and not longer than until then.
    pub(crate) fn strand(&self, peer: u32, until: Instant) {
        let mut table = self.lock();
        let Table { slots, deadlines, .. } = &mut *table;
        for (slot, place) in (0..).zip(slots) {
            let Some(entry) = place.entry.as_mut().filter(|_| place.peer == peer) else { continue };
            let Journey::Away(number) = entry.journey else { continue };
            entry.journey = Journey::Stranded(number, until);
            let own = deadlines.get(slot);
            deadlines.remove(slot);
            deadlines.insert(slot, own.map_or(until, |own| own.min(until)));
        }
    }

    /// The peer of a broken connection is back, and has told what it took, or will not come back.
    pub(crate) fn settle(&self, peer: u32, told: Option<&Settlement>) {
        self.end_where(|slot, entry| {
            let (Journey::Away(number) | Journey::Stranded(number, _)) = entry.journey else {
                return None;
            };
            let progress = told.map_or(Progress::HandedToKernel, |told| told.progress(number));
            (slot.peer == peer).then_some(RequestEnd::LinkLost(progress))
        });
    }

    /// Ends every request to a peer that is gone for good.
    pub(crate) fn detached(&self, peer: u32) {
        self.end_where(|slot, entry| {
            (slot.peer == peer).then(|| RequestEnd::Detached(entry.journey.progress()))
        });
    }

    /// Ends a request that its target does not take any more.
    pub(crate) fn too_large(&self, id: u64) {
        let entry = self.lock().take(id);
        if let Some(entry) = entry {
            entry.cell.end(RequestEnd::TooLarge);
        }
    }

    /// Ends every request, because the host ends.
    pub(crate) fn shut_down(&self) {
        self.end_where(|_, _| Some(RequestEnd::ShutDown));
    }

    /// How many are pending.
    pub(crate) fn open(&self) -> u32 {
        self.lock().open
    }

    fn end_where(&self, ending: impl Fn(&Slot, &Entry) -> Option<RequestEnd>) {
        let ended: Vec<_> = {
            let mut table = self.lock();
            let ends = |(slot, place): (u32, &Slot)| {
                let end = ending(place, place.entry.as_ref()?)?;
                Some((slot, end))
            };
            let ends: Vec<_> = (0..).zip(&table.slots).filter_map(ends).collect();
            let taken = ends.into_iter().map(|(slot, end)| (table.take_slot(slot), end));
            taken.collect()
        };
        for (entry, end) in ended {
            if let Some(entry) = entry {
                entry.cell.end(end);
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

    /// Sets when the request in a slot ends, if nothing else ends it.
    fn end_by(&mut self, slot: u32, deadline: Instant) {
        self.deadlines.remove(slot);
        self.deadlines.insert(slot, deadline);
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
