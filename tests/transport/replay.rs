//! Plays something once for each seed, and says how to play a failure again.

use core::panic::AssertUnwindSafe;
use std::panic::{catch_unwind, resume_unwind};

/// What is played, and how often.
pub(crate) struct Replay {
    /// The test, with the path of its module and the program's name.
    pub(crate) test: &'static str,
    /// Why this machine cannot.
    pub(crate) missing: fn() -> Option<String>,
    pub(crate) seeds: fn() -> Vec<u64>,
}

/// What a run has come to. Faults that everybody must live with change nothing of it.
pub(crate) trait Outcome {
    /// Fails with what only one of two runs has seen.
    #[track_caller]
    fn assert_same(&self, other: &Self, own: &str, others: &str);
}

/// Plays once for each seed.
#[expect(clippy::print_stderr, reason = "the one who reads a failure needs the command")]
pub(crate) fn replay<T: Outcome>(what: &Replay, play: impl Fn(u64) -> T) {
    let name = listed(what.test);
    ztests::run_or_skip(name, (what.missing)(), || {
        let mut first: Option<(String, T)> = None;
        let seeds = (what.seeds)();
        for seed in &seeds {
            let played = catch_unwind(AssertUnwindSafe(|| {
                let outcome = play(*seed);
                if let Some((other, first)) = &first {
                    first.assert_same(&outcome, other, "with this seed");
                }
                outcome
            }));
            match played {
                Ok(outcome) if first.is_none() => {
                    first = Some((format!("with seed {seed}"), outcome));
                }
                Ok(_) => {}
                Err(panic) => {
                    if seeds.len() > 1 {
                        let test = format!("cargo test -p ztests --test transport {name}");
                        eprintln!("ZLINK_SIM_SEED={seed} {test}");
                    }
                    resume_unwind(panic);
                }
            }
        }
    });
}

/// A test as it is listed.
pub(crate) fn listed(test: &'static str) -> &'static str {
    test.split_once("::").map_or(test, |(_, name)| name)
}

/// Without faults, to compare with, and then with those of `count` seeds; of as many as
/// `ZLINK_SIM_SEEDS` says, or of the one that `ZLINK_SIM_SEED` names.
pub(crate) fn seeds(count: u64) -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().unwrap());
    match number("ZLINK_SIM_SEED") {
        Some(CALM) => vec![CALM, CALM],
        Some(seed) => vec![CALM, seed],
        None => (CALM..=number("ZLINK_SIM_SEEDS").unwrap_or(count)).collect(),
    }
}

/// The seed that stands for a network without faults.
pub(crate) const CALM: u64 = 0;
