//! Sending and requesting, from any thread.

use core::fmt;
use core::future::{Future, IntoFuture};
use core::pin::Pin;
use core::task::Poll;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use zcore::wire::{ErrorReply, Fault, Kind, RouteHash};
use zcore::{Certainty, Family, Instant, Progress, Stage, Timeout};
use ztransport::{Incoming, Limit, Ordinal, Outgoing, Peer, Submitted, WaitEnd};

use super::payload::{IntoPayload, Payload, from_json};
use super::pending::{RequestCell, RequestEnd};
use crate::engine::Shared;
use crate::error::{Error, ErrorKind};
use crate::topology::{SelectOne, returned};

/// Where calls of one kind go.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// One candidate of a channel, chosen for each call (B-73).
    Channel(Arc<SelectOne>),
    /// Always the same node (B-72).
    Node(Arc<Peer>),
}

/// Calls a channel, or one node of it. Cheap to clone, usable from every thread.
#[derive(Clone)]
pub struct Caller {
    shared: Arc<Shared>,
    target: Target,
    channel: Arc<str>,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shared: _, target: _, channel } = self;
        f.debug_struct("Caller").field("channel", channel).finish_non_exhaustive()
    }
}

impl Caller {
    pub(crate) const fn new(shared: Arc<Shared>, target: Target, channel: Arc<str>) -> Self {
        Self { shared, target, channel }
    }

    /// Sends a one-way message and completes when this host has accepted it (B-56).
    ///
    /// Acceptance says nothing about the peer. An accepted message is charged to its target's send
    /// queue and is never dropped for load. Without room the call waits, within
    /// `default_socket_send_timeout`, and ends once; dropping the future takes it back.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::DeadlineExceeded`] when there was no room in time, or no place to wait for it;
    /// [`ErrorKind::MessageTooLarge`]; [`ErrorKind::NotFound`] without a candidate;
    /// [`ErrorKind::ShuttingDown`]; [`ErrorKind::Unavailable`] when the target was detached. All of
    /// them are certain: nothing was sent.
    pub async fn send(&self, name: &str, payload: impl IntoPayload) -> Result<(), Error> {
        let payload = payload.into_payload()?;
        let peer = self.choose()?;
        let record = self.record(Kind::Send, 0, name, payload);
        let limit = Limit::Within(self.shared.settings.send_timeout);
        let waiting = match peer.application().submit(record, Family::Send, limit) {
            Submitted::Admitted(_) => return Ok(()),
            Submitted::Refused(refusal) => {
                return Err(self.shared.failed(Error::refused(refusal)));
            }
            Submitted::Waiting(waiting) => waiting,
        };
        let began = waiting.since();
        match waiting.await {
            WaitEnd::Admitted(_) => Ok(()),
            WaitEnd::Expired => Err(self.failed_after(Error::no_room(), began)),
            WaitEnd::Ended(ending) => Err(self.failed_after(Error::ended(ending), began)),
            WaitEnd::TooLarge => {
                Err(self.failed_after(Error::outgrown(Stage::AwaitingRoom), began))
            }
        }
    }

    /// Asks for a reply. Await the call, or give it a timeout of its own first.
    ///
    /// # Errors
    ///
    /// Those of [`Caller::send`], and what became of the request afterwards:
    /// [`ErrorKind::DeadlineExceeded`] without a reply in time, ambiguous once the request was sent;
    /// [`ErrorKind::Unavailable`] when the connection broke after it was sent. That call waits until
    /// the peer is back and says whether it had taken the request, or its process is known to be gone;
    /// at most 15 s, and never beyond its own timeout. It is safe to repeat if the peer had not taken
    /// it, and ambiguous otherwise (D-25). What the other side answers: [`ErrorKind::NotFound`], [`ErrorKind::TypeMismatch`], [`ErrorKind::Rejected`],
    /// [`ErrorKind::InternalFailure`].
    pub fn request<P: IntoPayload>(&self, name: &str, payload: P) -> RequestCall<'_, P> {
        let timeout = self.shared.settings.request_timeout.get();
        RequestCall { caller: self, name: name.into(), payload, timeout }
    }

    fn choose(&self) -> Result<Arc<Peer>, Error> {
        let peer = match &self.target {
            Target::Channel(candidates) => candidates.choose(&self.shared.peers),
            Target::Node(peer) => {
                let returned = returned(&self.shared.peers, peer);
                Some(returned.unwrap_or_else(|| Arc::clone(peer)))
            }
        };
        peer.ok_or_else(|| {
            let hint = "the channel has no candidate; add a peer that serves it";
            self.shared.failed(Error::at_once(ErrorKind::NotFound, hint))
        })
    }

    fn record(&self, kind: Kind, id: u64, name: &str, payload: Payload) -> Outgoing {
        let route = route_of(&self.channel, name);
        let Payload { content, bytes } = payload;
        Outgoing { content, ..Outgoing::new(kind, id, route, bytes) }
    }

    fn failed_after(&self, error: Error, began: Instant) -> Error {
        self.shared.failed(error.after(self.shared.clock.now().since(began)))
    }

    async fn run_request(
        &self,
        name: &str,
        payload: Payload,
        timeout: Timeout,
    ) -> Result<Reply, Error> {
        let began = self.shared.clock.now();
        let deadline = began.saturating_add(timeout.get());
        let peer = self.choose()?;
        let Some((id, cell)) = self.shared.pending.register(peer.slot()) else {
            return Err(self.shared.failed(Error::refused(ztransport::Refusal::WaitSpaceFull)));
        };
        let record = self.record(Kind::Request, id, name, payload);
        let record = Outgoing { deadline: Some(deadline), ..record };
        let mut claim = Claim { shared: &self.shared, peer: &peer, id, ordinal: None };
        let limit = Limit::At(deadline);
        let ordinal = match peer.application().submit(record, Family::Request, limit) {
            Submitted::Admitted(ordinal) => ordinal,
            Submitted::Refused(refusal) => {
                return Err(self.shared.failed(Error::refused(refusal)));
            }
            Submitted::Waiting(waiting) => match waiting.await {
                WaitEnd::Admitted(ordinal) => ordinal,
                WaitEnd::Expired => return Err(self.failed_after(Error::no_room(), began)),
                WaitEnd::Ended(ending) => {
                    return Err(self.failed_after(Error::ended(ending), began));
                }
                WaitEnd::TooLarge => {
                    return Err(self.failed_after(Error::outgrown(Stage::AwaitingRoom), began));
                }
            },
        };
        claim.admitted(ordinal, deadline);
        let end = wait(&cell).await;
        let progress = claim.finish();
        self.conclude(end, progress, began)
    }

    fn conclude(
        &self,
        end: RequestEnd,
        progress: Progress,
        began: Instant,
    ) -> Result<Reply, Error> {
        let (stage, certainty) = (stage_of(progress), progress.certainty());
        let error = match end {
            RequestEnd::Answered(record) => match read_answer(record) {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            },
            RequestEnd::Expired => {
                self.shared.counters.request_timed_out();
                let hint = "there was no reply within the timeout";
                Error::new(ErrorKind::DeadlineExceeded, stage, certainty, hint)
            }
            RequestEnd::LinkLost(progress) => {
                let hint = match progress {
                    Progress::Disclaimed => {
                        "the connection broke, and the peer says that the request never arrived"
                    }
                    Progress::PeerClaimed => {
                        "the connection broke after the peer had taken the request"
                    }
                    Progress::NotAdmitted
                    | Progress::Queued
                    | Progress::HandedToKernel
                    | Progress::Replied(_) => "the connection broke after the request was sent",
                };
                let (kind, certainty) = (ErrorKind::Unavailable, progress.certainty());
                Error::new(kind, Stage::AwaitingReply, certainty, hint)
            }
            RequestEnd::Detached(progress) => {
                let (stage, certainty) = (stage_of(progress), progress.certainty());
                Error::new(ErrorKind::Unavailable, stage, certainty, "the target was detached")
            }
            RequestEnd::TooLarge => Error::outgrown(Stage::Queued),
            RequestEnd::ShutDown => {
                let hint = "this host ended before the reply came";
                Error::new(ErrorKind::ShuttingDown, stage, certainty, hint)
            }
        };
        Err(self.failed_after(error, began))
    }
}

/// A request that has not been made yet.
#[must_use = "a request is made when it is awaited"]
#[derive(Debug)]
pub struct RequestCall<'caller, P> {
    caller: &'caller Caller,
    name: Box<str>,
    payload: P,
    timeout: Duration,
}

impl<P> RequestCall<'_, P> {
    /// Bounds the wait for room and the wait for the reply together (B-76). Rounded up to whole
    /// milliseconds.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl<'caller, P: IntoPayload + Send + 'caller> IntoFuture for RequestCall<'caller, P> {
    type Output = Result<Reply, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'caller>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { caller, name, payload, timeout } = self;
        Box::pin(async move {
            let Ok(timeout) = Timeout::new(timeout) else {
                let hint = "a request's timeout is 1 to 2147483647 ms";
                return Err(Error::at_once(ErrorKind::InvalidOperation, hint));
            };
            caller.run_request(&name, payload.into_payload()?, timeout).await
        })
    }
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Reply {
    record: Incoming,
}

impl Reply {
    /// The payload, sharing the record's storage.
    pub fn payload(&self) -> Bytes {
        self.record.payload()
    }

    /// The payload as JSON.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TypeMismatch`] when it is no JSON, or not of this shape.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        from_json(self.record.head().content, &self.payload()).map_err(|_| {
            let certainty = Certainty::ConfirmedSuccess;
            let hint = "the handler replied, with something else";
            Error::new(ErrorKind::TypeMismatch, Stage::AwaitingReply, certainty, hint)
        })
    }
}

/// Takes the request back if its future is dropped: its reply is discarded, and it is not sent if
/// it was still queued (D-07).
struct Claim<'call> {
    shared: &'call Shared,
    peer: &'call Peer,
    id: u64,
    ordinal: Option<Ordinal>,
}

impl Claim<'_> {
    /// Lets the request end at its deadline.
    fn admitted(&mut self, ordinal: Ordinal, deadline: Instant) {
        self.ordinal = Some(ordinal);
        if self.shared.pending.admitted(self.id, deadline) {
            self.shared.wake_by(deadline);
        }
    }

    /// The request has ended. How far it had come; it is not sent any more if it was queued.
    fn finish(mut self) -> Progress {
        match self.ordinal.take() {
            None => Progress::NotAdmitted,
            Some(ordinal) if self.peer.application().retract(ordinal) => Progress::Queued,
            Some(_) => Progress::HandedToKernel,
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.shared.pending.forget(self.id);
        if let Some(ordinal) = self.ordinal {
            self.peer.application().retract(ordinal);
        }
    }
}

/// Where a request stood that came so far.
const fn stage_of(progress: Progress) -> Stage {
    match progress {
        Progress::NotAdmitted | Progress::Queued => Stage::Queued,
        Progress::HandedToKernel
        | Progress::Disclaimed
        | Progress::PeerClaimed
        | Progress::Replied(_) => Stage::AwaitingReply,
    }
}

async fn wait(cell: &RequestCell) -> RequestEnd {
    core::future::poll_fn(|context| match cell.poll(context) {
        Poll::Ready(end) => Poll::Ready(end),
        Poll::Pending => Poll::Pending,
    })
    .await
}

fn read_answer(record: Incoming) -> Result<Reply, Error> {
    if record.head().kind != Kind::ErrorReply {
        return Ok(Reply { record });
    }
    let Ok(answer) = ErrorReply::decode(&record.payload()) else {
        let (stage, certainty) = (Stage::AwaitingReply, Certainty::AmbiguousFailure);
        let hint = "the error reply makes no sense; look at the versions of both hosts";
        return Err(Error::new(ErrorKind::ProtocolError, stage, certainty, hint));
    };
    let (kind, hint) = match answer.fault {
        Fault::NotFound => (ErrorKind::NotFound, "the peer has no such handler"),
        Fault::TypeMismatch => (ErrorKind::TypeMismatch, "the handler takes something else"),
        Fault::Rejected => (ErrorKind::Rejected, "the handler said no"),
        Fault::ShuttingDown => (ErrorKind::ShuttingDown, "the peer shuts down"),
        Fault::DeadlineExceeded => {
            (ErrorKind::DeadlineExceeded, "the request expired before it ran")
        }
        Fault::InternalFailure => {
            (ErrorKind::InternalFailure, "the handler ended without an answer")
        }
        Fault::MessageTooLarge => {
            (ErrorKind::MessageTooLarge, "the reply is larger than both peers take")
        }
    };
    Err(Error::new(kind, Stage::AwaitingReply, Certainty::ConfirmedFailure, hint))
}

/// The hash under which a message of a channel travels.
pub(crate) const fn route_of(channel: &str, name: &str) -> RouteHash {
    RouteHash::of(&[channel.as_bytes(), name.as_bytes()])
}
