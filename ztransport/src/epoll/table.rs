//! The sockets of a driver, and which of them have something to do.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{Shutdown, SocketAddrAny};

use super::readiness::Readiness;
use crate::batch::Batch;
use crate::slots::Slots;
use crate::socket::SocketBuffers;
use crate::token::SocketId;

/// The sockets, and a line of those that are to be served.
#[derive(Debug)]
pub(super) struct Table {
    entries: Slots<Entry>,
    /// Whoever could go on, in the order in which they are served: one that has had its share joins
    /// the end (D-23). Each is in it once at most.
    due: VecDeque<SocketId>,
}

/// A socket and what is asked of it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) socket: OwnedFd,
    /// Why the kernel does not watch it, if it does not.
    pub(super) unwatched: Option<Errno>,
    pub(super) readiness: Readiness,
    pub(super) receiving: Receiving,
    pub(super) sending: Sending,
    pub(super) after_send: AfterSend,
    pub(super) connecting: Connecting,
    /// What the kernel may hold for each connection that it accepts, while it accepts any.
    pub(super) accepting: Option<SocketBuffers>,
    standing: Standing,
    line: Line,
}

/// Where the receiving side of a socket stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Receiving {
    Idle,
    Armed,
    /// It has stopped, and that is not reported yet.
    Pausing,
    /// At the end of the stream, or failed.
    Over,
}

/// Where the sending side of a socket stands.
#[derive(Debug)]
pub(super) enum Sending {
    Idle,
    /// Until there is room.
    Waiting(Batch),
    /// It has ended, and that is not reported yet.
    Ended(Result<usize, Errno>, Batch),
}

/// What follows the end of a send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum AfterSend {
    Nothing,
    /// No more is sent.
    Shutdown,
}

/// Where the connect of a socket stands.
#[derive(Debug)]
pub(super) enum Connecting {
    Idle,
    /// The kernel reports the socket writable when it has ended.
    UnderWay,
    /// A Unix listener has no room in its backlog: to be tried again.
    Backlogged(Box<SocketAddrAny>),
    /// It has ended, and that is not reported yet.
    Ended(Result<(), Errno>),
}

/// Whether anything more can be asked of a socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Standing {
    Open,
    /// It is closed as soon as that can be reported.
    Closing,
}

/// Whether a socket is in the line of those to be served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Line {
    Out,
    In,
}

impl Entry {
    const fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            unwatched: None,
            readiness: Readiness::FRESH,
            receiving: Receiving::Idle,
            sending: Sending::Idle,
            after_send: AfterSend::Nothing,
            connecting: Connecting::Idle,
            accepting: None,
            standing: Standing::Open,
            line: Line::Out,
        }
    }

    /// Whether an operation was taken whose end is not reported yet.
    pub(super) const fn is_in_flight(&self) -> bool {
        matches!(self.receiving, Receiving::Armed | Receiving::Pausing)
            || !matches!(self.sending, Sending::Idle)
            || !matches!(self.connecting, Connecting::Idle)
            || self.accepting.is_some()
    }

    pub(super) const fn is_closing(&self) -> bool {
        matches!(self.standing, Standing::Closing)
    }

    /// Ends whatever is asked of it. A send that was not reported comes back.
    pub(super) fn close(&mut self) -> Sending {
        self.standing = Standing::Closing;
        self.receiving = Receiving::Over;
        self.connecting = Connecting::Idle;
        self.accepting = None;
        core::mem::replace(&mut self.sending, Sending::Idle)
    }

    /// Whether serving it would come to something.
    const fn is_due(&self) -> bool {
        let (may_read, may_write) = (self.readiness.is_readable(), self.readiness.is_writable());
        let receiving = match self.receiving {
            Receiving::Idle | Receiving::Over => false,
            Receiving::Armed => may_read,
            Receiving::Pausing => true,
        };
        let sending = match self.sending {
            Sending::Idle => false,
            Sending::Waiting(_) => may_write,
            Sending::Ended(..) => true,
        };
        let connecting = match self.connecting {
            Connecting::Idle | Connecting::Backlogged(_) => false,
            Connecting::UnderWay => may_write,
            Connecting::Ended(_) => true,
        };
        let accepting = self.accepting.is_some() && may_read;
        let fails = self.unwatched.is_some() && self.is_in_flight();
        self.is_closing() || receiving || sending || connecting || accepting || fails
    }

    /// An error means that there is no connection, and its other operations say so.
    pub(super) fn shutdown(&self, how: Shutdown) {
        let _ = rustix::net::shutdown(&self.socket, how);
    }
}

impl Table {
    pub(super) fn new(sockets_max: u32) -> Self {
        let due = VecDeque::with_capacity(sockets_max as usize);
        Self { entries: Slots::new(sockets_max), due }
    }

    /// Takes a socket in, or gives it back when all slots are taken.
    pub(super) fn insert(&mut self, socket: OwnedFd) -> Result<SocketId, OwnedFd> {
        self.entries.insert(Entry::new(socket)).map_err(|entry| entry.socket)
    }

    /// The socket of this name, unless it is gone.
    pub(super) fn get(&mut self, id: SocketId) -> Option<&mut Entry> {
        self.entries.get(id)
    }

    /// A socket that is neither gone nor closing.
    pub(super) fn open(&mut self, id: SocketId) -> Option<&mut Entry> {
        self.get(id).filter(|entry| !entry.is_closing())
    }

    /// Takes a socket out. Only one with nothing in flight: whatever comes later would come under a
    /// dead name.
    pub(super) fn remove(&mut self, id: SocketId) -> Option<OwnedFd> {
        self.get(id).filter(|entry| !entry.is_in_flight())?;
        self.entries.remove(id).map(|entry| entry.socket)
    }

    /// How many sockets it can hold.
    pub(super) fn sockets_max(&self) -> u32 {
        self.entries.slots_max()
    }

    /// Has a socket served if that would come to something. To be called behind every change that
    /// could make it so.
    pub(super) fn schedule(&mut self, id: SocketId) {
        let Some(entry) = self.entries.get(id) else { return };
        if entry.line == Line::Out && entry.is_due() {
            entry.line = Line::In;
            self.due.push_back(id);
        }
    }

    /// Takes the next socket out of the line.
    pub(super) fn next_due(&mut self) -> Option<SocketId> {
        let id = self.due.pop_front()?;
        if let Some(entry) = self.entries.get(id) {
            entry.line = Line::Out;
        }
        Some(id)
    }

    /// How many sockets are to be served.
    pub(super) fn due(&self) -> usize {
        self.due.len()
    }
}

const _: () = assert!(size_of::<Entry>() <= 256, "an idle connection costs next to nothing");

#[cfg(test)]
mod tests {
    use super::{Entry, Receiving, Sending, Table};
    use crate::batch::Batch;
    use crate::epoll::readiness::Read;
    use crate::socket::SocketBuffers;
    use crate::token::SocketId;
    use rustix::event::epoll::EventFlags;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::io::Errno;

    fn table(sockets: u32) -> (Table, Vec<SocketId>) {
        let mut table = Table::new(sockets);
        let descriptor = || eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let ids = (0..sockets).map(|_| table.insert(descriptor()).unwrap()).collect();
        (table, ids)
    }

    /// Makes a change, and says whether the socket is to be served then. It is not served.
    fn is_due_after(change: impl FnOnce(&mut Entry)) -> bool {
        let (mut table, ids) = table(1);
        change(table.get(ids[0]).unwrap());
        table.schedule(ids[0]);
        table.next_due() == Some(ids[0])
    }

    #[test]
    fn an_edge_that_came_before_it_was_asked_for_is_not_lost() {
        assert!(!is_due_after(|entry| entry.readiness.observe(EventFlags::IN)), "nobody asks");
        assert!(!is_due_after(|entry| entry.receiving = Receiving::Armed), "nothing is there");
        let both = is_due_after(|entry| {
            entry.readiness.observe(EventFlags::IN);
            entry.receiving = Receiving::Armed;
        });
        assert!(both, "an edge, then a receive");
        let accepts = is_due_after(|entry| {
            entry.readiness.observe(EventFlags::IN);
            entry.accepting = Some(SocketBuffers::default());
        });
        assert!(accepts, "an edge, then an accept");
    }

    #[test]
    fn an_end_that_was_seen_while_paused_is_read_once_receiving_goes_on() {
        let due = is_due_after(|entry| {
            entry.readiness.observe(EventFlags::IN | EventFlags::RDHUP);
            entry.readiness.after_read(Read::Short);
            entry.receiving = Receiving::Armed;
        });
        assert!(due, "the end is still to be read");
    }

    #[test]
    fn a_send_waits_for_room_and_its_end_for_a_report() {
        let waiting = |entry: &mut Entry| {
            entry.readiness.write_would_block();
            entry.sending = Sending::Waiting(Batch::default());
        };
        assert!(!is_due_after(waiting), "no room");
        let room = is_due_after(|entry| {
            waiting(entry);
            entry.readiness.observe(EventFlags::OUT);
        });
        assert!(room, "room");
        let ended = is_due_after(|entry| {
            entry.readiness.write_would_block();
            entry.sending = Sending::Ended(Ok(1), Batch::default());
        });
        assert!(ended, "whether there is room or not");
    }

    #[test]
    fn a_socket_that_is_not_watched_does_not_wait() {
        assert!(!is_due_after(|entry| entry.unwatched = Some(Errno::PERM)), "nobody asks");
        let asked = is_due_after(|entry| {
            entry.unwatched = Some(Errno::PERM);
            entry.receiving = Receiving::Armed;
        });
        assert!(asked, "it fails at once");
    }

    #[test]
    fn a_socket_stands_in_line_once_and_behind_whoever_waited_longer() {
        let (mut table, ids) = table(3);
        for id in [ids[2], ids[0], ids[2], ids[1]] {
            table.get(id).unwrap().receiving = Receiving::Pausing;
            table.schedule(id);
        }
        assert_eq!(table.due(), 3, "each once");
        assert_eq!(table.next_due(), Some(ids[2]), "the first to come");
        table.schedule(ids[2]);
        let rest: Vec<_> = core::iter::from_fn(|| table.next_due()).collect();
        assert_eq!(rest, [ids[0], ids[1], ids[2]], "and then the last");
    }

    #[test]
    fn a_socket_with_something_in_flight_stays() {
        let (mut table, ids) = table(1);
        table.get(ids[0]).unwrap().sending = Sending::Ended(Ok(1), Batch::default());
        assert!(table.remove(ids[0]).is_none(), "its end is not reported");
        table.get(ids[0]).unwrap().sending = Sending::Idle;
        assert!(table.remove(ids[0]).is_some(), "now it may go");
        table.schedule(ids[0]);
        assert_eq!(table.due(), 0, "a dead name is not served");
    }

    #[test]
    fn closing_ends_everything_and_brings_the_batch_back() {
        let (mut table, ids) = table(1);
        let entry = table.get(ids[0]).unwrap();
        entry.receiving = Receiving::Armed;
        entry.accepting = Some(SocketBuffers::default());
        entry.sending = Sending::Waiting(Batch::default());
        assert!(matches!(entry.close(), Sending::Waiting(_)), "the batch");
        assert!(!entry.is_in_flight() && entry.is_closing(), "nothing else is reported");
        assert!(table.open(ids[0]).is_none(), "nothing more is asked of it");
        table.schedule(ids[0]);
        assert_eq!(table.next_due(), Some(ids[0]), "it is to be reported");
    }
}
