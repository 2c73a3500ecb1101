//! When a job queue is too full to receive more, and when it is empty enough again.

use core::fmt;

use crate::job_queue::PermitLimit;

/// Whether ordinary ingress should go on (B-123). Says nothing about readiness or liveness (B-127).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Pressure {
    /// Permits in use are few enough.
    #[default]
    Running,
    /// Permits in use have reached the pause count and not yet fallen to the resume count.
    Paused,
}

impl Pressure {
    /// The name in status and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
        }
    }
}

/// At which parts of its limit a job queue pauses and resumes, in percent (B-125).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Thresholds {
    pause_percent: u32,
    resume_percent: u32,
}

impl Thresholds {
    /// Pauses at 80 %, resumes at 60 % (B-123).
    pub const DEFAULT: Self = Self { pause_percent: 80, resume_percent: 60 };

    /// Pauses at `1..=100` percent and resumes at `0..=99` percent, below the pause.
    ///
    /// # Errors
    ///
    /// [`ThresholdsError`] for the first of the two out of range, in the order of the parameters,
    /// and for a resume percent that is not below the pause percent.
    ///
    /// ```
    /// # use zcore::Thresholds;
    /// let error = Thresholds::new(0, 60).unwrap_err();
    /// assert_eq!(error.to_string(), "`job_queue_pause_percent` is 0 %; valid is 1..=100 %");
    /// ```
    pub const fn new(pause_percent: u32, resume_percent: u32) -> Result<Self, ThresholdsError> {
        if pause_percent == 0 || pause_percent > 100 {
            return Err(ThresholdsError::PauseOutOfRange { pause_percent });
        }
        if resume_percent > 99 {
            return Err(ThresholdsError::ResumeOutOfRange { resume_percent });
        }
        if resume_percent >= pause_percent {
            return Err(ThresholdsError::ResumeNotBelowPause { pause_percent, resume_percent });
        }
        Ok(Self { pause_percent, resume_percent })
    }

    /// The permits in use at which a queue of `limit` permits pauses and resumes.
    ///
    /// The pause rounds up and the resume down (B-124). No clamp keeps them apart, because with
    /// `resume < pause` and `limit >= 1` the unrounded counts differ already, and rounding only
    /// moves them further from each other (B-126). A pause count is therefore never zero.
    pub fn marks(self, limit: PermitLimit) -> PressureMarks {
        let part = |percent: u32| u64::from(limit.get()).saturating_mul(u64::from(percent));
        let pause = u32::try_from(part(self.pause_percent).div_ceil(100)).unwrap_or(u32::MAX);
        let resume = u32::try_from(part(self.resume_percent) / 100).unwrap_or(u32::MAX);
        debug_assert!(resume < pause, "resumes at {resume}, pauses at {pause}");
        PressureMarks { pause, resume }
    }
}

impl Default for Thresholds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Percents that are no [`Thresholds`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ThresholdsError {
    /// The pause percent is zero or above 100.
    PauseOutOfRange {
        /// The value given.
        pause_percent: u32,
    },
    /// The resume percent is above 99.
    ResumeOutOfRange {
        /// The value given.
        resume_percent: u32,
    },
    /// The queue would pause and resume at the same count.
    ResumeNotBelowPause {
        /// The value given for the pause.
        pause_percent: u32,
        /// The value given for the resume.
        resume_percent: u32,
    },
}

impl fmt::Display for ThresholdsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PauseOutOfRange { pause_percent } => {
                write!(f, "`job_queue_pause_percent` is {pause_percent} %; valid is 1..=100 %")
            }
            Self::ResumeOutOfRange { resume_percent } => {
                write!(f, "`job_queue_resume_percent` is {resume_percent} %; valid is 0..=99 %")
            }
            Self::ResumeNotBelowPause { pause_percent, resume_percent } => write!(
                f,
                "`job_queue_resume_percent` is {resume_percent} % and must be below \
                 `job_queue_pause_percent`, which is {pause_percent} %"
            ),
        }
    }
}

impl core::error::Error for ThresholdsError {}

/// Thresholds as counts of permits of one job queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PressureMarks {
    pause: u32,
    resume: u32,
}

impl PressureMarks {
    /// Permits in use from which on the queue pauses.
    pub const fn pause(self) -> u32 {
        self.pause
    }

    /// Permits in use down to which a paused queue stays paused.
    pub const fn resume(self) -> u32 {
        self.resume
    }

    /// The pressure after `before` once `in_use` permits are in use (B-123).
    pub const fn after(self, before: Pressure, in_use: u32) -> Pressure {
        match before {
            Pressure::Running if in_use >= self.pause => Pressure::Paused,
            Pressure::Paused if in_use <= self.resume => Pressure::Running,
            Pressure::Running | Pressure::Paused => before,
        }
    }
}
