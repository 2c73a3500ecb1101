//! Time as an input.

use core::fmt;
use core::time::Duration;

/// Nanoseconds since an epoch that the host chooses and keeps.
///
/// A `u64` of nanoseconds lasts 584 years, which ends the discussion about wrapping.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Instant(u64);

impl Instant {
    /// The host's epoch.
    pub const EPOCH: Self = Self(0);

    /// Later than every instant that a host reaches.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The instant `span` later, at most [`Instant::FAR_FUTURE`].
    #[must_use]
    pub fn saturating_add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// How long an operation may take: whole milliseconds, `1..=2_147_483_647` (B-95, BU-05).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timeout(Duration);

impl Timeout {
    /// The longest, about 24.8 days.
    pub const MAX: Self = Self(Duration::from_millis(2_147_483_647));

    /// The default of every send limit: one second (B-82).
    pub const ONE_SECOND: Self = Self(Duration::from_secs(1));

    /// Rounds `span` up to a whole millisecond.
    ///
    /// # Errors
    ///
    /// [`TimeoutOutOfRange`] for zero and for more than [`Timeout::MAX`].
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use zcore::Timeout;
    /// assert_eq!(Timeout::new(Duration::from_micros(200))?.get(), Duration::from_millis(1));
    /// let error = Timeout::new(Duration::ZERO).unwrap_err();
    /// assert_eq!(error.to_string(), "0 ms is outside 1..=2147483647 ms");
    /// # Ok::<(), zcore::TimeoutOutOfRange>(())
    /// ```
    pub fn new(span: Duration) -> Result<Self, TimeoutOutOfRange> {
        let millis = span.as_nanos().div_ceil(1_000_000);
        match u64::try_from(millis) {
            Ok(whole) if (1..=2_147_483_647).contains(&whole) => {
                Ok(Self(Duration::from_millis(whole)))
            }
            Ok(_) | Err(_) => Err(TimeoutOutOfRange { millis }),
        }
    }

    /// The span.
    pub const fn get(self) -> Duration {
        self.0
    }
}

/// A span that is no [`Timeout`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimeoutOutOfRange {
    millis: u128,
}

impl fmt::Display for TimeoutOutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { millis } = self;
        write!(f, "{millis} ms is outside 1..=2147483647 ms")
    }
}

impl core::error::Error for TimeoutOutOfRange {}
