//! The loop of one shard: one thread, one driver, the connections assigned to it.
//!
//! A turn takes in what happened, runs what is ready, and carries out what that asks for. Between
//! turns the shard sleeps in the kernel until an event, an errand or the next deadline.

mod accepting;
mod connections;
mod crew;
mod departed;
mod detaching;
mod drain;
mod gauge;
mod greeting;
mod lobby;
mod moving;
mod pairing;
mod receiving;
mod sending;
mod spin;
mod timers;

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::sync::Arc;

use zcore::Instant;
use zcore::wire::{Label, TopologyKind};

use crate::clock::{Clock, MonotonicClock};
use crate::doorbell::Doorbell;
use crate::driver::{Driver, SocketSetup, Wake};
use crate::ingress::Ingress;
use crate::lane::LaneContext;
use crate::limits::SLEEP_MAX;
use crate::op::Op;
use crate::peer::Peer;
use crate::peers::Peers;
use crate::permits::Permits;
use crate::socket::{SocketAddress, SocketBuffers};

use connections::{Connections, Intent};
pub use crew::Crew;
use crew::Handover;
pub use gauge::ShardGauge;
pub use lobby::Lobby;
use spin::{SpinEnd, Spinner};

/// What a shard is built from.
#[derive(Debug)]
pub struct ShardPlan {
    /// This host's node id.
    pub node: Label,
    /// Sets this run of the process apart from any other.
    pub incarnation: u64,
    /// The topologies it takes part in; their index names them.
    pub topologies: Vec<TopologyPlan>,
    /// The kernel's buffers of each connection.
    pub buffers: SocketBuffers,
    /// All peers of the host.
    pub peers: Arc<Peers>,
    /// All permits of the host.
    pub permits: Arc<Permits>,
    /// What the lanes of the host share.
    pub lanes: LaneContext,
    /// How the host ends the shard.
    pub control: Arc<ShardControl>,
    /// Its place among the shards of the host.
    pub index: u16,
    /// Who stands at the door of the host.
    pub lobby: Arc<Lobby>,
    /// Where it shows its numbers.
    pub gauge: Arc<ShardGauge>,
    /// How long it spins before it sleeps; nothing, where there is one processor.
    pub spin: Duration,
}

/// What a shard has of the network from the start.
#[derive(Debug)]
pub struct ShardSockets<S> {
    /// Where it accepts.
    pub listeners: Vec<Listener<S>>,
    /// All shards of the host.
    pub crew: Arc<Crew<S>>,
}

impl<S> ShardSockets<S> {
    /// Those of the only shard of a host.
    pub fn alone(bell: &Arc<Doorbell>, listeners: Vec<Listener<S>>) -> Self {
        Self { listeners, crew: Crew::new([Arc::clone(bell)]) }
    }
}

/// A socket that a shard accepts connections on.
#[derive(Debug)]
pub struct Listener<S> {
    /// The index of the topology that they belong to.
    pub topology: u16,
    /// The listening socket.
    pub socket: S,
}

/// One topology of a shard.
#[derive(Debug)]
pub struct TopologyPlan {
    /// Its kind.
    pub kind: TopologyKind,
    /// Its name; both sides must agree.
    pub name: Label,
    /// Peers to connect to.
    pub dials: Vec<(Arc<Peer>, SocketAddress)>,
}

impl TopologyPlan {
    /// The same with the peers of one shard only.
    #[must_use]
    pub fn of_shard(&self, shard: u16) -> Self {
        let dials = self.dials.iter().filter(|(peer, _)| peer.shard() == shard);
        Self { kind: self.kind, name: self.name, dials: dials.cloned().collect() }
    }
}

/// How a host ends its shards.
#[derive(Debug)]
pub struct ShardControl {
    /// In nanoseconds; [`SERVING`] until a drain is asked for.
    deadline: AtomicU64,
}

/// No deadline: the shards serve.
const SERVING: u64 = u64::MAX;

impl Default for ShardControl {
    fn default() -> Self {
        Self { deadline: AtomicU64::new(SERVING) }
    }
}

impl ShardControl {
    /// Asks the shards to send what was admitted, finish what was accepted, and end by `deadline`.
    /// Asked again, it may only end earlier. Knock at their doorbells afterwards.
    pub fn drain(&self, deadline: Instant) {
        self.deadline.fetch_min(deadline.as_nanos().min(SERVING - 1), Ordering::Release);
    }

    /// The deadline of a drain, once one was asked for.
    pub(crate) fn drain_deadline(&self) -> Option<Instant> {
        match self.deadline.load(Ordering::Acquire) {
            SERVING => None,
            deadline => Some(Instant::from_nanos(deadline)),
        }
    }
}

/// One thread's share of a host.
#[derive(Debug)]
pub struct Shard<D: Driver, I: Ingress> {
    driver: D,
    connections: Connections<I>,
    crew: Arc<Crew<D::Socket>>,
    index: u16,
    bell: Arc<Doorbell>,
    clock: Arc<dyn Clock>,
    control: Arc<ShardControl>,
    gauge: Arc<ShardGauge>,
    spinner: Spinner,
}

/// What a turn of a shard has come to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Turn {
    /// There may be more to do.
    Busy,
    /// There is nothing to do.
    Idle,
    /// The host has drained.
    Over,
}

impl<D: Driver, I: Ingress> Shard<D, I> {
    /// Builds a shard on its own thread.
    ///
    /// # Errors
    ///
    /// What the driver says when it has no place for the listeners, or no room for its first
    /// operations.
    pub fn new(
        driver: D,
        ingress: I,
        plan: ShardPlan,
        sockets: ShardSockets<D::Socket>,
    ) -> io::Result<Self> {
        let ShardSockets { listeners, crew } = sockets;
        let index = plan.index;
        let bell = Arc::clone(&plan.lanes.bell);
        let clock = Arc::clone(&plan.lanes.clock);
        let control = Arc::clone(&plan.control);
        let gauge = Arc::clone(&plan.gauge);
        let spinner = Spinner::new(plan.spin);
        let waker = driver.waker();
        let for_clock = driver.waker();
        bell.connect(Box::new(move || waker.wake()));
        clock.attach(Arc::new(move || for_clock.wake()));
        let now = clock.now();
        let connections = Connections::new(ingress, plan, driver.carry_max(), now);
        let mut shard =
            Self { driver, connections, crew, index, bell, clock, control, gauge, spinner };
        for Listener { topology, socket } in listeners {
            let socket = shard.driver.adopt(socket).map_err(|_| rustix::io::Errno::MFILE)?;
            shard.connections.listening(topology, socket);
        }
        shard.connections.start();
        shard.carry_out()?;
        Ok(shard)
    }

    /// Runs until the host has drained.
    ///
    /// # Errors
    ///
    /// What the driver says when the kernel refuses to go on; every connection is then closed.
    pub fn run(mut self) -> io::Result<()> {
        loop {
            match self.turn()? {
                Turn::Busy => {}
                Turn::Idle => self.sleep()?,
                Turn::Over => return Ok(()),
            }
        }
    }

    /// Takes in what happened, runs what is ready, and carries out what that asks for.
    ///
    /// # Errors
    ///
    /// What the driver says when the kernel refuses to go on; the shard is then to be dropped.
    pub fn turn(&mut self) -> io::Result<Turn> {
        let Self { driver, connections, crew, index, bell, clock, control, .. } = self;
        connections.begin_turn(clock.now());
        driver.poll(|event| connections.handle(event))?;
        bell.take(|peer, errand| connections.run_errand(peer, errand));
        while let Some(Handover { place, socket, received }) = crew.take(*index) {
            match driver.adopt(socket) {
                Ok(socket) => connections.taken_over(place, socket, &received),
                // Closed by its drop: the peer tries again with a growing delay.
                Err(_) => connections.not_taken_over(),
            }
        }
        if let Some(deadline) = control.drain_deadline() {
            connections.drain(deadline);
        }
        let has_more = connections.run();
        self.carry_out()?;
        self.gauge.turned(self.driver.system_calls());
        Ok(if self.connections.is_finished() {
            Turn::Over
        } else if has_more || self.bell.is_rung() || self.driver.is_ready() {
            Turn::Busy
        } else {
            Turn::Idle
        })
    }

    fn carry_out(&mut self) -> io::Result<()> {
        let Self { driver, connections, crew, .. } = self;
        while let Some(intent) = connections.next_intent() {
            match intent {
                Intent::Push(op) => driver.push(op)?,
                Intent::Dial { peer, lane, address } => {
                    let setup = SocketSetup { buffers: connections.buffers(), watch: lane.into() };
                    match driver.open(&address, setup) {
                        Ok(socket) => connections.dialing(peer, lane, socket, address),
                        Err(_) => connections.dial_failed(peer),
                    }
                }
                Intent::HandOver { socket, place, received } => {
                    let Some(socket) = driver.release(socket) else {
                        debug_assert!(false, "{socket:?} has stopped receiving");
                        driver.push(Op::Close { socket })?;
                        connections.not_taken_over();
                        continue;
                    };
                    if crew.hand_over(Handover { place, socket, received }).is_err() {
                        connections.not_taken_over();
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits until there is something to do: spinning while that pays, then asleep in the kernel.
    fn sleep(&mut self) -> io::Result<()> {
        if D::SEES_KERNEL {
            // Most operations complete at once: neither a spin nor a sleep shall end for them.
            self.driver.flush()?;
            if self.driver.is_ready() {
                return Ok(());
            }
            let begin = MonotonicClock.now();
            if let Some(until) = self.spinner.until(begin) {
                let how = self.spin(until);
                self.spinner.spun(how, begin, MonotonicClock.now());
                if how == SpinEnd::Came {
                    return Ok(());
                }
            }
        }
        let Some(nap) = self.lie_down() else { return Ok(()) };
        let begin = MonotonicClock.now();
        let outcome = self.driver.park(nap.longest);
        self.wake_up();
        self.spinner.slept(MonotonicClock.now().since(begin));
        outcome
    }

    /// Nobody has to write a wake-up for a shard that spins, as it has not said that it sleeps.
    fn spin(&self, until: Instant) -> SpinEnd {
        loop {
            if self.driver.is_ready() || self.bell.is_rung() {
                return SpinEnd::Came;
            }
            if MonotonicClock.now() >= until {
                return SpinEnd::Vain;
            }
            core::hint::spin_loop();
        }
    }

    /// For the loops that wait in another way than by [`Driver::park`].
    #[cfg(feature = "tokio_uring")]
    pub(crate) const fn driver(&mut self) -> &mut D {
        &mut self.driver
    }

    /// Publishes that the shard sleeps, and says how long it may; `None` if it must not.
    pub(crate) fn lie_down(&mut self) -> Option<Nap> {
        let now = self.clock.now();
        let latest = now.saturating_add(SLEEP_MAX);
        let next_deadline = || self.connections.next_deadline().unwrap_or(latest).min(latest);
        let deadline = next_deadline();
        if deadline <= now || self.driver.is_ready() {
            return None;
        }
        let until = self.bell.fall_asleep(deadline, next_deadline)?;
        self.gauge.sleeps_now();
        Some(Nap { longest: self.clock.sleep_for(now, until) })
    }

    /// Publishes that the shard is awake.
    pub(crate) fn wake_up(&self) {
        self.bell.wake_up();
    }
}

/// A sleep that a shard may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nap {
    /// `None` for as long as nothing happens.
    pub(crate) longest: Option<Duration>,
}

impl<D: Driver, I: Ingress> Drop for Shard<D, I> {
    /// Every connection is closed with the driver, and what was not sent is counted. A shard that
    /// panicked has no state to count by.
    fn drop(&mut self) {
        self.crew.leave(self.index);
        if !std::thread::panicking() {
            self.connections.abandon();
        }
    }
}
