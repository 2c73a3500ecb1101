//! The program `zlink`: the only part of the workspace that parses arguments and prints.

mod demo;
mod exit;
mod print;
mod values;

use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::ErrorKind;
use tracing_subscriber::EnvFilter;

use exit::Exit;

/// Messaging over `io_uring` in which overload shows up as "send got slow".
#[derive(Debug, clap::Parser)]
#[command(name = "zlink", version, after_help = exit::HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Overloads one host from another over loopback TCP and checks that nothing is lost.
    #[command(after_help = exit::HELP)]
    Demo(demo::Options),
    /// The receiving process of `demo`; it is told what to do on its standard input.
    #[command(hide = true)]
    DemoReceiver,
}

/// Runs the program with the arguments of this process and returns its exit code.
pub fn main() -> ExitCode {
    let arguments = match <Arguments as clap::Parser>::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refused(&error),
    };
    log_to_stderr();
    let exit = match arguments.command {
        Command::Demo(options) => match options.scenario() {
            Ok(scenario) => demo::run(&options, &scenario),
            Err(sentence) => {
                let error = Arguments::command().error(ErrorKind::ValueValidation, sentence);
                return refused(&error);
            }
        },
        Command::DemoReceiver => demo::receive(),
    };
    exit.into()
}

/// Shows what the hosts log: warnings, or what `ZLINK_LOG` asks for.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_env("ZLINK_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}

/// Prints what clap has to say: an error with exit code 2, or the help that was asked for.
fn refused(error: &clap::Error) -> ExitCode {
    // A closed terminal is no reason to end differently.
    drop(error.print());
    if error.use_stderr() { Exit::Usage.into() } else { Exit::Pass.into() }
}
