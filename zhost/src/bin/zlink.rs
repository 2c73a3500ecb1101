//! The program `zlink`. See `zlink --help`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    zhost::cli::main()
}
