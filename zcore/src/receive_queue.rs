//! The ordinary receive queue of one origin: what arrived and was not yet handed to the host.
//!
//! The queue holds no records, only what they are charged. Nothing is refused to the peer: a record
//! that does not fit stays where it is, in the transport's carry, and its lane stops reading until
//! the queue has drained.

use crate::account::{Account, HighWaterMark};
use crate::charge::Charge;
use crate::units::ByteCount;

/// What becomes of a record that arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use = "a record that was not charged must stay in the transport's carry"]
pub enum Arrival {
    /// It is charged and belongs to the queue.
    Charged,
    /// There is no room. Keep its bytes, stop reading the lane, and offer it again on
    /// [`Flow::Resume`].
    Full,
}

/// Whether a stopped lane may go on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use = "a lane that is not resumed reads nothing any more"]
pub enum Flow {
    /// As before.
    Unchanged,
    /// The refused record fits now: offer it again and read on. Said once for each stop.
    Resume,
}

/// How full a receive queue is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReceiveCounts {
    /// Bytes held now.
    pub accounted: ByteCount,
    /// The most bytes held at once.
    pub peak: ByteCount,
    /// Records held now.
    pub records: u64,
    /// Whether a record waits in the carry for room.
    pub blocked: bool,
}

/// Admission to the ordinary receive queue of one origin (B-05).
///
/// ```
/// use zcore::{Arrival, ByteCount, Charge, Flow, HighWaterMark, ReceiveQueue};
/// let mut queue = ReceiveQueue::new(HighWaterMark::Limit(ByteCount::new(200)));
/// let charge = Charge::of_encoded(36);
/// assert_eq!(queue.arrive(charge), Arrival::Charged);
/// assert_eq!(queue.arrive(charge), Arrival::Charged);
/// assert_eq!(queue.arrive(charge), Arrival::Full);
/// assert_eq!(queue.hand_over(charge), Flow::Resume);
/// assert_eq!(queue.arrive(charge), Arrival::Charged);
/// ```
#[derive(Clone, Debug)]
pub struct ReceiveQueue {
    account: Account,
    records: u64,
    /// The charge of the record that found no room and stopped the lane.
    refused: Option<Charge>,
}

impl ReceiveQueue {
    /// An empty queue.
    pub const fn new(mark: HighWaterMark) -> Self {
        Self { account: Account::new(mark), records: 0, refused: None }
    }

    /// Takes a record in, if it fits. O(1).
    ///
    /// After [`Arrival::Full`] nothing fits until [`Flow::Resume`], however small: a later record
    /// must not pass the refused one.
    pub fn arrive(&mut self, charge: Charge) -> Arrival {
        if self.refused.is_some() {
            return Arrival::Full;
        }
        if !self.account.admits(charge) {
            self.refused = Some(charge);
            return Arrival::Full;
        }
        self.charge(charge);
        Arrival::Charged
    }

    /// Takes a control record in, whatever the mark says (D-24).
    pub fn arrive_control(&mut self, charge: Charge) {
        self.charge(charge);
    }

    /// Gives back what a record was charged, at its hand-over to the host and before its handler
    /// starts (B-08).
    ///
    /// A stopped lane resumes once the queue has drained to its low-water mark and the refused
    /// record fits.
    pub fn hand_over(&mut self, charge: Charge) -> Flow {
        self.release(charge);
        let flow = if self.account.is_low() { self.resume_if_fitting() } else { Flow::Unchanged };
        self.assert_invariants();
        flow
    }

    /// Gives back what a record of a closed lane was charged. Nothing resumes: the refused record
    /// is gone with the lane.
    pub fn discard(&mut self, charge: Charge) {
        self.refused = None;
        self.release(charge);
        self.assert_invariants();
    }

    /// Forgets the refused record, because its lane is closed. Records that were charged stay.
    pub const fn lane_closed(&mut self) {
        self.refused = None;
    }

    /// Changes the high-water mark. A lower one drops nothing; a stopped lane resumes at once if
    /// the refused record fits, as in the send queue (B-103).
    pub fn set_mark(&mut self, mark: HighWaterMark) -> Flow {
        self.account.set_mark(mark);
        let flow = self.resume_if_fitting();
        self.assert_invariants();
        flow
    }

    /// How full the queue is.
    pub const fn counts(&self) -> ReceiveCounts {
        ReceiveCounts {
            accounted: self.account.accounted(),
            peak: self.account.peak(),
            records: self.records,
            blocked: self.refused.is_some(),
        }
    }

    /// The bytes it holds, and its mark.
    pub const fn account(&self) -> &Account {
        &self.account
    }

    fn charge(&mut self, charge: Charge) {
        self.account.charge(charge);
        self.records = self.records.saturating_add(1);
        self.assert_invariants();
    }

    fn release(&mut self, charge: Charge) {
        self.account.release(charge);
        let rest = self.records.checked_sub(1);
        debug_assert!(rest.is_some(), "a record left an empty queue");
        self.records = rest.unwrap_or(0);
    }

    fn resume_if_fitting(&mut self) -> Flow {
        if !self.refused.is_some_and(|charge| self.account.admits(charge)) {
            return Flow::Unchanged;
        }
        self.refused = None;
        Flow::Resume
    }

    fn assert_invariants(&self) {
        debug_assert!(
            (self.records == 0) == self.account.accounted().is_zero(),
            "{} records hold {}",
            self.records,
            self.account.accounted()
        );
        if let Some(charge) = self.refused {
            debug_assert!(
                !(self.account.is_low() && self.account.admits(charge)),
                "the lane stays stopped although {} fit beside {}",
                charge.bytes(),
                self.account.accounted()
            );
        }
    }
}
