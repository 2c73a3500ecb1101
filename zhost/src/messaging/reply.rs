//! The duty to answer, which cannot be forgotten.

use std::sync::Arc;

use bytes::Bytes;
use zcore::Family;
use zcore::wire::{ErrorReply, Fault, Kind, RouteHash};
use ztransport::{DropReason, Incoming, Limit, Outgoing, Peer, Refusal, Submitted, WaitEnd};

use super::payload::Payload;
use crate::engine::Shared;
use crate::options::ReplyLane;

/// The route of a reply that travels as a message, in the experiment of [`ReplyLane::Application`].
pub(super) const DISGUISED: RouteHash = RouteHash::of(&[b"reply"]);

/// What is owed for a message: nothing, or exactly one answer.
///
/// A duty that is dropped answers by itself, so a panic, a cancelled handler and a job that never
/// started all reach the caller.
#[derive(Debug)]
pub(crate) struct Duty {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    /// The id of the request, until it is answered.
    request: Option<u64>,
    /// Which pair the request came over.
    epoch: u64,
    stage: DutyStage,
}

/// How far the handler of a duty has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum DutyStage {
    /// It has not begun.
    Waiting,
    /// It has begun.
    Begun,
    /// Its outcome is known.
    Over,
}

impl Duty {
    /// The duty for a one-way message.
    pub(crate) fn none(shared: Arc<Shared>, peer: Arc<Peer>) -> Self {
        shared.accept();
        Self { shared, peer, request: None, epoch: 0, stage: DutyStage::Waiting }
    }

    /// The duty for a request.
    pub(crate) fn to_answer(shared: Arc<Shared>, peer: Arc<Peer>, record: &Incoming) -> Self {
        shared.accept();
        let request = Some(record.head().id);
        Self { shared, peer, request, epoch: record.epoch(), stage: DutyStage::Waiting }
    }

    /// Its handler is about to begin.
    pub(crate) const fn begin(&mut self) {
        self.stage = DutyStage::Begun;
    }

    /// A one-way message was handled.
    pub(crate) fn done(mut self) {
        self.stage = DutyStage::Over;
        self.shared.counters.handled();
    }

    /// Answers a request.
    pub(crate) async fn reply(mut self, payload: Payload) {
        self.stage = DutyStage::Over;
        let Some(id) = self.request.take() else { return };
        self.shared.counters.handled();
        let Payload { content, bytes } = payload;
        let record =
            Outgoing { content, ..Outgoing::new(Kind::Reply, id, RouteHash::default(), bytes) };
        if let Err(fault) = self.submit(record).await {
            // The caller must not wait for a reply that this host cannot send.
            // It has waited its limit: no second one for the news of that (B-90).
            self.answer_at_once(id, ErrorReply { fault, started: true });
        }
    }

    /// Answers a request with a fault, or counts a message that could not be handled.
    pub(crate) async fn fail(mut self, fault: Fault) {
        self.stage = DutyStage::Over;
        let Some(id) = self.request.take() else {
            let reason = match fault {
                Fault::NotFound => DropReason::NoHandler,
                Fault::TypeMismatch
                | Fault::Rejected
                | Fault::ShuttingDown
                | Fault::DeadlineExceeded
                | Fault::InternalFailure
                | Fault::MessageTooLarge => DropReason::DecodeError,
            };
            self.shared.counters.dropped(1, reason);
            return;
        };
        let started = matches!(fault, Fault::Rejected | Fault::InternalFailure);
        self.send_fault(id, ErrorReply { fault, started }).await;
    }

    fn answer_by_itself(&self, id: u64) {
        let fault =
            if self.shared.is_draining() { Fault::ShuttingDown } else { Fault::InternalFailure };
        let started = self.stage == DutyStage::Begun;
        self.answer_at_once(id, ErrorReply { fault, started });
    }

    /// Answers if there is room.
    fn answer_at_once(&self, id: u64, reply: ErrorReply) {
        let record = error_record(id, reply);
        let limit = Limit::Within(self.shared.settings.send_timeout);
        match self.peer.completion().submit_reply(record, limit, self.epoch) {
            Submitted::Admitted(_) => {}
            Submitted::Waiting(_) | Submitted::Refused(_) => self.shared.counters.reply_lost(),
        }
    }

    async fn send_fault(&self, id: u64, reply: ErrorReply) {
        if self.submit(error_record(id, reply)).await.is_err() {
            self.shared.counters.reply_lost();
        }
    }

    /// Waits for room within this host's own limit, never the caller's (B-90).
    async fn submit(&self, record: Outgoing) -> Result<(), Fault> {
        let limit = Limit::Within(self.shared.settings.send_timeout);
        let submitted = match self.shared.settings.reply_lane {
            ReplyLane::Completion => self.peer.completion().submit_reply(record, limit, self.epoch),
            ReplyLane::Application => {
                let disguised = Outgoing { kind: Kind::Send, route: DISGUISED, ..record };
                self.peer.application().submit(disguised, Family::Reply, limit)
            }
        };
        match submitted {
            Submitted::Admitted(_) => Ok(()),
            Submitted::Waiting(waiting) => match waiting.await {
                WaitEnd::Admitted(_) => Ok(()),
                WaitEnd::TooLarge => Err(Fault::MessageTooLarge),
                WaitEnd::Expired | WaitEnd::Ended(_) => Err(Fault::InternalFailure),
            },
            Submitted::Refused(Refusal::TooLarge) => Err(Fault::MessageTooLarge),
            Submitted::Refused(Refusal::WaitSpaceFull | Refusal::Ended(_) | Refusal::Stale) => {
                Err(Fault::InternalFailure)
            }
        }
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        match self.request.take() {
            Some(id) => self.answer_by_itself(id),
            // The host ended before its handler began, or cut it off.
            None if self.stage != DutyStage::Over && self.shared.is_draining() => {
                self.shared.counters.dropped(1, DropReason::Shutdown);
            }
            None => {}
        }
        self.shared.settle();
    }
}

fn error_record(id: u64, reply: ErrorReply) -> Outgoing {
    let payload = Bytes::copy_from_slice(&reply.encode());
    Outgoing::new(Kind::ErrorReply, id, RouteHash::default(), payload)
}
