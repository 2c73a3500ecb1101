//! Machines that forbid `io_uring`, as containers do.

use std::process::{Command, Stdio};
use std::thread;

use rustix::io::Errno;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// Answers whoever asks for a ring with an error. It holds for the calling thread and what that
/// starts.
///
/// # Panics
///
/// When this kernel takes no filter.
#[expect(clippy::expect_used, reason = "a test fails by panicking")]
pub fn forbid_io_uring(answer: Errno) {
    let rules = [(IO_URING_SETUP, Vec::new())].into_iter().collect();
    let refusal = SeccompAction::Errno(answer.raw_os_error().unsigned_abs());
    let machine = std::env::consts::ARCH.try_into().expect("an architecture with filters");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, machine);
    let program = filter.expect("the filter is sound").try_into();
    let program: BpfProgram = program.expect("the filter is small enough");
    seccompiler::apply_filter(&program).expect("the kernel takes filters");
}

/// Runs the other tests of this program where nobody has `io_uring`: what they say of hosts is true
/// over epoll, too.
///
/// # Panics
///
/// When one of them fails.
#[expect(clippy::expect_used, reason = "a test fails by panicking")]
pub fn assert_the_others_pass_over_epoll(this_test: &str) {
    let itself = std::env::current_exe().expect("the test's program has a path");
    let mut command = Command::new(itself);
    command.args(["--exact", "--skip", this_test]).stdout(Stdio::piped()).stderr(Stdio::piped());
    // What needs a ring is skipped there and proved here, where it has one.
    command.env_remove("CI").env_remove("ZLINK_SKIPPED_LOG");
    let run = move || {
        forbid_io_uring(Errno::PERM);
        command.output().expect("the program runs")
    };
    let ended = thread::spawn(run).join().expect("the filter holds");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && said.contains(" 0 failed"), "{said}");
    assert!(!said.contains(" 0 passed"), "{said}");
}

/// The same on every architecture that has it.
const IO_URING_SETUP: i64 = 425;
