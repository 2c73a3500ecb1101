//! The loop of one shard: one thread, one driver, the connections assigned to it.
//!
//! A turn takes in what happened, runs what is ready, and carries out what that asks for. Between
//! turns the shard sleeps in the kernel until an event, an errand or the next deadline.

mod connections;
mod drain;
mod greeting;
mod pairing;
mod receiving;
mod sending;
mod timers;

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::io;
use std::sync::Arc;

use zcore::Instant;
use zcore::wire::{Label, TopologyKind};

use crate::clock::Clock;
use crate::doorbell::Doorbell;
use crate::driver::{Driver, SocketSetup, Wake};
use crate::ingress::Ingress;
use crate::lane::LaneContext;
use crate::limits::SLEEP_MAX;
use crate::peer::{Peer, Peers};
use crate::permits::Permits;
use crate::socket::{SocketAddress, SocketBuffers};

use connections::{Connections, Intent};

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

/// How a host ends a shard, and sees that it has ended.
#[derive(Debug)]
pub struct ShardControl {
    phase: AtomicU8,
    deadline: AtomicU64,
}

const RUNNING: u8 = 0;
const DRAINING: u8 = 1;
const STOPPED: u8 = 2;

impl Default for ShardControl {
    fn default() -> Self {
        Self { phase: AtomicU8::new(RUNNING), deadline: AtomicU64::new(u64::MAX) }
    }
}

impl ShardControl {
    /// Asks the shard to send what was admitted, finish what was accepted, and end by `deadline`.
    /// Asked again, it may only end earlier. Knock at its doorbell afterwards.
    pub fn drain(&self, deadline: Instant) {
        self.deadline.fetch_min(deadline.as_nanos(), Ordering::Relaxed);
        let from = RUNNING;
        let moved =
            self.phase.compare_exchange(from, DRAINING, Ordering::Release, Ordering::Relaxed);
        debug_assert!(moved.is_ok() || moved != Err(RUNNING), "the phase only moves on");
    }

    /// The deadline of a drain, once one was asked for.
    pub(crate) fn drain_deadline(&self) -> Option<Instant> {
        (self.phase.load(Ordering::Acquire) == DRAINING)
            .then(|| Instant::from_nanos(self.deadline.load(Ordering::Relaxed)))
    }

    /// Whether the shard has ended.
    pub fn is_stopped(&self) -> bool {
        self.phase.load(Ordering::Acquire) == STOPPED
    }

    fn stop(&self) {
        self.phase.store(STOPPED, Ordering::Release);
    }
}

/// One thread's share of a host.
#[derive(Debug)]
pub struct Shard<D: Driver, I: Ingress> {
    driver: D,
    connections: Connections<I>,
    bell: Arc<Doorbell>,
    clock: Arc<dyn Clock>,
    control: Arc<ShardControl>,
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
        listeners: Vec<Listener<D::Socket>>,
    ) -> io::Result<Self> {
        let bell = Arc::clone(&plan.lanes.bell);
        let clock = Arc::clone(&plan.lanes.clock);
        let control = Arc::clone(&plan.control);
        let waker = driver.waker();
        let for_clock = driver.waker();
        bell.connect(Box::new(move || waker.wake()));
        clock.attach(Arc::new(move || for_clock.wake()));
        let now = clock.now();
        let connections = Connections::new(ingress, plan, now);
        let mut shard = Self { driver, connections, bell, clock, control };
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
        let Self { driver, connections, bell, clock, control } = self;
        if connections.is_finished() {
            return Ok(Turn::Over);
        }
        connections.begin_turn(clock.now());
        let events = driver.poll(|event| connections.handle(event))?;
        bell.take(|peer, errand| connections.run_errand(peer, errand));
        if let Some(deadline) = control.drain_deadline() {
            connections.drain(deadline);
        }
        let has_more = connections.run();
        self.carry_out()?;
        Ok(if has_more || events > 0 { Turn::Busy } else { Turn::Idle })
    }

    fn carry_out(&mut self) -> io::Result<()> {
        let Self { driver, connections, .. } = self;
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
            }
        }
        Ok(())
    }

    /// Sleeps until there is something to do. The deadline is published first and read again
    /// afterwards, so that an earlier one which comes in between is not slept through.
    fn sleep(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        let latest = now.saturating_add(SLEEP_MAX);
        let deadline = self.connections.next_deadline().unwrap_or(latest).min(latest);
        if deadline <= now || self.driver.is_ready() || !self.bell.fall_asleep(deadline) {
            return Ok(());
        }
        let deadline = self.connections.next_deadline().unwrap_or(latest).min(deadline);
        let outcome = self.driver.park(self.clock.sleep_for(now, deadline));
        self.bell.wake_up();
        outcome
    }
}

impl<D: Driver, I: Ingress> Drop for Shard<D, I> {
    /// Every connection is closed with the driver, and what was not sent is counted. A shard that
    /// panicked has no state to count by.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.connections.abandon();
            self.control.stop();
        }
    }
}
