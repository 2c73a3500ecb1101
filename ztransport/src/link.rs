//! One connection: what it has received, and where it stands.

use bytes::BytesMut;
use zcore::wire::{Decoder, Head, Lane, Limits, Piece, WireError};
use zcore::{Instant, wire::HELLO_BYTES};

use crate::op::BufferGroup;
use crate::peers::Reservation;
use crate::record::Incoming;
use crate::token::SocketId;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// We dial; the socket is not connected yet.
    Connecting {
        /// The peer's slot.
        peer: u32,
    },
    /// We have said hello and wait for the answer.
    Greeting {
        /// The peer's slot.
        peer: u32,
    },
    /// It was accepted and has not said hello yet.
    Accepted {
        /// The topology whose listener took it.
        topology: u16,
    },
    /// It has said hello, and another shard has its peer: it goes there once it has stopped receiving.
    Moving {
        /// The topology whose listener took it.
        topology: u16,
        /// Where it goes.
        shard: u16,
    },
    /// It is one half of a peer's pair.
    Joined {
        /// The peer's slot.
        peer: u32,
    },
    /// It is one half of a pair that has to prove that it lives, before it takes the place of the
    /// peer's present one.
    Challenging {
        /// The peer's slot.
        peer: u32,
    },
    /// Nothing more is sent; the rest is read until the peer ends its side.
    Lingering {
        /// The peer's slot, if it had joined.
        peer: Option<u32>,
    },
    /// It is being closed.
    Closing {
        /// The peer's slot, if it had joined.
        peer: Option<u32>,
    },
}

impl Stage {
    /// The peer that the connection belongs to.
    pub(crate) const fn peer(self) -> Option<u32> {
        match self {
            Self::Connecting { peer }
            | Self::Greeting { peer }
            | Self::Joined { peer }
            | Self::Challenging { peer } => Some(peer),
            Self::Lingering { peer } | Self::Closing { peer } => peer,
            Self::Accepted { .. } | Self::Moving { .. } => None,
        }
    }

    /// Whether it takes one of the places of those that have not joined a pair.
    pub(crate) const fn is_stranger(self) -> bool {
        match self {
            Self::Accepted { .. } | Self::Moving { .. } | Self::Lingering { peer: None } => true,
            Self::Connecting { .. }
            | Self::Greeting { .. }
            | Self::Joined { .. }
            | Self::Challenging { .. }
            | Self::Lingering { peer: Some(_) }
            | Self::Closing { .. } => false,
        }
    }
}

/// Whether the kernel delivers bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Receiving {
    /// Not armed.
    Off,
    /// Armed.
    On,
    /// Armed, and asked to stop; bytes may still come.
    Pausing,
    /// The peer has ended its side.
    Ended,
}

/// A connection of this shard.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) socket: SocketId,
    pub(crate) stage: Stage,
    pub(crate) lane: Lane,
    pub(crate) receiving: Receiving,
    pub(crate) is_sending: bool,
    pub(crate) inbound: Inbound,
    /// Room for its peer on some shard, if that one is new: until it is added.
    pub(crate) reservation: Option<Reservation>,
    /// When bytes last came in.
    pub(crate) heard_at: Instant,
}

impl Link {
    pub(crate) fn new(socket: SocketId, stage: Stage, lane: Lane, now: Instant) -> Self {
        Self {
            socket,
            stage,
            lane,
            receiving: Receiving::Off,
            is_sending: false,
            inbound: Inbound::default(),
            reservation: None,
            heard_at: now,
        }
    }

    /// The buffers it receives into.
    pub(crate) const fn group(&self) -> BufferGroup {
        match self.lane {
            Lane::Application => BufferGroup::Application,
            Lane::Completion => BufferGroup::Completion,
        }
    }
}

/// What to do with a record whose head has arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// It is charged: keep its body.
    Store,
    /// Read over its body.
    Skip,
    /// There is no room for it yet.
    Blocked,
    /// The peer breaks the protocol.
    Break,
}

/// Decides about records as they arrive.
pub(crate) trait Gate {
    /// Whether to store a record. Asked again after [`Verdict::Blocked`].
    fn judge(&mut self, head: &Head) -> Verdict;

    /// Takes a whole record.
    fn take(&mut self, record: Incoming);
}

/// Why decoding stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fed {
    /// All bytes are used.
    Drained,
    /// The next record has no room; the rest of the bytes is in the carry.
    Blocked,
    /// The gate broke the connection.
    Broken,
}

/// Received bytes that are not whole records yet.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    decoder: Option<Decoder>,
    /// Bytes received before they can be decoded.
    carry: Vec<u8>,
    assembly: Option<Assembly>,
    /// A head without room.
    blocked: Option<Head>,
}

#[derive(Debug)]
enum Assembly {
    Storing(Head, BytesMut),
    Skipping,
}

impl Inbound {
    /// Lets records be decoded.
    pub(crate) const fn open(&mut self, limits: Limits) {
        self.decoder = Some(Decoder::new(limits));
    }

    /// Whether bytes wait to be decoded.
    pub(crate) const fn has_carry(&self) -> bool {
        !self.carry.is_empty()
    }

    /// Whether a record waits for room.
    pub(crate) const fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Keeps bytes for later.
    pub(crate) fn carry(&mut self, bytes: &[u8]) {
        self.carry.extend_from_slice(bytes);
    }

    /// The bytes that are kept for later.
    pub(crate) fn carried(&self) -> &[u8] {
        &self.carry
    }

    /// The whole hello at the start of the carry, if it is there.
    pub(crate) fn hello(&self) -> Option<[u8; HELLO_BYTES]> {
        self.carry.first_chunk::<HELLO_BYTES>().copied()
    }

    /// Leaves the hello behind.
    pub(crate) fn skip_hello(&mut self) {
        self.carry.drain(..HELLO_BYTES.min(self.carry.len()));
    }

    /// Takes everything out that is kept for later.
    pub(crate) fn take_carry(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.carry)
    }

    /// The head of the record whose charge must be given back if the connection ends now.
    pub(crate) fn take_unfinished(&mut self) -> Option<Head> {
        self.carry = Vec::new();
        self.blocked = None;
        match self.assembly.take() {
            Some(Assembly::Storing(head, _)) => Some(head),
            Some(Assembly::Skipping) | None => None,
        }
    }

    /// Decodes fresh bytes; what cannot be decoded yet is carried.
    ///
    /// # Errors
    ///
    /// [`WireError`] as soon as the bytes are no records.
    pub(crate) fn feed(&mut self, bytes: &[u8], gate: &mut impl Gate) -> Result<Fed, WireError> {
        if !self.carry.is_empty() || self.blocked.is_some() || self.decoder.is_none() {
            self.carry(bytes);
            return Ok(Fed::Blocked);
        }
        let mut rest = bytes;
        let fed = self.decode(&mut rest, gate)?;
        if fed == Fed::Blocked {
            self.carry(rest);
        }
        Ok(fed)
    }

    /// Decodes carried bytes, after there may be room again.
    ///
    /// # Errors
    ///
    /// As [`Inbound::feed`].
    pub(crate) fn resume(&mut self, gate: &mut impl Gate) -> Result<Fed, WireError> {
        if self.decoder.is_none() {
            return Ok(Fed::Blocked);
        }
        if let Some(head) = self.blocked {
            match self.begin(head, gate) {
                Fed::Drained => self.blocked = None,
                fed @ (Fed::Blocked | Fed::Broken) => return Ok(fed),
            }
        }
        let carry = core::mem::take(&mut self.carry);
        let mut rest = carry.as_slice();
        let fed = self.decode(&mut rest, gate)?;
        if fed == Fed::Blocked {
            self.carry = rest.to_vec();
        }
        Ok(fed)
    }

    fn decode(&mut self, input: &mut &[u8], gate: &mut impl Gate) -> Result<Fed, WireError> {
        loop {
            let Some(decoder) = &mut self.decoder else { return Ok(Fed::Blocked) };
            match decoder.next(input)? {
                None => return Ok(Fed::Drained),
                Some(Piece::Head(head)) => match self.begin(head, gate) {
                    Fed::Drained => {}
                    Fed::Blocked => {
                        self.blocked = Some(head);
                        return Ok(Fed::Blocked);
                    }
                    Fed::Broken => return Ok(Fed::Broken),
                },
                Some(Piece::Body(bytes)) => {
                    if let Some(Assembly::Storing(_, body)) = &mut self.assembly {
                        body.extend_from_slice(bytes);
                    }
                }
                Some(Piece::End) => {
                    if let Some(Assembly::Storing(head, body)) = self.assembly.take() {
                        gate.take(Incoming::new(head, body.freeze()));
                    }
                }
            }
        }
    }

    /// Charges a record, and only then allocates for it.
    fn begin(&mut self, head: Head, gate: &mut impl Gate) -> Fed {
        match gate.judge(&head) {
            Verdict::Store => {
                let size = usize::try_from(head.body_len()).unwrap_or(usize::MAX);
                self.assembly = Some(Assembly::Storing(head, BytesMut::with_capacity(size)));
                Fed::Drained
            }
            Verdict::Skip => {
                self.assembly = Some(Assembly::Skipping);
                Fed::Drained
            }
            Verdict::Blocked => Fed::Blocked,
            Verdict::Break => Fed::Broken,
        }
    }
}
