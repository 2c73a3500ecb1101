//! What became of the records of a broken pair, as far as the next one tells (D-25).
//!
//! Each side counts messages and requests in both directions, pair by pair. What it *gave* was
//! handed to the kernel, in part at least. What it *claimed* was taken in whole and charged to a
//! receive queue: its handler has run, or will. A record that came in part is never claimed, and
//! what comes of it is thrown away with its connection, so its handler cannot run. Control is not
//! counted.
//!
//! A connection delivers in order, so what is claimed is a beginning of what was given, and one
//! number says which. The hello of the next pair carries it. Records above it never arrived; of the
//! others nobody can say whether they ran. Nothing is sent again.

use crate::outcome::{Progress, ProgressEvent};
use crate::wire::Kind;

/// Messages of one pair in one direction.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Messages, requests among them.
    pub messages: u64,
    /// Requests.
    pub requests: u64,
}

impl Tally {
    /// Counts a record, unless it is control. How many messages there are then, which is the number
    /// of this one.
    pub const fn count(&mut self, kind: Kind) -> u64 {
        match kind {
            Kind::Send => self.messages = self.messages.saturating_add(1),
            Kind::Request => {
                self.messages = self.messages.saturating_add(1);
                self.requests = self.requests.saturating_add(1);
            }
            Kind::Reply
            | Kind::ErrorReply
            | Kind::Probe
            | Kind::ProbeAnswer
            | Kind::SendReady
            | Kind::Goodbye => {}
        }
        self.messages
    }

    /// Messages that are no requests.
    pub const fn one_way(self) -> u64 {
        self.messages.saturating_sub(self.requests)
    }

    /// This beginning of `whole`, whatever a peer has claimed: no more messages and requests than
    /// there were, and no more one-way messages either.
    fn within(self, whole: Self) -> Self {
        let messages = self.messages.min(whole.messages);
        let requests_min = messages.saturating_sub(whole.one_way());
        let requests_max = messages.min(whole.requests);
        Self { messages, requests: self.requests.clamp(requests_min, requests_max) }
    }
}

/// What a hello says of the pair before.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Statement {
    /// The generation of that pair; 0 if there was none.
    pub generation: u32,
    /// What its sender claimed in it.
    pub claimed: Tally,
}

/// What one side claims, pair by pair.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claims {
    statement: Statement,
}

impl Claims {
    /// A new pair begins: its second connection has been greeted by this side. From now on the
    /// other side may hold it for up, and this side answers for it.
    pub const fn begin(&mut self, generation: u32) {
        let claimed = Tally { messages: 0, requests: 0 };
        self.statement = Statement { generation, claimed };
    }

    /// A record was taken in whole and charged.
    pub const fn claim(&mut self, kind: Kind) {
        self.statement.claimed.count(kind);
    }

    /// What the next hello says.
    pub const fn statement(&self) -> Statement {
        self.statement
    }
}

/// What one side gave, pair by pair.
///
/// ```
/// use zcore::{Given, Progress, Statement, Tally};
/// use zcore::wire::Kind;
///
/// let mut given = Given::default();
/// given.begin(7, 1);
/// let numbers = [Kind::Request, Kind::Send, Kind::Request].map(|kind| given.give(kind));
///
/// let claimed = Tally { messages: 1, requests: 1 };
/// let settlement = given.settle(7, Statement { generation: 1, claimed });
/// assert_eq!(settlement.progress(numbers[0]), Progress::PeerClaimed);
/// assert_eq!(settlement.progress(numbers[2]), Progress::Disclaimed);
/// assert_eq!(settlement.lost(), 1, "the message between them");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Given {
    /// The pair that is counted; 0 if there is none, or its end is settled.
    generation: u32,
    /// The run of the other's process that it was agreed with.
    incarnation: u64,
    tally: Tally,
    /// One-way messages of it that are counted as lost already.
    lost: u64,
    /// The last pair whose losses the other side has told.
    told: u32,
}

impl Given {
    /// A new pair is up, agreed with this run of the other's process.
    pub const fn begin(&mut self, incarnation: u64, generation: u32) {
        let Self { told, .. } = *self;
        let tally = Tally { messages: 0, requests: 0 };
        *self = Self { generation, incarnation, tally, lost: 0, told };
    }

    /// Whether there is a pair that is not settled.
    pub const fn is_open(&self) -> bool {
        self.generation != 0
    }

    /// Whether this run of the other's process says what it took of the pair that is not settled.
    pub const fn is_told(&self, incarnation: u64, statement: Statement) -> bool {
        self.is_open() && self.incarnation == incarnation && self.generation == statement.generation
    }

    /// A record is handed to the kernel. The number that it has among the messages of this pair, if
    /// it is one.
    pub const fn give(&mut self, kind: Kind) -> u64 {
        self.tally.count(kind)
    }

    /// Of a pair that has ended, `one_way` messages were not handed over whole, so they are lost for
    /// certain. How many of them to count now: none if the other side has told before.
    pub const fn lose(&mut self, generation: u32, one_way: u64) -> u64 {
        if generation <= self.told {
            return 0;
        }
        if generation == self.generation {
            self.lost = self.lost.saturating_add(one_way);
        }
        one_way
    }

    /// The other side has come back and states what it claimed. Settles the pair before, if there
    /// was one; another run of its process has nothing to state.
    pub fn settle(&mut self, incarnation: u64, statement: Statement) -> Settlement {
        let Self { generation, tally, lost, .. } = *self;
        let is_told = self.is_told(incarnation, statement);
        if is_told {
            self.told = generation;
        }
        self.generation = 0;
        let claimed = is_told.then(|| statement.claimed.within(tally));
        Settlement { given: tally, claimed, lost }
    }
}

/// What became of the records of a pair that has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settlement {
    given: Tally,
    /// What of it the other side claims; `None` if it says nothing.
    claimed: Option<Tally>,
    /// What was counted before.
    lost: u64,
}

impl Settlement {
    /// How far the message with this number came.
    pub const fn progress(&self, number: u64) -> Progress {
        let event = match self.claimed {
            None => return Progress::HandedToKernel,
            Some(claimed) if number <= claimed.messages => ProgressEvent::Claim,
            Some(_) => ProgressEvent::Disclaim,
        };
        match Progress::HandedToKernel.after(event) {
            Some(progress) => progress,
            None => Progress::HandedToKernel,
        }
    }

    /// How many one-way messages are lost beyond those that were counted before. Without a
    /// statement nobody knows of more.
    pub const fn lost(&self) -> u64 {
        match self.claimed {
            None => 0,
            Some(claimed) => {
                let lost = self.given.one_way().saturating_sub(claimed.one_way());
                lost.saturating_sub(self.lost)
            }
        }
    }
}
