//! Permits for jobs that wait until their handlers start: one count for the whole host (B-06).
//!
//! A source is whatever receives ordinary records: the Application lane of a pair, a stream, a
//! local dispatch. It takes a permit before a record leaves its Core queue (B-10) and the permit
//! comes back when the record's handler is about to begin (B-11), or when the record turns out to
//! need none (B-45). The queue knows no records and no handlers, only how many permits are where.

use core::fmt;
use core::time::Duration;

use crate::limits::{GRANT_TTL, PERMITS_AT_ONCE};
use crate::pressure::{Pressure, PressureMarks, Thresholds};
use crate::time::Instant;

mod limit;
mod sources;

pub use limit::{ApplicationJobQueueProfile, PermitLimit, PermitLimitOutOfRange};
pub use sources::{SourceId, SourceSlot, SourcesFull};

use sources::{Place, Sources};

/// What a request for permits leads to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use = "permits that are taken and not claimed are missing elsewhere"]
pub enum Request {
    /// So many permits are reserved: claim that many records in this turn, or
    /// [`JobQueue::cancel`].
    Taken(u32),
    /// The source stands in line. A later call names it when its permit has come.
    Waiting,
    /// Nothing changed: the source is unknown, has no record ready, or still holds permits.
    Ignored,
}

/// The storage lent to a job queue has no slot: no source could ever register.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoSourceSlots;

impl fmt::Display for NoSourceSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a job queue needs storage for at least 1 source")
    }
}

impl core::error::Error for NoSourceSlots {}

/// Where the permits of a job queue are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct JobCounts {
    /// All permits.
    pub limit: u32,
    /// Permits that sources hold and have not yet claimed a record with.
    pub reserved: u32,
    /// Permits of records that were claimed and whose handlers have not begun.
    pub queued: u32,
    /// Reserved plus queued; this is compared with the limit (B-122).
    pub in_use: u32,
    /// Sources that wait for a permit.
    pub waiting: u32,
    /// The most permits in use at once in this epoch.
    pub peak_in_use: u32,
    /// How many waits began in this epoch (B-139).
    pub waits: u64,
    /// How long the waits took that ended in this epoch, in sum.
    pub waited: Duration,
}

/// The Application Job Queue of a host: permits, and the line of sources that wait for them.
///
/// Each operation is O(1), and so is each step of [`Grants`]. `now` must not go back; an earlier
/// one counts as the latest one seen.
///
/// ```
/// use zcore::{Instant, JobQueue, PermitLimit, Request, SourceSlot, Thresholds};
/// let limit = PermitLimit::new(1).unwrap();
/// let mut jobs = JobQueue::new([SourceSlot::EMPTY; 2], limit, Thresholds::DEFAULT).unwrap();
/// let (first, second) = (jobs.register().unwrap(), jobs.register().unwrap());
/// let now = Instant::EPOCH;
///
/// assert_eq!(jobs.request(first, 3, now), Request::Taken(1));
/// assert!(jobs.claim(first));
/// assert_eq!(jobs.request(second, 1, now), Request::Waiting);
/// assert!(!jobs.claim(second), "without a permit no record leaves its queue");
/// assert_eq!(jobs.start(now), Some(second));
/// assert!(jobs.claim(second));
/// ```
#[derive(Clone, Debug)]
pub struct JobQueue<S> {
    sources: Sources<S>,
    limit: PermitLimit,
    reserved: u32,
    queued: u32,
    marks: PressureMarks,
    pressure: Pressure,
    /// The pressure that [`JobQueue::take_pressure_change`] told last.
    told: Pressure,
    peak_in_use: u32,
    waits: u64,
    waited: Duration,
    clock: Instant,
}

impl<S: AsRef<[SourceSlot]> + AsMut<[SourceSlot]>> JobQueue<S> {
    /// A queue without sources, all of whose permits are free. Overwrites what `storage` holds.
    ///
    /// # Errors
    ///
    /// [`NoSourceSlots`] if `storage` is empty.
    pub fn new(
        storage: S,
        limit: PermitLimit,
        thresholds: Thresholds,
    ) -> Result<Self, NoSourceSlots> {
        if storage.as_ref().is_empty() {
            return Err(NoSourceSlots);
        }
        Ok(Self {
            sources: Sources::new(storage),
            limit,
            reserved: 0,
            queued: 0,
            marks: thresholds.marks(limit),
            pressure: Pressure::Running,
            told: Pressure::Running,
            peak_in_use: 0,
            waits: 0,
            waited: Duration::ZERO,
            clock: Instant::EPOCH,
        })
    }

    /// Adds a source that holds nothing and waits for nothing.
    ///
    /// # Errors
    ///
    /// [`SourcesFull`] if every slot has a source.
    pub fn register(&mut self) -> Result<SourceId, SourcesFull> {
        let source = self.sources.register();
        self.assert_invariants();
        source
    }

    /// Removes a source, as [`JobQueue::cancel`] and for good. Jobs that it queued keep their
    /// permits until their handlers start.
    pub fn unregister(&mut self, source: SourceId, now: Instant) -> Grants<'_, S> {
        self.surrender(source, now);
        self.sources.unregister(source);
        self.assert_invariants();
        Grants { jobs: self }
    }

    /// Asks for permits for `ready` records that could be received now.
    ///
    /// If nobody waits, at most [`PERMITS_AT_ONCE`] of the free permits are taken at once.
    /// Otherwise the source joins the line and is handed exactly one when it is the oldest: whoever
    /// has many records gets no more turns than whoever has one (BO-09). Even a permit that is
    /// free at this moment belongs to those in line (B-40).
    pub fn request(&mut self, source: SourceId, ready: u32, now: Instant) -> Request {
        let now = self.advance(now);
        let request = self.decide(source, ready);
        match request {
            Request::Taken(permits) => {
                self.sources.reserve(source, permits);
                self.set_reserved(self.reserved.saturating_add(permits));
            }
            Request::Waiting if !self.is_waiting(source) => {
                self.sources.wait(source, now);
                self.waits = self.waits.saturating_add(1);
            }
            Request::Waiting | Request::Ignored => {}
        }
        self.settle_pressure();
        self.assert_invariants();
        request
    }

    /// Uses one reserved permit up, because a record now leaves its Core queue. `false` if the
    /// source holds none: the record must stay (B-10).
    pub fn claim(&mut self, source: SourceId) -> bool {
        let claimed = self.sources.claim(source);
        if claimed {
            self.reserved = self.reserved.saturating_sub(1);
            self.queued = self.queued.saturating_add(1);
        }
        self.assert_invariants();
        claimed
    }

    /// Returns the permit of a job whose handler is about to begin, directly to the source that
    /// has waited longest (B-39). That source must be told; `None` if nobody waits.
    ///
    /// A return of more permits than jobs are queued changes nothing.
    #[must_use = "a source that is not told of its permit waits until the permit passes on"]
    pub fn start(&mut self, now: Instant) -> Option<SourceId> {
        self.advance(now);
        let granted = if self.give_back(1) == 1 { self.hand_over() } else { None };
        self.settle_pressure();
        self.assert_invariants();
        granted
    }

    /// As [`JobQueue::start`] for `jobs` handlers at once: a shard returns a batch of permits under
    /// one lock (D-12).
    pub fn start_many(&mut self, jobs: u32, now: Instant) -> Grants<'_, S> {
        self.advance(now);
        self.give_back(jobs);
        self.settle_pressure();
        self.assert_invariants();
        Grants { jobs: self }
    }

    /// As [`JobQueue::start`] for a record that needs no handler: control (B-45), or malformed
    /// (B-46). To be called right after the record was classified.
    #[must_use = "a source that is not told of its permit waits until the permit passes on"]
    pub fn classify_as_control(&mut self, now: Instant) -> Option<SourceId> {
        self.start(now)
    }

    /// Takes a source out of the line and gives back all permits that it holds unclaimed, each
    /// directly to the next in line (B-41).
    pub fn cancel(&mut self, source: SourceId, now: Instant) -> Grants<'_, S> {
        self.surrender(source, now);
        self.assert_invariants();
        Grants { jobs: self }
    }

    /// Passes on the permits that were handed over [`GRANT_TTL`] ago and never claimed. Their
    /// sources rejoin the line at its tail.
    ///
    /// Where nobody else waits, a source is handed its permit again, and told again.
    pub fn expire_grants(&mut self, now: Instant) -> Grants<'_, S> {
        let now = self.advance(now);
        while self.oldest_grant_due().is_some_and(|due| due <= now) {
            if !self.sources.revoke_oldest(now) {
                break;
            }
            self.reserved = self.reserved.saturating_sub(1);
            self.waits = self.waits.saturating_add(1);
        }
        self.settle_pressure();
        self.assert_invariants();
        Grants { jobs: self }
    }

    /// When to call [`JobQueue::expire_grants`] if nothing else happens first.
    ///
    /// Grants are given in the order of time, so that the first in line is due first.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.free() > 0 && self.sources.waiting() > 0 {
            // Somebody dropped `Grants` before their end.
            return Some(self.clock);
        }
        self.oldest_grant_due()
    }

    /// Whether the source was handed a permit and has not yet claimed it.
    pub fn has_grant(&self, source: SourceId) -> bool {
        self.sources.standing(source).is_some_and(|standing| standing.place == Place::Granted)
    }

    /// Whether the source stands in line.
    pub fn is_waiting(&self, source: SourceId) -> bool {
        self.sources.standing(source).is_some_and(|standing| standing.place == Place::Waiting)
    }

    /// Whether every returned permit must be reported at once, because somebody waits or receiving
    /// is paused (D-12).
    pub fn is_watched(&self) -> bool {
        self.sources.waiting() > 0 || self.pressure == Pressure::Paused
    }

    /// The pressure now.
    pub const fn pressure(&self) -> Pressure {
        self.pressure
    }

    /// The pressure, if it differs from the one told last. To be acted on once, at the end of a
    /// turn (D-13).
    pub fn take_pressure_change(&mut self) -> Option<Pressure> {
        if self.pressure == self.told {
            return None;
        }
        self.told = self.pressure;
        Some(self.pressure)
    }

    /// The counts at which the pressure changes.
    pub const fn pressure_marks(&self) -> PressureMarks {
        self.marks
    }

    /// Where the permits are.
    pub const fn counts(&self) -> JobCounts {
        JobCounts {
            limit: self.limit.get(),
            reserved: self.reserved,
            queued: self.queued,
            in_use: self.in_use(),
            waiting: self.sources.waiting(),
            peak_in_use: self.peak_in_use,
            waits: self.waits,
            waited: self.waited,
        }
    }

    /// Begins an epoch of measurement: the peak becomes the current value, counts and durations
    /// become zero, and what holds now stays (B-140).
    pub const fn begin_epoch(&mut self) {
        self.peak_in_use = self.in_use();
        self.waits = 0;
        self.waited = Duration::ZERO;
    }

    fn decide(&self, source: SourceId, ready: u32) -> Request {
        let Some(standing) = self.sources.standing(source) else { return Request::Ignored };
        if standing.place == Place::Waiting {
            return Request::Waiting;
        }
        if standing.reserved > 0 || ready == 0 {
            return Request::Ignored;
        }
        let free = self.free();
        if free == 0 || self.sources.waiting() > 0 {
            return Request::Waiting;
        }
        Request::Taken(free.min(ready).min(PERMITS_AT_ONCE))
    }

    /// Takes `jobs` out of the queued ones, and says how many that were.
    fn give_back(&mut self, jobs: u32) -> u32 {
        debug_assert!(jobs <= self.queued, "{jobs} permits returned of {} queued", self.queued);
        let returned = jobs.min(self.queued);
        self.queued = self.queued.saturating_sub(returned);
        returned
    }

    fn surrender(&mut self, source: SourceId, now: Instant) {
        let now = self.advance(now);
        let Some(surrendered) = self.sources.surrender(source, now) else { return };
        self.reserved = self.reserved.saturating_sub(surrendered.permits);
        self.waited = self.waited.saturating_add(surrendered.waited.unwrap_or(Duration::ZERO));
        self.settle_pressure();
    }

    fn hand_over(&mut self) -> Option<SourceId> {
        if self.free() == 0 {
            return None;
        }
        let (source, waited) = self.sources.grant_oldest(self.clock)?;
        self.set_reserved(self.reserved.saturating_add(1));
        self.waited = self.waited.saturating_add(waited);
        Some(source)
    }

    fn set_reserved(&mut self, reserved: u32) {
        self.reserved = reserved;
        self.peak_in_use = self.peak_in_use.max(self.in_use());
    }

    /// Judges the permits in use once every free one has gone to its waiter. Otherwise a permit
    /// that is returned and handed on would make the pressure flap.
    const fn settle_pressure(&mut self) {
        self.pressure = self.marks.after(self.pressure, self.in_use_when_settled());
    }

    const fn in_use_when_settled(&self) -> u32 {
        let wanted = self.in_use().saturating_add(self.sources.waiting());
        if wanted < self.limit.get() { wanted } else { self.limit.get() }
    }

    fn advance(&mut self, now: Instant) -> Instant {
        self.clock = self.clock.max(now);
        self.clock
    }

    fn oldest_grant_due(&self) -> Option<Instant> {
        self.sources.oldest_grant().map(|given| given.saturating_add(GRANT_TTL))
    }

    const fn in_use(&self) -> u32 {
        self.reserved.saturating_add(self.queued)
    }

    const fn free(&self) -> u32 {
        self.limit.get().saturating_sub(self.in_use())
    }

    fn assert_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        self.sources.assert_invariants(self.reserved);
        let (in_use, limit) = (self.in_use(), self.limit.get());
        debug_assert!(in_use <= limit, "{in_use} permits in use of {limit}");
        debug_assert!(in_use <= self.peak_in_use, "{in_use} above the peak {}", self.peak_in_use);
        let settled = self.in_use_when_settled();
        debug_assert!(
            self.pressure == self.marks.after(self.pressure, settled),
            "{:?} at {settled} permits with {:?}",
            self.pressure,
            self.marks
        );
    }
}

/// The sources to which a call handed permits, oldest waiter first. Each must be told.
///
/// Each step hands over one free permit, so no queue of grants needs a bound. Dropped early, the
/// rest is handed over by the next call that returns grants; [`JobQueue::next_deadline`] is then
/// due at once, and nobody else can take those permits.
#[must_use = "a source that is not told of its permit waits until the permit passes on"]
#[derive(Debug)]
pub struct Grants<'jobs, S> {
    jobs: &'jobs mut JobQueue<S>,
}

impl<S: AsRef<[SourceSlot]> + AsMut<[SourceSlot]>> Iterator for Grants<'_, S> {
    type Item = SourceId;

    fn next(&mut self) -> Option<SourceId> {
        let granted = self.jobs.hand_over();
        self.jobs.assert_invariants();
        granted
    }
}
