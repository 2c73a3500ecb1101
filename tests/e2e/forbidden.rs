//! A machine that forbids `io_uring`.

use std::thread;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::program::{Process, zlink};

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

#[test]
fn without_io_uring_the_error_says_what_is_missing_and_how_to_allow_it() {
    zlink();
    let started = thread::spawn(|| {
        forbid_io_uring();
        Process::start("demo --seconds 2 --json")
    });
    let ended = started.join().unwrap().end();
    ended.assert_code(3);
    assert_eq!(ended.stdout, "", "no verdict");
    for text in ["io_uring", "seccomp"] {
        assert!(ended.stderr.contains(text), "`{text}` is not in {}", ended.stderr);
    }
}

/// The same on every architecture that has it.
const IO_URING_SETUP: i64 = 425;

const EPERM: u32 = 1;
