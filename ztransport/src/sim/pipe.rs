//! One direction of one connection: bytes that were sent and not received yet.

use std::collections::VecDeque;

use bytes::Bytes;
use rustix::io::Errno;
use zcore::ByteCount;

use crate::socket::SocketBuffers;

/// Bytes on their way, in order.
#[derive(Debug)]
pub(super) struct Pipe {
    queued: VecDeque<u8>,
    /// What the sender's and the receiver's buffers hold together.
    capacity: usize,
    /// What of it lies with the receiver, and outlives a reset.
    at_receiver: usize,
    written: u64,
    read: u64,
    /// Bytes that were written and will never be read.
    lost: u64,
    pub(super) tail: Tail,
    pub(super) reset: Option<Reset>,
    pub(super) delivery: Delivery,
    /// Where the direction is to break, counted in bytes written.
    pub(super) break_at: Option<Break>,
}

/// What follows the bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Tail {
    /// More bytes, perhaps.
    Open,
    /// The end of the stream.
    End,
}

/// A reset came with this direction. It is told once, by whichever operation of the receiver
/// notices it first; later ones find a dead connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reset {
    Untold(Errno),
    Told,
}

/// Whether what was sent arrives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Delivery {
    Running,
    /// A script holds it back.
    Held,
}

/// How a direction breaks, and at which byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Break {
    Reset { at: u64 },
    End { at: u64 },
}

impl Break {
    const fn at(self) -> u64 {
        match self {
            Self::Reset { at } | Self::End { at } => at,
        }
    }
}

/// What a receive finds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Readable {
    Nothing,
    Bytes(usize),
    End,
    Failed(Errno),
}

impl Pipe {
    pub(super) fn new(sender: SocketBuffers, receiver: SocketBuffers) -> Self {
        let mut pipe = Self {
            queued: VecDeque::new(),
            capacity: 0,
            at_receiver: 0,
            written: 0,
            read: 0,
            lost: 0,
            tail: Tail::Open,
            reset: None,
            delivery: Delivery::Running,
            break_at: None,
        };
        pipe.resize(sender, receiver);
        pipe
    }

    /// Sizes it anew. It never becomes smaller than what is in it.
    pub(super) fn resize(&mut self, sender: SocketBuffers, receiver: SocketBuffers) {
        self.at_receiver = bytes(receiver.receive);
        let capacity = bytes(sender.send).saturating_add(self.at_receiver);
        self.capacity = capacity.max(self.queued.len());
    }

    pub(super) fn room(&self) -> usize {
        let room = self.capacity.saturating_sub(self.queued.len());
        match self.break_at {
            None => room,
            Some(planned) => {
                let until = planned.at().saturating_sub(self.written);
                room.min(usize::try_from(until).unwrap_or(usize::MAX))
            }
        }
    }

    /// Appends the first `length` bytes of `segments`, for which there is room. The planned break
    /// that they have reached, if any.
    pub(super) fn write(&mut self, segments: &[Bytes], length: usize) -> Option<Break> {
        debug_assert!(length <= self.room(), "{length} bytes do not fit into {}", self.room());
        let mut left = length;
        for segment in segments {
            let taken = segment.get(..left).unwrap_or(segment);
            self.queued.extend(taken);
            left -= taken.len();
            if left == 0 {
                break;
            }
        }
        self.written += length as u64;
        self.break_at.take_if(|planned| planned.at() <= self.written)
    }

    /// Takes in bytes that nobody will read.
    pub(super) const fn swallow(&mut self, length: usize) {
        self.written += length as u64;
        self.lost += length as u64;
    }

    /// What a receive finds now.
    pub(super) fn readable(&self) -> Readable {
        if self.delivery == Delivery::Held {
            return Readable::Nothing;
        }
        match (self.queued.len(), self.tail, self.reset) {
            (length @ 1.., ..) => Readable::Bytes(length),
            (0, Tail::End, _) | (0, Tail::Open, Some(Reset::Told)) => Readable::End,
            (0, Tail::Open, Some(Reset::Untold(errno))) => Readable::Failed(errno),
            (0, Tail::Open, None) => Readable::Nothing,
        }
    }

    /// Takes the next `length` bytes out.
    pub(super) fn read(&mut self, length: usize) -> Vec<u8> {
        let bytes: Vec<u8> = self.queued.drain(..length.min(self.queued.len())).collect();
        self.read += bytes.len() as u64;
        bytes
    }

    /// Whether bytes have arrived that were not received.
    pub(super) fn has_unread(&self) -> bool {
        self.delivery == Delivery::Running && !self.queued.is_empty()
    }

    /// How many bytes are on their way.
    pub(super) fn queued(&self) -> usize {
        self.queued.len()
    }

    /// The error that a reset left for the receiver's side, unless it was told before.
    pub(super) const fn take_reset(&mut self) -> Option<Errno> {
        match self.reset {
            Some(Reset::Untold(errno)) => {
                self.reset = Some(Reset::Told);
                Some(errno)
            }
            Some(Reset::Told) | None => None,
        }
    }

    /// Whether a reset has come with this direction.
    pub(super) fn is_reset(&self) -> bool {
        self.delivery == Delivery::Running && self.reset.is_some()
    }

    /// How many bytes a reset leaves to be received at most.
    pub(super) fn arrived(&self) -> usize {
        self.queued.len().min(self.at_receiver)
    }

    /// A reset follows the first `kept` bytes. Behind an end of stream that has arrived it is not
    /// seen by a receive, and a send calls it a broken pipe.
    pub(super) fn break_off(&mut self, kept: usize) {
        if self.reset.is_some() {
            return;
        }
        let cut = self.queued.len().saturating_sub(kept);
        self.queued.truncate(kept);
        self.lost += cut as u64;
        if cut > 0 {
            // The end of the stream was behind what is lost.
            self.tail = Tail::Open;
        }
        let errno = match self.tail {
            Tail::Open => Errno::CONNRESET,
            Tail::End => Errno::PIPE,
        };
        self.reset = Some(Reset::Untold(errno));
    }

    /// Drops what nobody will read. Whether there was anything.
    pub(super) fn clear(&mut self) -> bool {
        let dropped = self.queued.len();
        self.queued.clear();
        self.lost += dropped as u64;
        dropped > 0
    }

    pub(super) fn assert_invariants(&self) {
        let Self { queued, capacity, written, read, lost, break_at, .. } = self;
        assert!(queued.len() <= *capacity, "{} bytes in {capacity}", queued.len());
        assert_eq!(
            *written,
            read + lost + queued.len() as u64,
            "every byte that was written is read, lost or on its way"
        );
        let is_ahead = break_at.is_none_or(|planned| planned.at() > *written);
        assert!(is_ahead, "{break_at:?} is behind the {written} bytes written");
    }
}

/// At least one byte: nothing ever moves through a buffer of none.
fn bytes(count: ByteCount) -> usize {
    usize::try_from(count.get()).unwrap_or(usize::MAX).max(1)
}
