//! A machine that forbids `io_uring`.

use std::thread;

use rustix::io::Errno;
use ztests::forbidden::forbid_io_uring;

use crate::demo::overload;
use crate::program::{Ended, Process, busy, zlink};

/// Runs `run` where nobody has `io_uring`.
fn without_io_uring(run: impl FnOnce() -> Ended + Send + 'static) -> Ended {
    zlink();
    let forbidden = || {
        forbid_io_uring(Errno::PERM);
        run()
    };
    thread::spawn(forbidden).join().unwrap()
}

#[test]
fn the_error_says_what_is_missing_and_how_to_allow_it() {
    let ended = without_io_uring(|| Process::start("demo --seconds 2 --json --driver uring").end());
    ended.assert_code(3);
    assert_eq!(ended.stdout, "", "no verdict");
    for text in ["io_uring", "seccomp"] {
        assert!(ended.stderr.contains(text), "`{text}` is not in {}", ended.stderr);
    }
}

#[test]
fn left_to_itself_a_host_takes_epoll_and_says_why() {
    let _busy = busy();
    let ended = without_io_uring(|| overload("--driver auto"));
    ended.assert_code(0);
    let json = ended.json();
    assert_eq!(json["verdict"], "pass", "{json}");
    assert_eq!(json["driver"], "epoll", "{json}");
    let reason = json["driver_reason"].as_str().unwrap();
    for text in ["io_uring", "seccomp"] {
        assert!(reason.contains(text), "`{text}` is not in {reason}");
    }
}
