//! Two pipes between two ends, and what becomes of one end when the other goes.

use bytes::Bytes;
use rustix::io::Errno;

use super::SimId;
use super::faults::{Dice, Fault};
use super::pipe::{Break, Delivery, Pipe, Readable, Reset, Tail};
use crate::socket::{SocketAddress, SocketBuffers};

/// Which end of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Side {
    Dialer,
    Acceptor,
}

impl Side {
    pub(super) const BOTH: [Self; 2] = [Self::Dialer, Self::Acceptor];

    const fn other(self) -> Self {
        match self {
            Self::Dialer => Self::Acceptor,
            Self::Acceptor => Self::Dialer,
        }
    }
}

/// Which directions of a connection.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Way {
    /// From the end that connected to the end that accepted.
    ToAcceptor,
    /// From the end that accepted to the end that connected.
    ToDialer,
    /// Both.
    Both,
}

impl Way {
    /// Whether it includes what `sender` sends.
    fn includes(self, sender: Side) -> bool {
        match self {
            Self::ToAcceptor => sender == Side::Dialer,
            Self::ToDialer => sender == Side::Acceptor,
            Self::Both => true,
        }
    }
}

/// A connection, of which at least one end is open.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) dialer: SimId,
    pub(super) address: SocketAddress,
    from_dialer: Half,
    from_acceptor: Half,
}

/// One end, and the pipe that it sends into.
#[derive(Debug)]
struct Half {
    buffers: SocketBuffers,
    is_open: bool,
    pipe: Pipe,
}

/// What a send finds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Writable {
    Full,
    /// There is room.
    Room(usize),
    /// The other end is gone: what is sent is taken and answered with a reset.
    Gone,
    Failed(Errno),
}

impl Connection {
    pub(super) fn new(
        (dialer, address): (SimId, SocketAddress),
        dialing: SocketBuffers,
        accepting: SocketBuffers,
        dice: &mut Dice,
    ) -> Self {
        let half = |own, other| Half { buffers: own, is_open: true, pipe: Pipe::new(own, other) };
        let mut connection = Self {
            dialer,
            address,
            from_dialer: half(dialing, accepting),
            from_acceptor: half(accepting, dialing),
        };
        let side = if dice.below(2) == 0 { Side::Dialer } else { Side::Acceptor };
        connection.pipe(side).break_at = if dice.threatens(Fault::Reset) {
            Some(Break::Reset { at: dice.break_at() })
        } else if dice.threatens(Fault::HalfClose) {
            Some(Break::End { at: dice.break_at() })
        } else {
            None
        };
        connection
    }

    const fn half(&mut self, side: Side) -> &mut Half {
        match side {
            Side::Dialer => &mut self.from_dialer,
            Side::Acceptor => &mut self.from_acceptor,
        }
    }

    const fn half_ref(&self, side: Side) -> &Half {
        match side {
            Side::Dialer => &self.from_dialer,
            Side::Acceptor => &self.from_acceptor,
        }
    }

    /// What `side` sends into.
    const fn pipe(&mut self, side: Side) -> &mut Pipe {
        &mut self.half(side).pipe
    }

    /// Sizes the buffers of an end anew.
    pub(super) fn resize(&mut self, side: Side, buffers: SocketBuffers) {
        self.half(side).buffers = buffers;
        for sender in Side::BOTH {
            let receiver = self.half_ref(sender.other()).buffers;
            let half = self.half(sender);
            half.pipe.resize(half.buffers, receiver);
        }
    }

    /// What a send of `side` finds now.
    pub(super) fn writable(&self, side: Side) -> Writable {
        let (out, back) = (self.half_ref(side), self.half_ref(side.other()));
        if back.pipe.is_reset() {
            let errno = match back.pipe.reset {
                Some(Reset::Untold(errno)) => errno,
                Some(Reset::Told) | None => Errno::PIPE,
            };
            return Writable::Failed(errno);
        }
        if out.pipe.tail == Tail::End {
            return Writable::Failed(Errno::PIPE);
        }
        // A reset that this side has not heard of: what it sends gets nowhere.
        if out.pipe.reset.is_some() || (!back.is_open && out.pipe.delivery == Delivery::Running) {
            return Writable::Gone;
        }
        match out.pipe.room() {
            0 => Writable::Full,
            room => Writable::Room(room),
        }
    }

    /// Sends the first `length` bytes of `segments`, for which there is room.
    pub(super) fn write(&mut self, side: Side, segments: &[Bytes], length: usize, dice: &mut Dice) {
        match self.pipe(side).write(segments, length) {
            None => {}
            Some(Break::Reset { .. }) => {
                dice.count(Fault::Reset);
                self.reset(dice);
            }
            Some(Break::End { .. }) => {
                dice.count(Fault::HalfClose);
                self.pipe(side).tail = Tail::End;
            }
        }
    }

    /// Sends bytes to an end that is gone.
    pub(super) fn write_to_nobody(&mut self, side: Side, length: usize) {
        self.pipe(side).swallow(length);
        self.answer_with_reset(side);
    }

    /// An error that a send has reported is not reported again.
    pub(super) const fn tell_reset(&mut self, side: Side) {
        self.pipe(side.other()).take_reset();
    }

    pub(super) fn readable(&self, side: Side) -> Readable {
        self.half_ref(side.other()).pipe.readable()
    }

    pub(super) fn read(&mut self, side: Side, length: usize) -> Vec<u8> {
        self.pipe(side.other()).read(length)
    }

    /// `side` sends no more. A dead connection cannot be ended any better.
    pub(super) const fn end(&mut self, side: Side) {
        let pipe = self.pipe(side);
        if pipe.reset.is_none() {
            pipe.tail = Tail::End;
            pipe.break_at = None;
        }
    }

    /// Closes an end. Whether the connection is over.
    pub(super) fn close(&mut self, side: Side) -> bool {
        if self.pipe(side.other()).has_unread() {
            // The peer must learn that not all of its bytes were read.
            self.pipe(side.other()).clear();
            let arrived = self.pipe(side).arrived();
            self.pipe(side).break_off(arrived);
        } else {
            self.end(side);
        }
        for end in Side::BOTH {
            self.pipe(end).break_at = None;
        }
        self.half(side).is_open = false;
        !self.half_ref(side.other()).is_open
    }

    /// Closes an end that nobody has accepted: the other one hears of a reset.
    pub(super) fn abort(&mut self, side: Side) -> bool {
        self.pipe(side).break_off(0);
        self.close(side)
    }

    /// Breaks, for both ends. What had arrived can be received still, or some of it.
    pub(super) fn reset(&mut self, dice: &mut Dice) {
        for side in Side::BOTH {
            let pipe = self.pipe(side);
            pipe.break_at = None;
            let kept = dice.below(pipe.arrived() + 1);
            pipe.break_off(kept);
        }
    }

    /// Holds back what is sent from now on, and what has not been received yet.
    pub(super) fn hold(&mut self, way: Way) {
        for side in Side::BOTH.into_iter().filter(|side| way.includes(*side)) {
            self.pipe(side).delivery = Delivery::Held;
        }
    }

    /// Lets everything arrive that was held back.
    pub(super) fn resume(&mut self) {
        for side in Side::BOTH {
            self.pipe(side).delivery = Delivery::Running;
        }
        for side in Side::BOTH {
            if !self.half_ref(side.other()).is_open && self.pipe(side).clear() {
                self.answer_with_reset(side);
            }
        }
    }

    pub(super) const fn is_open(&self, side: Side) -> bool {
        self.half_ref(side).is_open
    }

    /// Bytes that are on their way, in both directions.
    pub(super) fn queued(&self) -> usize {
        Side::BOTH.map(|side| self.half_ref(side).pipe.queued()).iter().sum()
    }

    /// What `side` sent has met an end that is gone.
    fn answer_with_reset(&mut self, side: Side) {
        let arrived = self.pipe(side.other()).arrived();
        self.pipe(side.other()).break_off(arrived);
    }

    pub(super) fn assert_invariants(&self) {
        assert!(Side::BOTH.iter().any(|side| self.is_open(*side)), "somebody holds it");
        for side in Side::BOTH {
            self.half_ref(side).pipe.assert_invariants();
        }
    }
}
