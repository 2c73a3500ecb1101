//! A ring belongs to the thread that made it, and nothing waits on its descriptor.

use core::time::Duration;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use static_assertions::{assert_impl_all, assert_not_impl_any};
use ztransport::driver::{Driver, Wake};
use ztransport::socket::SocketBuffers;
use ztransport::uring::{Uring, UringWaker};

use super::{DEFAULT, on_ring};
use crate::stand::{Stand, UringStand};

#[test]
fn wrong_thread_has_a_waker_and_never_the_driver() {
    // The kernel answers EEXIST to any thread but the one that made the ring; here it does not
    // compile.
    assert_not_impl_any!(Uring: Send, Sync);
    assert_impl_all!(UringWaker: Wake, Send, Sync);
    on_ring(DEFAULT, |world| {
        let waker = world.driver().waker();
        let elsewhere = thread::spawn(move || waker.wake());
        world.driver().park(None).unwrap();
        elsewhere.join().unwrap();
    });
}

/// A descriptor of the only ring of this process.
fn ring_descriptor() -> Option<OwnedFd> {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).ok()?;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let path = entry.unwrap().path();
        let target = std::fs::read_link(&path).unwrap_or_default();
        if target.to_string_lossy() == "anon_inode:[io_uring]" {
            let number = path.file_name()?.to_str()?.parse().ok()?;
            return pidfd_getfd(own, number, PidfdGetfdFlags::empty()).ok();
        }
    }
    None
}

#[test]
fn defer_epoll_may_see_nothing_where_a_park_sees_bytes_and_wakes() {
    let test = "uring_pitfalls::threads::\
                defer_epoll_may_see_nothing_where_a_park_sees_bytes_and_wakes";
    ztests::run_or_skip(test, UringStand::missing(), || {
        if !ztests::alone::is_alone(test, &[]) {
            return;
        }
        on_ring(DEFAULT, |world| {
            let Some(ring) = ring_descriptor() else {
                ztests::skip(&[test], "the descriptor of the ring cannot be duplicated here");
                return;
            };
            let (ours, mut peer) = world.connection(SocketBuffers::default());
            world.receive(ours);
            world.poll();
            peer.write_all(b"x").unwrap();
            // The kernel puts completions off until the ring's thread enters it, and says nothing
            // to whoever waits for the descriptor: hosts of a shard wait for something else.
            let mut watched = [PollFd::new(&ring, PollFlags::IN)];
            let moment = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            let seen = rustix::event::poll(&mut watched, Some(&moment)).unwrap();
            let start = world.now();
            world.driver().park(Some(FOREVER)).unwrap();
            world.poll();
            assert_eq!(world.seen(ours).received, b"x", "a poll saw {seen} events");
            world.driver().waker().wake();
            world.driver().park(Some(FOREVER)).unwrap();
            assert!(world.now().since(start) < FOREVER, "neither park slept on");
        });
    });
}

const FOREVER: Duration = Duration::from_mins(1);
