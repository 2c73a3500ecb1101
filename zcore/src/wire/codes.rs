//! Every one-byte code of the protocol: one table each, from which both directions are made.

use core::fmt;

/// Defines an enum whose variants travel as one byte.
///
/// Both directions come from one table, so that they cannot differ.
macro_rules! codes {
    (
        $(#[$meta:meta])*
        $name:ident {
            $($(#[$item:meta])* $variant:ident = $code:literal, $label:literal;)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum $name {
            $($(#[$item])* $variant,)+
        }

        impl $name {
            /// Every value, by rising code.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The byte that stands for it.
            pub const fn code(self) -> u8 {
                match self {
                    $(Self::$variant => $code,)+
                }
            }

            /// The value that a byte stands for, if it stands for one.
            pub const fn from_code(code: u8) -> Option<Self> {
                $(if code == $code {
                    return Some(Self::$variant);
                })+
                None
            }

            /// The label in metrics and logs.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $label,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

codes! {
    /// One of the two connections of a pair.
    Lane {
        /// Messages, requests and control.
        Application = 1, "application";
        /// Replies and error replies, and nothing else: they must get through while data waits.
        Completion = 2, "completion";
    }
}

codes! {
    /// What a record is.
    Kind {
        /// A message without a reply.
        Send = 1, "send";
        /// A message that is answered by exactly one [`Kind::Reply`] or [`Kind::ErrorReply`].
        Request = 2, "request";
        /// A handler's answer.
        Reply = 3, "reply";
        /// The answer when there is no [`Kind::Reply`]: see [`ErrorReply`](super::ErrorReply).
        ErrorReply = 4, "error_reply";
        /// Asks whether the peer lives.
        Probe = 10, "probe";
        /// Answers a probe.
        ProbeAnswer = 11, "probe_answer";
        /// Tells a peer that its records are received again. Only shown, never waited for (B-49).
        SendReady = 12, "send_ready";
        /// Announces the end of the pair: see [`Goodbye`](super::Goodbye).
        Goodbye = 13, "goodbye";
    }
}

impl Kind {
    /// The only lane on which it may travel.
    pub const fn lane(self) -> Lane {
        match self {
            Self::Send
            | Self::Request
            | Self::Probe
            | Self::ProbeAnswer
            | Self::SendReady
            | Self::Goodbye => Lane::Application,
            Self::Reply | Self::ErrorReply => Lane::Completion,
        }
    }

    /// Whether it concerns the pair instead of a handler (D-24).
    pub const fn is_control(self) -> bool {
        match self {
            Self::Send | Self::Request | Self::Reply | Self::ErrorReply => false,
            Self::Probe | Self::ProbeAnswer | Self::SendReady | Self::Goodbye => true,
        }
    }
}

codes! {
    /// How a payload is encoded. The protocol carries it and never looks inside.
    #[derive(Default)]
    ContentType {
        /// Whatever sender and receiver agreed on.
        #[default]
        Bytes = 0, "bytes";
        /// JSON in UTF-8.
        Json = 1, "json";
        /// `MessagePack`.
        MessagePack = 2, "message_pack";
        /// The `postcard` format, version 1.
        Postcard = 3, "postcard";
        /// A Protocol Buffers message.
        Protobuf = 4, "protobuf";
    }
}

codes! {
    /// Why a request has no reply.
    ///
    /// Congestion is not among them: a request that finds no room waits at its sender.
    Fault {
        /// Nobody handles this route.
        NotFound = 1, "not_found";
        /// The payload is not what the handler takes.
        TypeMismatch = 2, "type_mismatch";
        /// The handler, or a rule before it, said no.
        Rejected = 3, "rejected";
        /// The host shuts down.
        ShuttingDown = 4, "shutting_down";
        /// The requester's time was over.
        DeadlineExceeded = 5, "deadline_exceeded";
        /// The handler broke.
        InternalFailure = 6, "internal_failure";
        /// The handler's reply is larger than the requester takes.
        MessageTooLarge = 7, "message_too_large";
    }
}

codes! {
    /// Why a pair ends.
    GoodbyeReason {
        /// The host drains and is replaced: come back within the hinted window.
        Drain = 1, "drain";
        /// The host goes for good: do not come back by yourself.
        Stopped = 2, "stopped";
        /// The peer broke the protocol.
        ProtocolError = 3, "protocol_error";
        /// The peer said nothing for too long.
        SilentPeer = 4, "silent_peer";
        /// A newer pair takes this one's place.
        Replaced = 5, "replaced";
    }
}

codes! {
    /// What a hello is.
    Role {
        /// The first bytes of the side that connected.
        Dial = 1, "dial";
        /// The answer that joins the connection to a pair.
        Accept = 2, "accept";
        /// The answer that does not; the connection ends after it.
        Refuse = 3, "refuse";
    }
}

codes! {
    /// What a topology lets its nodes do.
    TopologyKind {
        /// Every node calls every other.
        RouteMesh = 1, "route_mesh";
        /// Only the side that dials starts calls.
        ClientServer = 2, "client_server";
    }
}

codes! {
    /// Why a hello was refused.
    Refusal {
        /// It speaks another version of the protocol.
        WrongVersion = 1, "wrong_version";
        /// It asks for a topology that is not served here.
        WrongTopology = 2, "wrong_topology";
        /// A Completion connection for a pair that does not exist.
        UnknownPair = 3, "unknown_pair";
        /// The pair has this connection already.
        DuplicatePair = 4, "duplicate_pair";
        /// There are as many peers as the host takes (D-26).
        TooManyPeers = 5, "too_many_peers";
        /// The host shuts down.
        NotAccepting = 6, "not_accepting";
        /// The node dialed itself.
        SelfConnect = 7, "self_connect";
        /// Both sides dialed; the other pair stays (D-17).
        SimultaneousDial = 8, "simultaneous_dial";
        /// The generation is not above the one before.
        StaleGeneration = 9, "stale_generation";
        /// An answer where a greeting must come.
        WrongRole = 10, "wrong_role";
    }
}
