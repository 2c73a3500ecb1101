//! What the two processes say to each other: one JSON object on each line of the receiver's
//! standard input and output.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::ledger::Ledger;
use crate::cli::values::Driver;

/// From the sender to the receiver.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Command {
    /// Start the receiving host; always the first command.
    Listen(ReceiverSetup),
    /// The warm-up is over: from now on handlers are slow and samples are sent.
    Slow,
    /// From now on handlers return at once.
    Fast,
    /// Nothing more will come: send the ledgers and end.
    Finish,
}

/// The receiving host's part of the scenario.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct ReceiverSetup {
    pub(super) payload_bytes: usize,
    pub(super) receive_hwm_bytes: u64,
    pub(super) max_jobs: u32,
    pub(super) producers: u32,
    pub(super) driver: Driver,
    /// Where to listen.
    pub(super) address: String,
    /// Where to write down what is handled, so that it outlives the process.
    pub(super) journal: Option<PathBuf>,
}

/// From the receiver to the sender.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    /// The receiving host takes connections here.
    Listening { address: String },
    /// How the receiver stands; ten times a second.
    Sample(ReceiverSample),
    /// Everything the receiver knows; its last word.
    Final(Box<ReceiverFinal>),
    /// The receiver cannot go on; its last word.
    Failed(Failure),
}

/// Why a host could not be started or a process could not go on.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Failure {
    pub(super) cause: Cause,
    /// What is wrong and what to do, as one text.
    pub(super) sentence: String,
}

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Cause {
    /// An option's value was refused by the host.
    Usage,
    /// This machine lacks something.
    Environment,
    /// Anything else.
    Run,
}

/// How the receiver stands.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct ReceiverSample {
    /// Since `Slow`.
    pub(super) seconds: f64,
    pub(super) queue_bytes: u64,
    pub(super) queue_peak_bytes: u64,
    pub(super) permits: u64,
    pub(super) permits_peak: u64,
    /// One-way messages whose handler ran to its end.
    pub(super) sends_handled: u64,
    pub(super) rss_bytes: u64,
}

/// Everything the receiver knows at the end.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct ReceiverFinal {
    pub(super) sends_handled: u64,
    /// Messages that did not arrive as they were sent.
    pub(super) damaged: u64,
    pub(super) queue_peak_bytes: u64,
    pub(super) queue_bound_bytes: u64,
    pub(super) permits_peak: u64,
    pub(super) permit_limit: u64,
    pub(super) rss_growth_bytes: u64,
    /// Requests whose handler found, right before its answer, that no permit was left.
    pub(super) answered_while_full: u64,
    /// For each producer, in the order in which handlers began.
    pub(super) sends: Vec<Ledger>,
    pub(super) requests: Vec<Ledger>,
}

/// Writes `message` as one line.
///
/// # Errors
///
/// When the other process no longer reads.
pub(super) fn write(out: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// Reads lines until the other process closes its end, says something that is not understood, or
/// nobody wants to hear more.
pub(super) fn read_all<M: DeserializeOwned>(
    input: impl BufRead,
    mut take: impl FnMut(M) -> Result<(), ()>,
) {
    for line in input.lines() {
        let Ok(line) = line else { return };
        let Ok(message) = serde_json::from_str(&line) else { return };
        if take(message).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_as_they_were() {
        let address = "127.0.0.1:4000".to_owned();
        let words = [
            Word::Listening { address },
            Word::Sample(ReceiverSample { seconds: 0.5, queue_bytes: 7, ..Default::default() }),
            Word::Final(Box::default()),
            Word::Failed(Failure { cause: Cause::Environment, sentence: "no ring".into() }),
        ];
        let mut lines = Vec::new();
        for word in &words {
            write(&mut lines, word).unwrap();
        }
        let mut heard = Vec::new();
        read_all(lines.as_slice(), |word: Word| {
            heard.push(word);
            Ok(())
        });
        assert_eq!(heard, words);
    }

    #[test]
    fn what_is_not_understood_ends_the_conversation() {
        let mut heard = Vec::new();
        read_all(&b"\"slow\"\nhello\n\"fast\"\n"[..], |command: Command| {
            heard.push(command);
            Ok(())
        });
        assert_eq!(heard, [Command::Slow]);
    }
}
