//! The handle of a network: what scripts do with it.

use core::fmt;
use core::sync::atomic::AtomicBool;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::connection::{Connection, Way};
use super::engine::Engine;
use super::faults::{Dice, SimCounts, SimFaults};
use super::net::{EndId, Net};
use super::step::Report;
use super::{Sim, SimId, SimOptions};
use crate::socket::{SocketAddress, SocketBuffers};
use crate::token::SocketId;

/// A network within this process. Clones are the same network.
#[derive(Clone)]
pub struct SimNetwork {
    world: Arc<Mutex<World>>,
}

/// Everything there is. Its lock is a leaf: under it no caller's code runs.
#[derive(Debug)]
struct World {
    net: Net,
    engines: BTreeMap<SimId, Engine>,
    engines_made: u32,
}

/// Names a connection of a network. Never used again.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ConnectionId(pub(super) u64);

/// A connection, as a script sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SimConnection {
    /// Its name. Younger connections have larger ones.
    pub id: ConnectionId,
    /// The driver that connected.
    pub dialer: SimId,
    /// Where the listener listened that it connected to.
    pub address: SocketAddress,
    /// Bytes that were sent and not received, in both directions.
    pub queued: usize,
}

impl SimNetwork {
    /// A network without anybody in it.
    pub fn new(seed: u64, faults: SimFaults) -> Self {
        let net = Net::new(Dice::new(seed, faults));
        let world = World { net, engines: BTreeMap::new(), engines_made: 0 };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// A driver over this network.
    pub fn driver(&self, options: SimOptions) -> Sim {
        let woken = Arc::new(AtomicBool::new(false));
        let mut world = self.lock();
        let id = SimId(world.engines_made);
        world.engines_made += 1;
        world.engines.insert(id, Engine::new(id, options, Arc::clone(&woken)));
        drop(world);
        Sim { id, network: self.clone(), woken }
    }

    /// Opens a listening socket. In the place of port 0 it gets the next free one from
    /// [`limits::PORT_FIRST`](super::limits::PORT_FIRST) on.
    ///
    /// # Errors
    ///
    /// `AddrInUse` when somebody listens there; a path that is too long is none.
    pub fn listen(&self, address: &SocketAddress, buffers: SocketBuffers) -> io::Result<SimSocket> {
        let end = self.lock().net.listen(address, buffers)?;
        Ok(self.socket(end))
    }

    /// Changes what goes wrong from now on. A connection keeps the end that was planned for it when
    /// it was made.
    pub fn set_faults(&self, faults: SimFaults) {
        self.lock().net.dice.set_faults(faults);
    }

    /// How often each fault has struck.
    pub fn injected(&self) -> SimCounts {
        self.lock().net.dice.counts()
    }

    /// Whether nothing is in transit: no driver has anything to report, now or after more polls,
    /// until somebody pushes an operation, wakes a driver or lets go of what a script holds back.
    pub fn is_quiet(&self) -> bool {
        let World { net, engines, .. } = &*self.lock();
        engines.values().all(|engine| !engine.is_ready(net))
    }

    /// The connections of which at least one end is open, the oldest first.
    pub fn connections(&self) -> Vec<SimConnection> {
        self.lock().net.connections().collect()
    }

    /// Delivers nothing more of a connection in these directions, nor what was not received yet,
    /// ends and resets included. Senders notice when the buffers are full.
    pub fn hold(&self, connection: ConnectionId, way: Way) {
        self.with_connection(connection, |connection| connection.hold(way));
    }

    /// Delivers what was held back of a connection, and goes on.
    pub fn resume(&self, connection: ConnectionId) {
        self.with_connection(connection, Connection::resume);
    }

    /// Breaks a connection for both ends. Some of what had arrived can be received still.
    pub fn reset(&self, connection: ConnectionId) {
        self.lock().net.reset(connection);
    }

    /// Holds back every connection of `dialer` to a listener on `address` in these directions; new
    /// ones get no answer, whichever direction it is. Until [`SimNetwork::mend`].
    pub fn cut(&self, dialer: SimId, address: &SocketAddress, way: Way) {
        self.lock().net.cut((dialer, address.clone()), way);
    }

    /// Delivers everything between `dialer` and `address` again, what [`SimNetwork::hold`] keeps
    /// back included.
    pub fn mend(&self, dialer: SimId, address: &SocketAddress) {
        self.lock().net.mend(&(dialer, address.clone()));
    }

    /// Checks the books of the whole network. Each poll does where debug assertions are on.
    ///
    /// # Panics
    ///
    /// If a pipe holds more than it can, if a byte was neither read nor lost nor is on its way, or
    /// if a batch, a receive or an end of a connection is not accounted for.
    pub fn assert_invariants(&self) {
        self.lock().assert_invariants();
    }

    /// An unconnected socket.
    pub(super) fn open(&self, buffers: SocketBuffers) -> SimSocket {
        let end = self.lock().net.open(buffers);
        self.socket(end)
    }

    /// Gives an end to whoever asks for it.
    pub(super) fn socket(&self, end: EndId) -> SimSocket {
        SimSocket { network: Some(self.clone()), end }
    }

    /// Works on a driver's state. `None` once the driver is gone.
    pub(super) fn with_engine<T>(
        &self,
        id: SimId,
        work: impl FnOnce(&mut Engine, &mut Net) -> T,
    ) -> Option<T> {
        let World { net, engines, .. } = &mut *self.lock();
        engines.get_mut(&id).map(|engine| work(engine, net))
    }

    /// Gives an end to a driver, or says how many that can hold.
    pub(super) fn adopt(&self, id: SimId, end: EndId) -> Result<SocketId, u32> {
        let adopt = |engine: &mut Engine, _: &mut Net| {
            engine.adopt(end).map_err(|_| engine.table.slots_max())
        };
        self.with_engine(id, adopt).unwrap_or(Err(0))
    }

    pub(super) fn poll(&self, id: SimId) -> Vec<Report> {
        let mut world = self.lock();
        let World { net, engines, .. } = &mut *world;
        let reports = engines.get_mut(&id).map(|engine| engine.poll(net)).unwrap_or_default();
        if cfg!(debug_assertions) {
            world.assert_invariants();
        }
        reports
    }

    pub(super) fn is_ready(&self, id: SimId) -> bool {
        let World { net, engines, .. } = &*self.lock();
        engines.get(&id).is_some_and(|engine| engine.is_ready(net))
    }

    /// Closes what a driver holds.
    pub(super) fn remove(&self, id: SimId) -> Option<Engine> {
        let World { net, engines, .. } = &mut *self.lock();
        let engine = engines.remove(&id)?;
        for (_, entry) in engine.table.iter() {
            net.close(entry.end);
        }
        Some(engine)
    }

    fn with_connection(&self, id: ConnectionId, work: impl FnOnce(&mut Connection)) {
        if let Some(connection) = self.lock().net.connection(id) {
            work(connection);
        }
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    fn assert_invariants(&self) {
        let Self { net, engines, .. } = self;
        net.assert_invariants();
        for engine in engines.values() {
            engine.assert_invariants(net);
        }
    }
}

impl fmt::Debug for SimNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { world: _ } = self;
        f.debug_struct("SimNetwork")
            .field("connections", &self.connections())
            .field("injected", &self.injected())
            .finish_non_exhaustive()
    }
}

/// A socket that no driver holds. Dropping it closes it.
pub struct SimSocket {
    /// `None` once a driver has it.
    network: Option<SimNetwork>,
    end: EndId,
}

impl SimSocket {
    /// Where it listens, with the port that was given out for port 0, or where it was accepted.
    /// `None` for a socket that connects: its own address is never looked at.
    pub fn local_address(&self) -> Option<SocketAddress> {
        self.network.as_ref()?.lock().net.local_address(self.end)
    }

    pub(super) fn belongs_to(&self, network: &SimNetwork) -> bool {
        self.network.as_ref().is_some_and(|own| Arc::ptr_eq(&own.world, &network.world))
    }

    /// Leaves the end open, for a driver to hold.
    pub(super) fn into_end(mut self) -> EndId {
        self.network = None;
        self.end
    }
}

impl Drop for SimSocket {
    fn drop(&mut self) {
        if let Some(network) = self.network.take() {
            network.lock().net.close(self.end);
        }
    }
}

impl fmt::Debug for SimSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { network: _, end } = self;
        f.debug_struct("SimSocket")
            .field("end", end)
            .field("local_address", &self.local_address())
            .finish_non_exhaustive()
    }
}
