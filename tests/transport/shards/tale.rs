//! What both hosts of a scene were given, apart from what no loop promises: how the records of
//! different lanes, and what happens to a link and to records, mix in time.

use core::hash::{Hash, Hasher};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::DefaultHasher;

use ztransport::errno::{Meaning, meaning};
use ztransport::{CloseReason, DropReason, Incoming};

use crate::replay::Outcome;

/// What one host was given.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Each link that came up, and why it went down.
    pub(super) links: Vec<&'static str>,
    /// Messages and requests, in the order in which they were delivered.
    pub(super) delivered: Vec<Entry>,
    /// Replies, in the order in which they completed their requests.
    pub(super) completed: Vec<Entry>,
    /// Records that were given up.
    pub(super) dropped: BTreeMap<&'static str, u64>,
    /// Connections that came to nothing.
    pub(super) rejected: Vec<&'static str>,
    /// How often the other side has told what it took of the pair before.
    pub(super) settled: u32,
    /// Requests without a reply.
    pub(super) pending: BTreeSet<u64>,
    hidden: Hidden,
}

/// What is left out because it is a race.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Hidden {
    #[default]
    Nothing,
    /// How much was under way when a link broke.
    Losses,
}

/// One record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Entry {
    pub(super) kind: &'static str,
    pub(super) id: u64,
    pub(super) length: usize,
    hash: u64,
}

impl Entry {
    pub(super) fn of(record: &Incoming) -> Self {
        let (head, payload) = (record.head(), record.payload());
        let mut hasher = DefaultHasher::new();
        payload.hash(&mut hasher);
        Self { kind: head.kind.as_str(), id: head.id, length: payload.len(), hash: hasher.finish() }
    }
}

impl Ledger {
    pub(super) fn link_down(&mut self, reason: CloseReason) {
        self.links.push(kind(reason));
    }

    pub(super) fn rejected(&mut self, reason: CloseReason) {
        self.rejected.push(kind(reason));
    }

    pub(super) fn dropped(&mut self, records: u64, reason: DropReason) {
        *self.dropped.entry(reason.as_str()).or_insert(0) += records;
    }

    /// Leaves out how much was lost, and so what was delivered.
    pub(super) const fn hide_losses(&mut self) {
        self.hidden = Hidden::Losses;
    }

    fn lines(&self) -> Vec<String> {
        let Self { links, delivered, completed, dropped, rejected, hidden, .. } = self;
        let mut lines: Vec<_> = links.iter().map(|link| format!("link: {link}")).collect();
        lines.extend(rejected.iter().map(|reason| format!("rejected: {reason}")));
        match hidden {
            Hidden::Nothing => {
                lines.extend(delivered.iter().map(|entry| format!("delivered: {entry:?}")));
                lines.extend(completed.iter().map(|entry| format!("completed: {entry:?}")));
                lines.extend(dropped.iter().map(|(reason, count)| format!("{count} x {reason}")));
            }
            Hidden::Losses => {}
        }
        lines
    }
}

/// A peer that closes and a connection that breaks are the same seen from afar.
const fn kind(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::PeerClosed => "lost",
        CloseReason::Failed(errno) => match meaning(errno) {
            Meaning::LinkLost => "lost",
            Meaning::Again
            | Meaning::Cancelled
            | Meaning::Unreachable(_)
            | Meaning::Refused(_)
            | Meaning::ResourceExhausted(_)
            | Meaning::Unexpected => reason.as_str(),
        },
        CloseReason::Malformed(_)
        | CloseReason::NeverIssued
        | CloseReason::BadHello
        | CloseReason::Refused(_)
        | CloseReason::Refusing(_)
        | CloseReason::GreetingTimeout
        | CloseReason::Silent
        | CloseReason::Replaced
        | CloseReason::Goodbye
        | CloseReason::Shutdown => reason.as_str(),
    }
}

/// What the dialer was given, and what the acceptor was.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Tale {
    dialer: Vec<String>,
    acceptor: Vec<String>,
}

impl Tale {
    pub(super) fn new(dialer: &Ledger, acceptor: &Ledger) -> Self {
        Self { dialer: dialer.lines(), acceptor: acceptor.lines() }
    }
}

impl Outcome for Tale {
    #[track_caller]
    fn assert_same(&self, other: &Self, own: &str, others: &str) {
        let sides = [
            ("dialer", &self.dialer, &other.dialer),
            ("acceptor", &self.acceptor, &other.acceptor),
        ];
        for (side, here, there) in sides {
            let differs = here.iter().zip(there).position(|(one, another)| one != another);
            let at = differs.unwrap_or_else(|| here.len().min(there.len()));
            assert!(
                here == there,
                "{side}, line {at}: {own}: {:?}, {others}: {:?}",
                here.get(at),
                there.get(at)
            );
        }
    }
}
