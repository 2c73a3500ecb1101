//! The epoll driver, for machines without `io_uring`.
//!
//! The kernel reports that a socket has changed, and the driver makes the calls. Each socket is
//! watched by edges, once, for as long as the driver has it:
//!
//! * what was reported is kept (`readiness`) until an operation finds that it would have to wait;
//! * a socket that could go on stands in a line (`table`), and the next poll serves it (`serve`);
//! * an operation that can start at once does (`start`), and what came of it is reported by the
//!   next poll.
//!
//! Before changing this folder read `epoll(7)` on edge-triggered notification.

mod interest;
pub mod limits;
mod readiness;
mod serve;
mod start;
mod table;

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::clock::{Clock, MonotonicClock};
use crate::driver::{Driver, SocketSetup, SocketTableFull, Wake};
use crate::event::Event;
use crate::limits::{SOCKETS_DEFAULT, SOCKETS_MAX};
use crate::op::Op;
use crate::socket::{self, SocketAddress};
use crate::token::SocketId;

use interest::{Interest, Subject, Wait};
use table::{Connecting, Table};

/// How large a driver is. Nothing of it grows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EpollOptions {
    /// Sockets that it holds at once, 1 to [`SOCKETS_MAX`].
    pub sockets_max: u32,
}

impl Default for EpollOptions {
    fn default() -> Self {
        Self { sockets_max: SOCKETS_DEFAULT }
    }
}

/// Why there is no epoll driver. Its text names the remedy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EpollUnavailable {
    /// There is no descriptor left for an epoll set or a waker.
    OutOfDescriptors,
    /// An option of the driver is out of its range.
    InvalidOption {
        /// Its name.
        option: &'static str,
        /// What it was set to.
        value: u32,
        /// What it must be.
        range: &'static str,
    },
    /// Nothing of the above explains it.
    Other {
        /// What the kernel says.
        errno: Errno,
    },
}

impl From<Errno> for EpollUnavailable {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::MFILE | Errno::NFILE => Self::OutOfDescriptors,
            errno => Self::Other { errno },
        }
    }
}

impl fmt::Display for EpollUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfDescriptors => f.write_str(
                "no descriptor is left for an epoll set and its waker: raise RLIMIT_NOFILE \
                 (`ulimit -n`, or LimitNOFILE= of the systemd unit)",
            ),
            Self::InvalidOption { option, value, range } => {
                write!(f, "`{option}` is {value}, must be {range}")
            }
            Self::Other { errno } => {
                let errno = io::Error::from(*errno);
                write!(f, "epoll cannot be set up ({errno}): report this with `uname -r`")
            }
        }
    }
}

impl core::error::Error for EpollUnavailable {}

/// A [`Driver`] over epoll, for Linux of any age.
///
/// Behind [`Op::Close`] only `Sent`, which brings a batch back, and `Closed` are reported. A Unix
/// listener with a full backlog is tried again until the connect is given up with [`Op::Close`].
pub struct Epoll {
    interest: Interest,
    table: Table,
    /// Every socket receives here, one after the other.
    buffer: Box<[u8]>,
    /// Batches that come back although their socket does not send: none is ever the driver's own.
    answers: VecDeque<Event<'static>>,
    /// Sockets that wait for a Unix listener's backlog.
    backlogged: VecDeque<SocketId>,
    waker: EpollWaker,
    wake: WakeUp,
    news: News,
    system_calls: u64,
}

/// Whether the waker was used since the last park returned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WakeUp {
    Pending,
    Taken,
}

/// How old the kernel's last report is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum News {
    /// A park has brought it, and no poll has been since.
    Fresh,
    /// The last poll started from it.
    Used,
    /// There may be more, and others must not wait for it.
    Old,
}

impl Epoll {
    /// Sets a driver up.
    ///
    /// # Errors
    ///
    /// [`EpollUnavailable`] says which option is out of range, or what is missing on this machine.
    pub fn new(options: EpollOptions) -> Result<Self, EpollUnavailable> {
        let EpollOptions { sockets_max } = options;
        if !(1..=SOCKETS_MAX).contains(&sockets_max) {
            let (option, range) = ("sockets_max", "1 to 16777215");
            return Err(EpollUnavailable::InvalidOption { option, value: sockets_max, range });
        }
        let interest = Interest::new()?;
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // The counter behind it is never read: each write to it is an edge of its own, and it takes
        // centuries to fill.
        interest.add(&descriptor, Subject::Waker)?;
        Ok(Self {
            interest,
            table: Table::new(sockets_max),
            buffer: vec![0; limits::RECEIVE_BUFFER_BYTES].into_boxed_slice(),
            answers: VecDeque::new(),
            backlogged: VecDeque::new(),
            waker: EpollWaker { descriptor: Arc::new(descriptor) },
            wake: WakeUp::Taken,
            news: News::Old,
            system_calls: 0,
        })
    }

    /// Takes in a socket that does not block.
    fn take_in(&mut self, socket: OwnedFd) -> Result<SocketId, OwnedFd> {
        let id = self.table.insert(socket)?;
        if let Some(entry) = self.table.get(id) {
            entry.unwatched = self.interest.add(&entry.socket, Subject::Socket(id)).err();
        }
        Ok(id)
    }

    /// Takes the kernel's reports in, once there are some or `longest` has passed.
    fn ask(&mut self, longest: Option<Duration>) -> io::Result<Wait> {
        self.system_calls += 1;
        let wait = self.interest.wait(longest)?;
        for (subject, edges) in self.interest.reports() {
            match subject {
                Subject::Waker => self.wake = WakeUp::Pending,
                Subject::Socket(socket) => {
                    if let Some(entry) = self.table.get(socket) {
                        entry.readiness.observe(edges);
                        self.table.schedule(socket);
                    }
                }
            }
        }
        Ok(wait)
    }

    /// Takes in what has happened, without waiting.
    fn look(&mut self) -> io::Result<()> {
        let mut wait = self.ask(Some(Duration::ZERO))?;
        while wait == Wait::More && !self.is_ready() {
            wait = self.ask(Some(Duration::ZERO))?;
        }
        self.news = if wait == Wait::Done { News::Used } else { News::Old };
        Ok(())
    }

    /// Reports what is known, and lets go on who can.
    fn serve_due(&mut self, sink: &mut impl FnMut(Event<'_>)) -> usize {
        let mut events = 0;
        let mut report = |event: Event<'_>| {
            events += 1;
            sink(event);
        };
        // Ahead of the sockets: a batch comes back before its socket is reported as closed.
        while let Some(answer) = self.answers.pop_front() {
            report(answer);
        }
        // Only who is in line now: one that has had its share may be due again, and a turn has to
        // end.
        for _ in 0..self.table.due() {
            let Some(socket) = self.table.next_due() else { break };
            self.serve(socket, &mut report);
        }
        if self.table.due() > 0 {
            // Whoever goes on takes a while each time.
            self.news = News::Old;
        }
        events
    }

    fn retry_backlogged(&mut self) {
        for _ in 0..self.backlogged.len() {
            let Some(socket) = self.backlogged.pop_front() else { return };
            let Some(entry) = self.table.open(socket) else { continue };
            match core::mem::replace(&mut entry.connecting, Connecting::Idle) {
                Connecting::Backlogged(address) => self.try_connect(socket, address),
                unchanged @ (Connecting::Idle | Connecting::UnderWay | Connecting::Ended(_)) => {
                    entry.connecting = unchanged;
                }
            }
            self.table.schedule(socket);
        }
    }

    /// Sleeps until there is something to do. An edge that nobody waits for, such as bytes for a
    /// socket that is paused, is noted and slept on.
    fn sleep(&mut self, longest: Option<Duration>) -> io::Result<()> {
        let start = longest.map(|_| MonotonicClock.now());
        let mut left = longest.unwrap_or(limits::WAIT_MAX);
        loop {
            let mut slice = left.min(limits::WAIT_MAX);
            if !self.backlogged.is_empty() {
                slice = slice.min(limits::BACKLOG_RETRY);
            }
            let wait = self.ask(Some(slice))?;
            self.news = match wait {
                Wait::Done => News::Fresh,
                Wait::More | Wait::Interrupted => News::Old,
            };
            self.retry_backlogged();
            let is_over = self.wake == WakeUp::Pending || self.is_ready();
            if is_over || wait == Wait::Interrupted {
                return Ok(());
            }
            if let (Some(start), Some(longest)) = (start, longest) {
                left = longest.saturating_sub(MonotonicClock.now().since(start));
                if left.is_zero() {
                    return Ok(());
                }
            }
        }
    }
}

impl Driver for Epoll {
    type Waker = EpollWaker;
    type Socket = OwnedFd;

    fn adopt(&mut self, socket: OwnedFd) -> Result<SocketId, SocketTableFull<OwnedFd>> {
        let sockets_max = self.table.sockets_max();
        let id = self.take_in(socket).map_err(|socket| SocketTableFull { socket, sockets_max })?;
        if let Some(entry) = self.table.get(id) {
            // A descriptor that refuses this fails its first operation, too.
            let _ = rustix::io::ioctl_fionbio(&entry.socket, true);
        }
        Ok(id)
    }

    fn open(&mut self, address: &SocketAddress, setup: SocketSetup) -> io::Result<SocketId> {
        let socket = socket::open_lane(address, setup.buffers, setup.watch)?;
        self.adopt(socket).map_err(|_| Errno::MFILE.into())
    }

    fn release(&mut self, socket: SocketId) -> Option<OwnedFd> {
        self.table.open(socket)?;
        let socket = self.forget(socket)?;
        // As it came: whoever adopts it next chooses for himself.
        let _ = rustix::io::ioctl_fionbio(&socket, false);
        Some(socket)
    }

    fn push(&mut self, op: Op) -> io::Result<()> {
        self.start(op);
        Ok(())
    }

    fn poll(&mut self, mut sink: impl FnMut(Event<'_>)) -> io::Result<usize> {
        self.retry_backlogged();
        // With something to say already, a poll does without a call, but not twice in a row.
        let older = match self.news {
            News::Fresh => Some(News::Used),
            News::Used => Some(News::Old),
            News::Old => None,
        };
        let older = older.filter(|_| self.is_ready());
        match older {
            Some(news) => self.news = news,
            None => self.look()?,
        }
        let mut events = self.serve_due(&mut sink);
        // It had nothing to say after all.
        if events == 0 && older.is_some() {
            self.look()?;
            events = self.serve_due(&mut sink);
        }
        Ok(events)
    }

    const SEES_KERNEL: bool = false;

    /// Whether anything is known that the next poll reports or goes on with. What the kernel has
    /// not been asked about is not known.
    fn is_ready(&self) -> bool {
        !self.answers.is_empty() || self.table.due() > 0
    }

    /// Does nothing: what was pushed has started.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn park(&mut self, longest: Option<Duration>) -> io::Result<()> {
        if self.wake == WakeUp::Taken && !self.is_ready() {
            self.sleep(longest)?;
        }
        // One that came meanwhile has done its work.
        self.wake = WakeUp::Taken;
        Ok(())
    }

    fn carry_max(&self) -> u64 {
        limits::CARRY_MAX
    }

    fn waker(&self) -> EpollWaker {
        self.waker.clone()
    }

    fn system_calls(&self) -> u64 {
        self.system_calls
    }
}

impl fmt::Debug for Epoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoll")
            .field("sockets_max", &self.table.sockets_max())
            .field("pending", &(self.table.due() + self.answers.len()))
            .field("backlogged", &self.backlogged.len())
            .field("system_calls", &self.system_calls)
            .finish_non_exhaustive()
    }
}

/// Wakes an [`Epoll`]. May outlive it, and then does nothing.
#[derive(Clone, Debug)]
pub struct EpollWaker {
    descriptor: Arc<OwnedFd>,
}

impl Wake for EpollWaker {
    fn wake(&self) {
        // The only error is a full counter, and each write to that has woken the driver before.
        let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests;
