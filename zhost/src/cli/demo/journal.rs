//! What a receiver writes down as it goes, so that its ledger outlives `kill -9`.
//!
//! One entry is one `write` of 13 bytes to a file: what the process had written before it was
//! killed is in the kernel's hands and can be read afterwards.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use tempfile::{Builder, TempPath};

use super::control::{Cause, Failure};
use super::ledger::Ledger;
use super::message::Stamp;

/// What an entry tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Entry {
    /// The handler of a one-way message began.
    SendBegun,
    /// The handler of a one-way message ran to its end.
    SendEnded,
    /// The handler of a request began.
    RequestBegun,
}

/// The receiver's end: it only appends.
#[derive(Debug)]
pub(super) struct Journal(File);

impl Journal {
    /// Opens the file that the sending process has made.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        OpenOptions::new().append(true).open(path).map(Self).map_err(|error| {
            let sentence = format!("the journal {}: {error}", path.display());
            Failure { cause: Cause::Run, sentence }
        })
    }

    /// Appends one entry. An entry that the disk did not take counts as lost, and that is seen.
    pub(super) fn write(&self, entry: Entry, stamp: Stamp) {
        let mut bytes = [0; ENTRY_BYTES];
        let [kind, rest @ ..] = &mut bytes;
        *kind = match entry {
            Entry::SendBegun => b'b',
            Entry::SendEnded => b'e',
            Entry::RequestBegun => b'r',
        };
        rest[..4].copy_from_slice(&stamp.producer.to_le_bytes());
        rest[4..].copy_from_slice(&stamp.number.to_le_bytes());
        drop((&self.0).write_all(&bytes));
    }
}

/// The sender's end: the file of one receiver; it is removed with this value.
#[derive(Debug)]
pub(super) struct JournalFile(TempPath);

impl JournalFile {
    /// Makes an empty file of a name that nobody has.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub(super) fn create() -> io::Result<Self> {
        let file = Builder::new().prefix("zlink-demo-").suffix(".journal").tempfile()?;
        Ok(Self(file.into_temp_path()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// What was written until now.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub(super) fn read(&self, producers: usize) -> io::Result<Handled> {
        let bytes = fs::read(&self.0)?;
        let mut handled = Handled::new(producers);
        for entry in bytes.as_chunks::<ENTRY_BYTES>().0 {
            handled.take(entry);
        }
        Ok(handled)
    }
}

/// What receivers handled that cannot tell any more.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Handled {
    /// One-way messages whose handler ran to its end.
    pub(super) sends_done: u64,
    pub(super) sends: Vec<Ledger>,
    pub(super) requests: Vec<Ledger>,
}

impl Handled {
    pub(super) fn new(producers: usize) -> Self {
        let ledgers = || (0..producers).map(|_| Ledger::new()).collect();
        Self { sends_done: 0, sends: ledgers(), requests: ledgers() }
    }

    /// Adds what came after.
    pub(super) fn append(&mut self, later: &Self) {
        self.sends_done += later.sends_done;
        for (mine, theirs) in self.sends.iter_mut().zip(&later.sends) {
            mine.append(theirs);
        }
        for (mine, theirs) in self.requests.iter_mut().zip(&later.requests) {
            mine.append(theirs);
        }
    }

    fn take(&mut self, entry: &[u8; ENTRY_BYTES]) {
        let [kind, a, b, c, d, number @ ..] = *entry;
        let side = match kind {
            b'b' => &mut self.sends,
            b'r' => &mut self.requests,
            _ => {
                self.sends_done += 1;
                return;
            }
        };
        let producer = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if let Some(ledger) = side.get_mut(producer) {
            ledger.record(u64::from_le_bytes(number));
        }
    }
}

/// Kind, producer, number.
const ENTRY_BYTES: usize = 13;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back_and_the_file_goes_away() {
        let file = JournalFile::create().unwrap();
        let journal = Journal::open(file.path()).unwrap();
        for (entry, producer, number) in [
            (Entry::SendBegun, 1, 0),
            (Entry::SendBegun, 1, 1),
            (Entry::SendEnded, 1, 0),
            (Entry::RequestBegun, 0, 7),
        ] {
            journal.write(entry, Stamp { producer, number });
        }
        let mut expected = Handled::new(2);
        expected.sends[1].record(0);
        expected.sends[1].record(1);
        expected.requests[0].record(7);
        expected.sends_done = 1;
        assert_eq!(file.read(2).unwrap(), expected);

        let mut twice = expected.clone();
        twice.append(&Handled { sends_done: 3, ..Handled::new(2) });
        assert_eq!(twice, Handled { sends_done: 4, ..expected });

        let other = JournalFile::create().unwrap();
        assert_eq!(other.read(2).unwrap(), Handled::new(2), "each has a file of its own");

        let path = file.path().to_owned();
        drop(file);
        assert!(!path.exists(), "removed with its value");
    }
}
