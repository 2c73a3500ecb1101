//! The host's job queue, shared by its shards, and the permit as a guard.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use zcore::{Instant, JobCounts, JobQueue, Pressure, Request, SourceId, SourceSlot};

use crate::clock::Clock;
use crate::doorbell::{Doorbell, Errand};
use crate::lane::LaneContext;
use crate::sync::{Mutex, MutexGuard};

/// The permits of a host (B-06).
pub struct Permits {
    state: Mutex<PermitState>,
    clock: Arc<dyn Clock>,
    records: AtomicU64,
}

#[derive(Debug)]
struct PermitState {
    queue: JobQueue<Box<[SourceSlot]>>,
    /// Whom to tell of a grant, by source slot.
    owners: Vec<Option<Owner>>,
}

#[derive(Clone, Debug)]
struct Owner {
    bell: Arc<Doorbell>,
    /// Of the shard that passes grants on which are not claimed in time.
    timekeeper: Arc<Doorbell>,
    peer: u32,
}

impl Permits {
    /// Shares a job queue.
    pub fn new(queue: JobQueue<Box<[SourceSlot]>>, clock: Arc<dyn Clock>) -> Self {
        let state = Mutex::new(PermitState { queue, owners: Vec::new() });
        Self { state, clock, records: AtomicU64::new(0) }
    }

    /// The counts, and whether the queue is under pressure.
    pub fn snapshot(&self) -> (JobCounts, Pressure) {
        let state = self.lock();
        (state.queue.counts(), state.queue.pressure())
    }

    /// Records that took a permit, ever.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Whether every permit is taken.
    pub fn is_exhausted(&self) -> bool {
        let counts = self.lock().queue.counts();
        counts.in_use >= counts.limit
    }

    /// Names a source whose grants are told to `peer`'s shard. `None` when there are as many
    /// sources as the host was built for.
    pub(crate) fn register(&self, lanes: &LaneContext, peer: u32) -> Option<SourceId> {
        let mut state = self.lock();
        let source = state.queue.register().ok()?;
        let index = usize::try_from(source.slot()).ok()?;
        if state.owners.len() <= index {
            state.owners.resize(index + 1, None);
        }
        if let Some(owner) = state.owners.get_mut(index) {
            let LaneContext { bell, timekeeper, .. } = lanes;
            let (bell, timekeeper) = (Arc::clone(bell), Arc::clone(timekeeper));
            *owner = Some(Owner { bell, timekeeper, peer });
        }
        Some(source)
    }

    /// Takes permits for records that leave their Core queue in this turn, at most `ready`. None
    /// while the source waits for its turn: its shard is told when a permit is handed to it.
    pub(crate) fn take(
        self: &Arc<Self>,
        source: SourceId,
        ready: u32,
        now: Instant,
        permits: &mut Vec<Permit>,
    ) {
        let mut state = self.lock();
        let taken = if state.queue.has_grant(source) {
            1
        } else {
            match state.queue.request(source, ready, now) {
                Request::Taken(taken) => taken,
                Request::Waiting | Request::Ignored => 0,
            }
        };
        for _ in 0..taken {
            if state.queue.claim(source) {
                permits.push(Permit { permits: Some(Arc::clone(self)) });
            }
        }
        self.records.fetch_add(u64::from(taken), Ordering::Relaxed);
    }

    /// Gives up whatever a source holds or waits for.
    pub(crate) fn unregister(&self, source: SourceId, now: Instant) {
        let mut state = self.lock();
        let PermitState { queue, owners } = &mut *state;
        let told: Vec<Owner> =
            queue.unregister(source, now).filter_map(|next| owner(owners, next)).collect();
        tell(state, told);
    }

    /// Passes on grants that their sources did not claim in time.
    pub(crate) fn expire_grants(&self, now: Instant) {
        let mut state = self.lock();
        let PermitState { queue, owners } = &mut *state;
        let told: Vec<Owner> =
            queue.expire_grants(now).filter_map(|next| owner(owners, next)).collect();
        tell(state, told);
    }

    /// When the first grant runs out.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.lock().queue.next_deadline()
    }

    fn give_back(&self, how: Return) {
        let now = self.clock.now();
        let mut state = self.lock();
        let granted = match how {
            Return::Started => state.queue.start(now),
            Return::Control => state.queue.classify_as_control(now),
        };
        let told = granted.and_then(|next| owner(&state.owners, next));
        tell(state, told);
    }

    fn lock(&self) -> MutexGuard<'_, PermitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn owner(owners: &[Option<Owner>], source: SourceId) -> Option<Owner> {
    owners.get(usize::try_from(source.slot()).ok()?)?.clone()
}

/// Lets the lock go, and tells of the grants: those whose they are, and who watches their time.
fn tell(state: MutexGuard<'_, PermitState>, owners: impl IntoIterator<Item = Owner>) {
    let due = state.queue.next_deadline();
    drop(state);
    for Owner { bell, timekeeper, peer } in owners {
        bell.ring(peer, Errand::Granted);
        if let Some(due) = due {
            timekeeper.wake_by(due);
        }
    }
}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state: _, clock: _, records } = self;
        let (counts, pressure) = self.snapshot();
        f.debug_struct("Permits")
            .field("counts", &counts)
            .field("pressure", &pressure)
            .field("records", records)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy)]
enum Return {
    Started,
    Control,
}

/// The right of one record to wait for its handler.
///
/// It comes back when the guard goes, however that happens: right before the handler's first
/// instruction, when the record turns out to be control, or when its job is dropped unstarted.
#[must_use = "a permit that is dropped is returned"]
pub struct Permit {
    permits: Option<Arc<Permits>>,
}

impl Permit {
    /// Returns the permit: the handler is about to begin (B-11).
    pub fn start(self) {
        drop(self);
    }

    /// Returns the permit: the record creates no job (B-45).
    pub(crate) fn classify_as_control(mut self) {
        if let Some(permits) = self.permits.take() {
            permits.give_back(Return::Control);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(permits) = self.permits.take() {
            permits.give_back(Return::Started);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { permits } = self;
        f.debug_struct("Permit").field("held", &permits.is_some()).finish()
    }
}
