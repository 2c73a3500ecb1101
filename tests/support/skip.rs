//! Skipping a test that this machine cannot run, without losing sight of it.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Says that the calling test proves none of `ids` on this machine, and why.
///
/// The line goes to standard error and, where `ZLINK_SKIPPED_LOG` names a file, to its end:
/// `cargo test` reports the test as passed, and `ci/coverage.py` takes the ids back out. The
/// caller returns at once after it.
///
/// # Panics
///
/// When the log cannot be written: a skip that nobody sees would count as a proof.
#[expect(clippy::expect_used, reason = "a test fails by panicking")]
pub fn skip(ids: &[&str], reason: &str) {
    let line = skip_line(ids, reason);
    // Not by `eprint!`: the test harness keeps that back for tests that pass.
    std::io::stderr().write_all(format!("skipped: {line}").as_bytes()).expect("stderr is there");
    if let Some(log) = std::env::var_os("ZLINK_SKIPPED_LOG") {
        let mut log =
            OpenOptions::new().append(true).create(true).open(log).expect("the skip log opens");
        // One write of one line: appends of several test processes do not mix.
        log.write_all(line.as_bytes()).expect("the skip log takes a line");
    }
}

/// Runs a test, unless `missing` says that this machine cannot: then it is a skip that names the
/// test, and where `CI` is `true` a failure.
///
/// # Panics
///
/// In CI, where everything has to run; and as [`skip`].
#[track_caller]
pub fn run_or_skip(test: &str, missing: Option<String>, body: impl FnOnce()) {
    match missing {
        None => body(),
        Some(reason) => {
            let is_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
            assert!(!is_ci, "{test} cannot run here, and in CI it has to: {reason}");
            skip(&[test], &reason);
        }
    }
}

/// Why this machine has no `io_uring`; `None` where it has.
pub fn io_uring_missing() -> Option<String> {
    ztransport::probe::probe().err().map(|unavailable| unavailable.to_string())
}

fn skip_line(ids: &[&str], reason: &str) -> String {
    format!("{}: {}\n", ids.join(" "), reason.replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_one_line_with_its_ids_first() {
        let line = skip_line(&["B-21", "B-23"], "io_uring: EPERM\nsee doctor");
        assert_eq!(line, "B-21 B-23: io_uring: EPERM see doctor\n");
    }
}
