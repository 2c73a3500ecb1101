//! Bytes held against one high-water mark.

use crate::charge::Charge;
use crate::limits::CONTROL_ALLOWANCE;
use crate::units::ByteCount;

/// How many accounted bytes a queue may hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HighWaterMark {
    /// At most this many, but for one record in an empty queue.
    Limit(ByteCount),
    /// No limit. In configuration text this is `0` and must be written (B-115).
    Unlimited,
}

impl HighWaterMark {
    /// The mark at which a locked queue unlocks: half of it, rounded up (BU-02).
    pub const fn low_water(self) -> ByteCount {
        match self {
            Self::Limit(limit) => ByteCount::new(limit.get().div_ceil(2)),
            Self::Unlimited => ByteCount::MAX,
        }
    }

    /// The most that a queue with this mark ever accounts, if no record is charged more than
    /// `charge_max`: the mark, or one record above it, and the control records beside that (D-02,
    /// D-24). [`ByteCount::MAX`] without a limit.
    ///
    /// ```
    /// # use zcore::{ByteCount, HighWaterMark, limits::CONTROL_ALLOWANCE};
    /// let mark = HighWaterMark::Limit(ByteCount::kib(64));
    /// let control = CONTROL_ALLOWANCE.get();
    /// assert_eq!(mark.worst_case(ByteCount::kib(1)).get(), (64 << 10) + control);
    /// assert_eq!(mark.worst_case(ByteCount::mib(1)).get(), (1 << 20) + control);
    /// ```
    pub const fn worst_case(self, charge_max: ByteCount) -> ByteCount {
        let mark = self.limit();
        let data = if charge_max.get() > mark.get() { charge_max } else { mark };
        data.saturating_add(CONTROL_ALLOWANCE)
    }

    const fn limit(self) -> ByteCount {
        match self {
            Self::Limit(limit) => limit,
            Self::Unlimited => ByteCount::MAX,
        }
    }
}

/// The accounted bytes of one origin in one direction (B-05).
#[derive(Clone, Debug)]
pub struct Account {
    mark: HighWaterMark,
    accounted: ByteCount,
    peak: ByteCount,
    oversized: u64,
}

impl Account {
    /// An empty account.
    pub const fn new(mark: HighWaterMark) -> Self {
        Self { mark, accounted: ByteCount::ZERO, peak: ByteCount::ZERO, oversized: 0 }
    }

    /// Whether a record may enter now.
    ///
    /// An empty account takes a record of any size: without that, one larger than the mark could
    /// never be sent at all (BU-03).
    pub const fn admits(&self, charge: Charge) -> bool {
        if self.accounted.is_zero() {
            return true;
        }
        match self.accounted.checked_add(charge.bytes()) {
            Some(sum) => sum.get() <= self.mark.limit().get(),
            None => false,
        }
    }

    /// Takes a record in, whatever the mark says. Callers ask [`Account::admits`] first, except for
    /// control records (D-24).
    pub fn charge(&mut self, charge: Charge) {
        let sum = self.accounted.checked_add(charge.bytes());
        debug_assert!(sum.is_some(), "{} and {} overflow", self.accounted, charge.bytes());
        self.accounted = sum.unwrap_or(ByteCount::MAX);
        self.peak = self.peak.max(self.accounted);
        if charge.bytes() > self.mark.limit() {
            self.oversized = self.oversized.saturating_add(1);
        }
    }

    /// Gives the bytes of a record back.
    pub fn release(&mut self, charge: Charge) {
        let rest = self.accounted.checked_sub(charge.bytes());
        debug_assert!(
            rest.is_some(),
            "released {} of {} accounted",
            charge.bytes(),
            self.accounted
        );
        self.accounted = rest.unwrap_or(ByteCount::ZERO);
    }

    /// Gives everything back, because the records themselves are gone.
    pub const fn release_all(&mut self) {
        self.accounted = ByteCount::ZERO;
    }

    /// Changes the mark. Drops nothing: a lower mark takes effect as bytes drain (BU-04).
    pub const fn set_mark(&mut self, mark: HighWaterMark) {
        self.mark = mark;
    }

    /// The mark in force.
    pub const fn mark(&self) -> HighWaterMark {
        self.mark
    }

    /// Bytes held now.
    pub const fn accounted(&self) -> ByteCount {
        self.accounted
    }

    /// The most bytes held at once.
    pub const fn peak(&self) -> ByteCount {
        self.peak
    }

    /// How many records were larger than the mark when they entered (BU-03).
    pub const fn oversized(&self) -> u64 {
        self.oversized
    }

    /// Whether the account has drained to its low-water mark.
    pub const fn is_low(&self) -> bool {
        self.accounted.get() <= self.mark.low_water().get()
    }
}
