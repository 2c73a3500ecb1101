//! The receiving side over time: one process, or with `--reconnect` one after another at the same
//! address.
//!
//! A process that was killed takes with it what it held. With `--reconnect` each receiver keeps a
//! journal, so both ledgers are complete all the same and every message is accounted for: handled
//! by one of the receivers, or lost with one that died. Duplicates and disorder stay forbidden,
//! also from one receiver to the next. Loss is forgiven up to what a receiver and its connection
//! can hold ([`Scenario::losable`]), once for each receiver that died; so are as many errors of
//! requests as may have waited for an answer. Levels and memory are those of the last receiver.

use core::time::Duration;

use tokio::time::{Instant, sleep};

use super::child::{Heard, Receiver};
use super::control::{Cause, Command, Failure, ReceiverSetup, Word};
use super::journal::{Handled, JournalFile};
use super::options::Scenario;
use super::run::START_LIMIT;

/// All receivers of a run.
#[derive(Debug)]
pub(super) struct Incarnations {
    setup: ReceiverSetup,
    current: Receiver,
    journal: Option<JournalFile>,
    producers: usize,
    deaths: u32,
    /// What those handled that died.
    fallen: Handled,
}

impl Incarnations {
    /// Starts the first receiver and waits until it listens.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub(super) async fn start(scenario: &Scenario) -> Result<Self, Failure> {
        let mut setup = ReceiverSetup {
            payload_bytes: usize::try_from(scenario.payload.get()).unwrap_or(usize::MAX),
            receive_hwm_bytes: scenario.receive_hwm.get(),
            max_jobs: scenario.max_jobs,
            producers: scenario.producers,
            driver: scenario.driver,
            address: "127.0.0.1:0".to_owned(),
            journal: None,
        };
        let journal = scenario.reconnect.then(journal).transpose()?;
        setup.journal = journal.as_ref().map(|file| file.path().to_owned());
        let (current, address) = listening(&setup).await?;
        setup.address = address;
        let producers = usize::try_from(scenario.producers).unwrap_or(usize::MAX);
        let fallen = Handled::new(producers);
        Ok(Self { setup, current, journal, producers, deaths: 0, fallen })
    }

    /// Where every receiver listens.
    pub(super) fn address(&self) -> &str {
        &self.setup.address
    }

    /// How many receivers died and were followed by another.
    pub(super) const fn deaths(&self) -> u32 {
        self.deaths
    }

    /// What those handled that died.
    pub(super) const fn fallen(&self) -> &Handled {
        &self.fallen
    }

    /// Whether a receiver that died is followed by another.
    pub(super) const fn goes_on(&self) -> bool {
        self.journal.is_some() && self.deaths < DEATHS_MAX
    }

    /// Tells the present receiver what to do.
    pub(super) fn tell(&mut self, command: &Command) {
        self.current.tell(command);
    }

    /// Waits for a word of the present receiver.
    pub(super) async fn hear(&mut self, deadline: Instant) -> Heard {
        self.current.hear(deadline).await
    }

    /// How the present receiver, which is gone, ended.
    pub(super) fn ended(&mut self) -> String {
        self.current.ended()
    }

    /// Follows the present receiver, which has ended, with another at the same address.
    ///
    /// # Errors
    ///
    /// When what it handled cannot be read, or the next one does not start.
    pub(super) async fn follow(&mut self) -> Result<(), Failure> {
        if let Some(file) = self.journal.take() {
            let handled = file.read(self.producers).map_err(|error| {
                broken(format!("the journal of the receiver that died cannot be read: {error}"))
            })?;
            self.fallen.append(&handled);
        }
        self.deaths += 1;
        let file = journal()?;
        self.setup.journal = Some(file.path().to_owned());
        self.journal = Some(file);
        // The kernel closes the sockets of a killed ring a moment after the process has ended;
        // until then its address is in use.
        let deadline = Instant::now() + ADDRESS_LIMIT;
        loop {
            match listening(&self.setup).await {
                Ok((receiver, _)) => {
                    self.current = receiver;
                    return Ok(());
                }
                Err(failure) if Instant::now() >= deadline => return Err(failure),
                Err(_) => sleep(ADDRESS_RETRY).await,
            }
        }
    }
}

/// Starts a receiver and waits until it says where it listens.
async fn listening(setup: &ReceiverSetup) -> Result<(Receiver, String), Failure> {
    let mut receiver = Receiver::spawn()
        .map_err(|error| broken(format!("the receiving process did not start: {error}")))?;
    receiver.tell(&Command::Listen(setup.clone()));
    match receiver.hear(Instant::now() + START_LIMIT).await {
        Heard::Word(Word::Listening { address }) => Ok((receiver, address)),
        Heard::Word(Word::Failed(failure)) => Err(failure),
        Heard::Gone => Err(broken(format!("the receiving process ended: {}", receiver.ended()))),
        Heard::Silence | Heard::Word(_) => {
            Err(broken("the receiving process did not say where it listens".to_owned()))
        }
    }
}

fn journal() -> Result<JournalFile, Failure> {
    JournalFile::create()
        .map_err(|error| broken(format!("the receiver's journal cannot be made: {error}")))
}

const fn broken(sentence: String) -> Failure {
    Failure { cause: Cause::Run, sentence }
}

/// The kernel closes a dead ring's sockets in a thread of its own, which a busy machine may keep
/// waiting.
const ADDRESS_LIMIT: Duration = Duration::from_secs(20);
const ADDRESS_RETRY: Duration = Duration::from_millis(100);

/// A receiver that keeps dying is a failure, not a scenario.
const DEATHS_MAX: u32 = 16;
