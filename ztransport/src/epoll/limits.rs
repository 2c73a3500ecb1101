//! Every bound of the driver, each with its derivation.

use core::time::Duration;

/// Bytes of the one buffer that all sockets receive through: a large frame is then copied out of
/// the kernel in one call, and what it costs does not grow with the number of connections.
pub const RECEIVE_BUFFER_BYTES: usize = 64 << 10;

/// The most bytes that one connection receives in one poll (D-23).
pub const RECEIVED_A_POLL_MAX: usize = 256 << 10;

/// The most that a driver still reports of a connection once a pause is due: what is left of its share
/// of that poll. Nothing is read between two polls, and the pause holds from when it is pushed.
pub(super) const CARRY_MAX: u64 = RECEIVED_A_POLL_MAX as u64;

/// The most connections that one listener accepts in one poll. Setting one up takes about a dozen
/// system calls, so this many are done within a millisecond.
pub const ACCEPTS_A_POLL_MAX: u32 = 64;

/// Sockets that one call reports. More than that stay with the kernel until the next call, and one
/// call for 256 costs nothing any more.
pub(super) const READY_MAX: usize = 256;

/// Between two attempts to connect to a Unix listener whose backlog is full: nothing tells when it
/// has room. Short beside the time that a connect may take, long beside the cost of an attempt.
pub(super) const BACKLOG_RETRY: Duration = Duration::from_millis(10);

/// The longest wait in one call: a day. The call counts milliseconds in an `int`.
pub(super) const WAIT_MAX: Duration = Duration::from_hours(24);

const _: () = {
    assert!(
        RECEIVED_A_POLL_MAX.is_multiple_of(RECEIVE_BUFFER_BYTES),
        "a share ends with a whole buffer"
    );
    assert!(WAIT_MAX.as_millis() <= i32::MAX as u128, "epoll_wait(2) must be able to count it");
    assert!(
        BACKLOG_RETRY.as_millis() < crate::limits::CONNECT_TIMEOUT.as_millis(),
        "a connect is tried more than once"
    );
};
