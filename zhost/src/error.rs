//! What became of a call that did not succeed, as facts.

use core::fmt;
use core::time::Duration;

use zcore::{Certainty, Ending, Stage};
use ztransport::Refusal;

/// What kind of failure it was. Overload is never one: it shows as waiting, and in the end as
/// [`ErrorKind::DeadlineExceeded`] (BU-07).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ErrorKind {
    /// No such channel, node or handler.
    NotFound,
    /// The payload is not what the other side takes.
    TypeMismatch,
    /// The host was not configured for this call.
    NotConfigured,
    /// The handler said no.
    Rejected,
    /// The target cannot be reached.
    Unavailable,
    /// The time for the call was over.
    DeadlineExceeded,
    /// This host shuts down.
    ShuttingDown,
    /// The peer broke the protocol.
    ProtocolError,
    /// The call makes no sense here.
    InvalidOperation,
    /// The handler failed without an answer.
    InternalFailure,
    /// The message is larger than the target takes.
    MessageTooLarge,
}

impl ErrorKind {
    /// The name in texts, logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::TypeMismatch => "TypeMismatch",
            Self::NotConfigured => "NotConfigured",
            Self::Rejected => "Rejected",
            Self::Unavailable => "Unavailable",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::ShuttingDown => "ShuttingDown",
            Self::ProtocolError => "ProtocolError",
            Self::InvalidOperation => "InvalidOperation",
            Self::InternalFailure => "InternalFailure",
            Self::MessageTooLarge => "MessageTooLarge",
        }
    }
}

/// The end of a call that did not succeed.
///
/// It says where this operation stood and what is certain about it, never why the other side was
/// slow (B-37), and holds nothing that came from a message or a peer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Error {
    kind: ErrorKind,
    stage: Stage,
    certainty: Certainty,
    waited: Duration,
    hint: &'static str,
}

impl Error {
    pub(crate) const fn new(
        kind: ErrorKind,
        stage: Stage,
        certainty: Certainty,
        hint: &'static str,
    ) -> Self {
        Self { kind, stage, certainty, waited: Duration::ZERO, hint }
    }

    /// A call that ended before anything was done for it.
    pub(crate) const fn at_once(kind: ErrorKind, hint: &'static str) -> Self {
        Self::new(kind, Stage::LocatingTarget, Certainty::SafeToRetryFailure, hint)
    }

    pub(crate) const fn after(self, waited: Duration) -> Self {
        Self { waited, ..self }
    }

    /// A lane that did not take the record.
    pub(crate) const fn refused(refusal: Refusal) -> Self {
        match refusal {
            Refusal::TooLarge => Self::at_once(
                ErrorKind::MessageTooLarge,
                "the smaller `max_message_size` of both peers binds",
            ),
            Refusal::WaitSpaceFull => Self::new(
                ErrorKind::DeadlineExceeded,
                Stage::WaitSpaceFull,
                Certainty::SafeToRetryFailure,
                "too many calls wait already; look at the number of concurrent senders first",
            ),
            Refusal::Ended(ending) => Self::ended(ending),
            Refusal::Stale => {
                Self::at_once(ErrorKind::Unavailable, "the pair that the request came over is gone")
            }
        }
    }

    /// A lane that ended.
    pub(crate) const fn ended(ending: Ending) -> Self {
        match ending {
            Ending::Closed => Self::new(
                ErrorKind::ShuttingDown,
                Stage::AwaitingRoom,
                Certainty::SafeToRetryFailure,
                "this host shuts down and takes no new messages",
            ),
            Ending::Detached => Self::new(
                ErrorKind::Unavailable,
                Stage::AwaitingRoom,
                Certainty::SafeToRetryFailure,
                "the target was detached",
            ),
        }
    }

    /// A message that was accepted, or waited, when its target took larger ones (D-06).
    pub(crate) const fn outgrown(stage: Stage) -> Self {
        Self::new(
            ErrorKind::MessageTooLarge,
            stage,
            Certainty::SafeToRetryFailure,
            "the target came back with a smaller `max_message_size`; nothing was sent",
        )
    }

    /// A wait for room that lasted until its deadline (B-63).
    pub(crate) const fn no_room() -> Self {
        Self::new(
            ErrorKind::DeadlineExceeded,
            Stage::AwaitingRoom,
            Certainty::SafeToRetryFailure,
            "this submission was not accepted within its limit",
        )
    }

    /// What kind of failure it was.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Where the operation stood when it ended.
    pub const fn stage(&self) -> Stage {
        self.stage
    }

    /// What is certain about it. A fact about this operation, not advice to retry: whether a
    /// command may be repeated is the application's to know (B-65).
    pub const fn certainty(&self) -> Certainty {
        self.certainty
    }

    /// How long the operation lasted.
    pub const fn waited(&self) -> Duration {
        self.waited
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, stage, certainty, waited, hint } = self;
        write!(
            f,
            "{} while {} after {:.3} s ({}): {hint}",
            kind.as_str(),
            stage.as_str(),
            waited.as_secs_f64(),
            certainty.as_str(),
        )
    }
}

impl core::error::Error for Error {}
