//! Describes a host, checks all of it at once, and starts it.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use zcore::{ApplicationJobQueueProfile, ByteCount, HighWaterMark};
use ztransport::clock::{Clock, MonotonicClock};
use ztransport::driver::DriverKind;
use ztransport::epoll::EpollUnavailable;
use ztransport::probe::Unavailable;
use ztransport::socket::{SocketAddress, SocketBuffers};

use crate::assembly::{self, Assembled};
use crate::dispatch::RunningLimit;
use crate::host::Host;
use crate::options::{ConfigErrors, Dispatch, Options, ReplyLane};
use crate::threads::{DriverError, Threads, ThreadsError};
use crate::topology::{ClientServer, RouteMesh};

/// A host that has not started.
#[derive(Debug)]
pub struct HostBuilder {
    pub(crate) node: String,
    pub(crate) options: Options,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) meshes: Vec<RouteMesh>,
    pub(crate) client_servers: Vec<ClientServer>,
}

impl HostBuilder {
    pub(crate) fn new(node: String) -> Self {
        Self {
            node,
            options: Options::default(),
            clock: Arc::new(MonotonicClock),
            meshes: Vec::new(),
            client_servers: Vec::new(),
        }
    }

    /// Takes part in a mesh.
    #[must_use]
    pub fn mesh(mut self, mesh: RouteMesh) -> Self {
        self.meshes.push(mesh);
        self
    }

    /// Takes one side of a ClientServer channel.
    #[must_use]
    pub fn client_server(mut self, channel: ClientServer) -> Self {
        self.client_servers.push(channel);
        self
    }

    /// Accounted bytes kept for sending to each peer; default 1 MiB (B-97).
    #[must_use]
    pub const fn send_high_water_mark(mut self, mark: HighWaterMark) -> Self {
        self.options.send_high_water_mark = mark;
        self
    }

    /// Accounted bytes kept after receipt from each peer; default 1 MiB (B-98).
    #[must_use]
    pub const fn receive_high_water_mark(mut self, mark: HighWaterMark) -> Self {
        self.options.receive_high_water_mark = mark;
        self
    }

    /// Payload plus metadata of one message; default 16 MiB. The smaller limit of two peers binds
    /// (D-06).
    #[must_use]
    pub const fn max_message_size(mut self, size: ByteCount) -> Self {
        self.options.max_message_size = size;
        self
    }

    /// How long a send or a reply waits for room: 1 ms to 2,147,483,647 ms, rounded up to whole
    /// milliseconds; default 1 s (B-82, B-95).
    #[must_use]
    pub const fn default_socket_send_timeout(mut self, timeout: Duration) -> Self {
        self.options.default_socket_send_timeout = timeout;
        self
    }

    /// How long a request waits for room and reply together unless it says otherwise; default 5 s.
    #[must_use]
    pub const fn default_request_timeout(mut self, timeout: Duration) -> Self {
        self.options.default_request_timeout = timeout;
        self
    }

    /// Jobs that may wait for their handlers, 1 to 2,147,483,647, for the whole host. Unset, it is
    /// computed from the processors and [`HostBuilder::application_job_queue_profile`] (B-118).
    #[must_use]
    pub const fn max_queued_application_jobs(mut self, jobs: u32) -> Self {
        self.options.max_queued_application_jobs = Some(jobs);
        self
    }

    /// Jobs for each effective processor, where no number is set; default Balanced (B-121).
    #[must_use]
    pub const fn application_job_queue_profile(
        mut self,
        profile: ApplicationJobQueueProfile,
    ) -> Self {
        self.options.application_job_queue_profile = profile;
        self
    }

    /// Percent of the job limit at which the queue is under pressure, 1 to 100; default 80 (B-123).
    #[must_use]
    pub const fn job_queue_pause_percent(mut self, percent: u32) -> Self {
        self.options.job_queue_pause_percent = percent;
        self
    }

    /// Percent of the job limit at which the pressure ends, 0 to 99 and below the pause percent;
    /// default 60 (B-123).
    #[must_use]
    pub const fn job_queue_resume_percent(mut self, percent: u32) -> Self {
        self.options.job_queue_resume_percent = percent;
        self
    }

    /// Handlers that may have started and not ended; default 10,000 (D-14).
    #[must_use]
    pub const fn max_running_handlers(mut self, limit: RunningLimit) -> Self {
        self.options.max_running_handlers = limit;
        self
    }

    /// Calls of each family that may wait for room, 0 to 65,536; default 4,096 (D-05).
    #[must_use]
    pub const fn max_waiting_operations(mut self, operations: u32) -> Self {
        self.options.max_waiting_operations = operations;
        self
    }

    /// Bytes that the waiting calls of each family may hold; default 64 MiB (D-05).
    #[must_use]
    pub const fn max_waiting_bytes(mut self, bytes: ByteCount) -> Self {
        self.options.max_waiting_bytes = bytes;
        self
    }

    /// Peers that the host takes, 1 to 65,536; default 4,096 (D-26).
    #[must_use]
    pub const fn max_peers(mut self, peers: u32) -> Self {
        self.options.max_peers = peers;
        self
    }

    /// The kernel's buffers of each connection; default 256 KiB each.
    #[must_use]
    pub const fn socket_buffers(mut self, buffers: SocketBuffers) -> Self {
        self.options.socket_buffers = buffers;
        self
    }

    /// What moves the bytes; default [`DriverKind::Auto`]. The status says what was taken and why.
    #[must_use]
    pub const fn driver(mut self, kind: DriverKind) -> Self {
        self.options.driver = kind;
        self
    }

    /// Threads that serve connections, 1 to 64. Unset, [`HostBuilder::start`] takes the effective
    /// processors (D-11), and [`HostBuilder::block_on`] one, the calling thread.
    #[must_use]
    pub const fn shards(mut self, shards: u32) -> Self {
        self.options.shards = Some(shards);
        self
    }

    /// Where handlers run; default [`Dispatch::Auto`].
    #[must_use]
    pub const fn dispatch(mut self, dispatch: Dispatch) -> Self {
        self.options.dispatch = dispatch;
        self
    }

    /// Sends replies over the Application connection, behind data and under its limits. Both hosts
    /// must do so. An experiment that shows what the Completion connection is for (B-54); no host
    /// that is to work does this.
    #[doc(hidden)]
    #[must_use]
    pub const fn replies_on_the_application_connection(mut self) -> Self {
        self.options.reply_lane = ReplyLane::Application;
        self
    }

    /// Where time comes from; default the monotonic clock. Tests give a
    /// [`VirtualClock`](crate::clock::VirtualClock).
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Checks the description, binds its listeners, and starts a thread for each shard,
    /// `zlink-shard-0` and on.
    ///
    /// # Errors
    ///
    /// [`StartError::Config`] with every violation, before anything is bound;
    /// [`StartError::Listen`] for an address that cannot be had; [`StartError::Unavailable`] says
    /// what is missing on this machine and how to allow it.
    ///
    /// ```
    /// # use core::time::Duration;
    /// let error = zhost::Host::builder("a b")
    ///     .default_socket_send_timeout(Duration::ZERO)
    ///     .max_queued_application_jobs(0)
    ///     .start()
    ///     .unwrap_err();
    /// let text = error.to_string();
    /// assert!(text.contains("`node`"), "{text}");
    /// assert!(text.contains("`max_queued_application_jobs`"), "{text}");
    /// assert!(text.contains("`default_socket_send_timeout`: 0 ms is outside"), "{text}");
    /// ```
    pub fn start(self) -> Result<Host, StartError> {
        let Assembled { shared, shards, directory } = assembly::assemble(self)?;
        let threads = Threads::start(&shared, shards, 0)?;
        Ok(Host { shared, threads: Some(threads), directory })
    }

    /// Runs the host on the calling thread, with the client code beside it, and shuts down when
    /// that ends: unless it is to have more shards than one, no thread is started and no hop paid.
    ///
    /// # Errors
    ///
    /// As [`HostBuilder::start`]; [`StartError::Ended`] when the client code panicked.
    pub fn block_on<T, M, F>(mut self, main: M) -> Result<T, StartError>
    where
        M: FnOnce(Host) -> F + Send + 'static,
        F: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        self.options.shards.get_or_insert(1);
        assembly::block_on(self, main)
    }
}

/// Why a host did not start.
#[derive(Debug)]
pub enum StartError {
    /// Its description is wrong; nothing was bound.
    Config(ConfigErrors),
    /// It cannot listen.
    Listen {
        /// Where.
        address: SocketAddress,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// There is no `io_uring`, and nothing else was to be taken.
    Unavailable(Unavailable),
    /// There is no `epoll`.
    NoEpoll(EpollUnavailable),
    /// There is no thread to be had.
    Thread(std::io::Error),
    /// The client code of [`HostBuilder::block_on`] panicked.
    Ended,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(errors) => errors.fmt(f),
            Self::Listen { address, source } => {
                write!(f, "cannot listen on {address}: {source}; is another process there?")
            }
            Self::Unavailable(unavailable) => unavailable.fmt(f),
            Self::NoEpoll(error) => error.fmt(f),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Self::Ended => f.write_str("the client code panicked on its shard"),
        }
    }
}

impl core::error::Error for StartError {}

impl From<ConfigErrors> for StartError {
    fn from(errors: ConfigErrors) -> Self {
        Self::Config(errors)
    }
}

impl From<DriverError> for StartError {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::Uring(unavailable) => Self::Unavailable(unavailable),
            DriverError::Epoll(error) => Self::NoEpoll(error),
        }
    }
}

impl From<ThreadsError> for StartError {
    fn from(error: ThreadsError) -> Self {
        match error {
            ThreadsError::Thread(error) => Self::Thread(error),
            ThreadsError::Driver(error) => error.into(),
        }
    }
}
