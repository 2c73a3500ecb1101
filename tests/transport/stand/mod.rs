//! Where a script is played: a kind of driver, and the network that its drivers share.

mod kernel;
mod sim;

use std::io;
use std::os::fd::OwnedFd;

use core::time::Duration;
use zcore::{ByteCount, Instant};
use ztransport::driver::Driver;
use ztransport::epoll::Epoll;
use ztransport::socket::{SocketAddress, SocketBuffers};
use ztransport::uring::Uring;

use crate::replay::{Replay, listed, replay};
use crate::trace::Trace;
use crate::world::{SMALL, World};

/// Real sockets under `io_uring`.
pub(crate) type UringStand = kernel::Machine<Uring>;

/// Real sockets under epoll.
pub(crate) type EpollStand = kernel::Machine<Epoll>;

pub(crate) use sim::SimStand;

/// A kind of driver, and the network that all drivers of one run share.
pub(crate) trait Stand: Sized {
    type Driver: Driver;

    /// As tests are named.
    const NAME: &'static str;

    /// How much it can be given in a test.
    const SCALE: Scale;

    /// Why there is none of it on this machine.
    fn missing() -> Option<String>;

    /// One run for each. The run of seed 0 has no faults.
    fn seeds() -> Vec<u64>;

    fn new(seed: u64) -> Self;

    fn driver(&self, size: Size) -> Self::Driver;

    /// A socket that listens, for a driver to adopt, and where it does.
    fn listen(
        &self,
        address: &SocketAddress,
        buffers: SocketBuffers,
    ) -> io::Result<(SocketAddress, SocketOf<Self>)>;

    /// An IP address to listen on.
    fn tcp(&self) -> SocketAddress;

    /// A socket file to listen on, another one each time.
    fn unix(&self) -> SocketAddress;

    /// An IP address that nobody listens on.
    fn nobody(&self) -> SocketAddress;

    /// The time by which a driver sleeps.
    fn now(&self) -> Instant;

    /// Lets a driver sleep.
    fn park(&self, driver: &mut Self::Driver, longest: Duration);

    /// Lets all drivers sleep, because a poll of each has brought nothing.
    fn rest(&self, drivers: &mut [Self::Driver]) -> Rest;

    /// Long enough for the network to hand on what it has.
    fn pass_a_moment(&self, driver: &mut Self::Driver);

    /// Whether nothing is under way, as far as that can be known.
    fn is_quiet(&self, driver: &Self::Driver) -> bool;

    /// What else can be said about a driver that has closed all its sockets.
    fn assert_sound(driver: &Self::Driver);
}

/// What came of a rest.
pub(crate) enum Rest {
    /// Nobody slept: there is more to do.
    Awake,
    /// All slept, at most for so long.
    Slept(Duration),
    /// There is nothing that could end it.
    ForEver,
}

/// What the drivers of a stand hand each other.
pub(crate) type SocketOf<S> = <<S as Stand>::Driver as Driver>::Socket;

/// A stand on real sockets: the far end of a connection may be anybody's.
pub(crate) trait Kernel: Stand<Driver: Driver<Socket = OwnedFd>> {}

/// How large a driver is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) sockets_max: u32,
    /// Provided buffers of each group, where there are any.
    pub(crate) buffers: u16,
}

impl Default for Size {
    fn default() -> Self {
        Self { sockets_max: 64, buffers: 64 }
    }
}

/// How much a script sends, and over how many connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Bytes that do not fit into small buffers.
    pub(crate) bulk: usize,
    /// Connections at once.
    pub(crate) crowd: u32,
    /// Sizes of buffers that are filled.
    pub(crate) buffers: &'static [SocketBuffers],
}

impl Scale {
    /// As much as takes a kernel a moment.
    const LARGE: Self = Self { bulk: 2 << 20, crowd: 200, buffers: &[SMALL, LARGE] };

    /// As little as does it, for networks that are played many times.
    pub(crate) const SMALL: Self = Self { bulk: 256 << 10, crowd: 24, buffers: &[SMALL] };
}

/// What a lane has by default.
const LARGE: SocketBuffers =
    SocketBuffers { send: ByteCount::kib(256), receive: ByteCount::kib(256) };

/// A script, and its test.
pub(crate) struct Script<S: Stand> {
    /// With the path of its module, the program's name included.
    pub(crate) test: &'static str,
    pub(crate) play: fn(&mut World<S>),
}

/// Plays a script once for each seed.
pub(crate) fn run<S: Stand>(script: &Script<S>) {
    let test = script.test;
    replay(&Replay { test, missing: S::missing, seeds: S::seeds }, |seed| {
        play(script, seed, S::SCALE)
    });
}

/// Plays a script on one network, up to the point where every socket is closed.
pub(crate) fn play<S: Stand>(script: &Script<S>, seed: u64, scale: Scale) -> Trace {
    let driver = |stand: &S| stand.driver(Size::default());
    let mut world = World::new(listed(script.test), S::new(seed), driver);
    world.scale = scale;
    (script.play)(&mut world);
    let trace = world.trace();
    world.close_all();
    trace
}
