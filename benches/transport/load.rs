//! What a phase moves, and what it came to.

use core::time::Duration;

use zhost::DriverKind;

/// How messages go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    /// Request and reply, one in flight for each connection.
    Echo {
        /// How many connections.
        connections: u32,
    },
    /// One-way messages over one connection, as fast as they are taken.
    OneWay,
}

impl Way {
    pub(crate) const fn connections(self) -> u32 {
        match self {
            Self::Echo { connections } => connections,
            Self::OneWay => 1,
        }
    }
}

/// The traffic of one phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) way: Way,
    /// Of each message, in bytes.
    pub(crate) size: usize,
    /// Not counted, before the others; all connections together.
    pub(crate) warm_up: u32,
    /// All connections together.
    pub(crate) messages: u32,
}

/// What moves the messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum System {
    Blocking,
    Tokio,
    Hosts(DriverKind),
}

impl System {
    pub(crate) const ALL: [Self; 4] = [
        Self::Blocking,
        Self::Tokio,
        Self::Hosts(DriverKind::Uring),
        Self::Hosts(DriverKind::Epoll),
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Tokio => "tokio",
            Self::Hosts(DriverKind::Uring) => "ours uring",
            Self::Hosts(DriverKind::Epoll) => "ours epoll",
            Self::Hosts(DriverKind::Auto) => "ours",
        }
    }
}

/// System calls of the drivers, by their own count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) client: u64,
    pub(crate) server: u64,
}

impl Calls {
    pub(crate) const fn since(self, before: Self) -> Self {
        Self { client: self.client - before.client, server: self.server - before.server }
    }
}

/// What a phase came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Of the messages behind the warm-up, together.
    pub(crate) elapsed: Duration,
    /// Of the same messages.
    pub(crate) calls: Calls,
    /// Of the whole life of both hosts.
    pub(crate) ever: Calls,
}

/// `amount` for each of `messages`.
pub(crate) fn each(amount: u64, messages: u32) -> f64 {
    f64::from(u32::try_from(amount).unwrap()) / f64::from(messages)
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
