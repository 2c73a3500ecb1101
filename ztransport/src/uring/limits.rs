//! Every bound of the driver, each with its derivation.

pub use crate::limits::{SOCKETS_DEFAULT, SOCKETS_MAX};

/// Bytes of a provided buffer. Measured: 4 KiB doubles the receiver's cost at large messages,
/// 64 KiB gains nothing over this.
pub const BUFFER_BYTES: u32 = 16 << 10;

/// Application buffers by default. Each is back behind the event that shows its bytes, so 1 MiB
/// serves any number of connections: with fewer, a turn stops early and comes back.
pub const APPLICATION_BUFFERS_DEFAULT: u16 = 64;

/// Completion buffers by default: as many as for data, so that replies keep pace with requests.
pub const COMPLETION_BUFFERS_DEFAULT: u16 = 64;

/// The largest buffer ring that `io_uring_register_buf_ring(3)` takes.
pub const BUFFERS_MAX: u16 = 1 << 15;

/// Submissions that can wait for the next system call, by default. A full queue is handed over in
/// place, so this only bounds how many operations share one call; one call for 256 costs nothing any
/// more.
pub const SUBMISSIONS_DEFAULT: u32 = 256;

/// The most submissions that can wait: the kernel wants a completion queue of at least that size, and
/// twice as much keeps one full hand-over from filling it.
pub const SUBMISSIONS_MAX: u32 = COMPLETIONS_MAX / 2;

/// The largest completion queue that is asked for: 256 KiB. Beyond that the kernel keeps what does
/// not fit (`IORING_FEAT_NODROP`), which costs a call more, and only when everything completes at
/// once.
const COMPLETIONS_MAX: u32 = 1 << 14;

/// Operations that one socket can have in flight: receive, send or connect, and two cancels.
const OPERATIONS_PER_SOCKET: u32 = 4;

/// How often a full queue is handed over before the kernel counts as broken. One attempt is
/// normal; each further one follows a completion queue that had to be emptied first.
pub(super) const SUBMIT_ATTEMPTS_MAX: u32 = 1_000;

/// Lists for sends that are kept for the next one: as many as can leave with one system call.
pub(super) const SPARE_SENDS_MAX: usize = SUBMISSIONS_DEFAULT as usize;

/// Waits of a driver that is dropped: a second in total. Cancelling takes microseconds; what is
/// not back by then is stuck in a device.
pub(super) const DROP_WAITS_MAX: u32 = 100;

/// Milliseconds of one such wait.
pub(super) const DROP_WAIT_MS: u64 = 10;

/// Entries of the completion queue: twice what can complete at once, since an overflow ends
/// multishot operations, and no fewer than the kernel wants for `submissions`. A provided buffer is
/// in one completion at most.
pub(super) const fn completions(submissions: u32, sockets: u32, buffers: u32) -> u32 {
    let at_once = buffers.saturating_add(sockets.saturating_mul(OPERATIONS_PER_SOCKET));
    let wanted = at_once.saturating_mul(2);
    let least = submissions.saturating_mul(2);
    if wanted >= COMPLETIONS_MAX {
        COMPLETIONS_MAX
    } else if wanted <= least {
        least
    } else {
        wanted.next_power_of_two()
    }
}

/// The most that a driver still reports of a connection once a pause is due, with so many buffers in
/// its group. Whatever the kernel has put into buffers comes: at the worst all of them in the poll in
/// which the pause becomes due, and all of them again in the next one, filled when the submission
/// queue was full and had to be handed over ahead of the pause. That next poll begins with handing
/// the pause over, and no buffer is offered again between the two.
///
/// A kernel without memory for operations takes none (`EAGAIN`): each poll that it keeps a pause
/// waiting may bring all buffers once more.
pub(super) const fn carry_max(buffers: u16) -> u64 {
    2 * buffers as u64 * BUFFER_BYTES as u64
}

const _: () = {
    assert!(SUBMISSIONS_DEFAULT.is_power_of_two(), "queue sizes are powers of two");
    assert!(SUBMISSIONS_MAX.is_power_of_two(), "queue sizes are powers of two");
    assert!(SUBMISSIONS_DEFAULT <= SUBMISSIONS_MAX, "the default must be a valid number");
    assert!(COMPLETIONS_MAX.is_power_of_two(), "queue sizes are powers of two");
    assert!(APPLICATION_BUFFERS_DEFAULT.is_power_of_two(), "ring sizes are powers of two");
    assert!(COMPLETION_BUFFERS_DEFAULT.is_power_of_two(), "ring sizes are powers of two");
    assert!(COMPLETION_BUFFERS_DEFAULT <= BUFFERS_MAX, "the default must be a valid number");
    assert!(completions(256, 1, 2) == 512, "the kernel wants more out than in");
    assert!(completions(SUBMISSIONS_MAX, 1, 2) == COMPLETIONS_MAX, "also at the most");
    assert!(completions(64, 64, 128) == 1_024, "2 x (128 + 4 x 64), rounded up");
    assert!(completions(256, SOCKETS_MAX, 1 << 16) == COMPLETIONS_MAX, "capped");
};
