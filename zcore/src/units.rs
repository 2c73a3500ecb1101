//! Quantities that cannot be mixed up and never wrap.

use core::fmt;

/// A number of bytes.
///
/// There is no `+` and no `-`: each sum says what happens at its end.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ByteCount(u64);

impl ByteCount {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// The largest count that can be expressed.
    pub const MAX: Self = Self(u64::MAX);

    /// Wraps a count of bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A count of whole kibibytes; saturates at [`ByteCount::MAX`].
    pub const fn kib(kibibytes: u64) -> Self {
        Self(kibibytes.saturating_mul(1 << 10))
    }

    /// A count of whole mebibytes; saturates at [`ByteCount::MAX`].
    pub const fn mib(mebibytes: u64) -> Self {
        Self(mebibytes.saturating_mul(1 << 20))
    }

    /// The plain number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether there are none.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum, or `None` above [`ByteCount::MAX`].
    pub const fn checked_add(self, more: Self) -> Option<Self> {
        match self.0.checked_add(more.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// The difference, or `None` below zero.
    pub const fn checked_sub(self, less: Self) -> Option<Self> {
        match self.0.checked_sub(less.0) {
            Some(rest) => Some(Self(rest)),
            None => None,
        }
    }

    /// The sum, at most [`ByteCount::MAX`].
    #[must_use]
    pub const fn saturating_add(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }

    /// The difference, at least zero.
    #[must_use]
    pub const fn saturating_sub(self, less: Self) -> Self {
        Self(self.0.saturating_sub(less.0))
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}
