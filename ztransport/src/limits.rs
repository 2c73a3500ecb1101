//! Every bound of the transport, each with its derivation.

use core::time::Duration;

/// The most bytes of one batch: with more, sender and receiver take turns idling on a socket buffer
/// of the same size.
pub const BATCH_MAX: u64 = 256 << 10;

/// The most bytes of one batch of small records. Measured: 64 KiB moves 64-byte records 1.7 times
/// as fast as 256 KiB.
pub const SMALL_BATCH_MAX: u64 = 64 << 10;

/// Records below this on average count as small.
pub const SMALL_RECORD: u64 = 512;

/// Records of one connection that are handed over in one turn (D-23).
pub const RECORDS_A_TURN: u32 = 64;

/// Half pairs: connections that have not joined a pair yet (D-17).
pub const HALF_PAIRS_MAX: usize = 256;

/// How long a connection may take to say who it is and to find its other half (D-17).
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connect may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Unsent replies of one pair beyond which a reply waits its socket's send limit (D-15).
pub const REPLY_BYTES_MAX: u64 = 4 << 20;

/// Requests of one pair that are not answered yet (D-15).
pub const OUTSTANDING_MAX: u32 = 16_384;

/// Peers of a host unless it says otherwise (D-26).
pub const PEERS_DEFAULT: u32 = 4_096;

/// The most peers of a host (D-26).
pub const PEERS_MAX: u32 = 65_536;

/// Sockets that a driver can name: a slot has 24 bits in a token of `io_uring`, and the last one
/// names that driver's own operations. The same for every driver, so that what fits one fits all.
pub const SOCKETS_MAX: u32 = (1 << 24) - 1;

/// Sockets of a driver by default: two for each of the 4,096 peers that a host takes (D-26), and as
/// many half pairs and listeners as those can have in the making.
pub const SOCKETS_DEFAULT: u32 = 2 * 4_096 + 2 * 256;

/// The most shards of a host. Chosen arbitrarily; more threads than that gain nothing for one
/// process, and each costs a ring and its buffers.
pub const SHARDS_MAX: u32 = 64;

/// The first delay between two attempts to connect (D-17).
pub const RECONNECT_DELAY_MIN: Duration = Duration::from_millis(100);

/// The longest delay between two attempts to connect (D-17).
pub const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(10);

/// How long after the end of a pair its peer may still come back and tell what it took (D-25): a
/// peer that lives and can be reached is dialed within the longest delay, and greets in time.
pub const RETURN_MAX: Duration = RECONNECT_DELAY_MAX.saturating_add(GREETING_TIMEOUT);

/// Clients that are gone whose claims are kept for their return. Chosen arbitrarily: as many as a
/// default host has peers would be 4 times as much, and this takes less than 256 KiB.
pub const DEPARTED_MAX: usize = 1_024;

/// What a connection may carry before its pair is up. A dialer's peer may answer and send at once,
/// so some data is legitimate; a stranger gets no more than this.
pub(crate) const GREETING_CARRY_MAX: usize = 64 << 10;

/// What the kernel may hold beyond a socket's send buffer: it looks whether there is room before it
/// begins a segment, and then fills that one, which has 64 KiB at most.
pub const KERNEL_SEGMENT_MAX: u64 = 64 << 10;

/// How long an idle Application lane may be before it is probed (D-16).
pub const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// How long a lane that is read may be silent before its peer counts as lost (D-16).
pub const SILENCE_MAX: Duration = Duration::from_secs(15);

/// How long a closing connection waits for the peer's end of stream.
pub const LINGER_MAX: Duration = Duration::from_secs(1);

/// How long a shard spins before it sleeps. Measured: 20 us turn a round trip of 56 us into one of
/// 19 us; longer ones gain nothing more.
pub const SPIN_WINDOW: Duration = Duration::from_micros(20);

/// A sleep up to this long may have been worth spinning for: the window, and the wake-ups of both
/// sides. Measured: a halted processor of a virtual machine takes about 50 us to wake up.
pub const SPIN_REARM: Duration = Duration::from_micros(150);

/// How long a shard does not spin after something else has taken its processor: a few time slices
/// of the scheduler.
pub const SPIN_PAUSE: Duration = Duration::from_millis(10);

/// The longest sleep of a shard, after which it looks at its deadlines again. Chosen arbitrarily;
/// long enough to cost nothing.
pub const SLEEP_MAX: Duration = Duration::from_mins(1);

const _: () = {
    assert!(SMALL_BATCH_MAX <= BATCH_MAX, "small records travel in smaller batches");
    assert!(PEERS_DEFAULT <= PEERS_MAX, "the default must be a valid limit");
    assert!(SOCKETS_DEFAULT <= SOCKETS_MAX, "the default must be a valid number");
};
