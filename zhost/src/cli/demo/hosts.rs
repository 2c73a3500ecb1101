//! The two hosts of the demo: the only file here that knows the Framework's interface.

use core::fmt::Display;
use core::num::NonZeroU32;
use core::time::Duration;
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use zcore::limits::CONTROL_ALLOWANCE;

use super::control::{Cause, Failure, ReceiverSetup};
use super::message::Permits;
use super::options::{MAX_RUNNING_HANDLERS, REQUEST_TIMEOUT, SEND_TIMEOUT, Scenario};
use super::receiver::Work;
use crate::{
    ByteCount, Caller, ChannelServer, Error, ErrorKind, HighWaterMark, Host, IntoRequestHandler,
    IntoSendHandler, MeshPeer, QueueStatus, Rejection, RouteMesh, RunningLimit, SocketAddress,
    StartError,
};

/// Bytes of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueLevels {
    pub(super) bytes: u64,
    pub(super) peak_bytes: u64,
    /// The mark in force and what control records may add to it.
    pub(super) bound_bytes: u64,
}

/// How the receiving host stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReceiverLevels {
    pub(super) queue: QueueLevels,
    pub(super) permits: u64,
    pub(super) permits_peak: u64,
    pub(super) permit_limit: u64,
}

/// The host that handles.
#[derive(Debug)]
pub(super) struct ReceivingHost {
    host: Arc<Host>,
    address: SocketAddress,
}

impl ReceivingHost {
    /// Starts the host; it listens where `setup` says.
    ///
    /// # Errors
    ///
    /// When the host refuses its options or this machine lacks something.
    pub(super) fn start(setup: &ReceiverSetup, work: &Arc<Work>) -> Result<Self, Failure> {
        // The handlers ask the host how it stands, so they must exist before it does.
        let own = Arc::new(OnceLock::<Weak<Host>>::new());
        let channel = ChannelServer::new(CHANNEL).on_send(PLACED, placed(work));
        let channel = channel.on_request(QUOTE, quoted(work, &own));
        let listen = parsed(&setup.address)?;
        let host = Host::builder(RECEIVER)
            .mesh(RouteMesh::new(MESH).listen(listen).channel(channel))
            .receive_high_water_mark(mark(setup.receive_hwm_bytes))
            .max_queued_application_jobs(setup.max_jobs)
            .driver(setup.driver.kind())
            .max_running_handlers(
                NonZeroU32::new(MAX_RUNNING_HANDLERS)
                    .map_or(RunningLimit::Unlimited, RunningLimit::Limit),
            )
            .start()
            .map_err(|error| not_started(&error))?;
        let host = Arc::new(host);
        own.get_or_init(|| Arc::downgrade(&host));
        let address = host.listen_address(MESH).cloned();
        let address = address.ok_or_else(|| broken(&"the receiving host does not listen"))?;
        Ok(Self { host, address })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(super) fn levels(&self) -> ReceiverLevels {
        let status = self.host.status();
        let jobs = status.application_job_queue;
        ReceiverLevels {
            queue: levels(status.peers.first().map(|peer| peer.receive_queue)),
            permits: jobs.in_use.into(),
            permits_peak: jobs.peak_in_use.into(),
            permit_limit: jobs.limit.into(),
        }
    }

    pub(super) async fn shutdown(self) {
        self.host.shutdown_within(SHUTDOWN_LIMIT).await;
    }
}

/// The host that sends.
#[derive(Debug)]
pub(super) struct SendingHost {
    host: Host,
    caller: Caller,
}

impl SendingHost {
    /// Starts the host; it dials the receiver at `address`.
    ///
    /// # Errors
    ///
    /// As for [`ReceivingHost::start`].
    pub(super) fn start(scenario: &Scenario, address: &str) -> Result<Self, Failure> {
        let address = parsed(address)?;
        let receiver = MeshPeer::new(RECEIVER, address).serves(CHANNEL);
        let host = Host::builder(SENDER)
            .mesh(RouteMesh::new(MESH).peer(receiver))
            .send_high_water_mark(mark(scenario.send_hwm.get()))
            .default_socket_send_timeout(SEND_TIMEOUT)
            .driver(scenario.driver.kind())
            .start()
            .map_err(|error| not_started(&error))?;
        let caller = host.channel(CHANNEL).map_err(|error| broken(&error))?;
        Ok(Self { host, caller })
    }

    pub(super) fn sender(&self) -> Sender {
        Sender { caller: self.caller.clone() }
    }

    pub(super) fn levels(&self) -> QueueLevels {
        levels(self.host.status().peers.first().map(|peer| peer.send_queue))
    }

    /// The driver that moves the host's bytes, and why it is that one.
    pub(super) fn driver(&self) -> (String, String) {
        let first = self.host.status().shards.into_iter().next();
        first.map_or_else(Default::default, |shard| (shard.driver.into(), shard.driver_reason))
    }

    /// Ends the host; its levels can still be read.
    pub(super) async fn shutdown(&self) {
        self.host.shutdown_within(SHUTDOWN_LIMIT).await;
    }
}

/// Calls the receiver's channel.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    caller: Caller,
}

/// How a call ended without success.
#[derive(Clone, Debug)]
pub(super) enum CallError {
    DeadlineExceeded,
    /// Anything else, in the host's words.
    Other(String),
}

impl Sender {
    /// # Errors
    ///
    /// What the host says of the send.
    pub(super) async fn send(&self, payload: Bytes) -> Result<(), CallError> {
        Ok(self.caller.send(PLACED, payload).await?)
    }

    /// # Errors
    ///
    /// What the host says of the request.
    pub(super) async fn request(&self, payload: Bytes) -> Result<Bytes, CallError> {
        let reply = self.caller.request(QUOTE, payload).timeout(REQUEST_TIMEOUT).await?;
        Ok(reply.payload())
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> Self {
        if error.kind() == ErrorKind::DeadlineExceeded {
            return Self::DeadlineExceeded;
        }
        Self::Other(error.to_string())
    }
}

fn placed(work: &Arc<Work>) -> impl IntoSendHandler<Bytes> + use<> {
    let work = Arc::clone(work);
    move |payload: Bytes| {
        let work = Arc::clone(&work);
        async move { work.place(&payload).await }
    }
}

fn quoted(
    work: &Arc<Work>,
    own: &Arc<OnceLock<Weak<Host>>>,
) -> impl IntoRequestHandler<Bytes> + use<> {
    let (work, own) = (Arc::clone(work), Arc::clone(own));
    move |payload: Bytes| {
        let (work, own) = (Arc::clone(&work), Arc::clone(&own));
        async move {
            let answer = work.quote(&payload, || permits(&own)).await;
            answer.map_err(|_damaged| Rejection)
        }
    }
}

fn permits(own: &OnceLock<Weak<Host>>) -> Permits {
    let host = own.get().and_then(Weak::upgrade);
    match host {
        Some(host) if host.is_saturated() => Permits::Exhausted,
        Some(_) | None => Permits::Free,
    }
}

fn levels(queue: Option<QueueStatus>) -> QueueLevels {
    let Some(queue) = queue else { return QueueLevels::default() };
    let bound_bytes = match queue.mark {
        HighWaterMark::Limit(mark) => mark.get().saturating_add(CONTROL_ALLOWANCE.get()),
        HighWaterMark::Unlimited => u64::MAX,
    };
    QueueLevels { bytes: queue.accounted.get(), peak_bytes: queue.peak.get(), bound_bytes }
}

fn parsed(address: &str) -> Result<SocketAddress, Failure> {
    address.parse::<SocketAddress>().map_err(|error| broken(&error))
}

const fn mark(bytes: u64) -> HighWaterMark {
    HighWaterMark::Limit(ByteCount::new(bytes))
}

fn not_started(error: &StartError) -> Failure {
    let cause = match error {
        StartError::Config(_) => Cause::Usage,
        StartError::Unavailable(_) | StartError::NoEpoll(_) => Cause::Environment,
        StartError::Listen { .. } | StartError::Thread(_) | StartError::Ended => Cause::Run,
    };
    Failure { cause, sentence: error.to_string() }
}

fn broken(error: &impl Display) -> Failure {
    Failure { cause: Cause::Run, sentence: error.to_string() }
}

const MESH: &str = "shop";
const CHANNEL: &str = "orders";
const PLACED: &str = "order.placed";
const QUOTE: &str = "order.quote";
const SENDER: &str = "demo-sender";
const RECEIVER: &str = "demo-receiver";

/// Nothing is queued any more when the hosts end, unless the other process is gone.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);
