//! The sockets of a driver, and the memory that their operations need while they are in flight.

use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::types::Fd;
use rustix::net::{Shutdown, SocketAddrAny};

use crate::batch::{Batch, SEGMENTS_MAX};
use crate::op::BufferGroup;
use crate::slots::Slots;
use crate::socket::SocketBuffers;
use crate::token::SocketId;

use super::limits::{SOCKETS_MAX, SPARE_SENDS_MAX};
use super::token::Kind;

/// The sockets, and lists for their sends.
#[derive(Debug)]
pub(super) struct Table {
    entries: Slots<Entry>,
    #[expect(clippy::vec_box, reason = "a send needs a box, and this saves making one")]
    spare: Vec<Box<SendMemory>>,
}

/// A socket and what is in flight for it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) socket: OwnedFd,
    pub(super) in_flight: InFlight,
    pub(super) receive: Receive,
    /// In the kernel's hands while a send is in flight.
    pub(super) send: Option<Box<SendMemory>>,
    /// In the kernel's hands while a connect is in flight.
    pub(super) connect: Option<Box<SocketAddrAny>>,
    pub(super) ending: Ending,
    /// What the kernel may hold for each connection that a listener accepts.
    pub(super) accepts_with: SocketBuffers,
}

/// Where the receiving side of a socket stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Receive {
    Idle,
    Armed(BufferGroup),
    /// As `Armed`, with a cancel on its way.
    Pausing(BufferGroup),
    /// At the end of the stream, or failed.
    Over,
}

/// What happens once something that is in flight has come back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ending {
    None,
    /// No more is sent once the send in flight is back.
    ShutdownWrite,
    /// The socket is closed once nothing is in flight.
    Close,
}

/// A set of operation kinds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct InFlight(u16);

impl InFlight {
    pub(super) const fn insert(&mut self, kind: Kind) {
        self.0 |= 1 << kind as u16;
    }

    /// Whether it was there.
    pub(super) const fn remove(&mut self, kind: Kind) -> bool {
        let present = self.contains(kind);
        self.0 &= !(1 << kind as u16);
        present
    }

    pub(super) const fn contains(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u16) != 0
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Entry {
    /// The descriptor, for an operation.
    pub(super) fn fd(&self) -> Fd {
        Fd(self.socket.as_raw_fd())
    }

    pub(super) fn is_closing(&self) -> bool {
        self.ending == Ending::Close
    }

    /// An error means that there is no connection, and its other operations say so.
    pub(super) fn shutdown(&self, how: Shutdown) {
        let _ = rustix::net::shutdown(&self.socket, how);
    }
}

impl Table {
    pub(super) fn new(sockets_max: u32) -> Self {
        Self { entries: Slots::new(sockets_max.min(SOCKETS_MAX)), spare: Vec::new() }
    }

    /// Takes a socket in, or gives it back when all slots are taken.
    pub(super) fn insert(&mut self, socket: OwnedFd) -> Result<SocketId, OwnedFd> {
        let entry = Entry {
            socket,
            in_flight: InFlight::default(),
            receive: Receive::Idle,
            send: None,
            connect: None,
            ending: Ending::None,
            accepts_with: SocketBuffers::default(),
        };
        self.entries.insert(entry).map_err(|entry| entry.socket)
    }

    /// The socket of this name, unless it is gone.
    pub(super) fn get(&mut self, id: SocketId) -> Option<&mut Entry> {
        self.entries.get(id)
    }

    /// Takes a socket out. Only one with nothing in flight: its descriptor is closed by whoever
    /// drops the result, and an operation that is in flight would outlive it without sending a
    /// FIN, or start on whatever socket gets the number next.
    pub(super) fn remove(&mut self, id: SocketId) -> Option<OwnedFd> {
        self.get(id).filter(|entry| entry.in_flight.is_empty())?;
        self.entries.remove(id).map(|entry| entry.socket)
    }

    /// How many sockets it can hold.
    pub(super) fn sockets_max(&self) -> u32 {
        self.entries.slots_max()
    }

    /// Lays a batch out for the kernel.
    pub(super) fn lay_out(&mut self, batch: Batch) -> Box<SendMemory> {
        let mut memory = self.spare.pop().unwrap_or_default();
        memory.lay_out(batch);
        memory
    }

    /// Takes the batch out of memory that the kernel has given back.
    pub(super) fn take_batch(&mut self, mut memory: Box<SendMemory>) -> Batch {
        let batch = memory.clear();
        if self.spare.len() < SPARE_SENDS_MAX {
            self.spare.push(memory);
        }
        batch
    }
}

/// All that sendmsg(2) reads: the header, the list of segments, and the segments. Boxed, and not
/// changed between the submission and the completion.
#[derive(Debug, Default)]
pub(super) struct SendMemory {
    header: MessageHeader,
    segments: Vec<Segment>,
    batch: Batch,
}

impl SendMemory {
    fn lay_out(&mut self, batch: Batch) {
        let segments = batch.segments().iter().take(SEGMENTS_MAX);
        self.segments
            .extend(segments.map(|bytes| Segment { start: bytes.as_ptr(), length: bytes.len() }));
        // Moving a batch does not move its bytes: they are behind a pointer.
        self.batch = batch;
        self.header.segments = self.segments.as_ptr();
        self.header.segment_count = self.segments.len();
    }

    fn clear(&mut self) -> Batch {
        self.segments.clear();
        self.header = MessageHeader::default();
        core::mem::take(&mut self.batch)
    }

    pub(super) const fn header(&self) -> *const MessageHeader {
        &raw const self.header
    }
}

/// The kernel's `struct user_msghdr`.
#[derive(Debug)]
#[repr(C)]
pub(super) struct MessageHeader {
    name: *const u8,
    name_length: u32,
    segments: *const Segment,
    segment_count: usize,
    control: *const u8,
    control_length: usize,
    flags: u32,
}

impl Default for MessageHeader {
    fn default() -> Self {
        Self {
            name: core::ptr::null(),
            name_length: 0,
            segments: core::ptr::null(),
            segment_count: 0,
            control: core::ptr::null(),
            control_length: 0,
            flags: 0,
        }
    }
}

/// The kernel's `struct iovec`.
#[derive(Debug)]
#[repr(C)]
struct Segment {
    start: *const u8,
    length: usize,
}

const _: () = {
    assert!(size_of::<Segment>() == 2 * size_of::<usize>(), "a pointer and a size_t");
    assert!(size_of::<MessageHeader>() == 7 * size_of::<usize>(), "struct user_msghdr");
};

#[cfg(test)]
mod tests {
    use super::{InFlight, Table};
    use crate::batch::{Batch, SEGMENTS_MAX};
    use crate::uring::token::Kind;
    use bytes::Bytes;
    use std::os::fd::OwnedFd;

    fn descriptor() -> OwnedFd {
        rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap()
    }

    #[test]
    fn a_socket_with_something_in_flight_stays() {
        let mut table = Table::new(1);
        let id = table.insert(descriptor()).unwrap();
        table.get(id).unwrap().in_flight.insert(Kind::Send);
        assert!(table.remove(id).is_none(), "a send is in flight");
        assert!(table.get(id).unwrap().in_flight.remove(Kind::Send), "it was");
        assert!(table.remove(id).is_some(), "now it may go");
    }

    #[test]
    fn operations_in_flight_are_told_apart() {
        let mut set = InFlight::default();
        set.insert(Kind::CancelAll);
        set.insert(Kind::Connect);
        assert!(set.contains(Kind::CancelAll) && !set.contains(Kind::Send), "members");
        assert!(set.remove(Kind::Connect) && !set.remove(Kind::Connect), "once");
        assert!(!set.is_empty(), "one is left");
    }

    #[test]
    fn a_batch_is_laid_out_up_to_the_longest_list() {
        let mut table = Table::new(1);
        let mut batch = Batch::default();
        for _ in 0..=SEGMENTS_MAX {
            batch.push_segment(Bytes::from_static(b"ab"));
        }
        let memory = table.lay_out(batch);
        assert_eq!(memory.segments.len(), SEGMENTS_MAX, "one is left out");
        assert_eq!(memory.header.segments, memory.segments.as_ptr(), "the list");
        let batch = table.take_batch(memory);
        assert_eq!(batch.segment_count(), SEGMENTS_MAX + 1, "untouched");
        assert!(table.lay_out(Batch::default()).segments.is_empty(), "nothing is left behind");
    }
}
