//! What crosses the kernel with an operation and comes back with its completion.
//!
//! A name, never a pointer: a completion under a stale name is recognised, and nothing is
//! dereferenced on its word.

use crate::op::BufferGroup;
use crate::token::SocketId;

use super::limits::SOCKETS_MAX;

/// What kind of operation it was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(super) enum Kind {
    Connect = 1,
    Accept = 2,
    ReceiveApplication = 3,
    ReceiveCompletion = 4,
    Send = 5,
    CancelReceive = 6,
    CancelSocket = 7,
    Wake = 8,
    CancelAll = 9,
}

impl Kind {
    /// A receive names its buffer group, so that a buffer finds home even if its socket is gone.
    pub(super) const fn receive(group: BufferGroup) -> Self {
        match group {
            BufferGroup::Application => Self::ReceiveApplication,
            BufferGroup::Completion => Self::ReceiveCompletion,
        }
    }

    const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::Connect,
            2 => Self::Accept,
            3 => Self::ReceiveApplication,
            4 => Self::ReceiveCompletion,
            5 => Self::Send,
            6 => Self::CancelReceive,
            7 => Self::CancelSocket,
            8 => Self::Wake,
            9 => Self::CancelAll,
            _ => return None,
        })
    }
}

/// `user_data`: kind, 8 bits; slot, 24 bits; generation, 32 bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) socket: SocketId,
}

impl Token {
    /// The waker's poll. It belongs to no socket.
    pub(super) const WAKE: Self = Self { kind: Kind::Wake, socket: NO_SOCKET };

    /// The cancel of everything when the driver is dropped.
    pub(super) const CANCEL_ALL: Self = Self { kind: Kind::CancelAll, socket: NO_SOCKET };

    pub(super) const fn new(kind: Kind, socket: SocketId) -> Self {
        Self { kind, socket }
    }

    pub(super) const fn pack(self) -> u64 {
        let slot = self.socket.slot() & SLOT_MASK;
        let upper = ((self.kind as u32) << SLOT_BITS) | slot;
        ((upper as u64) << u32::BITS) | self.socket.generation() as u64
    }

    pub(super) const fn unpack(user_data: u64) -> Option<Self> {
        let [kind, slot_high, slot_middle, slot_low, generation @ ..] = user_data.to_be_bytes();
        let Some(kind) = Kind::from_bits(kind) else { return None };
        let slot = u32::from_be_bytes([0, slot_high, slot_middle, slot_low]);
        Some(Self { kind, socket: SocketId::new(slot, u32::from_be_bytes(generation)) })
    }
}

const SLOT_BITS: u32 = 24;
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;
const NO_SOCKET: SocketId = SocketId::new(SLOT_MASK, 0);

const _: () = {
    assert!(u8::BITS + SLOT_BITS + u32::BITS == u64::BITS, "a token must fill `user_data`");
    assert!(SOCKETS_MAX == SLOT_MASK, "the last slot is the driver's own");
};

#[cfg(test)]
mod tests {
    use super::{Kind, Token};
    use crate::token::SocketId;

    #[test]
    fn every_token_comes_back_as_it_went() {
        for kind in (0..=u8::MAX).filter_map(Kind::from_bits) {
            for slot in [0, 1, 0x12_3456, 0xff_fffe] {
                for generation in [0, 1, 0x89ab_cdef, u32::MAX] {
                    let token = Token::new(kind, SocketId::new(slot, generation));
                    assert_eq!(Token::unpack(token.pack()), Some(token), "round trip");
                }
            }
        }
    }

    #[test]
    fn an_unknown_kind_is_no_token() {
        assert_eq!(Token::unpack(0), None, "kernel default");
        assert_eq!(Token::unpack(u64::MAX), None, "all ones");
    }
}
