//! Every bound of the core, each with its derivation.

use core::time::Duration;

use crate::units::ByteCount;

/// What a record is charged beyond its encoded bytes: the queue's own entry for it.
///
/// Chosen as a cache line, large enough for the bookkeeping of one queued record on a 64-bit host.
pub const RECORD_OVERHEAD: ByteCount = ByteCount::new(64);

/// The fixed header of every record.
pub const HEADER_BYTES: u64 = 24;

/// The 64-bit route hash behind the header.
pub const ROUTE_BYTES: u64 = 8;

/// The longest address; its length travels in one byte.
pub const ADDRESS_MAX: u64 = 255;

/// The longest encoded metadata of a message.
pub const METADATA_MAX: u64 = 1_024;

/// The most that a record carries besides its payload and metadata.
pub const RECORD_HEAD_MAX: u64 = HEADER_BYTES + ROUTE_BYTES + ADDRESS_MAX + METADATA_MAX;

/// The default limit of payload plus metadata of one message.
pub const MESSAGE_SIZE_DEFAULT: ByteCount = ByteCount::mib(16);

/// The largest limit of one message: a record's length travels in 32 bits, half of them used so
/// that a length never turns negative in another language.
pub const MESSAGE_SIZE_MAX: ByteCount = ByteCount::new((1 << 31) - 1 - RECORD_HEAD_MAX);

/// The longest control record, header included (D-24).
pub const CONTROL_RECORD_MAX: u64 = 4_096;

/// Kinds of control record, of which at most one each is queued for a pair (D-24).
pub const CONTROL_KINDS: u64 = 1  // probe
    + 1                           // probe answer
    + 1                           // send-ready
    + 1; // goodbye

/// What control records may add to a queue above its high-water mark.
pub const CONTROL_ALLOWANCE: ByteCount =
    ByteCount::new(CONTROL_KINDS * (CONTROL_RECORD_MAX + RECORD_OVERHEAD.get()));

/// Waiting operations of one family in one host (D-05).
pub const WAITING_OPERATIONS_DEFAULT: u32 = 4_096;

/// Payload that the waiting operations of one family may hold (D-05).
pub const WAITING_BYTES_DEFAULT: ByteCount = ByteCount::mib(64);

/// A pool of at most this many operations may be held by one target alone (D-05).
pub const SMALL_WAIT_SPACE: u32 = 64;

/// Permits that one source may take at once when nobody waits (D-12).
pub const PERMITS_AT_ONCE: u32 = 64;

/// The largest limit of permits (B-118).
pub const PERMIT_LIMIT_MAX: u32 = 2_147_483_647;

/// How long a permit that was handed to a waiting source may stay unclaimed (D-12).
///
/// Chosen as many times what a busy shard needs for one turn, and too short for anybody to notice
/// that a shard hangs with the permit.
pub const GRANT_TTL: Duration = Duration::from_millis(10);

/// Earlier runs of a peer's process that are remembered, so that a late hello of one of them does not
/// end the pair of a later one.
///
/// Chosen arbitrarily: a hello that is late by this many restarts is not to be expected.
pub const FORMER_RUNS: usize = 4;

const _: () = {
    assert!(RECORD_HEAD_MAX < CONTROL_RECORD_MAX, "a record's head must fit a control record");
    assert!(
        MESSAGE_SIZE_MAX.get() + RECORD_HEAD_MAX < 1 << 31,
        "the longest record must fit the length field"
    );
    assert!(
        MESSAGE_SIZE_DEFAULT.get() <= MESSAGE_SIZE_MAX.get(),
        "the default must be a valid limit"
    );
};
