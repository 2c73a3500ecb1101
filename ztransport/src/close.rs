//! Why a connection or a pair ended.

use core::fmt;

use rustix::io::Errno;
use zcore::wire::WireError;

/// Why a connection or a pair ended. Never carries a byte that came from the peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CloseReason {
    /// The peer ended its side.
    PeerClosed,
    /// The kernel says that the connection is broken, or never came to be.
    Failed(Errno),
    /// The peer sent bytes that are no record.
    Malformed(WireError),
    /// The peer answered a request that was never made.
    NeverIssued,
    /// The peer sent a hello that makes no sense here.
    BadHello,
    /// The peer said no; the code is one of [`zcore::wire::Refusal`].
    Refused(u8),
    /// We said no; the code is one of [`zcore::wire::Refusal`].
    Refusing(u8),
    /// The peer did not finish its greeting in time.
    GreetingTimeout,
    /// The peer sent nothing for too long while we were listening.
    Silent,
    /// The same peer came back with a newer pair.
    Replaced,
    /// One of both sides has said goodbye.
    Goodbye,
    /// This host shuts down.
    Shutdown,
}

impl CloseReason {
    /// The label in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PeerClosed => "peer_closed",
            Self::Failed(_) => "failed",
            Self::Malformed(_) => "malformed",
            Self::NeverIssued => "never_issued",
            Self::BadHello => "bad_hello",
            Self::Refused(_) => "refused",
            Self::Refusing(_) => "refusing",
            Self::GreetingTimeout => "greeting_timeout",
            Self::Silent => "silent",
            Self::Replaced => "replaced",
            Self::Goodbye => "goodbye",
            Self::Shutdown => "shutdown",
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(errno) => write!(f, "failed: {errno}"),
            Self::Malformed(error) => write!(f, "malformed: {error}"),
            Self::Refused(code) => write!(f, "refused with code {code}"),
            Self::Refusing(code) => write!(f, "refused by this host with code {code}"),
            Self::PeerClosed
            | Self::NeverIssued
            | Self::BadHello
            | Self::GreetingTimeout
            | Self::Silent
            | Self::Replaced
            | Self::Goodbye
            | Self::Shutdown => f.write_str(self.as_str()),
        }
    }
}
