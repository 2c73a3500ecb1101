//! The second process, as the first one sees it.

use std::io::{self, BufReader};
use std::process::{Child, ChildStdin, Command as Program, Stdio};
use std::thread;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::control::{self, Command, Word};

/// The receiving process. It is killed when this value is dropped before it has ended.
#[derive(Debug)]
pub(super) struct Receiver {
    process: Child,
    commands: ChildStdin,
    words: mpsc::Receiver<Word>,
}

/// What came from the receiver.
#[derive(Debug)]
pub(super) enum Heard {
    Word(Word),
    /// Nothing came in time.
    Silence,
    /// The process has closed its end; nothing more will come.
    Gone,
}

impl Receiver {
    /// Starts this same program once more, as the receiver.
    ///
    /// # Errors
    ///
    /// When the process or the thread that listens to it cannot be started.
    pub(super) fn spawn() -> io::Result<Self> {
        let mut process = Program::new(std::env::current_exe()?)
            .arg("demo-receiver")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(commands), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(io::Error::other("the receiver's pipes are missing"));
        };
        let (sink, words) = mpsc::channel(WORDS_MAX);
        let listen = move || {
            control::read_all(BufReader::new(output), |word| {
                sink.blocking_send(word).map_err(drop)
            });
        };
        thread::Builder::new().name("zlink-receiver-words".into()).spawn(listen)?;
        Ok(Self { process, commands, words })
    }

    /// Tells the receiver what to do. That it is gone is heard by [`Self::hear`].
    pub(super) fn tell(&mut self, command: &Command) {
        drop(control::write(&mut self.commands, command));
    }

    /// Waits for a word until `deadline`.
    pub(super) async fn hear(&mut self, deadline: Instant) -> Heard {
        match timeout_at(deadline, self.words.recv()).await {
            Ok(Some(word)) => Heard::Word(word),
            Ok(None) => Heard::Gone,
            Err(_) => Heard::Silence,
        }
    }

    /// Waits for the end of a process that is [`Heard::Gone`] and says how it ended.
    pub(super) fn ended(&mut self) -> String {
        match self.process.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Six seconds of samples: more than this process is ever late.
const WORDS_MAX: usize = 64;
