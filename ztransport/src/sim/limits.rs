//! Every bound of the simulated network, each with its derivation.

/// Bytes of a provided buffer: the real driver's, so that a receive comes in the same pieces.
pub const BUFFER_BYTES: usize = crate::uring::limits::BUFFER_BYTES as usize;

/// Sockets of a driver by default: two for each of a hundred peers, and their half pairs.
pub const SOCKETS_DEFAULT: u32 = 256;

/// Provided buffers of each group by default: as many as the real driver has.
pub const BUFFERS_DEFAULT: u16 = crate::uring::limits::APPLICATION_BUFFERS_DEFAULT;

/// Operations that start in one poll by default: more than the sockets of a default driver push in
/// one turn, so that only a script which asks for fewer ever sees the limit.
pub const SUBMISSIONS_DEFAULT: u32 = 1_024;

/// How many polls something late is late at most. Long enough for everything else to overtake it
/// several times, and short enough that a hundred late things in a row stay a short test.
pub const LATE_POLLS_MAX: u64 = 8;

/// How many polls a slow connect takes at most: several times as long as anything else is late.
pub const SLOW_CONNECT_POLLS_MAX: u64 = 64;

/// A connection that is to break does so within its first 2^20 bytes: a greeting has 256, a test's
/// transfer hardly more than 1 MiB. The exponent is drawn first, so that short lives are as likely
/// as long ones.
pub const BREAK_BYTES_LOG2_MAX: u64 = 20;

/// Connections that wait to be accepted: as many as a real listener asks for.
pub const BACKLOG_MAX: usize = 4_096;

/// The first port that is given out for port 0, which is where the IANA's dynamic ports begin.
pub const PORT_FIRST: u16 = 49_152;
