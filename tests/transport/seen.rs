//! What drivers have said of each socket.

use core::ops::Range;
use std::collections::BTreeMap;

use rustix::io::Errno;
use ztransport::Batch;
use ztransport::event::{Event, ReceiveStop};
use ztransport::op::BufferGroup;
use ztransport::token::SocketId;

use crate::trace::{Origin, Story};

/// A socket of one of the drivers of a world.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct End {
    /// Which driver.
    pub(crate) at: usize,
    pub(crate) id: SocketId,
}

/// What happened to one socket, apart from its bytes.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Note {
    Accepted,
    AcceptStopped(Errno),
    Connected(Result<(), Errno>),
    Bytes(usize),
    Stopped(ReceiveStop),
    Sent(Result<usize, Errno>),
    Closed,
}

impl Note {
    /// The outcome of a connect.
    pub(crate) const fn connected(&self) -> Option<Result<(), Errno>> {
        if let Self::Connected(outcome) = self { Some(*outcome) } else { None }
    }

    /// The outcome of a send.
    pub(crate) const fn sent(&self) -> Option<Result<usize, Errno>> {
        if let Self::Sent(outcome) = self { Some(*outcome) } else { None }
    }
}

/// The peer has ended its side.
pub(crate) const END_OF_STREAM: Note = Note::Stopped(ReceiveStop::EndOfStream);

/// The peer has discarded what was under way.
pub(crate) const RESET: Note = Note::Stopped(ReceiveStop::Failed(Errno::CONNRESET));

/// Receiving was stopped by a pause.
pub(crate) const PAUSED: Note = Note::Stopped(ReceiveStop::Paused);

/// What is known of one socket.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) notes: Vec<Note>,
    /// All of it; scripts do not take it out.
    pub(crate) received: Vec<u8>,
    pub(crate) accepted: Vec<End>,
    /// The batch that came back last, unless it is on its way again.
    pub(crate) batch: Option<Batch>,
    pub(crate) sending: Sending,
    /// How often the buffers ran out. It was armed again each time.
    pub(crate) no_buffers: u32,
    /// Where it receives.
    pub(crate) group: Option<BufferGroup>,
    pub(crate) life: Life,
    pub(crate) story: Story,
}

/// Who decides about a socket.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Life {
    /// The script: its driver closes nothing unasked.
    #[default]
    Open,
    /// Its driver, until it says that it is closed.
    Closing,
    /// Nobody under this name.
    GivenAway,
}

/// What is under way for the last batch of a socket.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Sending {
    #[default]
    Nothing,
    /// One send.
    Once,
    /// As many sends as it takes.
    ToTheEnd,
}

impl Seen {
    /// Takes the batch that came back to go on with, if there is anything left of it.
    pub(crate) fn rest_to_send(&mut self) -> Option<Batch> {
        let outcome = self.notes.iter().rev().find_map(Note::sent)?;
        let mut batch = self.batch.take()?;
        match (self.sending, outcome) {
            (Sending::ToTheEnd, Ok(bytes)) => {
                batch.advance(bytes as u64);
                if batch.unsent() > 0 {
                    return Some(batch);
                }
            }
            (Sending::Nothing | Sending::Once, _) | (Sending::ToTheEnd, Err(_)) => {
                self.batch = Some(batch);
            }
        }
        self.sending = Sending::Nothing;
        None
    }

    pub(crate) fn has(&self, note: &Note) -> bool {
        self.notes.contains(note)
    }
}

/// Writes an event of the driver `at` down.
pub(crate) fn note(all: &mut BTreeMap<End, Seen>, at: usize, event: Event<'_>) {
    let end = |id: SocketId| End { at, id };
    let (socket, note) = match event {
        Event::Accepted { listener, socket } => {
            all.entry(end(socket)).or_default().story.origin = Origin::Accepted;
            let listening = all.entry(end(listener)).or_default();
            listening.story.accepted();
            listening.accepted.push(end(socket));
            (listener, Note::Accepted)
        }
        Event::AcceptStopped { listener, errno } => {
            all.entry(end(listener)).or_default().story.accept_stopped(errno);
            (listener, Note::AcceptStopped(errno))
        }
        Event::Connected { socket, outcome } => {
            all.entry(end(socket)).or_default().story.connected(outcome);
            (socket, Note::Connected(outcome))
        }
        Event::Received { socket, bytes } => {
            assert!(!bytes.is_empty(), "an event without bytes");
            let Seen { received, story, .. } = all.entry(end(socket)).or_default();
            story.received(append(received, bytes));
            (socket, Note::Bytes(bytes.len()))
        }
        Event::ReceiveStopped { socket, reason } => {
            all.entry(end(socket)).or_default().story.stopped(reason);
            (socket, Note::Stopped(reason))
        }
        Event::Sent { socket, outcome, batch } => {
            let seen = all.entry(end(socket)).or_default();
            seen.story.sent(outcome);
            assert!(seen.batch.replace(batch).is_none(), "two batches in flight");
            (socket, Note::Sent(outcome))
        }
        Event::Closed { socket } => {
            let life = all.get(&end(socket)).map(|seen| seen.life);
            assert_eq!(life, Some(Life::Closing), "nobody closed {socket:?}");
            (socket, Note::Closed)
        }
    };
    let seen = all.entry(end(socket)).or_default();
    assert!(!seen.has(&Note::Closed), "{socket:?} is closed, yet {note:?}");
    seen.notes.push(note);
}

fn append(all: &mut Vec<u8>, bytes: &[u8]) -> Range<usize> {
    let from = all.len();
    all.extend_from_slice(bytes);
    from..all.len()
}
