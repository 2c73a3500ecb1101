//! What runs the two shards of a scene.

use ztransport::ShardPlan;
use ztransport::socket::SocketAddress;

use super::recorder::Recorder;

/// What runs the shards, and what is between them.
pub(super) trait Ground: Sized {
    /// As tests are named.
    const NAME: &'static str;

    /// Why there is none of it on this machine.
    fn missing() -> Option<String>;

    /// One run for each.
    fn seeds() -> Vec<u64>;

    fn new(seed: u64) -> Self;

    /// Whether a script meets the same moment each time, and nothing goes wrong but by its doing.
    fn is_exact(&self) -> bool;

    /// Starts the shard that accepts. Where to connect to.
    fn start_acceptor(&mut self, plan: ShardPlan, host: Recorder) -> SocketAddress;

    /// Puts a line in between that can break. Where to connect to instead of `address`.
    fn breakable(&mut self, address: SocketAddress) -> SocketAddress;

    /// An address at which nobody answers.
    fn nowhere(&mut self) -> SocketAddress;

    /// Starts the shard that dials.
    fn start_dialer(&mut self, plan: ShardPlan, host: Recorder);

    /// Breaks the connection between them that has been there for longest.
    fn break_oldest(&mut self);

    /// Lets the shards run. The caller looks at them again and again in between.
    fn run_a_while(&mut self) -> Progress;

    /// Whether a shard has run to its end.
    fn is_over(&mut self, which: Which) -> bool;
}

/// One of the two shards.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Which {
    Dialer,
    Acceptor,
}

/// What came of letting the shards run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Progress {
    /// There may be more to come.
    Some,
    /// Nothing happens any more, unless time passes or somebody does something.
    None,
    /// Nobody can tell.
    Unknown,
}
