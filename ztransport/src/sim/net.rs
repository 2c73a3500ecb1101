//! What lies between the drivers: ends of sockets, listeners, connections.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use core::net::SocketAddr;
use rustix::io::Errno;

use super::connection::{Connection, Side, Way, Writable};
use super::faults::{Dice, Fault};
use super::limits::{BACKLOG_MAX, PORT_FIRST};
use super::pipe::Readable;
use super::{ConnectionId, SimConnection, SimId};
use crate::batch::{Batch, SEGMENTS_MAX};
use crate::socket::{SocketAddress, SocketBuffers};

/// One end, whoever holds it. Never used again.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct EndId(u64);

/// The network without its drivers. Everything in it is in an order that repeats.
#[derive(Debug)]
pub(super) struct Net {
    pub(super) dice: Dice,
    ends: BTreeMap<EndId, End>,
    connections: BTreeMap<ConnectionId, Connection>,
    listeners: BTreeMap<SocketAddress, EndId>,
    /// Socket files whose listeners are gone.
    stale: BTreeSet<SocketAddress>,
    cuts: BTreeMap<(SimId, SocketAddress), Way>,
    ends_made: u64,
    connections_made: u64,
    port_next: u16,
}

/// What an end is.
#[derive(Debug)]
enum End {
    Fresh(SocketBuffers),
    Listening { address: SocketAddress, buffers: SocketBuffers, backlog: VecDeque<EndId> },
    Connected { connection: ConnectionId, side: Side },
}

/// What became of an attempt to connect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Dialed {
    Made,
    Failed(Errno),
    /// The way is cut, or the backlog is full.
    Waits,
}

/// What an accept finds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Acceptable {
    Nothing,
    Connection,
    /// It is no listener.
    Never,
}

impl Net {
    pub(super) const fn new(dice: Dice) -> Self {
        Self {
            dice,
            ends: BTreeMap::new(),
            connections: BTreeMap::new(),
            listeners: BTreeMap::new(),
            stale: BTreeSet::new(),
            cuts: BTreeMap::new(),
            ends_made: 0,
            connections_made: 0,
            port_next: PORT_FIRST,
        }
    }

    pub(super) fn open(&mut self, buffers: SocketBuffers) -> EndId {
        self.add(End::Fresh(buffers))
    }

    pub(super) fn listen(
        &mut self,
        address: &SocketAddress,
        buffers: SocketBuffers,
    ) -> Result<EndId, Errno> {
        address.encode()?;
        let address = self.with_port(address)?;
        if self.listeners.contains_key(&address) {
            return Err(Errno::ADDRINUSE);
        }
        self.stale.remove(&address);
        let backlog = VecDeque::new();
        let end = self.add(End::Listening { address: address.clone(), buffers, backlog });
        self.listeners.insert(address, end);
        Ok(end)
    }

    /// Where an end listens, or was accepted.
    pub(super) fn local_address(&self, end: EndId) -> Option<SocketAddress> {
        match self.ends.get(&end)? {
            End::Fresh(_) | End::Connected { side: Side::Dialer, .. } => None,
            End::Listening { address, .. } => Some(address.clone()),
            End::Connected { connection, side: Side::Acceptor } => {
                Some(self.connections.get(connection)?.address.clone())
            }
        }
    }

    /// Closes an end, as the last descriptor of a socket is closed.
    pub(super) fn close(&mut self, end: EndId) {
        match self.ends.remove(&end) {
            Some(End::Fresh(_)) => {}
            Some(End::Listening { address, backlog, .. }) => self.stop_listening(address, backlog),
            Some(End::Connected { connection, side }) => {
                self.leave(connection, |connection| connection.close(side));
            }
            None => debug_assert!(false, "{end:?} is closed already"),
        }
    }

    /// Connects an end, unless it has to wait.
    pub(super) fn dial(&mut self, end: EndId, dialer: SimId, address: &SocketAddress) -> Dialed {
        if let Err(errno) = address.encode() {
            return Dialed::Failed(errno);
        }
        let Some(End::Fresh(dialing)) = self.ends.get(&end) else {
            return Dialed::Failed(Errno::ISCONN);
        };
        let dialing = *dialing;
        if self.must_wait(dialer, address) {
            return Dialed::Waits;
        }
        let Some(listener) = self.listeners.get(address).copied() else {
            return Dialed::Failed(match address {
                SocketAddress::Unix(_) if !self.stale.contains(address) => Errno::NOENT,
                SocketAddress::Unix(_) | SocketAddress::Tcp(_) => Errno::CONNREFUSED,
            });
        };
        let Some(End::Listening { buffers, .. }) = self.ends.get(&listener) else {
            debug_assert!(false, "{listener:?} listens");
            return Dialed::Failed(Errno::CONNREFUSED);
        };
        let name = (dialer, address.clone());
        let made = Connection::new(name, dialing, *buffers, &mut self.dice);
        let connection = ConnectionId(self.connections_made);
        self.connections_made += 1;
        self.connections.insert(connection, made);
        self.ends.insert(end, End::Connected { connection, side: Side::Dialer });
        let accepted = self.add(End::Connected { connection, side: Side::Acceptor });
        if let Some(End::Listening { backlog, .. }) = self.ends.get_mut(&listener) {
            backlog.push_back(accepted);
        }
        Dialed::Made
    }

    /// Whether a connect gets no answer yet, not even a refusal.
    pub(super) fn must_wait(&self, dialer: SimId, address: &SocketAddress) -> bool {
        let listener = self.listeners.get(address).and_then(|end| self.ends.get(end));
        let is_full = match listener {
            Some(End::Listening { backlog, .. }) => backlog.len() >= BACKLOG_MAX,
            Some(End::Fresh(_) | End::Connected { .. }) | None => false,
        };
        is_full || self.cuts.contains_key(&(dialer, address.clone()))
    }

    pub(super) fn acceptable(&self, listener: EndId) -> Acceptable {
        match self.ends.get(&listener) {
            Some(End::Listening { backlog, .. }) if backlog.is_empty() => Acceptable::Nothing,
            Some(End::Listening { .. }) => Acceptable::Connection,
            Some(End::Fresh(_) | End::Connected { .. }) | None => Acceptable::Never,
        }
    }

    /// Takes the oldest connection out of a backlog.
    pub(super) fn accept(&mut self, listener: EndId, buffers: SocketBuffers) -> Option<EndId> {
        let Some(End::Listening { backlog, .. }) = self.ends.get_mut(&listener) else {
            return None;
        };
        let accepted = backlog.pop_front()?;
        if let Some((connection, side)) = self.connected(accepted) {
            connection.resize(side, buffers);
        }
        Some(accepted)
    }

    /// Whether a send would end now.
    pub(super) fn is_writable(&self, end: EndId) -> bool {
        self.peek(end).is_none_or(|(connection, side)| connection.writable(side) != Writable::Full)
    }

    /// Sends as much of a batch as there is room for, and now and then less. `None` while there is
    /// none.
    pub(super) fn send(&mut self, end: EndId, batch: &Batch) -> Option<Result<usize, Errno>> {
        let list = batch.segments();
        let list = list.get(..SEGMENTS_MAX).unwrap_or(list);
        let offered: usize = list.iter().map(Bytes::len).sum();
        let Self { ends, connections, dice, .. } = self;
        let Some((connection, side)) = find(ends, connections, end) else {
            return Some(Err(Errno::PIPE));
        };
        let room = match connection.writable(side) {
            Writable::Failed(errno) => {
                connection.tell_reset(side);
                return Some(Err(errno));
            }
            Writable::Gone => {
                connection.write_to_nobody(side, offered);
                return Some(Ok(offered));
            }
            Writable::Room(room) => room,
            Writable::Full if offered == 0 => 0,
            Writable::Full => return None,
        };
        let mut taken = offered.min(room);
        if taken > 1 && dice.strikes(Fault::ShortSend) {
            taken = dice.part_of(taken);
        }
        connection.write(side, list, taken, dice);
        Some(Ok(taken))
    }

    pub(super) fn readable(&self, end: EndId) -> Readable {
        self.peek(end).map_or(Readable::Failed(Errno::NOTCONN), |(connection, side)| {
            connection.readable(side)
        })
    }

    /// Takes bytes that have arrived.
    pub(super) fn read(&mut self, end: EndId, length: usize) -> Vec<u8> {
        self.connected(end)
            .map(|(connection, side)| connection.read(side, length))
            .unwrap_or_default()
    }

    /// An error that a receive has reported is not reported again.
    pub(super) fn tell_reset(&mut self, end: EndId) {
        if let Some((connection, side)) = self.connected(end) {
            connection.tell_reset(side);
        }
    }

    /// Ends both directions of a connection, as far as this end can, and listens no more.
    pub(super) fn shut_down(&mut self, end: EndId) {
        let Some(End::Listening { buffers, .. }) = self.ends.get(&end) else {
            self.end_stream(end);
            return;
        };
        let fresh = End::Fresh(*buffers);
        if let Some(End::Listening { address, backlog, .. }) = self.ends.insert(end, fresh) {
            self.stop_listening(address, backlog);
        }
    }

    /// Sends no more, if it is connected.
    pub(super) fn end_stream(&mut self, end: EndId) {
        if let Some((connection, side)) = self.connected(end) {
            connection.end(side);
        }
    }

    pub(super) fn connections(&self) -> impl Iterator<Item = SimConnection> {
        self.connections.iter().map(|(id, connection)| SimConnection {
            id: *id,
            dialer: connection.dialer,
            address: connection.address.clone(),
            queued: connection.queued(),
        })
    }

    pub(super) fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(&id)
    }

    pub(super) fn reset(&mut self, id: ConnectionId) {
        let Self { connections, dice, .. } = self;
        if let Some(connection) = connections.get_mut(&id) {
            connection.reset(dice);
        }
    }

    /// Holds back what passes between a driver and an address, now and later.
    pub(super) fn cut(&mut self, between: (SimId, SocketAddress), way: Way) {
        for connection in between_them(&mut self.connections, &between) {
            connection.hold(way);
        }
        self.cuts.insert(between, way);
    }

    /// Lets everything pass again.
    pub(super) fn mend(&mut self, between: &(SimId, SocketAddress)) {
        self.cuts.remove(between);
        for connection in between_them(&mut self.connections, between) {
            connection.resume();
        }
    }

    fn add(&mut self, end: End) -> EndId {
        let id = EndId(self.ends_made);
        self.ends_made += 1;
        self.ends.insert(id, end);
        id
    }

    /// Puts the next free port in the place of port 0.
    fn with_port(&mut self, address: &SocketAddress) -> Result<SocketAddress, Errno> {
        let SocketAddress::Tcp(asked) = address else { return Ok(address.clone()) };
        if asked.port() != 0 {
            return Ok(address.clone());
        }
        for _ in PORT_FIRST..=u16::MAX {
            let port = self.port_next;
            self.port_next = port.checked_add(1).unwrap_or(PORT_FIRST);
            let address = SocketAddress::Tcp(SocketAddr::new(asked.ip(), port));
            if !self.listeners.contains_key(&address) {
                return Ok(address);
            }
        }
        Err(Errno::ADDRINUSE)
    }

    fn stop_listening(&mut self, address: SocketAddress, backlog: VecDeque<EndId>) {
        self.listeners.remove(&address);
        if matches!(address, SocketAddress::Unix(_)) {
            self.stale.insert(address);
        }
        for waiting in backlog {
            self.abort(waiting);
        }
    }

    /// Whether somebody may hold this end.
    pub(super) fn is_open(&self, end: EndId) -> bool {
        self.ends.contains_key(&end)
    }

    /// Closes an end that nobody has accepted.
    fn abort(&mut self, end: EndId) {
        if let Some(End::Connected { connection, side }) = self.ends.remove(&end) {
            self.leave(connection, |connection| connection.abort(side));
        }
    }

    /// Forgets a connection once both of its ends are closed.
    fn leave(&mut self, id: ConnectionId, is_over: impl FnOnce(&mut Connection) -> bool) {
        if self.connections.get_mut(&id).is_some_and(is_over) {
            self.connections.remove(&id);
        }
    }

    fn connected(&mut self, end: EndId) -> Option<(&mut Connection, Side)> {
        find(&self.ends, &mut self.connections, end)
    }

    fn peek(&self, end: EndId) -> Option<(&Connection, Side)> {
        let End::Connected { connection, side } = self.ends.get(&end)? else { return None };
        self.connections.get(connection).map(|connection| (connection, *side))
    }

    pub(super) fn assert_invariants(&self) {
        let Self { ends, connections, listeners, .. } = self;
        let mut open = 0;
        for (id, end) in ends {
            match end {
                End::Fresh(_) => {}
                End::Listening { address, backlog, .. } => {
                    assert_eq!(listeners.get(address), Some(id), "{address} leads to its listener");
                    assert!(backlog.len() <= BACKLOG_MAX, "{} wait", backlog.len());
                    let are_open = backlog.iter().all(|waiting| self.peek(*waiting).is_some());
                    assert!(are_open, "whoever waits to be accepted has a connection");
                }
                End::Connected { connection, side } => {
                    open += 1;
                    let is_open = connections.get(connection).is_some_and(|it| it.is_open(*side));
                    assert!(is_open, "{id:?} is an open end of {connection:?}");
                }
            }
        }
        let sides = |connection: &Connection| {
            Side::BOTH.iter().filter(|side| connection.is_open(**side)).count()
        };
        let held: usize = connections.values().map(sides).sum();
        assert_eq!(held, open, "each open end of a connection is somebody's");
        for connection in connections.values() {
            connection.assert_invariants();
        }
    }
}

fn find<'net>(
    ends: &BTreeMap<EndId, End>,
    connections: &'net mut BTreeMap<ConnectionId, Connection>,
    end: EndId,
) -> Option<(&'net mut Connection, Side)> {
    let End::Connected { connection, side } = ends.get(&end)? else { return None };
    connections.get_mut(connection).map(|connection| (connection, *side))
}

fn between_them<'net>(
    connections: &'net mut BTreeMap<ConnectionId, Connection>,
    (dialer, address): &(SimId, SocketAddress),
) -> impl Iterator<Item = &'net mut Connection> {
    let (dialer, address) = (*dialer, address.clone());
    connections.values_mut().filter(move |it| it.dialer == dialer && it.address == address)
}
