//! Every option of a host: its default, its valid range, and what is in force.

mod errors;

use core::num::NonZeroU32;
use core::time::Duration;

use zcore::{
    ApplicationJobQueueProfile, ByteCount, Family, HighWaterMark, PermitLimit, Quota, Thresholds,
    ThresholdsError, Timeout, limits,
};
use ztransport::driver::DriverKind;
use ztransport::limits::{PEERS_DEFAULT, PEERS_MAX, SHARDS_MAX, SPIN_WINDOW};
use ztransport::socket::SocketBuffers;

pub use errors::{ConfigError, ConfigErrors};

use crate::dispatch::RunningLimit;

/// Where handlers run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Dispatch {
    /// On Tokio if the host starts inside a multi-thread runtime, else on the shard.
    #[default]
    Auto,
    /// On the shard's own thread: no hop, and a slow poll holds its connections up.
    Shard,
    /// On the Tokio runtime that the host starts in.
    Tokio,
}

/// Which connection carries replies.
///
/// Anything but the Completion lane is an experiment: it shows that hosts which saturate each other
/// stall without a lane for replies (B-54).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ReplyLane {
    Completion,
    Application,
}

/// The options as they were set.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) send_high_water_mark: HighWaterMark,
    pub(crate) receive_high_water_mark: HighWaterMark,
    pub(crate) max_message_size: ByteCount,
    pub(crate) default_socket_send_timeout: Duration,
    pub(crate) default_request_timeout: Duration,
    pub(crate) max_queued_application_jobs: Option<u32>,
    pub(crate) application_job_queue_profile: ApplicationJobQueueProfile,
    pub(crate) job_queue_pause_percent: u32,
    pub(crate) job_queue_resume_percent: u32,
    pub(crate) max_running_handlers: RunningLimit,
    pub(crate) max_waiting_operations: u32,
    pub(crate) max_waiting_bytes: ByteCount,
    pub(crate) max_peers: u32,
    pub(crate) socket_buffers: SocketBuffers,
    pub(crate) driver: DriverKind,
    pub(crate) shards: Option<u32>,
    pub(crate) dispatch: Dispatch,
    pub(crate) reply_lane: ReplyLane,
}

/// How many handlers may run at once unless the host says otherwise (D-14).
const RUNNING_HANDLERS_DEFAULT: NonZeroU32 = match NonZeroU32::new(10_000) {
    Some(limit) => limit,
    None => NonZeroU32::MIN,
};

/// The high-water mark of one direction of one peer. Chosen arbitrarily; the largest share of the
/// Balanced profile, enough for a burst of a thousand messages of 1 KiB.
const HIGH_WATER_MARK_DEFAULT: HighWaterMark = HighWaterMark::Limit(ByteCount::mib(1));

impl Default for Options {
    fn default() -> Self {
        Self {
            send_high_water_mark: HIGH_WATER_MARK_DEFAULT,
            receive_high_water_mark: HIGH_WATER_MARK_DEFAULT,
            max_message_size: limits::MESSAGE_SIZE_DEFAULT,
            default_socket_send_timeout: Duration::from_secs(1),
            default_request_timeout: Duration::from_secs(5),
            max_queued_application_jobs: None,
            application_job_queue_profile: ApplicationJobQueueProfile::Balanced,
            job_queue_pause_percent: 80,
            job_queue_resume_percent: 60,
            max_running_handlers: RunningLimit::Limit(RUNNING_HANDLERS_DEFAULT),
            max_waiting_operations: limits::WAITING_OPERATIONS_DEFAULT,
            max_waiting_bytes: limits::WAITING_BYTES_DEFAULT,
            max_peers: PEERS_DEFAULT,
            socket_buffers: SocketBuffers::default(),
            driver: DriverKind::Auto,
            shards: None,
            dispatch: Dispatch::Auto,
            reply_lane: ReplyLane::Completion,
        }
    }
}

/// The processors that this process may use, as the standard library reads affinity and quota
/// (D-11).
fn effective_processors() -> u32 {
    let processors = std::thread::available_parallelism().ok();
    processors.and_then(|processors| u32::try_from(processors.get()).ok()).unwrap_or(1)
}

/// The options in force: every one in its range.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) send: HighWaterMark,
    pub(crate) receive: HighWaterMark,
    pub(crate) message_size_max: ByteCount,
    pub(crate) send_timeout: Timeout,
    pub(crate) request_timeout: Timeout,
    pub(crate) permit_limit: PermitLimit,
    pub(crate) thresholds: Thresholds,
    pub(crate) running: RunningLimit,
    pub(crate) quotas: [Quota; Family::COUNT],
    pub(crate) peers_max: u32,
    pub(crate) socket_buffers: SocketBuffers,
    pub(crate) driver: DriverKind,
    pub(crate) shards: u32,
    /// How long a shard spins before it sleeps.
    pub(crate) spin: Duration,
    pub(crate) reply_lane: ReplyLane,
}

impl Options {
    /// Checks every option and says all that is wrong at once.
    pub(crate) fn check(&self, errors: &mut ConfigErrors) -> Option<Settings> {
        let permit_limit = self.permit_limit(errors);
        let thresholds = self.thresholds(errors);
        let send_timeout = errors
            .timeout("default_socket_send_timeout", Timeout::new(self.default_socket_send_timeout));
        let request_timeout =
            errors.timeout("default_request_timeout", Timeout::new(self.default_request_timeout));
        self.check_sizes(errors);
        errors.range("max_peers", self.max_peers.into(), 1..=PEERS_MAX.into(), "");
        errors.range("max_waiting_operations", self.max_waiting_operations.into(), 0..=65_536, "");
        let quota = Quota::with_default_share(self.max_waiting_operations, self.max_waiting_bytes);
        let quotas = Family::ALL.map(|family| match family {
            Family::Send | Family::Request | Family::Reply => quota,
            // No topology of this host publishes or streams.
            Family::Publish | Family::Stream => Quota::NONE,
        });
        Some(Settings {
            send: self.send_high_water_mark,
            receive: self.receive_high_water_mark,
            message_size_max: self.max_message_size,
            send_timeout: send_timeout?,
            request_timeout: request_timeout?,
            permit_limit: permit_limit?,
            thresholds: thresholds?,
            running: self.max_running_handlers,
            quotas,
            peers_max: self.max_peers,
            socket_buffers: self.socket_buffers,
            driver: self.driver,
            shards: self.shards(errors),
            // With one processor, whatever a shard waits for needs that very one.
            spin: if effective_processors() > 1 { SPIN_WINDOW } else { Duration::ZERO },
            reply_lane: self.reply_lane,
        })
    }

    fn permit_limit(&self, errors: &mut ConfigErrors) -> Option<PermitLimit> {
        if let Some(limit) = self.max_queued_application_jobs {
            errors.take("max_queued_application_jobs", PermitLimit::new(limit))
        } else {
            let profile = self.application_job_queue_profile;
            Some(PermitLimit::automatic(effective_processors(), profile))
        }
    }

    fn shards(&self, errors: &mut ConfigErrors) -> u32 {
        let shards = self.shards.unwrap_or_else(|| effective_processors().min(SHARDS_MAX));
        errors.range("shards", shards.into(), 1..=SHARDS_MAX.into(), "");
        shards
    }

    /// Each percentage by itself first: one that is out of range does not hide the other.
    fn thresholds(&self, errors: &mut ConfigErrors) -> Option<Thresholds> {
        let (pause, resume) = (self.job_queue_pause_percent, self.job_queue_resume_percent);
        errors.range("job_queue_pause_percent", pause.into(), 1..=100, " %");
        errors.range("job_queue_resume_percent", resume.into(), 0..=99, " %");
        match Thresholds::new(pause, resume) {
            Ok(thresholds) => Some(thresholds),
            Err(error @ ThresholdsError::ResumeNotBelowPause { .. }) => {
                errors.push(ConfigError::new("job_queue_resume_percent", error.to_string()));
                None
            }
            Err(
                ThresholdsError::PauseOutOfRange { .. } | ThresholdsError::ResumeOutOfRange { .. },
            ) => None,
        }
    }

    fn check_sizes(&self, errors: &mut ConfigErrors) {
        let size_max = limits::MESSAGE_SIZE_MAX.get();
        errors.range("max_message_size", self.max_message_size.get(), 1..=size_max, " B");
        let marks = [
            ("send_high_water_mark", self.send_high_water_mark),
            ("receive_high_water_mark", self.receive_high_water_mark),
        ];
        for (option, mark) in marks {
            if let HighWaterMark::Limit(limit) = mark {
                let least = limits::RECORD_OVERHEAD.get();
                errors.range(option, limit.get(), least..=u64::MAX, " B");
            }
        }
    }
}
