//! What can be wrong with bytes. Errors carry numbers, never text that came from the peer.

use core::fmt;

use super::codes::{Kind, Lane};
use super::head::HEAD_BYTES;
use crate::limits::METADATA_MAX;
use crate::units::ByteCount;

/// Bytes that are no record of this lane. The connection cannot go on after it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WireError {
    /// The record is shorter than what its own head says is in it.
    TooShort {
        /// Its length field.
        length: u32,
        /// Head, address and metadata.
        least: u32,
    },
    /// No kind has this code.
    UnknownKind {
        /// The code.
        code: u8,
    },
    /// The kind travels on the other lane only.
    WrongLane {
        /// The kind.
        kind: Kind,
        /// The lane it came on.
        lane: Lane,
    },
    /// A reserved byte is not zero.
    Reserved {
        /// Its offset in the head.
        at: usize,
    },
    /// No content type has this code.
    UnknownContentType {
        /// The code.
        code: u8,
    },
    /// The metadata is longer than any may be.
    MetadataTooLong {
        /// Its length.
        length: u16,
    },
    /// Payload and metadata exceed the limit of one message (D-06).
    TooLong {
        /// Payload plus metadata.
        size: ByteCount,
        /// The most that is taken.
        max: ByteCount,
    },
    /// A control record exceeds its own limit (D-24).
    ControlTooLong {
        /// The whole record.
        length: ByteCount,
        /// The most that is taken.
        max: ByteCount,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooShort { length, least } => {
                write!(f, "a record of {length} B cannot hold its parts of {least} B")
            }
            Self::UnknownKind { code } => write!(f, "no kind of record has the code {code}"),
            Self::WrongLane { kind, lane } => {
                write!(f, "a record of kind {kind} came on the {lane} lane")
            }
            Self::Reserved { at } => {
                write!(f, "reserved byte {at} of a head of {HEAD_BYTES} B is not 0")
            }
            Self::UnknownContentType { code } => write!(f, "no content type has the code {code}"),
            Self::MetadataTooLong { length } => {
                write!(f, "metadata of {length} B; valid is 0..={METADATA_MAX} B")
            }
            Self::TooLong { size, max } => {
                write!(f, "payload and metadata of {size}; the limit of one message is {max}")
            }
            Self::ControlTooLong { length, max } => {
                write!(f, "a control record of {length}; its limit is {max}")
            }
        }
    }
}

impl core::error::Error for WireError {}

/// Bytes that are no payload of their kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PayloadError {
    /// The payload has another length than its kind has.
    Length {
        /// Its length.
        length: usize,
        /// The only valid length.
        expected: usize,
    },
    /// A code has no meaning.
    UnknownCode {
        /// Its offset in the payload.
        at: usize,
        /// The code.
        code: u8,
    },
    /// A reserved byte is not zero.
    Reserved {
        /// Its offset in the payload.
        at: usize,
    },
}

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Length { length, expected } => {
                write!(f, "a payload of {length} B; valid is {expected} B")
            }
            Self::UnknownCode { at, code } => {
                write!(f, "payload byte {at} has the unknown code {code}")
            }
            Self::Reserved { at } => write!(f, "reserved payload byte {at} is not 0"),
        }
    }
}

impl core::error::Error for PayloadError {}
