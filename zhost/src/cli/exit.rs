//! Exit codes: what a script learns without reading the output.

use std::process::ExitCode;

/// How the program ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// Everything that was promised was seen.
    Pass,
    /// A promise was broken.
    Fail,
    /// The command line is wrong.
    Usage,
    /// This machine lacks something, such as `io_uring`.
    Environment,
    /// Nothing was broken, but the run did not reach what it set out to show.
    Inconclusive,
}

impl Exit {
    const fn code(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::Usage => 2,
            Self::Environment => 3,
            Self::Inconclusive => 4,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The table at the end of `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0  pass: everything that was promised was seen
  1  fail: a promise was broken
  2  usage: an option is wrong; the message names it, its value and what is valid
  3  environment: this machine lacks something, such as io_uring
  4  inconclusive: nothing was broken, but the receiver was never overloaded";
