//! The course of one run: warm-up, slow phase, fast phase, drain, ledgers.

use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use tokio::time::Instant;

use super::child::{Heard, Receiver};
use super::control::{Cause, Command, Failure, ReceiverFinal, ReceiverSetup, Word};
use super::hosts::SendingHost;
use super::ledger::{Comparison, Ledger};
use super::numbers::Numbers;
use super::options::{Output, REQUEST_TIMEOUT, Scenario};
use super::rss::{self, Growth};
use super::sender::{Producer, Production};
use super::timeline::{SenderSample, Timeline, approximate};
use super::verdict::Findings;
use super::words;
use crate::cli::print;

/// Everything that one run found out.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) numbers: Numbers,
    pub(super) findings: Findings,
    pub(super) timeline: Timeline,
}

/// Runs `scenario` with a second process.
///
/// # Errors
///
/// When one of the hosts could not be started. What goes wrong later is a finding.
pub(super) async fn run(scenario: &Scenario, output: Output) -> Result<Outcome, Failure> {
    let failed = |sentence: String| Failure { cause: Cause::Run, sentence };
    let payload_bytes = usize::try_from(scenario.payload.get()).unwrap_or(usize::MAX);
    let mut receiver = Receiver::spawn()
        .map_err(|error| failed(format!("the receiving process did not start: {error}")))?;
    receiver.tell(&Command::Listen(ReceiverSetup {
        payload_bytes,
        receive_hwm_bytes: scenario.receive_hwm.get(),
        max_jobs: scenario.max_jobs,
        producers: scenario.producers,
    }));
    let address = match receiver.hear(Instant::now() + START_LIMIT).await {
        Heard::Word(Word::Listening { address }) => address,
        Heard::Word(Word::Failed(failure)) => return Err(failure),
        Heard::Gone => {
            return Err(failed(format!("the receiving process ended: {}", receiver.ended())));
        }
        Heard::Silence | Heard::Word(_) => {
            return Err(failed("the receiving process did not say where it listens".into()));
        }
    };
    let host = SendingHost::start(scenario, &address)?;
    let producers = usize::try_from(scenario.producers).unwrap_or(usize::MAX);
    let production = Production::new(producers, payload_bytes)
        .map_err(|error| failed(format!("no histogram: {error}")))?;
    let mut course = Course {
        scenario,
        output,
        host: &host,
        production: &production,
        receiver,
        timeline: Timeline::new(),
        growth: Growth::default(),
        breakdowns: Vec::new(),
        last_word: None,
        gone: false,
        next_line: 1.0,
        begun: Instant::now(),
    };
    let sender = host.sender();
    let tasks = (0..scenario.producers).map(|id| production.spawn(&sender, id)).collect();
    course.warm_up().await;
    course.produce().await;
    let ledgers = course.drain(tasks).await;
    // The sender first: only then is it certain that nothing more comes to the receiver.
    host.shutdown().await;
    course.finish().await;
    Ok(course.outcome(&ledgers))
}

/// One run while it goes on.
struct Course<'a> {
    scenario: &'a Scenario,
    output: Output,
    host: &'a SendingHost,
    production: &'a Production,
    receiver: Receiver,
    timeline: Timeline,
    growth: Growth,
    breakdowns: Vec<String>,
    last_word: Option<Box<ReceiverFinal>>,
    gone: bool,
    /// The second at which the next line of progress is due.
    next_line: f64,
    begun: Instant,
}

/// Both sides' lists of what the sender counts as done.
#[derive(Debug, Default)]
struct Ledgers {
    sends: Vec<Ledger>,
    requests: Vec<Ledger>,
    missing: bool,
}

impl Course<'_> {
    /// Waits for the producers' first calls, then begins the slow phase.
    async fn warm_up(&mut self) {
        self.production.meet().await;
        self.receiver.tell(&Command::Slow);
        self.begun = Instant::now();
        self.sample();
        self.production.meet().await;
    }

    /// The slow and the fast phase.
    async fn produce(&mut self) {
        let fast = self.begun + self.scenario.slow_time();
        self.watch_until("slow", fast).await;
        self.timeline.phases.fast = Some(self.seconds());
        self.receiver.tell(&Command::Fast);
        self.watch_until("fast", self.begun + self.scenario.run_time).await;
        self.production.stop();
        self.timeline.phases.drain = Some(self.seconds());
    }

    async fn watch_until(&mut self, phase: &str, end: Instant) {
        while !self.gone && Instant::now() < end {
            self.watch(phase, end.min(Instant::now() + SAMPLE_EVERY)).await;
        }
    }

    /// Waits until every producer has ended and every accepted send was handled, or until nothing
    /// moves any more. Returns the sender's ledgers.
    async fn drain(&mut self, tasks: Vec<Producer>) -> Ledgers {
        let mut moved = Instant::now();
        let mut before = self.progress();
        loop {
            let ended =
                tasks.iter().all(|task| task.sends.is_finished() && task.requests.is_finished());
            let (accepted, handled, ..) = before;
            if ended && (self.gone || handled >= accepted) {
                break;
            }
            if moved.elapsed() > STALL_LIMIT {
                self.breakdowns.push(format!(
                    "nothing moved for {} s while the backlog drained",
                    STALL_LIMIT.as_secs()
                ));
                break;
            }
            self.watch("drain", Instant::now() + SAMPLE_EVERY).await;
            let now = self.progress();
            if now != before {
                moved = Instant::now();
                before = now;
            }
        }
        // A duplicate would come right behind the last message.
        let settled = Instant::now() + SETTLE;
        while !self.gone && Instant::now() < settled {
            self.watch("drain", settled).await;
        }
        collect(tasks).await
    }

    /// What changes as long as anything moves.
    fn progress(&self) -> (u64, u64, u64) {
        let tally = &self.production.tally;
        let accepted = tally.sends_accepted.load(Relaxed);
        let ended = tally.requests_ok.load(Relaxed)
            + tally.requests_failed.load(Relaxed)
            + tally.deadline_exceeded.load(Relaxed);
        (accepted, self.timeline.last.sends_handled, ended)
    }

    /// Asks for the receiver's ledgers.
    async fn finish(&mut self) {
        self.receiver.tell(&Command::Finish);
        let deadline = Instant::now() + FINISH_LIMIT;
        while !self.gone && self.last_word.is_none() {
            if !self.listen(deadline).await {
                self.breakdowns.push("the receiving process did not report in time".into());
                return;
            }
        }
    }

    /// Listens to the receiver until `until`, then samples this process.
    async fn watch(&mut self, phase: &str, until: Instant) {
        while !self.gone && self.listen(until).await {}
        if self.gone {
            self.production.stop();
            tokio::time::sleep_until(until).await;
        }
        let sample = self.sample();
        if self.output == Output::Words && sample.seconds >= self.next_line {
            self.next_line = sample.seconds.floor() + 1.0;
            print::note(&self.progress_line(phase, &sample));
        }
    }

    /// Notes how this process stands.
    fn sample(&mut self) -> SenderSample {
        let tally = &self.production.tally;
        let sample = SenderSample {
            seconds: self.seconds(),
            queue_bytes: self.host.levels().bytes,
            waiting: tally.waiting.load(Relaxed),
            sends_accepted: tally.sends_accepted.load(Relaxed),
            latency: tally.latency().take_interval(),
            rss_bytes: rss::resident(),
        };
        self.growth.sample(sample.rss_bytes);
        self.timeline.sender(&sample);
        sample
    }

    fn progress_line(&self, phase: &str, sample: &SenderSample) -> String {
        let fill = 100.0 * approximate(sample.queue_bytes)
            / approximate(self.host.levels().bound_bytes.max(1));
        let p50 = self.timeline.p50_ms.points().last().map(|point| point.value);
        format!(
            "{:>5.0} s  {phase:<5}  accepted {:>9}  handled {:>9}  waiting {:>4}  send queue \
             {fill:>3.0} %  permits {:>5}/{}  request p50 {}",
            sample.seconds.floor(),
            sample.sends_accepted,
            self.timeline.last.sends_handled,
            sample.waiting,
            self.timeline.last.permits,
            self.scenario.max_jobs,
            p50.map_or_else(|| "-".to_owned(), words::millis),
        )
    }

    /// Takes in one word. Returns false if none came until `deadline`.
    async fn listen(&mut self, deadline: Instant) -> bool {
        match self.receiver.hear(deadline).await {
            Heard::Silence => return false,
            Heard::Word(Word::Sample(sample)) => self.timeline.receiver(sample),
            Heard::Word(Word::Final(last)) => self.last_word = Some(last),
            Heard::Word(Word::Listening { .. }) => {}
            Heard::Word(Word::Failed(failure)) => self.breakdowns.push(failure.sentence),
            Heard::Gone => {
                self.gone = true;
                let status = self.receiver.ended();
                self.breakdowns.push(format!("the receiving process ended early: {status}"));
            }
        }
        true
    }

    fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn outcome(self, ledgers: &Ledgers) -> Outcome {
        let mut findings = Findings { breakdowns: self.breakdowns, ..Findings::default() };
        let tally = &self.production.tally;
        if let Some(error) = tally.first_error() {
            findings.breakdowns.push(format!("the first error of a call was: {error}"));
        }
        let comparable = self.last_word.is_some() && !ledgers.missing;
        let last = self.last_word.map_or_else(
            || ReceiverFinal {
                sends_handled: self.timeline.last.sends_handled,
                ..ReceiverFinal::default()
            },
            |last| *last,
        );
        let requests_failed = tally.requests_failed.load(Relaxed);
        if comparable {
            findings.sends = Comparison::of(&ledgers.sends, &last.sends);
            findings.requests = Comparison::of(&ledgers.requests, &last.requests);
            // A request that failed may still have been handled.
            let unknown = findings.requests.never_accepted.saturating_sub(requests_failed);
            findings.requests.never_accepted = unknown;
        }
        let both = |count: fn(&Comparison) -> u64| {
            comparable.then(|| count(&findings.sends) + count(&findings.requests))
        };
        let (levels, latency) = (self.host.levels(), tally.latency().whole());
        let numbers = Numbers {
            driver: self.host.driver(),
            sends_accepted: tally.sends_accepted.load(Relaxed),
            sends_handled: last.sends_handled,
            lost: both(|found| found.lost),
            duplicated: both(|found| found.duplicated),
            out_of_order: both(|found| found.out_of_order),
            sends_waited: tally.sends_waited.load(Relaxed),
            deadline_exceeded: tally.deadline_exceeded.load(Relaxed),
            other_errors: tally.other_errors.load(Relaxed) + last.damaged,
            requests_ok: tally.requests_ok.load(Relaxed),
            requests_ok_while_full: tally.requests_ok_while_full.load(Relaxed),
            requests_failed,
            request_p50_ms: latency.p50_ms,
            request_p99_ms: latency.p99_ms,
            send_queue_peak_bytes: levels.peak_bytes,
            send_queue_bound_bytes: levels.bound_bytes,
            receive_queue_peak_bytes: last.queue_peak_bytes,
            receive_queue_bound_bytes: last.queue_bound_bytes,
            permits_peak: last.permits_peak,
            permit_limit: last.permit_limit,
            sender_rss_growth_bytes: self.growth.bytes(),
            receiver_rss_growth_bytes: last.rss_growth_bytes,
        };
        Outcome { numbers, findings, timeline: self.timeline }
    }
}

/// Takes the ledgers of tasks that have ended; others are aborted and theirs are missing.
async fn collect(tasks: Vec<Producer>) -> Ledgers {
    let mut ledgers = Ledgers::default();
    for task in tasks {
        for (handle, side) in
            [(task.sends, &mut ledgers.sends), (task.requests, &mut ledgers.requests)]
        {
            if !handle.is_finished() {
                handle.abort();
            }
            match handle.await {
                Ok(ledger) => side.push(ledger),
                Err(_) => ledgers.missing = true,
            }
        }
    }
    ledgers
}

const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// Starting a host takes milliseconds; a loaded machine may take seconds.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A call may end as late as its own limit, and that is progress.
const STALL_LIMIT: Duration = REQUEST_TIMEOUT.saturating_add(Duration::from_secs(5));

/// How long duplicates may still come after everything was handled.
const SETTLE: Duration = Duration::from_millis(300);

const FINISH_LIMIT: Duration = Duration::from_secs(20);
