//! The two ways out of the program: lines on standard output and lines on standard error.

use std::io::{self, Write};

/// Writes `text` and a line break to standard output.
///
/// # Errors
///
/// When nobody reads standard output any more.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Writes `text` and a line break to standard error. A closed standard error is ignored: there is
/// no other place to complain.
pub(crate) fn note(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}
