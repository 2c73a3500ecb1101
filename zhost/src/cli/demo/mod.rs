//! `zlink demo`: one process overloads another, and both keep a ledger of what they did.
//!
//! Reading order: `options` (the scenario), `run` (its course), `sender` and `receiver` (the two
//! sides), `ledger` and `verdict` (what is judged and how), `report` (the page).

mod child;
mod control;
mod hosts;
mod incarnations;
mod journal;
mod latency;
mod ledger;
mod live;
mod message;
mod numbers;
mod options;
mod receiver;
mod report;
mod rss;
mod run;
mod sender;
mod series;
mod signals;
mod timeline;
mod verdict;
mod words;

use std::io;
use std::path::{Path, PathBuf};

use tokio::runtime::{Builder, Runtime};

use super::exit::Exit;
use super::print;
use control::{Cause, Failure};
use numbers::Verdict;
use options::Output;
use run::Outcome;
use verdict::{Judgement, judge};

pub(crate) use options::{Options, Scenario};
pub(crate) use receiver::receive;

/// Runs the scenario, judges it and prints what `options` ask for.
pub(crate) fn run(options: &Options, scenario: &Scenario) -> Exit {
    let run = runtime().map_err(|error| Failure { cause: Cause::Run, sentence: error.to_string() });
    match run.and_then(|runtime| runtime.block_on(run::run(scenario, options.output()))) {
        Ok(outcome) => {
            let judgement = judge(&outcome.numbers, &outcome.findings);
            finish(options, scenario, &outcome, &judgement)
        }
        Err(failure) => {
            print::note(&format!("zlink demo: {}", failure.sentence));
            match failure.cause {
                Cause::Usage => Exit::Usage,
                Cause::Environment => Exit::Environment,
                Cause::Run => Exit::Fail,
            }
        }
    }
}

fn finish(
    options: &Options,
    scenario: &Scenario,
    outcome: &Outcome,
    judgement: &Judgement,
) -> Exit {
    let exit = match judgement.verdict {
        Verdict::Pass => Exit::Pass,
        Verdict::Fail => Exit::Fail,
        Verdict::Inconclusive => Exit::Inconclusive,
    };
    for note in &outcome.findings.notes {
        print::note(&format!("zlink demo: {note}"));
    }
    let page = options.report().map(|path| {
        let html = report::page(scenario, outcome, judgement);
        write_report(&path, &html).map_err(|error| format!("{}: {error}", path.display()))
    });
    let written = match (options.output(), page) {
        (Output::Json, page) => {
            match page {
                Some(Ok(path)) => print::note(&format!("Report: {}", path.display())),
                Some(Err(error)) => print::note(&format!("zlink demo: no report at {error}")),
                None => {}
            }
            for reason in &judgement.reasons {
                print::note(&format!("zlink demo: {reason}"));
            }
            let json = outcome.numbers.to_json(judgement.verdict).map_err(io::Error::other);
            json.and_then(|line| print::line(&line))
        }
        (Output::Words, page) => {
            let place = match page {
                Some(Ok(path)) => format!("Report: {}", path.display()),
                Some(Err(error)) => format!("The report could not be written to {error}"),
                None => String::new(),
            };
            print::line(&format!("{}\n{place}", words::verdict(outcome, judgement)))
        }
    };
    // Whoever closed standard output did not want to read the verdict; the exit code still tells.
    drop(written);
    exit
}

fn write_report(path: &Path, html: &str) -> io::Result<PathBuf> {
    std::fs::write(path, html)?;
    path.canonicalize()
}

/// The runtime of either process.
fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}
