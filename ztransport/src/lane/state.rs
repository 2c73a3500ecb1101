//! What a lane's lock guards.

use zcore::wire::Kind;
use zcore::{ByteCount, HighWaterMark, SendQueue};

use crate::chain::{Chain, Ordinal};
use crate::limits::{BATCH_MAX, SMALL_BATCH_MAX, SMALL_RECORD};

#[derive(Debug)]
pub(super) struct LaneState {
    pub(super) queue: SendQueue,
    pub(super) chain: Chain,
    /// Payload plus metadata of the largest message that the peer takes.
    pub(super) message_size_max: ByteCount,
    pub(super) link: LaneLink,
    /// Messages of the batch in flight.
    pub(super) in_flight: u64,
    /// How often the lane began anew.
    pub(super) epoch: u64,
    /// Calls that waited.
    pub(super) waits: u64,
    /// Control records queued and not sealed, by kind.
    pub(super) controls: Vec<(Kind, Ordinal)>,
}

/// Whether records may leave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LaneLink {
    /// There is no link.
    Absent,
    /// There is one, and no batch is in flight.
    Idle,
    /// A batch is in flight.
    Busy,
    /// The link is gone, and its last batch has not come back.
    Stale,
}

impl LaneLink {
    pub(super) const fn up(self) -> Self {
        match self {
            Self::Absent | Self::Idle => Self::Idle,
            Self::Busy | Self::Stale => Self::Busy,
        }
    }

    pub(super) const fn down(self) -> Self {
        match self {
            Self::Absent | Self::Idle => Self::Absent,
            Self::Busy | Self::Stale => Self::Stale,
        }
    }

    pub(super) const fn batch_back(self) -> Self {
        match self {
            Self::Absent | Self::Stale => Self::Absent,
            Self::Idle | Self::Busy => Self::Idle,
        }
    }
}

impl LaneState {
    /// Whether the shard must be told of new records. While a batch is in flight its completion
    /// seals again, and a lane without a link is told when it gets one.
    pub(super) fn must_ring(&self) -> bool {
        self.link == LaneLink::Idle
    }

    pub(super) fn batch_done(&mut self) {
        self.link = self.link.batch_back();
        self.chain.trim();
    }

    /// The most bytes of one batch: a quarter of the mark, so that room comes back in steps, and
    /// less while records are small, so that both sides of the socket work at the same time.
    pub(super) fn batch_max(&self) -> u64 {
        let account = self.queue.account();
        let average = account.accounted().get() / self.chain.len().max(1);
        let ceiling = if average < SMALL_RECORD { SMALL_BATCH_MAX } else { BATCH_MAX };
        match account.mark() {
            HighWaterMark::Limit(mark) => ceiling.min(mark.get() / 4),
            HighWaterMark::Unlimited => ceiling,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LaneLink::{self, Absent, Busy, Idle, Stale};

    /// What is true of each state: whether there is a link, and whether a batch is in flight.
    const fn facts(link: LaneLink) -> (bool, bool) {
        match link {
            Absent => (false, false),
            Idle => (true, false),
            Busy => (true, true),
            Stale => (false, true),
        }
    }

    #[test]
    fn a_link_comes_and_goes_whether_or_not_a_batch_is_in_flight() {
        for link in [Absent, Idle, Busy, Stale] {
            let (_, in_flight) = facts(link);
            assert_eq!(facts(link.up()), (true, in_flight), "{link:?} comes up");
            assert_eq!(facts(link.down()), (false, in_flight), "{link:?} goes down");
        }
    }

    #[test]
    fn a_batch_that_comes_back_says_nothing_about_the_link() {
        for link in [Absent, Idle, Busy, Stale] {
            let (has_link, _) = facts(link);
            assert_eq!(facts(link.batch_back()), (has_link, false), "{link:?}");
        }
        let late = Busy.down().up().batch_back();
        assert_eq!(late, Idle, "the batch of the link before frees the one that came meanwhile");
    }
}
