//! `zlink demo`: its verdict, its numbers, its exit codes.

use rustix::process::Signal;
use serde_json::Value;

use crate::program::{Ended, Process, Stand, busy, has_io_uring};

/// What is promised to scripts, and nothing else.
const KEYS: [&str; 24] = [
    "verdict",
    "driver",
    "driver_reason",
    "sends_accepted",
    "sends_handled",
    "lost",
    "duplicated",
    "out_of_order",
    "sends_waited",
    "deadline_exceeded",
    "other_errors",
    "requests_ok",
    "requests_ok_while_full",
    "requests_failed",
    "request_p50_ms",
    "request_p99_ms",
    "send_queue_peak_bytes",
    "send_queue_bound_bytes",
    "receive_queue_peak_bytes",
    "receive_queue_bound_bytes",
    "permits_peak",
    "permit_limit",
    "sender_rss_growth_bytes",
    "receiver_rss_growth_bytes",
];

pub(crate) fn number(json: &Value, key: &str) -> u64 {
    json[key].as_u64().unwrap_or_else(|| panic!("`{key}` is a number in {json}"))
}

/// Runs the demo for as long as this machine needs to fill every queue.
///
/// A busy machine may be kept from that for all of three seconds. Then the demo says that it has
/// proved nothing, and has to do so again with more time; any other verdict stands.
pub(crate) fn overload(options: &str) -> Ended {
    let run = |seconds: u32| {
        let line = format!("demo --seconds {seconds} --json {options}");
        Process::start(&line).end()
    };
    let mut ended = run(3);
    for seconds in [12, 48] {
        if ended.status.code() == Some(INCONCLUSIVE) {
            ended = run(seconds);
        }
    }
    ended
}

/// The producers offer as much as they are let, the slow handler takes at most 2,000 a second: far
/// above ten to one. Seconds instead of the contract's minute, and two numbers of producers.
#[test]
fn b_001_b_002_b_003_b_004_b_016_b_022_b_047_overload_is_slow_sends_and_nothing_else() {
    let _busy = busy();
    for producers in [64, 256] {
        let ended = overload(&format!("--producers {producers}"));
        ended.assert_code(0);
        let json = ended.json();
        let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = KEYS;
        expected.sort_unstable();
        assert_eq!(keys, expected, "exactly these keys");
        assert_eq!(json["verdict"], "pass", "{ended:#?}");

        let at = |key: &str| number(&json, key);
        // B-01: the ledgers of both processes are compared message by message.
        assert_eq!(at("sends_accepted"), at("sends_handled"), "{json}");
        for none in ["lost", "duplicated", "out_of_order", "other_errors", "requests_failed"] {
            assert_eq!(at(none), 0, "{none} in {json}");
        }
        // B-02: no other error above, and no word of a load reason.
        for word in ["capacity", "dropped", "overload"] {
            assert!(!ended.stderr.contains(word), "`{word}` in {}", ended.stderr);
        }
        // B-03: the peaks are the queues' own and miss no moment.
        for queue in ["send_queue", "receive_queue"] {
            let (peak, bound) = (format!("{queue}_peak_bytes"), format!("{queue}_bound_bytes"));
            assert!(at(&peak) <= at(&bound), "{queue} in {json}");
            // B-16, B-22: both queues filled, and then the senders waited.
            assert!(at(&peak) * 10 >= at(&bound) * 9, "{queue} in {json}");
        }
        assert_eq!(at("permits_peak"), at("permit_limit"), "{json}");
        assert!(at("sends_waited") >= 1_000, "{json}");
        // B-04: the producers never call twice, so every wait ended well by itself.
        assert_eq!(at("deadline_exceeded"), 0, "{json}");
        // B-47
        assert!(at("requests_ok_while_full") > 0, "{json}");
    }
}

/// Each has to keep every rule, and says that it was the one.
#[test]
fn each_driver_passes_and_is_named() {
    let _busy = busy();
    for driver in ["uring", "epoll"] {
        if driver == "uring" && !has_io_uring("demo::each_driver_passes_and_is_named") {
            continue;
        }
        let ended = overload(&format!("--driver {driver}"));
        ended.assert_code(0);
        let json = ended.json();
        assert_eq!(json["verdict"], "pass", "{json}");
        assert_eq!(json["driver"], driver, "{json}");
        assert_eq!(json["driver_reason"], "it was asked for", "{json}");
    }
}

#[test]
fn a_bad_value_names_option_value_and_range_and_prints_nothing_else() {
    for (line, parts) in [
        ("demo --seconds 1", ["--seconds <N>", "'1'", "valid is 2 to 3600"]),
        ("demo --payload 1MiB", ["--payload <SIZE>", "'1MiB'", "valid is 16 B to 128 KiB"]),
        ("demo --send-hwm 7", ["--send-hwm <SIZE>", "'7'", "valid is 256 KiB to 8 MiB"]),
        ("demo --receive-hwm x", ["--receive-hwm <SIZE>", "'x'", "valid is 256 KiB to 8 MiB"]),
        ("demo --max-jobs 0", ["--max-jobs <N>", "'0'", "valid is 1 to 65536"]),
        ("demo --driver iouring", ["--driver <DRIVER>", "'iouring'", "auto, uring, epoll"]),
        ("demo --payload 8KiB", ["--payload <SIZE>", "'8 KiB'", "valid is 16 B to 4 KiB"]),
        ("demo --loud", ["--loud", "unexpected", "--help"]),
        ("dance", ["dance", "unrecognized", "--help"]),
    ] {
        let ended = Process::start(line).end();
        ended.assert_code(2);
        assert_eq!(ended.stdout, "", "{line}");
        for part in parts {
            assert!(ended.stderr.contains(part), "{line}: `{part}` is not in {}", ended.stderr);
        }
    }
}

#[test]
fn help_documents_every_exit_code() {
    for line in ["--help", "demo --help"] {
        let ended = Process::start(line).end();
        ended.assert_code(0);
        for exit in ["0  pass", "1  fail", "2  usage", "3  environment", "4  inconclusive"] {
            assert!(ended.stdout.contains(exit), "{line}: `{exit}` is not in {}", ended.stdout);
        }
    }
}

/// One producer cannot wait a thousand times against 2,000 handled messages a second.
#[test]
fn a_run_without_overload_is_inconclusive() {
    let _busy = busy();
    let ended = Process::start("demo --seconds 2 --json --producers 1").end();
    ended.assert_code(INCONCLUSIVE);
    assert_eq!(ended.json()["verdict"], "inconclusive", "{ended:#?}");
    assert!(ended.stderr.contains("fewer than 1000"), "the reason: {}", ended.stderr);
}

/// The run would last ten minutes. The signal goes to one process, and both end.
#[test]
fn sigterm_drains_reports_and_ends_both_processes() {
    let _busy = busy();
    let demo = Process::start_followed("demo --seconds 600 --json");
    demo.until("it is overloaded", Stand::is_overloaded);
    demo.signal(Signal::TERM);
    let ended = demo.end();
    let json = ended.json();
    assert!(ended.stderr.contains("SIGTERM ended the run early"), "{ended:#?}");
    assert!(number(&json, "sends_accepted") > 0, "{json}");
    assert_eq!(number(&json, "sends_accepted"), number(&json, "sends_handled"), "{json}");
    for none in ["lost", "duplicated", "out_of_order", "other_errors", "requests_failed"] {
        assert_eq!(number(&json, none), 0, "{none} in {json}");
    }
    ended.assert_code(0);
}

/// The exit code of a run that proved nothing.
const INCONCLUSIVE: i32 = 4;
