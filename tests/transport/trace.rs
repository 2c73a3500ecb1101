//! What a user of the seam sees of a script, apart from what no driver promises: how bytes are cut,
//! and in which order different sockets, or the two directions of one, report.

use core::hash::{Hash, Hasher};
use core::ops::Range;
use std::collections::BTreeMap;
use std::hash::DefaultHasher;

use rustix::io::Errno;
use ztransport::errno::{Meaning, meaning};
use ztransport::event::ReceiveStop;

use crate::replay::Outcome;

/// How a script came by a socket.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Origin {
    #[default]
    Adopted,
    Opened,
    Accepted,
}

/// What became of one socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    pub(crate) origin: Origin,
    reads: Vec<Read>,
    writes: Vec<Write>,
    pub(crate) hidden: Hidden,
}

/// What is left out because it is a race.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Hidden {
    #[default]
    Nothing,
    /// How often it was paused.
    Pauses,
    /// Everything that was read.
    Reads,
    /// Everything that was sent.
    Writes,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Read {
    /// A part of what was received.
    Bytes(Range<usize>),
    Stopped(ReceiveStop),
    Accepted,
    AcceptStopped(Errno),
}

#[derive(Clone, Debug)]
enum Write {
    Connected(Result<(), Errno>),
    Batch { length: u64, taken: u64, failed: Option<Errno> },
}

impl Story {
    pub(crate) fn received(&mut self, bytes: Range<usize>) {
        match self.reads.last_mut() {
            Some(Read::Bytes(before)) => before.end = bytes.end,
            _ => self.reads.push(Read::Bytes(bytes)),
        }
    }

    /// Running out of buffers is left out: drivers differ in when they do.
    pub(crate) fn stopped(&mut self, reason: ReceiveStop) {
        if reason != ReceiveStop::NoBuffers {
            self.reads.push(Read::Stopped(reason));
        }
    }

    pub(crate) fn accepted(&mut self) {
        self.reads.push(Read::Accepted);
    }

    pub(crate) fn accept_stopped(&mut self, errno: Errno) {
        self.reads.push(Read::AcceptStopped(errno));
    }

    pub(crate) fn connected(&mut self, outcome: Result<(), Errno>) {
        self.writes.push(Write::Connected(outcome));
    }

    /// A batch is sent for the first time.
    pub(crate) fn sending(&mut self, length: u64) {
        self.writes.push(Write::Batch { length, taken: 0, failed: None });
    }

    /// A send of the last batch ended.
    pub(crate) fn sent(&mut self, outcome: Result<usize, Errno>) {
        let Some(Write::Batch { length, taken, failed }) = self.writes.last_mut() else {
            panic!("a send ended that never began: {outcome:?}")
        };
        match outcome {
            Ok(bytes) => *taken += bytes as u64,
            Err(errno) => *failed = Some(errno),
        }
        assert!(taken <= length, "{taken} of {length} bytes were sent");
    }

    /// The same whichever driver told it.
    pub(crate) fn summary(&self, received: &[u8]) -> Summary {
        let mut merged = Self::default();
        for read in &self.reads {
            match (self.hidden, read) {
                (Hidden::Reads, _) | (Hidden::Pauses, Read::Stopped(ReceiveStop::Paused)) => {}
                (_, Read::Bytes(bytes)) => merged.received(bytes.clone()),
                (_, Read::Stopped(_) | Read::Accepted | Read::AcceptStopped(_)) => {
                    merged.reads.push(read.clone());
                }
            }
        }
        let reads = merged.reads.iter().map(|read| read_line(read, received)).collect();
        let writes = match self.hidden {
            Hidden::Writes => Vec::new(),
            Hidden::Nothing | Hidden::Pauses | Hidden::Reads => {
                self.writes.iter().map(write_line).collect()
            }
        };
        Summary { origin: self.origin, reads, writes }
    }
}

fn read_line(read: &Read, received: &[u8]) -> String {
    match read {
        Read::Bytes(bytes) => {
            let mut hasher = DefaultHasher::new();
            received[bytes.clone()].hash(&mut hasher);
            format!("received {} bytes, {:016x}", bytes.len(), hasher.finish())
        }
        Read::Stopped(ReceiveStop::Failed(errno)) => format!("failed: {}", failure(*errno)),
        Read::Stopped(reason) => format!("stopped: {reason:?}"),
        Read::Accepted => "accepted one".to_owned(),
        Read::AcceptStopped(errno) => format!("accepts no more: {errno:?}"),
    }
}

fn write_line(write: &Write) -> String {
    match write {
        Write::Connected(outcome) => format!("connected: {outcome:?}"),
        Write::Batch { length, taken, failed } => {
            let share = match *taken {
                0 => "none",
                taken if taken == *length => "all",
                _ => "some",
            };
            let failed = failed.map(failure).unwrap_or_default();
            format!("sent {share} of {length} bytes {failed}")
        }
    }
}

/// A reset shows on whichever operation comes next, so its name says nothing.
fn failure(errno: Errno) -> String {
    match meaning(errno) {
        Meaning::LinkLost | Meaning::Cancelled => "the link is gone".to_owned(),
        Meaning::Again
        | Meaning::Unreachable(_)
        | Meaning::Refused(_)
        | Meaning::ResourceExhausted(_)
        | Meaning::Unexpected => format!("{errno:?}"),
    }
}

/// A story without what differs between drivers.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Summary {
    origin: Origin,
    reads: Vec<String>,
    writes: Vec<String>,
}

/// All sockets of a script. Which of several alike came first says nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Trace(BTreeMap<Summary, usize>);

impl Trace {
    pub(crate) fn new(summaries: impl Iterator<Item = Summary>) -> Self {
        let mut counts = BTreeMap::new();
        for summary in summaries {
            *counts.entry(summary).or_insert(0) += 1;
        }
        Self(counts)
    }
}

impl Outcome for Trace {
    #[track_caller]
    fn assert_same(&self, other: &Self, own: &str, others: &str) {
        let only = |these: &Self, those: &Self| -> Vec<String> {
            let lines =
                these.0.iter().filter(|(summary, count)| those.0.get(summary) != Some(count));
            lines.map(|(summary, count)| format!("\n  {count} x {summary:?}")).collect()
        };
        let (here, there) = (only(self, other).concat(), only(other, self).concat());
        assert!(self == other, "only {own}:{here}\nonly {others}:{there}");
    }
}

#[cfg(test)]
mod tests {
    use super::{Hidden, Story, Trace};
    use rustix::io::Errno;
    use ztransport::event::ReceiveStop;

    fn trace(tell: impl Fn(&mut Story)) -> Trace {
        let mut story = Story::default();
        tell(&mut story);
        Trace::new(core::iter::once(story.summary(b"abcdef")))
    }

    #[test]
    fn how_bytes_are_cut_is_left_out_and_which_they_are_is_not() {
        let whole = trace(|story| story.received(0..4));
        let cut = trace(|story| {
            story.received(0..1);
            story.stopped(ReceiveStop::NoBuffers);
            story.received(1..4);
        });
        assert_eq!(whole, cut, "the same bytes");
        assert_ne!(whole, trace(|story| story.received(0..3)), "fewer");
        assert_ne!(whole, trace(|story| story.received(1..5)), "others");
    }

    #[test]
    fn how_often_a_batch_was_resumed_is_left_out_and_whether_all_was_sent_is_not() {
        let sent = |parts: &'static [usize]| {
            trace(|story| {
                story.sending(4);
                for part in parts {
                    story.sent(Ok(*part));
                }
            })
        };
        assert_eq!(sent(&[4]), sent(&[1, 2, 1]), "all");
        assert_ne!(sent(&[4]), sent(&[3]), "some");
        assert_ne!(sent(&[]), sent(&[3]), "none");
    }

    #[test]
    fn pauses_are_left_out_only_when_a_script_says_so() {
        let tell = |story: &mut Story| {
            story.received(0..1);
            story.stopped(ReceiveStop::Paused);
            story.received(1..3);
        };
        let plain = trace(|story| story.received(0..3));
        assert_ne!(trace(tell), plain, "a pause is seen");
        let hidden = trace(|story| {
            tell(story);
            story.hidden = Hidden::Pauses;
        });
        assert_eq!(hidden, plain, "a pause is hidden");
    }

    #[test]
    fn an_error_that_means_something_else_is_seen() {
        let failed = |errno| trace(|story| story.stopped(ReceiveStop::Failed(errno)));
        assert_eq!(failed(Errno::CONNRESET), failed(Errno::PIPE), "gone either way");
        assert_ne!(failed(Errno::CONNRESET), failed(Errno::NOMEM), "another matter");
    }
}
