//! Only the core and the lane around it take part in a wait for room; the host awaits its end.

use crate::lexer::word_offsets;
use crate::tree::{File, Finding, expect_none, expect_one, rust_files};

/// What a host would need to watch a queue, to try again, or to send a waiting call elsewhere.
const HOOKS: [&str; 9] = [
    "SendQueue",
    "Waiters",
    "WaiterToken",
    "Effect",
    "Effects",
    "is_waited_for",
    "wait_space",
    "withdraw",
    "is_writable",
];

/// All that a lane offers to a host. A new name here is a question: does it tell that there is room,
/// or try again?
const LANE_OFFERS: [&str; 4] = ["submit", "submit_reply", "retract", "snapshot"];

/// All that a waiting call offers, besides being awaited.
const WAITING_OFFERS: [&str; 1] = ["since"];

fn is_host(path: &str) -> bool {
    path.starts_with("zhost/src/")
}

fn hooks(file: &File) -> Vec<Finding> {
    if !is_host(&file.path) {
        return Vec::new();
    }
    let used = |word: &'static str| {
        word_offsets(&file.code, word).map(move |at| {
            file.finding(file.line_at(at), format!("`{word}`: a wait is the core's alone (B-33)"))
        })
    };
    HOOKS.into_iter().flat_map(used).collect()
}

/// Public functions of a type that are not among those it is known to offer.
fn new_offers(file: &File, of: &str, known: &[&str]) -> Vec<Finding> {
    let Some(start) = file.code.find(&format!("impl {of} {{")) else { return Vec::new() };
    let body = file.code.get(start..).unwrap_or_default();
    let body = body.split("\n}\n").next().unwrap_or_default();
    let names = body.match_indices("    pub ").filter_map(|(at, _)| {
        let line = body.get(at..)?.lines().next()?;
        let name = line.split("fn ").nth(1)?.split(['(', '<']).next()?;
        Some((start + at, name))
    });
    names
        .filter(|(_, name)| !known.contains(name))
        .map(|(at, name)| file.finding(file.line_at(at), format!("`{name}` is new in `{of}`")))
        .collect()
}

fn lane_offers(file: &File) -> Vec<Finding> {
    let mut findings = new_offers(file, "Lane", &LANE_OFFERS);
    findings.extend(new_offers(file, "Waiting", &WAITING_OFFERS));
    findings
}

#[test]
fn b_033_the_host_has_no_hook_into_a_waiting_call() {
    expect_none(&rust_files().flat_map(hooks).collect::<Vec<_>>());
    let transport = || rust_files().filter(|file| file.path.starts_with("ztransport/src/"));
    expect_none(&transport().flat_map(lane_offers).collect::<Vec<_>>());
    let lane = transport().filter(|file| file.code.contains("impl Lane {")).count();
    assert!(lane >= 1, "the lane is where this test looks for it");
}

#[test]
fn a_hook_into_a_waiting_call_is_found() {
    let text = "// Waiters\nlet full = queue.is_waited_for();\n";
    expect_one(&hooks(&File::new("zhost/src/a.rs", text)), 2, "is_waited_for");
    expect_none(&hooks(&File::new("ztransport/src/a.rs", text)));
    let text = "impl Lane {\n    pub fn submit(&self) {}\n\n    pub fn on_room(&self) {}\n}\n";
    expect_one(&lane_offers(&File::new("ztransport/src/a.rs", text)), 4, "on_room");
}
