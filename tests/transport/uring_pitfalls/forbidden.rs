//! Machines that forbid a ring, or a part of it.

use core::time::Duration;
use std::thread;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::set_thread_res_uid;
use ztests::alone::is_alone;
use ztests::forbidden::forbid_io_uring;
use ztransport::probe::{Machine, Unavailable, probe};
use ztransport::uring::limits::BUFFERS_MAX;
use ztransport::uring::{Uring, UringOptions};

use super::DEFAULT;
use crate::stand::{Stand, UringStand};

#[test]
fn seccomp_that_forbids_rings_is_named_with_its_remedy() {
    // Docker answers the one, others the other.
    for answer in [Errno::PERM, Errno::NOSYS] {
        let refused = thread::spawn(move || {
            forbid_io_uring(answer);
            (probe().map(drop), Uring::new(DEFAULT).map(drop))
        });
        let (probed, built) = refused.join().unwrap();
        let expected = match Machine::read().disabled {
            Some(disabled @ 1..) if answer == Errno::PERM => Unavailable::SwitchedOff { disabled },
            _ => Unavailable::Filtered { errno: answer },
        };
        assert_eq!(probed, Err(expected), "{answer:?} to the probe");
        assert_eq!(built, Err(expected), "{answer:?} to a driver");
        assert!(expected.to_string().contains("io_uring"), "{expected}");
    }
}

/// Limits the memory that this process may lock. Whether the limit holds for this thread: one that
/// may ignore it gives that up, as far as it can.
fn limit_locked_memory(bytes: u64) -> bool {
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    setrlimit(Resource::Memlock, limit).unwrap();
    let nobody = rustix::process::Uid::from_raw(NOBODY);
    set_thread_res_uid(nobody, nobody, nobody).is_ok() || !rustix::process::getuid().is_root()
}

#[test]
fn memlock_of_64_kib_is_enough_for_a_driver_and_too_little_for_the_largest_buffer_rings() {
    let test = "uring_pitfalls::forbidden::memlock_of_64_kib_is_enough_for_a_driver_and_too_little_\
                for_the_largest_buffer_rings";
    ztests::run_or_skip(test, UringStand::missing(), || {
        if !is_alone(test, &[]) {
            return;
        }
        if !limit_locked_memory(64 << 10) {
            ztests::skip(&[test], "root cannot become anybody else here");
            return;
        }
        let large = UringOptions { application_buffers: BUFFERS_MAX, ..DEFAULT };
        let refused = Uring::new(large).map(drop);
        assert_eq!(refused, Err(Unavailable::LockedMemory), "512 KiB of one ring are too many");
        let told = Unavailable::LockedMemory.to_string();
        assert!(told.contains("RLIMIT_MEMLOCK"), "{told}");
        // The kernel gives the memory of a ring that is gone back a while later.
        let mut built = Uring::new(DEFAULT).map(drop);
        for _ in 0..LOOKS {
            if built.is_ok() {
                break;
            }
            thread::park_timeout(LOOK);
            built = Uring::new(DEFAULT).map(drop);
        }
        assert_eq!(built, Ok(()), "64 sockets need less");
    });
}

/// Between two looks at something that the kernel does in its own time, and how many there may be.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS: u32 = 3_000;

/// Runs nothing else, so that nothing else counts against its limit.
const NOBODY: u32 = 65_534;
