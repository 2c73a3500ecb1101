//! How far an operation came, and what is certain of it.

/// What the other side's handler answered.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Verdict {
    /// A reply.
    Success,
    /// An error reply, from before or in the handler.
    Failure,
}

/// How far one operation came.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Progress {
    /// No queue has taken it: it waits, was refused, or has found no place to wait.
    #[default]
    NotAdmitted,
    /// A queue holds it, and no batch that the kernel knows.
    Queued,
    /// It was part of a batch for the kernel; how much of that arrived is unknown.
    HandedToKernel,
    /// The peer says, after a reconnect, that it never took it (D-25). It is not sent again.
    Disclaimed,
    /// The peer says that it has taken it.
    PeerClaimed,
    /// Its reply has arrived.
    Replied(Verdict),
}

/// What moves an operation on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ProgressEvent {
    /// A queue takes it in.
    Admit,
    /// Its record is sealed into a batch for the kernel.
    HandToKernel,
    /// The peer's count of claimed records includes it.
    Claim,
    /// The peer's count of claimed records ends before it.
    Disclaim,
    /// Its reply arrives.
    Reply(Verdict),
}

impl Progress {
    /// What is certain if the operation ends here (D-08).
    ///
    /// A fact about this one operation, no advice: whether a command may be repeated is for the
    /// application to say (B-65).
    ///
    /// ```
    /// use zcore::{Certainty, Progress};
    /// assert_eq!(Progress::Queued.certainty(), Certainty::SafeToRetryFailure);
    /// assert_eq!(Progress::HandedToKernel.certainty(), Certainty::AmbiguousFailure);
    /// ```
    pub const fn certainty(self) -> Certainty {
        match self {
            Self::NotAdmitted | Self::Queued | Self::Disclaimed => Certainty::SafeToRetryFailure,
            // A claim says that the record was taken, not that its handler ran.
            Self::HandedToKernel | Self::PeerClaimed => Certainty::AmbiguousFailure,
            Self::Replied(Verdict::Success) => Certainty::ConfirmedSuccess,
            Self::Replied(Verdict::Failure) => Certainty::ConfirmedFailure,
        }
    }

    /// Where `event` leads from here, or `None` where it cannot happen.
    ///
    /// Nothing leads back to a queue: what was handed over is never sent again (D-25).
    pub const fn after(self, event: ProgressEvent) -> Option<Self> {
        match (self, event) {
            (Self::NotAdmitted, ProgressEvent::Admit) => Some(Self::Queued),
            (Self::Queued, ProgressEvent::HandToKernel) => Some(Self::HandedToKernel),
            (Self::HandedToKernel, ProgressEvent::Claim) => Some(Self::PeerClaimed),
            (Self::HandedToKernel, ProgressEvent::Disclaim) => Some(Self::Disclaimed),
            // A reply proves the claim that was not heard of.
            (Self::HandedToKernel | Self::PeerClaimed, ProgressEvent::Reply(verdict)) => {
                Some(Self::Replied(verdict))
            }
            (
                Self::NotAdmitted,
                ProgressEvent::HandToKernel
                | ProgressEvent::Claim
                | ProgressEvent::Disclaim
                | ProgressEvent::Reply(_),
            )
            | (
                Self::Queued,
                ProgressEvent::Admit
                | ProgressEvent::Claim
                | ProgressEvent::Disclaim
                | ProgressEvent::Reply(_),
            )
            | (Self::HandedToKernel, ProgressEvent::Admit | ProgressEvent::HandToKernel)
            | (
                Self::PeerClaimed,
                ProgressEvent::Admit
                | ProgressEvent::HandToKernel
                | ProgressEvent::Claim
                | ProgressEvent::Disclaim,
            )
            | (
                Self::Disclaimed | Self::Replied(_),
                ProgressEvent::Admit
                | ProgressEvent::HandToKernel
                | ProgressEvent::Claim
                | ProgressEvent::Disclaim
                | ProgressEvent::Reply(_),
            ) => None,
        }
    }
}

/// What is known of an operation that has ended (D-08).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Certainty {
    /// The handler ran and replied.
    ConfirmedSuccess,
    /// The other side says that it failed.
    ConfirmedFailure,
    /// The other side has not seen it and never will.
    SafeToRetryFailure,
    /// The other side may have run it, or may still run it.
    AmbiguousFailure,
}

impl Certainty {
    /// The name in errors and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConfirmedSuccess => "confirmed_success",
            Self::ConfirmedFailure => "confirmed_failure",
            Self::SafeToRetryFailure => "safe_to_retry_failure",
            Self::AmbiguousFailure => "ambiguous_failure",
        }
    }
}

/// Where an operation stood when it ended, never why the other side was slow (B-37).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Stage {
    /// Its target was being looked up.
    LocatingTarget,
    /// Its target was known and not connected.
    AwaitingLink,
    /// It waited for room in its target's send queue.
    AwaitingRoom,
    /// It found no room, and no place to wait for it (B-69).
    WaitSpaceFull,
    /// Its target's send queue held it.
    Queued,
    /// It was sent, and its reply had not come.
    AwaitingReply,
}

impl Stage {
    /// Each stage once, in the order in which an operation may pass them.
    pub const ALL: [Self; 6] = [
        Self::LocatingTarget,
        Self::AwaitingLink,
        Self::AwaitingRoom,
        Self::WaitSpaceFull,
        Self::Queued,
        Self::AwaitingReply,
    ];

    /// The name in errors, logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LocatingTarget => "locating_target",
            Self::AwaitingLink => "awaiting_link",
            Self::AwaitingRoom => "awaiting_room",
            Self::WaitSpaceFull => "wait_space_full",
            Self::Queued => "queued",
            Self::AwaitingReply => "awaiting_reply",
        }
    }
}
