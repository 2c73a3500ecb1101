//! A job queue that recomputes everything it is asked, and the world that compares both.

use std::collections::{BTreeMap, VecDeque};

use zcore::limits::{GRANT_TTL, PERMITS_AT_ONCE};
use zcore::{
    Instant, JobCounts, JobQueue, PermitLimit, Pressure, Request, SourceId, SourceSlot, Thresholds,
};

/// One call; sources are numbered from zero.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Request(u32, u32),
    Claim(u32),
    Start,
    StartMany(u32),
    Classify,
    Cancel(u32),
    Replace(u32),
    /// 5 ms pass, half of what a grant lasts, and overdue grants expire.
    Tick,
}

const TICK_NANOS: u64 = 5_000_000;

/// What a call answered.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Answer {
    request: Option<Request>,
    claimed: Option<bool>,
    granted: Vec<u32>,
}

/// Pauses and resumes as the default says, in the contract's own words.
#[derive(Clone, Debug)]
struct Model {
    limit: u32,
    now: u64,
    /// Who waits, oldest first, and since when.
    line: VecDeque<(u32, u64)>,
    /// Who was handed a permit and did not claim it, and when.
    grants: VecDeque<(u32, u64)>,
    /// What each source holds unclaimed, handed or taken.
    held: BTreeMap<u32, u32>,
    queued: u32,
    peak: u32,
    waits: u64,
    waited: u64,
    pressure: Pressure,
}

impl Model {
    const fn new(limit: u32) -> Self {
        Self {
            limit,
            now: 0,
            line: VecDeque::new(),
            grants: VecDeque::new(),
            held: BTreeMap::new(),
            queued: 0,
            peak: 0,
            waits: 0,
            waited: 0,
            pressure: Pressure::Running,
        }
    }

    fn in_use(&self) -> u32 {
        self.held.values().sum::<u32>() + self.queued
    }

    fn handle(&mut self, event: Event) -> Answer {
        let mut answer = Answer::default();
        match event {
            Event::Request(source, ready) => answer.request = Some(self.request(source, ready)),
            Event::Claim(source) => answer.claimed = Some(self.claim(source)),
            Event::Start | Event::Classify => self.queued -= 1,
            Event::StartMany(jobs) => self.queued -= jobs,
            Event::Cancel(source) | Event::Replace(source) => self.forget(source),
            Event::Tick => self.tick(),
        }
        while self.in_use() < self.limit {
            let Some((source, since)) = self.line.pop_front() else { break };
            self.waited += self.now - since;
            self.held.insert(source, 1);
            self.grants.push_back((source, self.now));
            answer.granted.push(source);
        }
        let in_use = self.in_use();
        self.peak = self.peak.max(in_use);
        if u64::from(in_use) * 100 >= u64::from(self.limit) * 80 {
            self.pressure = Pressure::Paused;
        } else if u64::from(in_use) * 100 <= u64::from(self.limit) * 60 {
            self.pressure = Pressure::Running;
        }
        answer
    }

    fn request(&mut self, source: u32, ready: u32) -> Request {
        if self.line.iter().any(|(waiting, _)| *waiting == source) {
            return Request::Waiting;
        }
        if self.held.contains_key(&source) || ready == 0 {
            return Request::Ignored;
        }
        let free = self.limit - self.in_use();
        if free > 0 && self.line.is_empty() {
            let taken = free.min(ready).min(PERMITS_AT_ONCE);
            self.held.insert(source, taken);
            return Request::Taken(taken);
        }
        self.line.push_back((source, self.now));
        self.waits += 1;
        Request::Waiting
    }

    fn claim(&mut self, source: u32) -> bool {
        let Some(held) = self.held.remove(&source) else { return false };
        if held > 1 {
            self.held.insert(source, held - 1);
        }
        self.grants.retain(|(granted, _)| *granted != source);
        self.queued += 1;
        true
    }

    fn forget(&mut self, source: u32) {
        let left = self.line.iter().find(|(waiting, _)| *waiting == source);
        self.waited += left.map_or(0, |(_, since)| self.now - since);
        self.line.retain(|(waiting, _)| *waiting != source);
        self.grants.retain(|(granted, _)| *granted != source);
        self.held.remove(&source);
    }

    fn tick(&mut self) {
        self.now += TICK_NANOS;
        while let Some((source, given)) = self.grants.front().copied() {
            if u128::from(self.now - given) < GRANT_TTL.as_nanos() {
                break;
            }
            self.grants.pop_front();
            self.held.remove(&source);
            self.line.push_back((source, self.now));
            self.waits += 1;
        }
    }

    fn counts(&self) -> JobCounts {
        JobCounts {
            limit: self.limit,
            reserved: self.held.values().sum(),
            queued: self.queued,
            in_use: self.in_use(),
            waiting: u32::try_from(self.line.len()).unwrap(),
            peak_in_use: self.peak,
            waits: self.waits,
            waited: core::time::Duration::from_nanos(self.waited),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let (_, given) = self.grants.front()?;
        Some(Instant::from_nanos(*given).saturating_add(GRANT_TTL))
    }
}

/// A job queue and its model, which have seen the same events.
#[derive(Clone, Debug)]
pub(crate) struct World<const N: usize> {
    jobs: JobQueue<[SourceSlot; N]>,
    ids: [SourceId; N],
    model: Model,
    /// The pressure that was told last.
    told: Pressure,
}

impl<const N: usize> World<N> {
    pub(crate) fn new(limit: u32) -> Self {
        let permits = PermitLimit::new(limit).unwrap();
        let mut jobs = JobQueue::new([SourceSlot::EMPTY; N], permits, Thresholds::DEFAULT).unwrap();
        let ids = core::array::from_fn(|_| jobs.register().unwrap());
        Self { jobs, ids, model: Model::new(limit), told: Pressure::Running }
    }

    /// How many jobs wait for their handlers; no more may be started.
    pub(crate) const fn queued(&self) -> u32 {
        self.model.queued
    }

    /// Does `event` to both and compares whatever can be seen.
    pub(crate) fn handle(&mut self, event: Event) -> Result<(), String> {
        let wanted = self.model.handle(event);
        let answer = self.apply(event);
        compare("answer", &answer, &wanted)?;
        compare("counts", &self.jobs.counts(), &self.model.counts())?;
        compare("deadline", &self.jobs.next_deadline(), &self.model.next_deadline())?;
        compare("pressure", &self.jobs.pressure(), &self.model.pressure)?;
        let change = (self.model.pressure != self.told).then_some(self.model.pressure);
        compare("change", &self.jobs.take_pressure_change(), &change)?;
        self.told = self.model.pressure;
        for source in 0..u32::try_from(N).unwrap() {
            let waits = self.model.line.iter().any(|(waiting, _)| *waiting == source);
            compare("waiting", &self.jobs.is_waiting(self.id(source)), &waits)?;
            let granted = self.model.grants.iter().any(|(granted, _)| *granted == source);
            compare("granted", &self.jobs.has_grant(self.id(source)), &granted)?;
        }
        let watched = !self.model.line.is_empty() || self.model.pressure == Pressure::Paused;
        compare("watched", &self.jobs.is_watched(), &watched)
    }

    fn apply(&mut self, event: Event) -> Answer {
        let now = Instant::from_nanos(self.model.now);
        let mut answer = Answer::default();
        let slots =
            |grants: &mut dyn Iterator<Item = SourceId>| grants.map(SourceId::slot).collect();
        match event {
            Event::Request(source, ready) => {
                answer.request = Some(self.jobs.request(self.id(source), ready, now));
            }
            Event::Claim(source) => answer.claimed = Some(self.jobs.claim(self.id(source))),
            Event::Start => answer.granted = slots(&mut self.jobs.start(now).into_iter()),
            Event::Classify => {
                answer.granted = slots(&mut self.jobs.classify_as_control(now).into_iter());
            }
            Event::StartMany(jobs) => answer.granted = slots(&mut self.jobs.start_many(jobs, now)),
            Event::Cancel(source) => {
                answer.granted = slots(&mut self.jobs.cancel(self.id(source), now));
            }
            Event::Replace(source) => {
                let old = self.id(source);
                answer.granted = slots(&mut self.jobs.unregister(old, now));
                let new = self.jobs.register().unwrap();
                assert_eq!(new.slot(), source, "the slot that became free is used next");
                assert_ne!(new, old, "a name is never given twice");
                self.ids[usize::try_from(source).unwrap()] = new;
            }
            Event::Tick => answer.granted = slots(&mut self.jobs.expire_grants(now)),
        }
        answer
    }

    fn id(&self, source: u32) -> SourceId {
        self.ids[usize::try_from(source).unwrap()]
    }
}

fn compare<T: core::fmt::Debug + PartialEq>(what: &str, got: &T, wanted: &T) -> Result<(), String> {
    if got == wanted {
        return Ok(());
    }
    Err(format!("{what} is {got:?}; the model says {wanted:?}"))
}
