//! The set of descriptors that the kernel watches.
//!
//! Before changing this file read `epoll(7)` on edge-triggered notification, and `epoll_ctl(2)`.

use core::fmt;
use core::time::Duration;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::limits::READY_MAX;
use crate::token::SocketId;

/// An epoll instance. Each descriptor is registered once, for every edge there is, so that nothing
/// that is asked of a socket later costs a call here.
pub(super) struct Interest {
    set: OwnedFd,
    reports: Vec<Event>,
}

/// What a report is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Subject {
    Waker,
    Socket(SocketId),
}

/// What came of a wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Wait {
    /// All that there was is reported.
    Done,
    /// As many reports as there was room for; there may be more.
    More,
    /// A signal came.
    Interrupted,
}

impl Interest {
    pub(super) fn new() -> Result<Self, Errno> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { set, reports: Vec::with_capacity(READY_MAX) })
    }

    /// Starts to watch a descriptor. One that is ready already is reported by the next wait.
    pub(super) fn add(&self, descriptor: impl AsFd, subject: Subject) -> Result<(), Errno> {
        let edges = match subject {
            Subject::Waker => EventFlags::IN | EventFlags::ET,
            Subject::Socket(_) => {
                let read = EventFlags::IN | EventFlags::PRI | EventFlags::RDHUP;
                read | EventFlags::OUT | EventFlags::ET
            }
        };
        epoll::add(&self.set, descriptor, EventData::new_u64(subject.pack()), edges)
    }

    /// Watches a descriptor no more. Closing it is not enough: while a duplicate of it is open, in
    /// whichever process, the kernel goes on to watch what is behind it.
    pub(super) fn remove(&self, descriptor: impl AsFd) {
        // The only error left is that it is not watched.
        let _ = epoll::delete(&self.set, descriptor);
    }

    /// Waits for reports, at most for `longest`, which is rounded up to a millisecond.
    pub(super) fn wait(&mut self, longest: Option<Duration>) -> Result<Wait, Errno> {
        self.reports.clear();
        let longest = longest.map(|longest| Timespec {
            tv_sec: longest.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        });
        match epoll::wait(&self.set, spare_capacity(&mut self.reports), longest.as_ref()) {
            Ok(READY_MAX) => Ok(Wait::More),
            Ok(_) => Ok(Wait::Done),
            Err(Errno::INTR) => Ok(Wait::Interrupted),
            Err(errno) => Err(errno),
        }
    }

    /// What the last wait brought.
    pub(super) fn reports(&self) -> impl Iterator<Item = (Subject, EventFlags)> {
        self.reports.iter().map(|report| (Subject::unpack(report.data.u64()), report.flags))
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { set, reports } = self;
        f.debug_struct("Interest").field("set", set).field("reports", &reports.len()).finish()
    }
}

impl Subject {
    /// Slot, 32 bits; generation, 32 bits. A name, never a pointer: a report under a stale name is
    /// recognised.
    const fn pack(self) -> u64 {
        match self {
            Self::Waker => u64::MAX,
            Self::Socket(socket) => {
                ((socket.slot() as u64) << u32::BITS) | socket.generation() as u64
            }
        }
    }

    const fn unpack(data: u64) -> Self {
        if data == u64::MAX {
            return Self::Waker;
        }
        let [slot @ .., g3, g2, g1, g0] = data.to_be_bytes();
        let generation = u32::from_be_bytes([g3, g2, g1, g0]);
        Self::Socket(SocketId::new(u32::from_be_bytes(slot), generation))
    }
}

const _: () = assert!(crate::limits::SOCKETS_MAX < u32::MAX, "the last slot is the waker's");

#[cfg(test)]
mod tests {
    use super::{Interest, Subject, Wait};
    use crate::epoll::limits::READY_MAX;
    use crate::token::SocketId;
    use core::time::Duration;
    use rustix::event::epoll::EventFlags;
    use rustix::event::{EventfdFlags, eventfd};
    use std::os::fd::OwnedFd;

    fn subject(slot: u32) -> Subject {
        Subject::Socket(SocketId::new(slot, 7))
    }

    /// A descriptor with something to read.
    fn readable() -> OwnedFd {
        eventfd(1, EventfdFlags::CLOEXEC).unwrap()
    }

    #[test]
    fn every_subject_comes_back_as_it_went() {
        assert_eq!(Subject::unpack(Subject::Waker.pack()), Subject::Waker, "the waker");
        for slot in [0, 1, crate::limits::SOCKETS_MAX] {
            for generation in [0, 1, 0x89ab_cdef, u32::MAX] {
                let subject = Subject::Socket(SocketId::new(slot, generation));
                assert_eq!(Subject::unpack(subject.pack()), subject, "round trip");
            }
        }
    }

    #[test]
    fn what_was_ready_before_it_was_watched_is_reported_once() {
        let mut interest = Interest::new().unwrap();
        let early = readable();
        interest.add(&early, subject(3)).unwrap();
        assert_eq!(interest.wait(Some(Duration::ZERO)), Ok(Wait::Done), "all");
        let reports: Vec<_> = interest.reports().collect();
        let [(about, flags)] = reports[..] else { panic!("{} reports", reports.len()) };
        assert!(about == subject(3) && flags.contains(EventFlags::IN), "{about:?}: {flags:?}");
        interest.wait(Some(Duration::ZERO)).unwrap();
        assert_eq!(interest.reports().count(), 0, "not again");
    }

    #[test]
    fn what_does_not_fit_into_one_report_is_in_the_next() {
        let mut interest = Interest::new().unwrap();
        let ready: Vec<_> = (0..=READY_MAX).map(|_| readable()).collect();
        for (slot, descriptor) in (0..).zip(&ready) {
            interest.add(descriptor, subject(slot)).unwrap();
        }
        assert_eq!(interest.wait(Some(Duration::ZERO)), Ok(Wait::More), "no room");
        let mut seen: Vec<_> = interest.reports().map(|(about, _)| about.pack()).collect();
        assert_eq!(interest.wait(Some(Duration::ZERO)), Ok(Wait::Done), "the rest");
        seen.extend(interest.reports().map(|(about, _)| about.pack()));
        seen.sort_unstable();
        assert!(seen.into_iter().eq((0..).map(|slot| subject(slot).pack()).take(READY_MAX + 1)));
    }

    #[test]
    fn a_duplicate_that_lives_on_is_not_watched() {
        let mut interest = Interest::new().unwrap();
        let descriptor = readable();
        let duplicate = descriptor.try_clone().unwrap();
        interest.add(&descriptor, subject(0)).unwrap();
        interest.remove(&descriptor);
        drop(descriptor);
        rustix::io::write(&duplicate, &1_u64.to_ne_bytes()).unwrap();
        interest.wait(Some(Duration::ZERO)).unwrap();
        assert_eq!(interest.reports().count(), 0, "nothing is watched");
    }
}
