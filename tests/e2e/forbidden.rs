//! A machine that forbids `io_uring`.

use std::thread;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::demo::overload;
use crate::program::{Ended, Process, busy, zlink};

/// The filter belongs to one thread and to what that thread starts.
fn forbid_io_uring() {
    let rules = [(IO_URING_SETUP, Vec::new())].into_iter().collect();
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(EPERM),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

/// Runs `run` where nobody has `io_uring`.
fn without_io_uring(run: impl FnOnce() -> Ended + Send + 'static) -> Ended {
    zlink();
    let forbidden = || {
        forbid_io_uring();
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

/// The same on every architecture that has it.
const IO_URING_SETUP: i64 = 425;

const EPERM: u32 = 1;
