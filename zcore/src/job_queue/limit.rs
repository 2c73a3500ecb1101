//! How many jobs may wait for their handlers, in one host.

use core::fmt;

use crate::limits::PERMIT_LIMIT_MAX;

/// How many permits a job queue has: `1..=2_147_483_647` (B-118).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PermitLimit(u32);

impl PermitLimit {
    /// Exactly `permits`, as the option `max_queued_application_jobs` says.
    ///
    /// # Errors
    ///
    /// [`PermitLimitOutOfRange`] for zero, which does not mean unlimited (B-119), and for more than
    /// [`PERMIT_LIMIT_MAX`].
    ///
    /// ```
    /// # use zcore::PermitLimit;
    /// let error = PermitLimit::new(0).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "`max_queued_application_jobs` is 0; valid is 1..=2147483647; \
    ///      leave it unset for an automatic limit"
    /// );
    /// ```
    pub const fn new(permits: u32) -> Result<Self, PermitLimitOutOfRange> {
        if permits == 0 || permits > PERMIT_LIMIT_MAX {
            return Err(PermitLimitOutOfRange { permits });
        }
        Ok(Self(permits))
    }

    /// The limit of a host that sets none (B-120, B-121).
    ///
    /// `processors` are the effective ones; a host has at least one, so that zero counts as one.
    /// Saturates at [`PERMIT_LIMIT_MAX`].
    ///
    /// ```
    /// # use zcore::{ApplicationJobQueueProfile, PermitLimit};
    /// assert_eq!(PermitLimit::automatic(4, ApplicationJobQueueProfile::Balanced).get(), 512);
    /// ```
    pub const fn automatic(processors: u32, profile: ApplicationJobQueueProfile) -> Self {
        let counted = if processors == 0 { 1 } else { processors };
        let permits = profile.jobs_per_processor().saturating_mul(counted);
        Self(if permits > PERMIT_LIMIT_MAX { PERMIT_LIMIT_MAX } else { permits })
    }

    /// The number of permits.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A number of permits that no job queue can have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PermitLimitOutOfRange {
    permits: u32,
}

impl fmt::Display for PermitLimitOutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { permits } = self;
        write!(
            f,
            "`max_queued_application_jobs` is {permits}; valid is 1..={PERMIT_LIMIT_MAX}; \
             leave it unset for an automatic limit"
        )
    }
}

impl core::error::Error for PermitLimitOutOfRange {}

/// How many jobs a host without an explicit limit keeps for each processor (B-121).
///
/// Counts jobs, never bytes: the byte budget has a profile of its own with the same labels (B-129).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum ApplicationJobQueueProfile {
    /// 32 jobs: the fewest payloads owned at once.
    Compact,
    /// 64 jobs: short queues before the handlers.
    LowLatency,
    /// 128 jobs.
    #[default]
    Balanced,
    /// 256 jobs: handlers never wait for the network.
    Throughput,
}

impl ApplicationJobQueueProfile {
    /// Each profile once.
    pub const ALL: [Self; 4] = [Self::Compact, Self::LowLatency, Self::Balanced, Self::Throughput];

    /// Jobs for each effective processor.
    pub const fn jobs_per_processor(self) -> u32 {
        match self {
            Self::Compact => 32,
            Self::LowLatency => 64,
            Self::Balanced => 128,
            Self::Throughput => 256,
        }
    }
}
