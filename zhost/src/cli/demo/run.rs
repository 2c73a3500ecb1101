//! The course of one run: warm-up, slow phase, fast phase, drain, ledgers.

use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::sync::{Arc, OnceLock};

use tokio::time::Instant;
use zcore::limits::CONTROL_ALLOWANCE;

use super::child::Heard;
use super::control::{Cause, Command, Failure, ReceiverFinal, ReceiverSample, Word};
use super::hosts::SendingHost;
use super::incarnations::Incarnations;
use super::journal::Handled;
use super::ledger::{Comparison, Ledger};
use super::live::{Level, Screen, View};
use super::numbers::Numbers;
use super::options::{Output, REQUEST_TIMEOUT, Scenario};
use super::rss::{self, Growth};
use super::sender::{Producer, Production};
use super::series::Series;
use super::signals;
use super::timeline::{SenderSample, Timeline, whole};
use super::verdict::Findings;
use super::words;

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
    let mut signals = signals::catch()?;
    let failed = |sentence: String| Failure { cause: Cause::Run, sentence };
    let payload_bytes = usize::try_from(scenario.payload.get()).unwrap_or(usize::MAX);
    let receivers = Incarnations::start(scenario).await?;
    let host = SendingHost::start(scenario, receivers.address())?;
    let producers = usize::try_from(scenario.producers).unwrap_or(usize::MAX);
    let production = Production::new(producers, payload_bytes)
        .map_err(|error| failed(format!("no histogram: {error}")))?;
    let mut course = Course {
        scenario,
        screen: Screen::open(output),
        host: &host,
        production: &production,
        receivers,
        pace: Command::Slow,
        since: 0.0,
        asked: Arc::default(),
        timeline: Timeline::new(),
        growth: Growth::default(),
        breakdowns: Vec::new(),
        notes: Vec::new(),
        last_word: None,
        gone: false,
        begun: Instant::now(),
    };
    let (asked, producers) = (Arc::clone(&course.asked), Arc::clone(&production));
    tokio::spawn(async move {
        let name = signals.next().await;
        asked.get_or_init(|| name);
        producers.stop();
    });
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
    screen: Screen,
    host: &'a SendingHost,
    production: &'a Production,
    receivers: Incarnations,
    /// What the receiver was last told of its handlers.
    pace: Command,
    /// When the present receiver began, in seconds since the start.
    since: f64,
    /// The signal that asked for an early end.
    asked: Arc<OnceLock<&'static str>>,
    timeline: Timeline,
    growth: Growth,
    breakdowns: Vec<String>,
    notes: Vec<String>,
    last_word: Option<Box<ReceiverFinal>>,
    gone: bool,
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
        self.receivers.tell(&Command::Slow);
        self.begun = Instant::now();
        self.sample();
        self.production.meet().await;
    }

    /// The slow and the fast phase.
    async fn produce(&mut self) {
        let fast = self.begun + self.scenario.slow_time();
        self.watch_until("slow", fast).await;
        self.timeline.phases.fast = Some(self.seconds());
        self.pace = Command::Fast;
        self.receivers.tell(&Command::Fast);
        self.watch_until("fast", self.begun + self.scenario.run_time).await;
        self.production.stop();
        self.timeline.phases.drain = Some(self.seconds());
    }

    async fn watch_until(&mut self, phase: &'static str, end: Instant) {
        while !self.gone && self.asked.get().is_none() && Instant::now() < end {
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
            let last = &self.timeline.last;
            let is_idle = last.seconds > self.since && last.queue_bytes == 0 && last.permits == 0;
            let is_empty = ended && is_idle && self.host.levels().bytes == 0;
            if is_empty && self.receivers.deaths() > 0 && moved.elapsed() > LOSS_LIMIT {
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
        self.receivers.tell(&Command::Finish);
        let deadline = Instant::now() + FINISH_LIMIT;
        while !self.gone && self.last_word.is_none() {
            if !self.listen(deadline).await {
                self.breakdowns.push("the receiving process did not report in time".into());
                return;
            }
        }
    }

    /// Listens to the receiver until `until`, then samples this process.
    async fn watch(&mut self, phase: &'static str, until: Instant) {
        while !self.gone && self.listen(until).await {}
        if self.gone {
            self.production.stop();
            tokio::time::sleep_until(until).await;
        }
        let sample = self.sample();
        let view = self.view(phase, &sample);
        self.screen.show(&view);
        self.log(phase);
    }

    /// Tells whoever follows the run from outside how far the overload has come.
    fn log(&self, phase: &'static str) {
        let (levels, last, tally) =
            (self.host.levels(), &self.timeline.last, &self.production.tally);
        tracing::debug!(
            target: "zlink.demo",
            phase,
            receivers = self.receivers.deaths() + 1,
            send_queue_peak_bytes = levels.peak_bytes,
            receive_queue_peak_bytes = last.queue_peak_bytes,
            permits_peak = last.permits_peak,
            sends_waited = tally.sends_waited.load(Relaxed),
            requests_ok_while_full = tally.requests_ok_while_full.load(Relaxed),
            "how the run stands"
        );
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

    fn view(&self, phase: &'static str, sample: &SenderSample) -> View {
        let levels = self.host.levels();
        let last = &self.timeline.last;
        let receive_bound = self.scenario.receive_hwm.get().saturating_add(CONTROL_ALLOWANCE.get());
        View {
            phase,
            seconds: sample.seconds,
            accepted: sample.sends_accepted,
            handled: last.sends_handled,
            waiting: sample.waiting,
            send_queue: Level { now: sample.queue_bytes, bound: levels.bound_bytes },
            receive_queue: Level { now: last.queue_bytes, bound: receive_bound },
            permits: Level { now: last.permits, bound: self.scenario.max_jobs.into() },
            p50_ms: self.timeline.p50_ms.points().last().map(|point| point.value),
            accepted_rates: rates(&self.timeline.accepted_per_second),
            handled_rates: rates(&self.timeline.handled_per_second),
        }
    }

    /// Takes in one word. Returns false if none came until `deadline`.
    async fn listen(&mut self, deadline: Instant) -> bool {
        match self.receivers.hear(deadline).await {
            Heard::Silence => return false,
            Heard::Word(Word::Sample(sample)) => self.timeline.receiver(ReceiverSample {
                seconds: self.since + sample.seconds,
                sends_handled: self.receivers.fallen().sends_done + sample.sends_handled,
                ..sample
            }),
            Heard::Word(Word::Final(last)) => self.last_word = Some(last),
            Heard::Word(Word::Listening { .. }) => {}
            Heard::Word(Word::Failed(failure)) => self.breakdowns.push(failure.sentence),
            Heard::Gone => self.receiver_gone().await,
        }
        true
    }

    /// Follows a receiver that died with another, if that was asked for.
    async fn receiver_gone(&mut self) {
        let status = self.receivers.ended();
        if !self.receivers.goes_on() {
            self.gone = true;
            self.breakdowns.push(format!("the receiving process ended early: {status}"));
            return;
        }
        if let Err(failure) = self.receivers.follow().await {
            self.gone = true;
            self.breakdowns.push(failure.sentence);
            return;
        }
        self.since = self.seconds();
        // Nothing is known yet of the one that follows.
        self.timeline.last = ReceiverSample {
            sends_handled: self.receivers.fallen().sends_done,
            ..ReceiverSample::default()
        };
        self.receivers.tell(&Command::Slow);
        if self.pace == Command::Fast {
            self.receivers.tell(&Command::Fast);
        }
        self.notes.push(format!(
            "the receiving process ended ({status}) after {:.1} s; another took over its address",
            self.since
        ));
    }

    /// What is forgiven because receivers died, and what to say about it.
    fn forgive(&self, findings: &mut Findings) {
        let deaths = u64::from(self.receivers.deaths());
        if let Some(signal) = self.asked.get() {
            findings.notes.push(format!("{signal} ended the run early; what was accepted drained"));
        }
        if deaths == 0 {
            return;
        }
        findings.forgiven_losses = deaths * self.scenario.losable();
        let errors = self.production.tally.other_errors.load(Relaxed);
        findings.forgiven_errors = errors.min(deaths * u64::from(self.scenario.producers));
        findings.notes.push(format!(
            "with --reconnect up to {} messages may be lost with a receiver that is killed: those \
             in flight, in its queue and with its handlers; requests that waited for its answer \
             may fail",
            words::grouped(self.scenario.losable())
        ));
    }

    fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn outcome(self, ledgers: &Ledgers) -> Outcome {
        let mut findings = Findings::default();
        self.forgive(&mut findings);
        findings.notes.splice(0..0, self.notes);
        findings.breakdowns = self.breakdowns;
        let tally = &self.production.tally;
        if let Some(error) = tally.first_error() {
            let sentence = format!("the first error of a call was: {error}");
            if findings.forgiven_errors > 0 {
                findings.notes.push(sentence);
            } else {
                findings.breakdowns.push(sentence);
            }
        }
        findings.answered_while_full =
            self.last_word.as_ref().map_or(0, |last| last.answered_while_full);
        let comparable = self.last_word.is_some() && !ledgers.missing;
        let mut handled = self.receivers.fallen().clone();
        let last = self.last_word.map_or_else(
            || ReceiverFinal {
                sends_handled: self.timeline.last.sends_handled.saturating_sub(handled.sends_done),
                ..ReceiverFinal::default()
            },
            |last| *last,
        );
        handled.append(&Handled {
            sends_done: last.sends_handled,
            sends: last.sends,
            requests: last.requests,
        });
        let requests_failed = tally.requests_failed.load(Relaxed);
        if comparable {
            findings.sends = Comparison::of(&ledgers.sends, &handled.sends);
            findings.requests = Comparison::of(&ledgers.requests, &handled.requests);
            // A request that failed may still have been handled.
            let unknown = findings.requests.never_accepted.saturating_sub(requests_failed);
            findings.requests.never_accepted = unknown;
        }
        let both = |count: fn(&Comparison) -> u64| {
            comparable.then(|| count(&findings.sends) + count(&findings.requests))
        };
        let (driver, driver_reason) = self.host.driver();
        let (levels, latency) = (self.host.levels(), tally.latency().whole());
        let numbers = Numbers {
            driver,
            driver_reason,
            sends_accepted: tally.sends_accepted.load(Relaxed),
            sends_handled: handled.sends_done,
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

/// The latest rates, as whole numbers.
fn rates(series: &Series) -> Vec<u64> {
    let points = series.points();
    let from = points.len().saturating_sub(RATES_SHOWN);
    let latest = points.get(from..).unwrap_or_default();
    latest.iter().map(|point| whole(point.value)).collect()
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

/// More columns than a terminal has.
const RATES_SHOWN: usize = 500;

const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// Starting a host takes milliseconds; a machine that is busy with other things may take seconds.
/// This limit and the next ones only turn a hang into a failure.
pub(super) const START_LIMIT: Duration = Duration::from_mins(1);

/// A call may end as late as its own limit, and that is progress.
const STALL_LIMIT: Duration = REQUEST_TIMEOUT.saturating_add(Duration::from_mins(1));

const FINISH_LIMIT: Duration = Duration::from_mins(1);

/// How long duplicates may still come after everything was handled.
const SETTLE: Duration = Duration::from_millis(300);

/// How long something lost may still turn up when all queues are empty. Longer than a busy machine
/// keeps the receiver from taking what the kernel holds for it.
const LOSS_LIMIT: Duration = Duration::from_secs(5);
