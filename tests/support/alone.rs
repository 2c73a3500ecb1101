//! Tests that change their whole process, or count what it holds, run in a process of their own.

use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Whether this process runs the named test and no other. If not, starts one that does, through
/// `env` with these options, and sees that it passes.
///
/// The caller must not hold [`NoNewProcess`].
///
/// # Panics
///
/// When the other process cannot be started, or its test fails.
#[must_use]
#[track_caller]
#[expect(clippy::expect_used, reason = "a test fails by panicking")]
pub fn is_alone(test: &str, options: &[&str]) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let itself = std::env::current_exe().expect("the test's program has a path");
    let mut command = Command::new("env");
    command.args(options).arg(itself).args(["--exact", test]);
    command.env(ALONE, "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    let nobody_else = SPAWN.write().unwrap_or_else(PoisonError::into_inner);
    let process = command.spawn();
    drop(nobody_else);
    let ended = process.expect("`env` starts").wait_with_output().expect("its output is read");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// No test of this program starts a process while somebody holds it: until its exec a new process
/// has every descriptor of this one, and what a test closes would not be closed.
///
/// One for a thread at a time: a second one might wait behind a process that waits for the first.
#[derive(Debug)]
pub struct NoNewProcess {
    _held: RwLockReadGuard<'static, ()>,
}

impl NoNewProcess {
    /// Waits until no process is being started.
    #[must_use]
    pub fn hold() -> Self {
        Self { _held: SPAWN.read().unwrap_or_else(PoisonError::into_inner) }
    }
}

/// Written while a process starts, read by everything that has descriptors.
static SPAWN: RwLock<()> = RwLock::new(());

const ALONE: &str = "ZLINK_TEST_ALONE";
