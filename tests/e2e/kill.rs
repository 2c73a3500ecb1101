//! `kill -9` of either process in the middle of the demo.

use rustix::process::{Signal, kill_process};

use crate::demo::number;
use crate::program::{Process, Stand, busy};

/// The sender's calls have limits of 10 s (send) and 15 s (request). It ends within those and the
/// time to report, or the test loses its patience.
#[test]
fn a_sender_whose_receiver_was_killed_ends_its_calls_reports_and_exits() {
    let turn = busy();
    let demo = Process::start_followed("demo --seconds 600 --json");
    let receiver = demo.receiver();
    demo.until("it is overloaded", Stand::is_overloaded);
    kill_process(receiver, Signal::KILL).unwrap();
    // From here on everybody only waits.
    drop(turn);
    let ended = demo.end();
    ended.assert_code(1);
    let json = ended.json();
    assert_eq!(json["verdict"], "fail", "{ended:#?}");
    assert!(json["lost"].is_null(), "the receiver's ledger died with it: {json}");
    assert!(number(&json, "sends_accepted") > 0, "{json}");
    assert!(number(&json, "requests_failed") > 0, "those under way ended: {json}");
    for text in ["the receiving process ended early: signal: 9", "Unavailable", "ambiguous_failure"]
    {
        assert!(ended.stderr.contains(text), "`{text}` is not in {}", ended.stderr);
    }
}

#[test]
fn a_receiver_whose_sender_was_killed_reports_and_exits() {
    let _busy = busy();
    let demo = Process::start_followed("demo --seconds 600 --json");
    demo.until("it is overloaded", Stand::is_overloaded);
    demo.signal(Signal::KILL);
    let ended = demo.end();
    assert_eq!(ended.status.code(), None, "killed: {ended:#?}");
    assert_eq!(ended.stdout, "", "the sender had no time to report");
    let text = "the sending process ended early";
    assert!(ended.stderr.contains(text), "`{text}` is not in {}", ended.stderr);
}

/// Both receivers' ledgers are known, so duplicates and disorder are seen also between them.
#[test]
fn with_reconnect_a_second_receiver_takes_over_in_order() {
    let _busy = busy();
    let demo = Process::start_followed("demo --seconds 600 --json --reconnect");
    let first = demo.receiver();
    demo.until("it is overloaded", Stand::is_overloaded);
    kill_process(first, Signal::KILL).unwrap();
    demo.until("the second is, too", |stand| stand.receivers == 2 && stand.is_overloaded());
    demo.signal(Signal::TERM);
    let ended = demo.end();
    let json = ended.json();
    ended.assert_code(0);
    assert_eq!(json["verdict"], "pass", "{ended:#?}");
    for text in ["signal: 9 (SIGKILL)", "another took over its address", "may be lost"] {
        assert!(ended.stderr.contains(text), "`{text}` is not in {}", ended.stderr);
    }
    assert_eq!(number(&json, "duplicated"), 0, "{json}");
    assert_eq!(number(&json, "out_of_order"), 0, "{json}");
    // Its own permits ran out: this is the second receiver's number, and traffic was back.
    assert_eq!(number(&json, "permits_peak"), number(&json, "permit_limit"), "{json}");
    assert!(number(&json, "lost") > 0, "a full receiver took something with it: {json}");
    let unhandled = number(&json, "sends_accepted") - number(&json, "sends_handled");
    assert!(unhandled >= number(&json, "lost"), "{json}");
}
