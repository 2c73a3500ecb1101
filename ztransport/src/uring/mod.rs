//! The `io_uring` driver.
//!
//! One ring, used by the thread that made it. What the kernel reads or writes stays in place until
//! the final completion of its operation was taken:
//!
//! * the memory of an operation belongs to its socket's entry (`table`), which lets go of it only
//!   when that completion is handled (`complete`);
//! * a descriptor is closed only when nothing is in flight for it;
//! * a driver that is dropped cancels everything and waits for it (`Uring::drop`).
//!
//! Before changing this folder read `io_uring(7)`, `io_uring_multishot(7)` and `io_uring_enter(2)`.

mod buffers;
mod complete;
pub mod limits;
mod pages;
mod ring;
#[cfg(feature = "tokio_uring")]
mod signal;
mod start;
mod table;
mod token;

#[cfg(feature = "tokio_uring")]
pub(crate) use signal::RingSignal;

use core::fmt;
use core::mem::ManuallyDrop;
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::opcode;
use io_uring::types::{CancelBuilder, Fd};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::driver::{Driver, SocketSetup, SocketTableFull, Wake};
use crate::event::Event;
use crate::op::{BufferGroup, Op};
use crate::probe::{Machine, Unavailable, explain};
use crate::socket::{self, SocketAddress};
use crate::token::SocketId;

use buffers::BufferRing;
use ring::Ring;
use table::Table;
use token::Token;

/// How large a driver is. Nothing of it grows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UringOptions {
    /// Sockets that it holds at once, 1 to [`limits::SOCKETS_MAX`].
    pub sockets_max: u32,
    /// Provided buffers of [`BufferGroup::Application`], a power of two up to
    /// [`limits::BUFFERS_MAX`].
    pub application_buffers: u16,
    /// Provided buffers of [`BufferGroup::Completion`], alike.
    pub completion_buffers: u16,
    /// Operations that share one system call, a power of two up to [`limits::SUBMISSIONS_MAX`].
    /// Beyond it they take another call; none has to wait.
    pub submissions: u32,
}

impl Default for UringOptions {
    fn default() -> Self {
        Self {
            sockets_max: limits::SOCKETS_DEFAULT,
            application_buffers: limits::APPLICATION_BUFFERS_DEFAULT,
            completion_buffers: limits::COMPLETION_BUFFERS_DEFAULT,
            submissions: limits::SUBMISSIONS_DEFAULT,
        }
    }
}

impl UringOptions {
    fn check(self) -> Result<(), Unavailable> {
        let Self { sockets_max, application_buffers, completion_buffers, submissions } = self;
        if !(1..=limits::SOCKETS_MAX).contains(&sockets_max) {
            let range = "1 to 16777215";
            return Err(Unavailable::InvalidOption {
                option: "sockets_max",
                value: sockets_max,
                range,
            });
        }
        for (option, count) in [
            ("application_buffers", application_buffers),
            ("completion_buffers", completion_buffers),
        ] {
            if !count.is_power_of_two() || count > limits::BUFFERS_MAX {
                let range = "a power of two from 1 to 32768";
                return Err(Unavailable::InvalidOption { option, value: count.into(), range });
            }
        }
        if !submissions.is_power_of_two() || submissions > limits::SUBMISSIONS_MAX {
            let range = "a power of two from 1 to 8192";
            return Err(Unavailable::InvalidOption {
                option: "submissions",
                value: submissions,
                range,
            });
        }
        Ok(())
    }

    const fn completions(self) -> u32 {
        let Self { sockets_max, application_buffers, completion_buffers, submissions } = self;
        let buffers = application_buffers as u32 + completion_buffers as u32;
        limits::completions(submissions, sockets_max, buffers)
    }
}

/// A [`Driver`] over `io_uring`.
///
/// Cannot be sent to another thread: the kernel refuses calls from any but the one that made the
/// ring. Behind [`Op::Close`] only `Sent`, which brings a batch back, and `Closed` are reported.
pub struct Uring {
    ring: Ring,
    table: ManuallyDrop<Table>,
    groups: ManuallyDrop<[BufferRing; GROUPS]>,
    /// What is known without the kernel.
    answers: VecDeque<Event<'static>>,
    waker: UringWaker,
    stale_completions: u64,
}

impl Uring {
    /// Sets a ring up for the calling thread.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] says which option is out of range, or what is missing on this machine.
    pub fn new(options: UringOptions) -> Result<Self, Unavailable> {
        options.check()?;
        Self::sized(options, options.completions())
    }

    /// With a completion queue of a given size.
    fn sized(options: UringOptions, completions: u32) -> Result<Self, Unavailable> {
        let UringOptions { sockets_max, application_buffers, completion_buffers, submissions } =
            options;
        let machine = Machine::read();
        let explained = |error: io::Error| explain(errno(&error), machine);
        let buffers = |count| BufferRing::new(count).ok_or_else(|| explained(Errno::NOMEM.into()));
        let groups = [buffers(application_buffers)?, buffers(completion_buffers)?];
        // Behind the groups: if this function returns early, the ring is dropped first.
        let ring = Ring::new(submissions, completions).map_err(explained)?;
        for (id, group) in (0..).zip(&groups) {
            // SAFETY: `groups` goes into the driver and is freed after `unregister`, or never. If
            // this function returns early the ring goes first, with nothing in flight.
            unsafe { ring.register(group, id) }.map_err(explained)?;
        }
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let descriptor = eventfd(0, flags).map_err(|errno| explain(errno, machine))?;
        Ok(Self {
            ring,
            table: ManuallyDrop::new(Table::new(sockets_max)),
            groups: ManuallyDrop::new(groups),
            answers: VecDeque::new(),
            waker: UringWaker { descriptor: Arc::new(descriptor) },
            stale_completions: 0,
        })
    }

    /// Completions that belonged to nothing in flight and were ignored. Always zero unless the
    /// kernel or this driver is wrong.
    pub const fn stale_completions(&self) -> u64 {
        self.stale_completions
    }

    fn arm_waker(&mut self) -> io::Result<()> {
        self.ring.arm_waker(Fd(self.waker.descriptor.as_raw_fd()))
    }

    fn group(&mut self, group: BufferGroup) -> &mut BufferRing {
        let [application, completion] = &mut *self.groups;
        match group {
            BufferGroup::Application => application,
            BufferGroup::Completion => completion,
        }
    }

    /// Cancels everything and takes completions until nothing is in flight. Whether it came to
    /// that.
    fn reap(&mut self) -> bool {
        let cancel = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        // SAFETY: A cancel points to no memory.
        let pushed = unsafe { self.ring.push(&cancel.user_data(Token::CANCEL_ALL.pack())) };
        if pushed.is_err() {
            return false;
        }
        for _ in 0..limits::DROP_WAITS_MAX {
            while let Some(completion) = self.ring.next() {
                self.discard(&completion);
            }
            if self.ring.in_flight() == 0 {
                return true;
            }
            let longest = Duration::from_millis(limits::DROP_WAIT_MS);
            if self.ring.wait(Some(longest)).is_err() {
                return false;
            }
        }
        false
    }
}

impl Driver for Uring {
    type Waker = UringWaker;
    type Socket = OwnedFd;

    fn adopt(&mut self, socket: OwnedFd) -> Result<SocketId, SocketTableFull<OwnedFd>> {
        // io_uring waits on a blocking socket by itself, but hands EAGAIN through on a
        // non-blocking one. A descriptor that refuses this fails its first operation, too.
        let _ = rustix::io::ioctl_fionbio(&socket, false);
        let sockets_max = self.table.sockets_max();
        self.table.insert(socket).map_err(|socket| SocketTableFull { socket, sockets_max })
    }

    fn open(&mut self, address: &SocketAddress, setup: SocketSetup) -> io::Result<SocketId> {
        let socket = socket::open_lane(address, setup.buffers, setup.watch)?;
        self.adopt(socket).map_err(|_| Errno::MFILE.into())
    }

    fn release(&mut self, socket: SocketId) -> Option<OwnedFd> {
        self.table.remove(socket)
    }

    fn push(&mut self, op: Op) -> io::Result<()> {
        self.start(op)
    }

    fn poll(&mut self, mut sink: impl FnMut(Event<'_>)) -> io::Result<usize> {
        self.arm_waker()?;
        self.ring.turn()?;
        let mut events = 0;
        let mut report = |event: Event<'_>| {
            events += 1;
            sink(event);
        };
        while let Some(answer) = self.answers.pop_front() {
            report(answer);
        }
        // Only what is there now: handling it may bring in more, and a turn has to end.
        for _ in 0..self.ring.pending() {
            let Some(completion) = self.ring.next() else { break };
            self.complete(&completion, &mut report)?;
        }
        Ok(events)
    }

    const SEES_KERNEL: bool = true;

    fn is_ready(&self) -> bool {
        !self.answers.is_empty() || self.ring.is_ready()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.arm_waker()?;
        self.ring.flush()
    }

    fn park(&mut self, longest: Option<Duration>) -> io::Result<()> {
        self.arm_waker()?;
        if self.ring.take_wake() || !self.answers.is_empty() || self.ring.has_completions() {
            return self.ring.flush();
        }
        self.ring.wait(longest)?;
        // A wake that came meanwhile has done its work.
        self.ring.take_wake();
        Ok(())
    }

    fn carry_max(&self) -> u64 {
        let [application, completion] = &*self.groups;
        limits::carry_max(application.count().max(completion.count()))
    }

    fn waker(&self) -> UringWaker {
        self.waker.clone()
    }

    fn system_calls(&self) -> u64 {
        self.ring.system_calls()
    }
}

impl Drop for Uring {
    /// Cancels, waits for every completion, and frees only then.
    ///
    /// In any other order the kernel may write received bytes into freed memory, or send freed
    /// memory to a peer; it shows much later, in an unrelated place. If the kernel keeps an
    /// operation for longer than a second, its memory and the descriptors are leaked instead.
    fn drop(&mut self) {
        if !self.reap() {
            return;
        }
        for (id, _) in (0..).zip(self.groups.iter()) {
            if self.ring.unregister(id).is_err() {
                return;
            }
        }
        // SAFETY: Nothing is in flight, and the driver is not used any more.
        unsafe { ManuallyDrop::drop(&mut self.table) };
        // SAFETY: As above; the kernel does not know the buffers any more.
        unsafe { ManuallyDrop::drop(&mut self.groups) };
    }
}

impl fmt::Debug for Uring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ring, table, groups: _, answers, waker: _, stale_completions } = self;
        f.debug_struct("Uring")
            .field("sockets_max", &table.sockets_max())
            .field("in_flight", &ring.in_flight())
            .field("pending", &(ring.pending() + answers.len()))
            .field("system_calls", &ring.system_calls())
            .field("stale_completions", stale_completions)
            .finish()
    }
}

/// Wakes a [`Uring`]. May outlive it, and then does nothing.
#[derive(Clone, Debug)]
pub struct UringWaker {
    descriptor: Arc<OwnedFd>,
}

impl Wake for UringWaker {
    fn wake(&self) {
        // The only error is a full counter, and each write to that has woken the driver before.
        let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
    }
}

/// Sets up a small ring of the driver's kind and runs a no-operation through it.
pub(crate) fn try_out() -> Result<(), Errno> {
    let mut ring = Ring::new(2, 4).map_err(|error| errno(&error))?;
    let buffers = BufferRing::new(1).ok_or(Errno::NOMEM)?;
    // SAFETY: Unregistered below; nothing that takes a buffer is ever in flight.
    unsafe { ring.register(&buffers, 0) }.map_err(|error| errno(&error))?;
    // SAFETY: A no-operation points to no memory.
    unsafe { ring.push(&opcode::Nop::new().build()) }.map_err(|error| errno(&error))?;
    ring.wait(Some(Duration::from_secs(1))).map_err(|error| errno(&error))?;
    ring.unregister(0).map_err(|error| errno(&error))?;
    let completion = ring.next().ok_or(Errno::TIME)?;
    completion.outcome().map(drop)
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// One for each [`BufferGroup`].
const GROUPS: usize = 2;

#[cfg(test)]
mod tests {
    use super::{Uring, UringOptions, UringWaker};
    use crate::driver::{Driver, Wake};
    use crate::event::Event;
    use crate::op::{BufferGroup, Op};
    use crate::probe::Unavailable;
    use core::time::Duration;
    use static_assertions::{assert_impl_all, assert_not_impl_any};
    use std::collections::BTreeMap;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    assert_not_impl_any!(Uring: Send, Sync);
    assert_impl_all!(Uring: Driver);
    assert_impl_all!(UringWaker: Wake);

    /// Fewer completions than connections, so that some wait in the kernel behind a full queue.
    const CRAMPED: UringOptions = UringOptions {
        sockets_max: 8,
        application_buffers: 64,
        completion_buffers: 1,
        submissions: 1,
    };

    #[test]
    fn mshot_overflow_ends_receives_that_are_armed_again_without_loss() {
        let Ok(mut uring) = Uring::sized(CRAMPED, 2) else { return };
        let mut received = BTreeMap::new();
        let mut peers = Vec::new();
        for _ in 0..CRAMPED.sockets_max {
            let (ours, peer) = UnixStream::pair().unwrap();
            let socket = uring.adopt(ours.into()).unwrap();
            uring.push(Op::Receive { socket, group: BufferGroup::Application }).unwrap();
            received.insert(socket, Vec::new());
            peers.push(peer);
        }
        uring.poll(|event| drop(event)).unwrap();
        let (mut overflows, mut idle, mut written) = (0, 0, Vec::new());
        for round in 0..200_u8 {
            written.push(round);
            for peer in &mut peers {
                peer.write_all(&[round]).unwrap();
            }
            while received.values().any(|bytes| *bytes != written) {
                assert!(idle < 60, "round {round} ended early for somebody");
                uring.park(Some(Duration::from_secs(1))).unwrap();
                overflows += u32::from(uring.ring.has_overflow());
                let take = |event: Event<'_>| {
                    let Event::Received { socket, bytes } = event else { panic!("{event:?}") };
                    received.entry(socket).or_default().extend_from_slice(bytes);
                };
                idle = if uring.poll(take).unwrap() > 0 { 0 } else { idle + 1 };
            }
        }
        assert!(overflows > 0, "two places were enough for eight completions");
    }

    #[test]
    fn an_option_out_of_range_is_named() {
        for (options, option) in [
            (UringOptions { sockets_max: 0, ..UringOptions::default() }, "sockets_max"),
            (UringOptions { sockets_max: 1 << 24, ..UringOptions::default() }, "sockets_max"),
            (
                UringOptions { application_buffers: 3, ..UringOptions::default() },
                "application_buffers",
            ),
            (
                UringOptions { completion_buffers: 0, ..UringOptions::default() },
                "completion_buffers",
            ),
            (UringOptions { submissions: 0, ..UringOptions::default() }, "submissions"),
            (UringOptions { submissions: 96, ..UringOptions::default() }, "submissions"),
            (UringOptions { submissions: 1 << 14, ..UringOptions::default() }, "submissions"),
        ] {
            let refused = Uring::new(options).map(drop).unwrap_err();
            assert!(
                matches!(refused, Unavailable::InvalidOption { option: name, .. } if name == option),
                "{refused}"
            );
        }
    }
}
