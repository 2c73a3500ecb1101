//! Submissions in, completions out.
//!
//! Before changing this file read `io_uring_setup(2)` on `IORING_SETUP_DEFER_TASKRUN`, and
//! `io_uring_enter(2)` on `EBUSY`.

use core::marker::PhantomData;
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
#[cfg(feature = "tokio_uring")]
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;

use super::buffers::BufferRing;
use super::limits::SUBMIT_ATTEMPTS_MAX;
use super::token::{Kind, Token};

/// One ring and the completions that were copied out of it.
pub(super) struct Ring {
    io: IoUring,
    /// Copied out before anybody acts on them: acting submits, and submitting in a full queue has
    /// to make room among the completions first.
    pending: VecDeque<Completion>,
    /// Operations whose last completion has not been copied out.
    in_flight: u32,
    /// Whether the poll of the waker's descriptor is in flight.
    waker_armed: bool,
    /// Uses of the waker since the last park returned.
    wakes: u32,
    system_calls: u64,
    /// The kernel accepts calls of one thread only (`IORING_SETUP_SINGLE_ISSUER`).
    not_send: PhantomData<*const ()>,
}

/// A completion as the kernel wrote it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) user_data: u64,
    pub(super) result: i32,
    flags: u32,
}

impl Completion {
    /// Whether the operation has ended.
    pub(super) const fn is_final(&self) -> bool {
        self.flags & MORE == 0
    }

    /// The buffer that the kernel took for it.
    pub(super) fn buffer(&self) -> Option<u16> {
        cqueue::buffer_select(self.flags)
    }

    /// The number that the operation returned.
    pub(super) fn outcome(&self) -> Result<u32, Errno> {
        u32::try_from(self.result).map_err(|_| Errno::from_raw_os_error(self.result.wrapping_neg()))
    }
}

impl Ring {
    pub(super) fn new(submissions: u32, completions: u32) -> io::Result<Self> {
        let io = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(completions)
            .setup_clamp()
            .build(submissions)?;
        Ok(Self {
            io,
            pending: VecDeque::with_capacity(completions as usize),
            in_flight: 0,
            waker_armed: false,
            wakes: 0,
            system_calls: 0,
            not_send: PhantomData,
        })
    }

    /// Lets the kernel take buffers from `buffers` for receives of `group`.
    ///
    /// # Safety
    ///
    /// `buffers` must stay alive until [`Ring::unregister`], or until the ring is gone and nothing
    /// was in flight.
    pub(super) unsafe fn register(&self, buffers: &BufferRing, group: u16) -> io::Result<()> {
        let (address, count) = buffers.registration();
        let submitter = self.io.submitter();
        // SAFETY: `address` is that of `count` initialised entries, and the caller keeps them.
        unsafe { submitter.register_buf_ring_with_flags(address, count, group, 0) }
    }

    pub(super) fn unregister(&self, group: u16) -> io::Result<()> {
        self.io.submitter().unregister_buf_ring(group)
    }

    /// Has the kernel signal an eventfd for each completion.
    #[cfg(feature = "tokio_uring")]
    pub(super) fn signal(&self, eventfd: &OwnedFd) -> io::Result<()> {
        self.io.submitter().register_eventfd(eventfd.as_raw_fd())
    }

    /// Queues an operation. A full queue is handed over in place, so there always is room, for
    /// cancels as for anything else.
    ///
    /// # Safety
    ///
    /// What `entry` points to must stay in place until its final completion was copied out.
    pub(super) unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        for _ in 0..SUBMIT_ATTEMPTS_MAX {
            let mut queue = self.io.submission();
            // SAFETY: The caller keeps what `entry` points to.
            let pushed = unsafe { queue.push(entry) };
            drop(queue);
            if pushed.is_ok() {
                self.in_flight += 1;
                return Ok(());
            }
            self.submit()?;
        }
        Err(Errno::BUSY.into())
    }

    /// Keeps a poll on the waker's descriptor. The counter behind it is never read: each write to
    /// it is a completion of its own, and it takes centuries to fill.
    pub(super) fn arm_waker(&mut self, descriptor: io_uring::types::Fd) -> io::Result<()> {
        if self.waker_armed {
            return Ok(());
        }
        let readable = u32::from(rustix::event::PollFlags::IN.bits());
        let entry = opcode::PollAdd::new(descriptor, readable).multi(true).build();
        // SAFETY: The operation points to no memory.
        unsafe { self.push(&entry.user_data(Token::WAKE.pack())) }?;
        self.waker_armed = true;
        Ok(())
    }

    /// Whether the waker was used since the last call.
    pub(super) const fn take_wake(&mut self) -> bool {
        core::mem::replace(&mut self.wakes, 0) != 0
    }

    /// Hands queued operations over and lets the kernel complete what it has put off, with at most
    /// one system call; none if there is neither.
    pub(super) fn turn(&mut self) -> io::Result<()> {
        let queue = self.io.submission();
        let idle = queue.is_empty() && !queue.taskrun() && !queue.cq_overflow();
        drop(queue);
        if idle {
            self.drain();
            return Ok(());
        }
        self.submit()
    }

    /// Hands queued operations over, if there are any.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.io.submission().is_empty() { Ok(()) } else { self.submit() }
    }

    /// Hands queued operations over and sleeps until a completion arrives, or `longest` has passed.
    pub(super) fn wait(&mut self, longest: Option<Duration>) -> io::Result<()> {
        let timespec = longest.map(Timespec::from);
        let args = SubmitArgs::new();
        let args = match &timespec {
            Some(timespec) => args.timespec(timespec),
            None => args,
        };
        // A thread that sleeps here is idle; it does not wait for a disk.
        let flags = if self.io.params().is_feature_no_iowait() {
            EnterFlags::NO_IOWAIT
        } else {
            EnterFlags::empty()
        };
        self.system_calls += 1;
        let entered = self.io.submitter().submit_with_args_and_flags(1, &args, flags);
        self.settle(entered)
    }

    /// Whether something completed. No system call.
    pub(super) fn is_ready(&self) -> bool {
        // SAFETY: A ring is on one thread, and every other handle to its queues is dropped before
        // the method that made it returns.
        let queue = unsafe { self.io.submission_shared() };
        let to_do = queue.taskrun() || queue.cq_overflow();
        drop(queue);
        to_do || self.has_completions()
    }

    /// Whether a completion can be taken without entering the kernel.
    pub(super) fn has_completions(&self) -> bool {
        // SAFETY: As in `is_ready`.
        let queue = unsafe { self.io.completion_shared() };
        !self.pending.is_empty() || !queue.is_empty()
    }

    /// Takes the oldest completion that was copied out.
    pub(super) fn next(&mut self) -> Option<Completion> {
        self.pending.pop_front()
    }

    /// How many completions are copied out.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Operations whose last completion has not been copied out.
    pub(super) const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Calls of `io_uring_enter(2)` so far.
    pub(super) const fn system_calls(&self) -> u64 {
        self.system_calls
    }

    /// Whether completions wait in the kernel behind a full queue.
    #[cfg(test)]
    pub(super) fn has_overflow(&mut self) -> bool {
        self.io.submission().cq_overflow()
    }

    fn submit(&mut self) -> io::Result<()> {
        self.system_calls += 1;
        let entered = self.io.submit();
        self.settle(entered)
    }

    /// Copies completions out, whatever the call has said.
    fn settle(&mut self, entered: io::Result<usize>) -> io::Result<()> {
        self.drain();
        let Err(error) = entered else { return Ok(()) };
        match Errno::from_io_error(&error) {
            // The time is up, a signal came, or completions had to be taken first: they are.
            Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
            _ => Err(error),
        }
    }

    fn drain(&mut self) {
        for entry in self.io.completion() {
            let (user_data, result, flags) = (entry.user_data(), entry.result(), entry.flags());
            let completion = Completion { user_data, result, flags };
            // Only memory that was given back too early does this, and its next use need not.
            debug_assert!(
                completion.outcome() != Err(Errno::FAULT),
                "the kernel has memory that is gone"
            );
            if completion.is_final() {
                self.in_flight = self.in_flight.saturating_sub(1);
            }
            match Token::unpack(user_data) {
                Some(Token { kind: Kind::Wake, .. }) => {
                    self.wakes = self.wakes.saturating_add(1);
                    self.waker_armed &= !completion.is_final();
                }
                _ => self.pending.push_back(completion),
            }
        }
    }
}

/// `IORING_CQE_F_MORE`: the operation goes on.
const MORE: u32 = 1 << 1;

#[cfg(test)]
mod tests {
    use super::{Completion, MORE, Ring};
    use crate::uring::buffers::BufferRing;
    use crate::uring::limits::SUBMISSIONS_DEFAULT;
    use core::time::Duration;
    use io_uring::types::Fd;
    use io_uring::{cqueue, opcode};
    use rustix::io::Errno;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    const PER_ROUND: u64 = 3 * SUBMISSIONS_DEFAULT as u64;

    #[test]
    fn more_is_the_bit_that_the_kernel_means() {
        assert!(cqueue::more(MORE) && !cqueue::more(!MORE), "IORING_CQE_F_MORE");
    }

    #[test]
    fn a_negative_result_is_an_errno() {
        let completion = |result| Completion { user_data: 0, result, flags: 0 };
        assert_eq!(completion(-125).outcome(), Err(Errno::CANCELED), "ECANCELED");
        assert_eq!(completion(7).outcome(), Ok(7), "a count");
    }

    #[test]
    fn a_full_submission_queue_is_handed_over_in_place() {
        let Ok(mut ring) = Ring::new(SUBMISSIONS_DEFAULT, 2 * SUBMISSIONS_DEFAULT) else {
            return;
        };
        let mut seen = Vec::new();
        for round in 0..4 {
            for number in 0..PER_ROUND {
                let entry = opcode::Nop::new().build().user_data(round * PER_ROUND + number);
                // SAFETY: A no-operation points to no memory.
                unsafe { ring.push(&entry) }.unwrap();
            }
            while seen.len() as u64 != (round + 1) * PER_ROUND {
                ring.turn().unwrap();
                seen.extend(core::iter::from_fn(|| ring.next()).map(|done| done.user_data));
            }
        }
        assert!(seen.into_iter().eq(0..4 * PER_ROUND), "each once, in order");
        assert_eq!(ring.in_flight(), 0, "all back");
    }

    #[test]
    fn cq_overflow_loses_nothing() {
        let Ok(mut ring) = Ring::new(2, 2) else { return };
        for number in 0..10 {
            // SAFETY: A no-operation points to no memory.
            unsafe { ring.push(&opcode::Nop::new().build().user_data(number)) }.unwrap();
            // Past the ring, so that nothing is taken out.
            ring.io.submit().unwrap();
        }
        let mut seen = Vec::new();
        while ring.is_ready() {
            ring.turn().unwrap();
            seen.extend(core::iter::from_fn(|| ring.next()).map(|done| done.user_data));
        }
        assert!(seen.into_iter().eq(0..10), "each once, in order");
    }

    #[test]
    fn an_idle_turn_makes_no_system_call() {
        let Ok(mut ring) = Ring::new(2, 4) else { return };
        ring.turn().unwrap();
        assert_eq!(ring.system_calls(), 0, "nothing to do");
        ring.wait(Some(Duration::ZERO)).unwrap();
        assert_eq!(ring.system_calls(), 1, "one wait");
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "memory that is gone"))]
    fn memory_that_is_given_back_too_early_is_noticed() {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let mut ring = Ring::new(2, 4).unwrap();
        let buffers = BufferRing::new(1).unwrap();
        // SAFETY: What breaks the promise below is the guard, and that memory is nobody's.
        unsafe { ring.register(&buffers, 0) }.unwrap();
        let receive = opcode::RecvMulti::new(Fd(ours.as_raw_fd()), 0).build();
        // SAFETY: As above.
        unsafe { ring.push(&receive) }.unwrap();
        ring.flush().unwrap();
        if cfg!(debug_assertions) {
            drop(buffers);
        }
        peer.write_all(b"too late").unwrap();
        ring.wait(None).unwrap();
    }
}
