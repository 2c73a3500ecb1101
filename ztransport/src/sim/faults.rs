//! What can go wrong in a simulated network, how often, and how often it did.

use core::fmt;

use super::limits::{BREAK_BYTES_LOG2_MAX, LATE_POLLS_MAX};
use crate::random::Random;

/// Something that a network does to those who use it.
///
/// The first eight are what real networks and kernels do all day long; they lose nothing.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fault {
    /// A send takes fewer bytes than there is room for, down to one.
    ShortSend,
    /// A receive brings fewer bytes than have arrived, down to one.
    SplitReceive,
    /// What has happened is reported some polls later.
    LateCompletion,
    /// One poll looks at its sockets in any order. What happens in one direction of one socket
    /// stays in order.
    Reordered,
    /// A receive stops because its buffers are gone. Never twice without a byte in between.
    NoBuffers,
    /// Bytes go on arriving for some polls after a receive was paused.
    LateData,
    /// The submission queue is full: operations start some polls later.
    QueueFull,
    /// The driver says that it is ready, and then it has nothing to report.
    SpuriousWake,
    /// A connection breaks after some number of bytes, for both ends.
    Reset,
    /// One direction of a connection ends after some number of bytes, although its sender has not
    /// ended it.
    HalfClose,
    /// A connect is refused although somebody listens.
    Refused,
    /// A connect ends without an answer.
    TimedOut,
    /// A connect takes many polls.
    SlowConnect,
    /// An accept stops with `EMFILE`. The connection stays in the backlog.
    AcceptStopped,
}

impl Fault {
    /// How many there are.
    pub const COUNT: usize = 14;

    /// Each once.
    pub const ALL: [Self; Self::COUNT] = [
        Self::ShortSend,
        Self::SplitReceive,
        Self::LateCompletion,
        Self::Reordered,
        Self::NoBuffers,
        Self::LateData,
        Self::QueueFull,
        Self::SpuriousWake,
        Self::Reset,
        Self::HalfClose,
        Self::Refused,
        Self::TimedOut,
        Self::SlowConnect,
        Self::AcceptStopped,
    ];

    /// Its name in counts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ShortSend => "short_send",
            Self::SplitReceive => "split_receive",
            Self::LateCompletion => "late_completion",
            Self::Reordered => "reordered",
            Self::NoBuffers => "no_buffers",
            Self::LateData => "late_data",
            Self::QueueFull => "queue_full",
            Self::SpuriousWake => "spurious_wake",
            Self::Reset => "reset",
            Self::HalfClose => "half_close",
            Self::Refused => "refused",
            Self::TimedOut => "timed_out",
            Self::SlowConnect => "slow_connect",
            Self::AcceptStopped => "accept_stopped",
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// How often a fault strikes where it could: a number of times in 256.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Rate(u16);

impl Rate {
    /// It never does.
    pub const NEVER: Self = Self(0);

    /// It does each time.
    pub const ALWAYS: Self = Self(WHOLE);

    /// So many times in 256; more than 256 are 256.
    pub const fn in_256(times: u16) -> Self {
        if times > WHOLE { Self::ALWAYS } else { Self(times) }
    }
}

const WHOLE: u16 = 256;

/// How often each fault strikes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SimFaults {
    rates: [Rate; Fault::COUNT],
}

impl Default for SimFaults {
    fn default() -> Self {
        Self::none()
    }
}

impl SimFaults {
    /// A perfect network.
    pub const fn none() -> Self {
        Self { rates: [Rate::NEVER; Fault::COUNT] }
    }

    /// Everything that loses nothing: what was sent arrives, all of it, in order, once.
    pub const fn benign() -> Self {
        Self::none()
            .with(Fault::ShortSend, Rate::in_256(96))
            .with(Fault::SplitReceive, Rate::in_256(96))
            .with(Fault::LateCompletion, Rate::in_256(48))
            .with(Fault::Reordered, Rate::in_256(128))
            .with(Fault::NoBuffers, Rate::in_256(24))
            .with(Fault::LateData, Rate::in_256(128))
            .with(Fault::QueueFull, Rate::in_256(24))
            .with(Fault::SpuriousWake, Rate::in_256(32))
    }

    /// All that [`SimFaults::benign`] does; besides, connections break, end on one side, and come
    /// about late or not at all.
    pub const fn hostile() -> Self {
        Self::benign()
            .with(Fault::Reset, Rate::in_256(48))
            .with(Fault::HalfClose, Rate::in_256(16))
            .with(Fault::Refused, Rate::in_256(32))
            .with(Fault::TimedOut, Rate::in_256(16))
            .with(Fault::SlowConnect, Rate::in_256(64))
            .with(Fault::AcceptStopped, Rate::in_256(32))
    }

    /// The same, but for one fault.
    #[must_use]
    pub const fn with(mut self, fault: Fault, rate: Rate) -> Self {
        self.rates[fault.index()] = rate;
        self
    }

    /// How often a fault strikes.
    pub const fn rate(&self, fault: Fault) -> Rate {
        self.rates[fault.index()]
    }
}

/// How often each fault has struck. Prints those that did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SimCounts {
    counts: [u64; Fault::COUNT],
}

impl SimCounts {
    /// How often a fault has struck.
    pub const fn of(&self, fault: Fault) -> u64 {
        self.counts[fault.index()]
    }

    /// How often any fault has struck.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl fmt::Display for SimCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for fault in Fault::ALL.into_iter().filter(|fault| self.of(*fault) > 0) {
            write!(f, "{separator}{} {}", fault.as_str(), self.of(fault))?;
            separator = ", ";
        }
        if separator.is_empty() { f.write_str("no faults") } else { Ok(()) }
    }
}

/// Decides by chance, and counts.
#[derive(Debug)]
pub(super) struct Dice {
    random: Random,
    faults: SimFaults,
    counts: SimCounts,
}

impl Dice {
    pub(super) const fn new(seed: u64, faults: SimFaults) -> Self {
        let counts = SimCounts { counts: [0; Fault::COUNT] };
        Self { random: Random::new(seed), faults, counts }
    }

    pub(super) const fn set_faults(&mut self, faults: SimFaults) {
        self.faults = faults;
    }

    pub(super) const fn counts(&self) -> SimCounts {
        self.counts
    }

    /// Whether a fault strikes here. If so it is counted.
    pub(super) const fn strikes(&mut self, fault: Fault) -> bool {
        let strikes = self.threatens(fault);
        if strikes {
            self.count(fault);
        }
        strikes
    }

    /// Whether a fault is to strike later. It is counted when it does.
    pub(super) const fn threatens(&mut self, fault: Fault) -> bool {
        let Rate(times) = self.faults.rate(fault);
        times > 0 && self.random.below(WHOLE as u64) < times as u64
    }

    pub(super) const fn count(&mut self, fault: Fault) {
        self.counts.counts[fault.index()] += 1;
    }

    /// By how many polls a completion is late.
    pub(super) const fn lateness(&mut self) -> u64 {
        if self.strikes(Fault::LateCompletion) { self.delay(LATE_POLLS_MAX) } else { 0 }
    }

    /// A delay of 1 to `polls_max`.
    pub(super) const fn delay(&mut self, polls_max: u64) -> u64 {
        1 + self.random.below(polls_max)
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX);
        usize::try_from(self.random.below(bound)).unwrap_or(usize::MAX)
    }

    /// A proper part of `whole`, which is at least 2: as often a few bytes as any number of them.
    pub(super) fn part_of(&mut self, whole: usize) -> usize {
        let most = whole.saturating_sub(1);
        let bound = if self.random.below(2) == 0 { most.min(FEW) } else { most };
        1 + self.below(bound)
    }

    /// How many bytes a connection carries that is to break.
    pub(super) const fn break_at(&mut self) -> u64 {
        let exponent = self.random.below(BREAK_BYTES_LOG2_MAX + 1);
        1 + self.random.below(1 << exponent)
    }

    /// Puts a list into any order.
    pub(super) fn shuffle<T>(&mut self, list: &mut [T]) {
        for place in (1..list.len()).rev() {
            let other = self.below(place + 1);
            list.swap(place, other);
        }
    }
}

/// Small enough that any field of a header is cut in two sooner or later.
const FEW: usize = 16;

#[cfg(test)]
mod tests {
    use super::{Dice, Fault, Rate, SimCounts, SimFaults};

    #[test]
    fn each_fault_has_a_place_of_its_own() {
        for (index, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault.index(), index, "{fault:?}");
        }
    }

    #[test]
    fn a_rate_is_kept_and_its_strikes_are_counted() {
        let faults = SimFaults::none()
            .with(Fault::Reset, Rate::in_256(64))
            .with(Fault::Refused, Rate::in_256(9_999));
        let mut dice = Dice::new(5, faults);
        let struck = (0..4_096).filter(|_| dice.strikes(Fault::Reset)).count() as u64;
        assert!((900..1_150).contains(&struck), "{struck} of 4,096 at a quarter");
        assert!((0..99).all(|_| dice.strikes(Fault::Refused)), "always");
        assert!((0..99).all(|_| !dice.strikes(Fault::HalfClose)), "never");
        assert_eq!(dice.counts().of(Fault::Reset), struck, "counted");
        assert_eq!(dice.counts().total(), struck + 99, "with the others");
    }

    #[test]
    fn benign_faults_are_those_that_lose_nothing() {
        for fault in Fault::ALL {
            let is_benign = SimFaults::benign().rate(fault) > Rate::NEVER;
            assert_eq!(is_benign, fault < Fault::Reset, "{fault:?}");
            assert!(SimFaults::hostile().rate(fault) > Rate::NEVER, "{fault:?}");
            assert_eq!(SimFaults::none().rate(fault), Rate::NEVER, "{fault:?}");
        }
    }

    #[test]
    fn a_part_is_never_nothing_and_never_all() {
        let mut dice = Dice::new(3, SimFaults::none());
        for whole in [2, 3, 17, 1 << 20] {
            assert!((0..200).all(|_| (1..whole).contains(&dice.part_of(whole))), "of {whole}");
        }
    }

    #[test]
    fn counts_print_what_struck() {
        let mut dice = Dice::new(3, SimFaults::none());
        assert_eq!(dice.counts().to_string(), "no faults", "none");
        dice.count(Fault::NoBuffers);
        dice.count(Fault::Reset);
        dice.count(Fault::Reset);
        assert_eq!(dice.counts().to_string(), "no_buffers 1, reset 2", "two kinds");
        assert_eq!(SimCounts::default().total(), 0, "none");
    }
}
