//! The receiving process: a slow, then a fast handler, and a ledger of what they handled.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::{fs, io};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

use super::control::{
    self, Cause, Command, Failure, ReceiverFinal, ReceiverSample, ReceiverSetup, Word,
};
use super::hosts::ReceivingHost;
use super::journal::{Entry, Journal};
use super::ledger::Ledger;
use super::message::{Answer, Filler, Permits, Stamp};
use super::options::SLOW_HANDLER;
use super::rss::{self, Growth};
use super::{runtime, signals};
use crate::cli::exit::Exit;
use crate::cli::print;

/// Runs the receiving process until it is told to finish or nobody tells it anything any more.
pub(crate) fn receive() -> Exit {
    let (sink, commands) = mpsc::channel(COMMANDS_MAX);
    let listen = move || {
        control::read_all(io::stdin().lock(), |command| sink.blocking_send(command).map_err(drop));
    };
    let served = thread::Builder::new()
        .name("zlink-commands".into())
        .spawn(listen)
        .and_then(|_| runtime())
        .map_err(|error| Failure { cause: Cause::Run, sentence: error.to_string() })
        .and_then(|runtime| runtime.block_on(serve(commands)));
    match served {
        Ok(()) => Exit::Pass,
        Err(failure) => {
            say(&Word::Failed(failure));
            Exit::Fail
        }
    }
}

async fn serve(mut commands: mpsc::Receiver<Command>) -> Result<(), Failure> {
    let Some(Command::Listen(setup)) = commands.recv().await else { return Ok(()) };
    // A terminal or a service manager signals both processes. This one ends when the sender has
    // drained and says so, or is gone.
    let _ignored = signals::catch()?;
    let work = Arc::new(Work::new(&setup)?);
    let host = ReceivingHost::start(&setup, &work)?;
    say(&Word::Listening { address: host.address() });
    let mut watch = Watch { host: &host, work: &work, growth: Growth::default(), since: None };
    let mut next = Instant::now() + SAMPLE_EVERY;
    loop {
        match timeout_at(next, commands.recv()).await {
            Err(_) => {
                watch.sample();
                next += SAMPLE_EVERY;
            }
            Ok(Some(Command::Slow)) => {
                watch.begin();
                work.pace_slow.store(true, Relaxed);
            }
            Ok(Some(Command::Fast)) => work.pace_slow.store(false, Relaxed),
            Ok(Some(Command::Finish)) => {
                say(&Word::Final(Box::new(watch.finish())));
                break;
            }
            // The sender is gone, or talks nonsense.
            Ok(None | Some(Command::Listen(_))) => {
                host.shutdown().await;
                let handled = work.sends_handled.load(Relaxed);
                let sentence =
                    format!("the sending process ended early; {handled} sends were handled");
                if let Some(journal) = &setup.journal {
                    drop(fs::remove_file(journal));
                }
                print::note(&format!("zlink demo: {sentence}"));
                return Err(Failure { cause: Cause::Run, sentence });
            }
        }
    }
    host.shutdown().await;
    Ok(())
}

/// What the handlers do and note.
#[derive(Debug)]
pub(super) struct Work {
    filler: Filler,
    pace_slow: AtomicBool,
    sends_handled: AtomicU64,
    damaged: AtomicU64,
    answered_while_full: AtomicU64,
    ledgers: Mutex<Ledgers>,
    journal: Option<Journal>,
}

#[derive(Debug)]
struct Ledgers {
    sends: Vec<Ledger>,
    requests: Vec<Ledger>,
}

impl Work {
    fn new(setup: &ReceiverSetup) -> Result<Self, Failure> {
        let journal = setup.journal.as_deref().map(Journal::open).transpose()?;
        let ledgers = || (0..setup.producers).map(|_| Ledger::new()).collect();
        Ok(Self {
            filler: Filler::new(setup.payload_bytes),
            pace_slow: AtomicBool::new(false),
            sends_handled: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            answered_while_full: AtomicU64::new(0),
            ledgers: Mutex::new(Ledgers { sends: ledgers(), requests: ledgers() }),
            journal,
        })
    }

    /// Handles one one-way message. Its place in the ledger is that of this future's first poll.
    pub(super) async fn place(&self, payload: &[u8]) {
        let stamp = self.note(payload, Entry::SendBegun);
        self.take_time().await;
        self.sends_handled.fetch_add(1, Relaxed);
        if let (Some(journal), Some(stamp)) = (&self.journal, stamp) {
            journal.write(Entry::SendEnded, stamp);
        }
    }

    /// Handles one request. `permits` is asked when the work is done, right before the answer.
    ///
    /// # Errors
    ///
    /// For a message that did not arrive as it was sent: there is nothing to answer.
    pub(super) async fn quote(
        &self,
        payload: &[u8],
        permits: impl FnOnce() -> Permits + Send,
    ) -> Result<Bytes, Damaged> {
        let stamp = self.note(payload, Entry::RequestBegun);
        self.take_time().await;
        let stamp = stamp.ok_or(Damaged)?;
        let permits = permits();
        if permits == Permits::Exhausted {
            self.answered_while_full.fetch_add(1, Relaxed);
        }
        Ok(Answer { stamp, permits }.encode())
    }

    fn note(&self, payload: &[u8], entry: Entry) -> Option<Stamp> {
        let stamp = self.filler.read(payload).and_then(|stamp| {
            let mut ledgers = self.ledgers();
            let producer = usize::try_from(stamp.producer).ok()?;
            let side = match entry {
                Entry::RequestBegun => &mut ledgers.requests,
                Entry::SendBegun | Entry::SendEnded => &mut ledgers.sends,
            };
            side.get_mut(producer)?.record(stamp.number);
            // Under the lock, so that the journal has the ledger's order.
            if let Some(journal) = &self.journal {
                journal.write(entry, stamp);
            }
            Some(stamp)
        });
        if stamp.is_none() {
            self.damaged.fetch_add(1, Relaxed);
        }
        stamp
    }

    async fn take_time(&self) {
        if self.pace_slow.load(Relaxed) {
            sleep(SLOW_HANDLER).await;
        }
    }

    fn ledgers(&self) -> MutexGuard<'_, Ledgers> {
        self.ledgers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message that did not arrive as it was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Damaged;

/// The receiver's view of itself over time.
struct Watch<'a> {
    host: &'a ReceivingHost,
    work: &'a Work,
    growth: Growth,
    since: Option<Instant>,
}

impl Watch<'_> {
    /// The warm-up is over: memory counts from here.
    fn begin(&mut self) {
        self.since = Some(Instant::now());
        self.sample();
    }

    fn sample(&mut self) {
        let Some(since) = self.since else { return };
        let rss_bytes = rss::resident();
        self.growth.sample(rss_bytes);
        let levels = self.host.levels();
        say(&Word::Sample(ReceiverSample {
            seconds: since.elapsed().as_secs_f64(),
            queue_bytes: levels.queue.bytes,
            queue_peak_bytes: levels.queue.peak_bytes,
            permits: levels.permits,
            permits_peak: levels.permits_peak,
            sends_handled: self.work.sends_handled.load(Relaxed),
            rss_bytes,
        }));
    }

    fn finish(&mut self) -> ReceiverFinal {
        let levels = self.host.levels();
        let ledgers = self.work.ledgers();
        ReceiverFinal {
            sends_handled: self.work.sends_handled.load(Relaxed),
            damaged: self.work.damaged.load(Relaxed),
            queue_peak_bytes: levels.queue.peak_bytes,
            queue_bound_bytes: levels.queue.bound_bytes,
            permits_peak: levels.permits_peak,
            permit_limit: levels.permit_limit,
            rss_growth_bytes: self.growth.bytes(),
            answered_while_full: self.work.answered_while_full.load(Relaxed),
            sends: ledgers.sends.clone(),
            requests: ledgers.requests.clone(),
        }
    }
}

/// A sender that no longer listens also closes its end of the commands, and that is heard.
fn say(word: &Word) {
    drop(control::write(&mut io::stdout().lock(), word));
}

const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// Four commands make a run.
const COMMANDS_MAX: usize = 4;
