//! The real queues beside the model, compared in full after every step.

use core::fmt::Write as _;

use zcore::ByteCount;
use zcore::Charge;
use zcore::DeadlineSlot;
use zcore::Effect;
use zcore::Ending;
use zcore::Family;
use zcore::HighWaterMark;
use zcore::Instant;
use zcore::QueueId;
use zcore::Quota;
use zcore::SendQueue;
use zcore::Submission;
use zcore::WaitSpaceFull;
use zcore::WaiterSlot;
use zcore::WaiterToken;
use zcore::Waiters;

use crate::model::Answer;
use crate::model::End;
use crate::model::Limits;
use crate::model::Model;
use crate::model::QUEUES;
use crate::model::Queue;
use crate::model::Waiter;
use crate::model::family_index;

/// The largest record that a target takes.
pub(crate) const CHARGE_MAX: u64 = 300;

/// Carry out every effect.
pub(crate) const ALL: usize = usize::MAX;

/// Something that happens to the queues.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A call: submit, and wait `patience` nanoseconds if that is what it takes.
    Send { queue: usize, family: Family, charge: u64, patience: u64 },
    /// A control record enters.
    Control { queue: usize, charge: u64 },
    /// The caller that waits at `place` of the queue gives up.
    Withdraw { queue: usize, place: Place, taken: usize },
    /// The kernel took the oldest record.
    Sent { queue: usize, taken: usize },
    /// The option changes.
    Mark { queue: usize, mark: u64, taken: usize },
    /// The target or the host goes.
    End { queue: usize, ending: Ending, taken: usize },
    /// Time passes.
    Advance { nanos: u64 },
    /// The timer fires for the first waiter that is due.
    Expire { taken: usize },
    /// A token that names no waiter any more, or one of another queue, is withdrawn and expired.
    Misuse { queue: usize },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Oldest,
    Newest,
}

/// What has become of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    Waiting,
    Ended,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    queue: usize,
    token: WaiterToken,
    fate: Fate,
}

/// Both implementations, and what they must agree on.
#[derive(Clone, Debug)]
pub(crate) struct World<const SLOTS: usize> {
    real: [SendQueue; QUEUES],
    waiters: Waiters<[WaiterSlot; SLOTS], [DeadlineSlot; SLOTS]>,
    model: Model,
    now: u64,
    calls: Vec<Call>,
    /// What each queue may hold at most so far.
    bound: [u64; QUEUES],
}

impl<const SLOTS: usize> World<SLOTS> {
    /// Queues with these marks over a wait space with these limits.
    pub(crate) fn new(marks: [u64; QUEUES], limits: [Limits; Family::COUNT]) -> Self {
        let quotas = limits.map(|limit| {
            let operations = u32::try_from(limit.operations).unwrap();
            let share = u32::try_from(limit.for_one_queue).unwrap();
            let quota = Quota::with_default_share(operations, ByteCount::new(limit.bytes));
            quota.per_queue(share).unwrap()
        });
        let mut ids = (0..).map(QueueId::new);
        let real = marks.map(|mark| {
            let id = ids.next().unwrap();
            SendQueue::new(id, high_water_mark(mark), ByteCount::new(CHARGE_MAX))
        });
        let queues = marks.map(|mark| Queue {
            records: [].into(),
            waiters: [].into(),
            mark,
            charge_max: CHARGE_MAX,
            ended: None,
        });
        Self {
            real,
            waiters: Waiters::new([WaiterSlot::EMPTY; SLOTS], [DeadlineSlot::EMPTY; SLOTS], quotas),
            model: Model { queues, limits, slots: SLOTS },
            now: 0,
            calls: Vec::new(),
            bound: marks.map(|mark| mark.max(CHARGE_MAX)),
        }
    }

    /// Whether the event can happen now. The others would repeat a shorter history.
    pub(crate) fn can(&self, event: Event) -> bool {
        match event {
            Event::Send { .. } | Event::Control { .. } | Event::Advance { .. } => true,
            Event::Withdraw { queue, .. } => !self.model.queues[queue].waiters.is_empty(),
            Event::Sent { queue, .. } => !self.model.queues[queue].records.is_empty(),
            Event::Mark { queue, mark, .. } => self.model.queues[queue].mark != mark,
            Event::End { queue, ending, .. } => self.model.queues[queue].ended != Some(ending),
            Event::Expire { .. } => self.model.waiters().any(|waiter| waiter.deadline <= self.now),
            Event::Misuse { .. } => !self.calls.is_empty(),
        }
    }

    /// Lets the event happen to both and compares everything that can be seen.
    pub(crate) fn step(&mut self, event: Event) {
        match event {
            Event::Send { queue, family, charge, patience } => {
                self.send(queue, family, charge, patience);
            }
            Event::Control { queue, charge } => {
                let real = self.real[queue].submit_control(charge_of(charge));
                assert_eq!(real, submission(self.model.submit_control(queue, charge)), "control");
                if real == Submission::Admitted {
                    self.bound[queue] = self.bound[queue].saturating_add(charge);
                }
            }
            Event::Withdraw { queue, place, taken } => self.withdraw(queue, place, taken),
            Event::Sent { queue, taken } => self.sent(queue, taken),
            Event::Mark { queue, mark, taken } => {
                let (now, high) = (self.instant(), high_water_mark(mark));
                let effects = self.real[queue].set_mark(&mut self.waiters, high, now);
                let effects = effects.take(taken).collect();
                let expected = self.model.set_mark(queue, mark, self.now, taken);
                self.bound[queue] = self.bound[queue].max(mark);
                self.compare_effects(effects, &expected);
            }
            Event::End { queue, ending, taken } => {
                let now = self.instant();
                let effects = self.real[queue].end(&mut self.waiters, ending, now);
                let effects = effects.take(taken).collect();
                let expected = self.model.end(queue, ending, self.now, taken);
                self.compare_effects(effects, &expected);
            }
            Event::Advance { nanos } => self.now += nanos,
            Event::Expire { taken } => self.expire(taken),
            Event::Misuse { queue } => self.misuse(queue),
        }
        self.compare();
    }

    fn send(&mut self, queue: usize, family: Family, charge: u64, patience: u64) {
        let answer = self.model.submit(queue, charge);
        assert_eq!(self.real[queue].submit(charge_of(charge)), submission(answer), "submit");
        if answer != Answer::MustWait {
            return;
        }
        let deadline = self.now + patience;
        let token = self.real[queue].wait(
            &mut self.waiters,
            family,
            charge_of(charge),
            Instant::from_nanos(deadline),
        );
        let operation = self.calls.len();
        if self.model.wait(queue, Waiter { operation, family, charge, deadline }) {
            let token = token.expect("the model had space");
            let is_new = self.calls.iter().all(|call| call.token != token);
            assert!(is_new, "{token:?} names two calls");
            self.calls.push(Call { queue, token, fate: Fate::Waiting });
        } else {
            assert_eq!(token, Err(WaitSpaceFull), "the model had no space");
        }
    }

    fn sent(&mut self, queue: usize, taken: usize) {
        let now = self.instant();
        let charge = *self.model.queues[queue].records.front().unwrap();
        let effects = self.real[queue].sent(&mut self.waiters, charge_of(charge), now);
        let effects = effects.take(taken).collect();
        let expected = self.model.sent(queue, self.now, taken);
        self.compare_effects(effects, &expected);
    }

    fn withdraw(&mut self, queue: usize, place: Place, taken: usize) {
        let line = &self.model.queues[queue].waiters;
        let waiter = match place {
            Place::Oldest => line.front(),
            Place::Newest => line.back(),
        };
        let operation = waiter.unwrap().operation;
        let (now, token) = (self.instant(), self.calls[operation].token);
        let effects = self.real[queue].withdraw(&mut self.waiters, token, now);
        let effects = effects.expect("it waits").take(taken).collect();
        let expected = self.model.withdraw(queue, operation, self.now, taken);
        self.end_call(operation);
        self.compare_effects(effects, &expected);
    }

    fn expire(&mut self, taken: usize) {
        let now = self.instant();
        let (id, token) = self.waiters.first_due(now).expect("the model has one that is due");
        let live = |call: &Call| call.token == token && call.fate == Fate::Waiting;
        let operation = self.calls.iter().position(live).expect("it names a call that waits");
        let earliest = self.model.waiters().map(|waiter| waiter.deadline).min();
        let due = self.model.waiters().find(|waiter| waiter.operation == operation);
        assert_eq!(due.map(|waiter| waiter.deadline), earliest, "call {operation} is not first");
        let queue = self.calls[operation].queue;
        assert_eq!(usize::try_from(id.index()), Ok(queue), "call {operation} has another queue");
        let effects = self.real[queue].expire(&mut self.waiters, token, now);
        let effects = effects.take(taken).collect();
        let expected = self.model.expire(queue, operation, self.now, taken);
        self.compare_effects(effects, &expected);
    }

    /// Every token that does not name a waiter of this queue is refused and changes nothing.
    fn misuse(&mut self, queue: usize) {
        let now = self.instant();
        for call in &self.calls {
            if call.fate == Fate::Waiting && call.queue == queue {
                continue;
            }
            let withdrawn = self.real[queue].withdraw(&mut self.waiters, call.token, now);
            assert!(withdrawn.is_none(), "queue {queue} withdrew {call:?}");
            if self.model.queues[queue].ended.is_none() {
                let effects = self.real[queue].expire(&mut self.waiters, call.token, now);
                assert_eq!(effects.collect::<Vec<_>>(), [], "queue {queue} expired {call:?}");
            }
        }
    }

    #[track_caller]
    fn compare_effects(&mut self, effects: Vec<Effect>, ends: &[End]) {
        let expected = ends.iter().map(|end| match *end {
            End::Admitted(operation) => Effect::Admit(self.calls[operation].token),
            End::Expired(operation) => Effect::Expire(self.calls[operation].token),
            End::Refused(operation, ending) => Effect::Refuse(self.calls[operation].token, ending),
        });
        assert_eq!(effects, expected.collect::<Vec<_>>(), "real and model effects");
        for effect in effects {
            let (Effect::Admit(token) | Effect::Expire(token) | Effect::Refuse(token, _)) = effect;
            let operation = self.calls.iter().position(|call| call.token == token);
            self.end_call(operation.expect("an effect names a call"));
        }
    }

    #[track_caller]
    fn end_call(&mut self, operation: usize) {
        let call = &mut self.calls[operation];
        assert_eq!(call.fate, Fate::Waiting, "call {operation} ended twice");
        call.fate = Fate::Ended;
    }

    #[track_caller]
    fn compare(&self) {
        for (index, (real, model)) in self.real.iter().zip(&self.model.queues).enumerate() {
            let accounted = real.account().accounted().get();
            assert_eq!(accounted, model.accounted(), "bytes of queue {index}");
            assert!(
                accounted <= self.bound[index],
                "queue {index} holds {accounted} of at most {}",
                self.bound[index]
            );
            assert_eq!(
                usize::try_from(real.waiting()),
                Ok(model.waiters.len()),
                "waiters of queue {index}"
            );
            assert_eq!(
                real.is_waited_for(),
                !model.waiters.is_empty(),
                "is queue {index} waited for?"
            );
        }
        let mut held = [(0_u32, 0_u64); Family::COUNT];
        for waiter in self.model.waiters() {
            let (count, bytes) = &mut held[family_index(waiter.family)];
            *count += 1;
            *bytes += waiter.charge;
        }
        let real = Family::ALL
            .map(|family| (self.waiters.waiting(family), self.waiters.waiting_bytes(family).get()));
        assert_eq!(real, held, "waiters and their bytes, by family");
        let earliest = self.model.waiters().map(|waiter| waiter.deadline).min();
        assert_eq!(
            self.waiters.next_deadline(),
            earliest.map(Instant::from_nanos),
            "the next deadline"
        );
    }

    /// Takes every record and every waiter out; nothing may be left.
    pub(crate) fn drain(&mut self) {
        self.now = self.now.saturating_add(1 << 40);
        while self.can(Event::Expire { taken: ALL }) {
            self.step(Event::Expire { taken: ALL });
        }
        for queue in 0..self.real.len() {
            while self.can(Event::Sent { queue, taken: ALL }) {
                self.step(Event::Sent { queue, taken: ALL });
            }
            assert!(self.real[queue].account().accounted().is_zero(), "queue {queue} is drained");
        }
        let unended = self.calls.iter().position(|call| call.fate == Fate::Waiting);
        assert_eq!(unended, None, "a call never ended");
        for family in Family::ALL {
            assert_eq!(self.waiters.waiting(family), 0, "{}s are left", family.as_str());
        }
    }

    const fn instant(&self) -> Instant {
        Instant::from_nanos(self.now)
    }
}

/// The limits of one family, and none for the others.
pub(crate) fn limits(families: &[(Family, Limits)]) -> [Limits; Family::COUNT] {
    let mut all = [Limits { operations: 0, bytes: 0, for_one_queue: 0 }; Family::COUNT];
    for (family, limits) in families {
        all[family_index(*family)] = *limits;
    }
    all
}

/// A record that is charged exactly this.
#[track_caller]
pub(crate) const fn charge_of(charge: u64) -> Charge {
    let overhead = zcore::limits::RECORD_OVERHEAD.get();
    Charge::of_encoded(charge.checked_sub(overhead).expect("no record is charged less"))
}

const fn high_water_mark(mark: u64) -> HighWaterMark {
    match mark {
        u64::MAX => HighWaterMark::Unlimited,
        limit => HighWaterMark::Limit(ByteCount::new(limit)),
    }
}

const fn submission(answer: Answer) -> Submission {
    match answer {
        Answer::Admitted => Submission::Admitted,
        Answer::MustWait => Submission::MustWait,
        Answer::TooLarge => Submission::TooLarge,
        Answer::Ended(ending) => Submission::Ended(ending),
    }
}

/// Names the history in the output of a test that panics while this is alive.
pub(crate) struct Trace<'history>(pub(crate) &'history [Event], pub(crate) &'history str);

impl Drop for Trace<'_> {
    #[expect(clippy::print_stderr, reason = "the test harness shows it below the panic")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(events, replay) = self;
            let mut text = format!("after this history ({replay}):\n");
            for event in *events {
                writeln!(text, "    {event:?}").unwrap();
            }
            eprint!("{text}");
        }
    }
}
