//! The fixed head of every record.

use super::codes::{ContentType, Kind, Lane};
use super::error::WireError;
use super::layout::{get, put};
use super::payload::ERROR_REPLY_BYTES;
use super::route::RouteHash;
use crate::charge::Charge;
use crate::limits::{
    CONTROL_RECORD_MAX, HEADER_BYTES, MESSAGE_SIZE_MAX, METADATA_MAX, ROUTE_BYTES,
};
use crate::units::ByteCount;

/// Header and route hash.
pub const HEAD_BYTES: usize = 32;

/// Where the remaining milliseconds are, as a little-endian `u32`: a sender writes them into the
/// encoded head when it hands the record to the kernel, as the record may have waited (D-20).
pub const REMAINING_AT: usize = 12;

const LENGTH_AT: usize = 0;
const KIND_AT: usize = 4;
const FLAGS_AT: usize = 5;
const ADDRESS_LEN_AT: usize = 6;
const CONTENT_AT: usize = 7;
const METADATA_LEN_AT: usize = 8;
const RESERVED_AT: usize = 10;
const ID_AT: usize = 16;
const ROUTE_AT: usize = 24;

/// What a reader takes on one lane.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// The lane that is read.
    pub lane: Lane,
    /// Payload plus metadata of one message, as the own hello announced it (D-06). More than
    /// [`MESSAGE_SIZE_MAX`] means that, and fewer than the 4 bytes of an error reply mean 4.
    pub max_message_size: ByteCount,
}

impl Limits {
    /// The limit in force.
    const fn message_size_max(&self) -> u64 {
        let wanted = self.max_message_size.get();
        if wanted > MESSAGE_SIZE_MAX.get() {
            MESSAGE_SIZE_MAX.get()
        } else if wanted < ERROR_REPLY_MIN {
            ERROR_REPLY_MIN
        } else {
            wanted
        }
    }
}

/// Everything about a record but its bytes: address, metadata and payload follow it in this order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Head {
    /// What the record is.
    pub kind: Kind,
    /// How its payload is encoded.
    pub content: ContentType,
    /// Bytes of the address.
    pub address_len: u8,
    /// Bytes of the metadata, at most [`METADATA_MAX`].
    pub metadata_len: u16,
    /// Bytes of the payload.
    pub payload_len: u32,
    /// How long the caller still waits, in milliseconds; 0 is no limit.
    pub remaining_ms: u32,
    /// Correlates a request with its reply; a sequence number in control records.
    pub id: u64,
    /// The handler that the record is for.
    pub route: RouteHash,
}

impl Head {
    /// A head of a record without address, metadata and payload.
    pub const fn new(kind: Kind, id: u64, route: RouteHash) -> Self {
        Self {
            kind,
            content: ContentType::Bytes,
            address_len: 0,
            metadata_len: 0,
            payload_len: 0,
            remaining_ms: 0,
            id,
            route,
        }
    }

    /// The bytes on the wire.
    ///
    /// O(1). A head that fails [`Head::check`] is encoded as it is, and no reader takes it.
    pub const fn encode(&self) -> [u8; HEAD_BYTES] {
        let length = self.head_and_body_len();
        let mut out = [0; HEAD_BYTES];
        put::<LENGTH_AT, _, _>(&mut out, length.to_le_bytes());
        put::<KIND_AT, _, _>(&mut out, [self.kind.code()]);
        put::<ADDRESS_LEN_AT, _, _>(&mut out, [self.address_len]);
        put::<CONTENT_AT, _, _>(&mut out, [self.content.code()]);
        put::<METADATA_LEN_AT, _, _>(&mut out, self.metadata_len.to_le_bytes());
        put::<REMAINING_AT, _, _>(&mut out, self.remaining_ms.to_le_bytes());
        put::<ID_AT, _, _>(&mut out, self.id.to_le_bytes());
        put::<ROUTE_AT, _, _>(&mut out, self.route.get().to_le_bytes());
        out
    }

    /// The head that `bytes` are.
    ///
    /// O(1). A head that is returned stands for a record within `limits`, so its length may be
    /// trusted for charging and allocating.
    ///
    /// # Errors
    ///
    /// [`WireError`] for the first field that is wrong: kind, reserved bytes, content type, lengths
    /// that contradict each other, and then as [`Head::check`].
    pub fn decode(bytes: &[u8; HEAD_BYTES], limits: &Limits) -> Result<Self, WireError> {
        let length = u32::from_le_bytes(get::<LENGTH_AT, _, _>(bytes));
        let [code] = get::<KIND_AT, _, _>(bytes);
        let kind = Kind::from_code(code).ok_or(WireError::UnknownKind { code })?;
        check_reserved(bytes)?;
        let [code] = get::<CONTENT_AT, _, _>(bytes);
        let content = ContentType::from_code(code).ok_or(WireError::UnknownContentType { code })?;
        let [address_len] = get::<ADDRESS_LEN_AT, _, _>(bytes);
        let mut head = Self {
            kind,
            content,
            address_len,
            metadata_len: u16::from_le_bytes(get::<METADATA_LEN_AT, _, _>(bytes)),
            payload_len: 0,
            remaining_ms: u32::from_le_bytes(get::<REMAINING_AT, _, _>(bytes)),
            id: u64::from_le_bytes(get::<ID_AT, _, _>(bytes)),
            route: RouteHash::new(u64::from_le_bytes(get::<ROUTE_AT, _, _>(bytes))),
        };
        let least = head.head_and_body_len();
        let payload_len = length.checked_sub(least);
        head.payload_len = payload_len.ok_or(WireError::TooShort { length, least })?;
        head.check(limits)?;
        Ok(head)
    }

    /// Whether a reader with `limits` takes this record. A sender asks before it queues.
    ///
    /// # Errors
    ///
    /// * [`WireError::WrongLane`] if the kind travels on the other lane.
    /// * [`WireError::MetadataTooLong`] above [`METADATA_MAX`].
    /// * [`WireError::TooLong`] if payload and metadata exceed the limit of one message.
    /// * [`WireError::ControlTooLong`] for a control record above [`CONTROL_RECORD_MAX`], the only
    ///   limit that it has.
    ///
    /// ```
    /// # use zcore::ByteCount;
    /// # use zcore::wire::{Head, Kind, Lane, Limits, RouteHash};
    /// let limits = Limits { lane: Lane::Application, max_message_size: ByteCount::new(10) };
    /// let head = Head { payload_len: 11, ..Head::new(Kind::Send, 0, RouteHash::NONE) };
    /// assert_eq!(
    ///     head.check(&limits).unwrap_err().to_string(),
    ///     "payload and metadata of 11 B; the limit of one message is 10 B"
    /// );
    /// ```
    pub fn check(&self, limits: &Limits) -> Result<(), WireError> {
        let (kind, lane) = (self.kind, limits.lane);
        if kind.lane() != lane {
            return Err(WireError::WrongLane { kind, lane });
        }
        if u64::from(self.metadata_len) > METADATA_MAX {
            return Err(WireError::MetadataTooLong { length: self.metadata_len });
        }
        if kind.is_control() {
            let length = self.encoded_len();
            if length > CONTROL_RECORD_MAX {
                let (length, max) = (ByteCount::new(length), ByteCount::new(CONTROL_RECORD_MAX));
                return Err(WireError::ControlTooLong { length, max });
            }
            return Ok(());
        }
        let size = u64::from(self.payload_len).saturating_add(u64::from(self.metadata_len));
        let max = limits.message_size_max();
        if size > max {
            let (size, max) = (ByteCount::new(size), ByteCount::new(max));
            return Err(WireError::TooLong { size, max });
        }
        Ok(())
    }

    /// Bytes of the whole record.
    pub fn encoded_len(&self) -> u64 {
        (HEADER_BYTES + ROUTE_BYTES)
            .saturating_add(u64::from(self.address_len))
            .saturating_add(u64::from(self.metadata_len))
            .saturating_add(u64::from(self.payload_len))
    }

    /// Bytes that follow the head: address, metadata and payload.
    pub const fn body_len(&self) -> u32 {
        let [metadata_low, metadata_high] = self.metadata_len.to_le_bytes();
        let metadata_len = u32::from_le_bytes([metadata_low, metadata_high, 0, 0]);
        u32::from_le_bytes([self.address_len, 0, 0, 0])
            .saturating_add(metadata_len)
            .saturating_add(self.payload_len)
    }

    /// What the record costs the queue that holds it (D-01).
    pub fn charge(&self) -> Charge {
        Charge::of_encoded(self.encoded_len())
    }

    /// The length field; saturates above what any reader takes.
    const fn head_and_body_len(&self) -> u32 {
        self.body_len().saturating_add(HEAD_BYTES_U32)
    }
}

fn check_reserved(bytes: &[u8; HEAD_BYTES]) -> Result<(), WireError> {
    let [flags] = get::<FLAGS_AT, _, _>(bytes);
    let [low, high] = get::<RESERVED_AT, _, _>(bytes);
    for (at, byte) in [(FLAGS_AT, flags), (RESERVED_AT, low), (RESERVED_AT + 1, high)] {
        if byte != 0 {
            return Err(WireError::Reserved { at });
        }
    }
    Ok(())
}

/// [`HEAD_BYTES`] as it is added to lengths.
const HEAD_BYTES_U32: u32 = 32;

/// An error reply gets through whatever the limit is: a requester must learn how its call ended.
const ERROR_REPLY_MIN: u64 = 4;

const _: () = {
    let head = Head {
        kind: Kind::Goodbye,
        content: ContentType::Protobuf,
        address_len: 0x06,
        metadata_len: 0x0908,
        payload_len: 0x0300_0000,
        remaining_ms: 0x0f0e_0d0c,
        id: 0x1716_1514_1312_1110,
        route: RouteHash::new(0x1f1e_1d1c_1b1a_1918),
    };
    let expected: [u8; HEAD_BYTES] = [
        0x2e, 0x09, 0x00, 0x03, 13, 0, 0x06, 4, 0x08, 0x09, 0, 0, 0x0c, 0x0d, 0x0e, 0x0f, //
        0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e,
        0x1f,
    ];
    let [encoded, expected] = [u256(&head.encode()), u256(&expected)];
    assert!(encoded.0 == expected.0 && encoded.1 == expected.1, "the layout is the specification");
    let head_bytes = u32::from_le_bytes(get::<LENGTH_AT, _, _>(
        &Head::new(Kind::Send, 0, RouteHash::NONE).encode(),
    ));
    assert!(head_bytes == HEAD_BYTES_U32, "an empty record is its head");
    assert!(MESSAGE_SIZE_MAX.get() == 2_147_482_336, "the specification names this number");
    assert!(HEADER_BYTES + ROUTE_BYTES == 32, "header and route hash make the head");
    assert!(HEAD_BYTES == 32, "header and route hash make the head");
    assert!(ERROR_REPLY_BYTES == 4 && ERROR_REPLY_MIN == 4, "an error reply must get through");
};

/// Two numbers that a `const` can compare.
const fn u256(bytes: &[u8; HEAD_BYTES]) -> (u128, u128) {
    (u128::from_le_bytes(get::<0, 16, _>(bytes)), u128::from_le_bytes(get::<16, 16, _>(bytes)))
}
