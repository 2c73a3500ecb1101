//! The verdict in words.

use super::numbers::{Numbers, Verdict};
use super::run::Outcome;
use super::timeline::approximate;
use super::verdict::{Judgement, rss_allowed};

/// The verdict, what it rests on, and the numbers that carry it.
pub(super) fn verdict(outcome: &Outcome, judgement: &Judgement) -> String {
    let shouted = judgement.verdict.to_string().to_uppercase();
    let mut lines = vec![format!("{shouted}: {}", headline(judgement.verdict)), String::new()];
    for reason in &judgement.reasons {
        lines.push(format!("  - {}", sentence(reason)));
    }
    if !judgement.reasons.is_empty() {
        lines.push(String::new());
    }
    lines.extend(facts(&outcome.numbers).into_iter().map(|fact| format!("  {fact}")));
    lines.push(String::new());
    lines.join("\n")
}

/// One line that says how the run ended.
pub(super) const fn headline(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => {
            "Overload showed up as slow sends. Nothing was lost, memory stayed flat, replies kept \
             flowing."
        }
        Verdict::Fail => "A promise was broken.",
        Verdict::Inconclusive => {
            "Nothing was broken, but the receiver was never overloaded as intended. Try more \
             --producers or smaller marks."
        }
    }
}

/// What was seen, one sentence for each subject.
pub(super) fn facts(numbers: &Numbers) -> Vec<String> {
    let n = numbers;
    let ledger = match (n.lost, n.duplicated, n.out_of_order) {
        (Some(0), Some(0), Some(0)) => {
            "The two ledgers agree: none lost, none twice, none out of order.".to_owned()
        }
        (Some(lost), Some(duplicated), Some(out_of_order)) => format!(
            "The two ledgers differ: {lost} lost, {duplicated} twice, {out_of_order} out of order."
        ),
        _ => "The two ledgers could not be compared.".to_owned(),
    };
    let latency = match (n.request_p50_ms, n.request_p99_ms) {
        (Some(p50), Some(p99)) => format!("median {}, p99 {}", millis(p50), millis(p99)),
        _ => "no latency was measured".to_owned(),
    };
    vec![
        format!(
            "Sends:    {} accepted, {} handled. {ledger}",
            grouped(n.sends_accepted),
            grouped(n.sends_handled)
        ),
        format!(
            "Overload: {} sends waited, {} calls met their deadline, {} other errors.",
            grouped(n.sends_waited),
            grouped(n.deadline_exceeded),
            grouped(n.other_errors)
        ),
        format!(
            "Requests: {} answered ({} of them while no permit was left), {} failed; {latency}.",
            grouped(n.requests_ok),
            grouped(n.requests_ok_while_full),
            grouped(n.requests_failed)
        ),
        format!(
            "Queues:   send peak {} of {}, receive peak {} of {}, permits peak {} of {}.",
            bytes(n.send_queue_peak_bytes),
            bytes(n.send_queue_bound_bytes),
            bytes(n.receive_queue_peak_bytes),
            bytes(n.receive_queue_bound_bytes),
            grouped(n.permits_peak),
            grouped(n.permit_limit)
        ),
        format!(
            "Memory:   sender grew by {}, receiver by {}; allowed are {}.",
            bytes(n.sender_rss_growth_bytes),
            bytes(n.receiver_rss_growth_bytes),
            bytes(rss_allowed(n))
        ),
        format!("Driver:   {} ({}).", n.driver, n.driver_reason),
    ]
}

/// A reason as a sentence: a capital letter and a full stop.
pub(super) fn sentence(reason: &str) -> String {
    let mut letters = reason.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// `1234567` as `1,234,567`.
pub(super) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in a unit that people read, to one decimal.
pub(super) fn bytes(value: u64) -> String {
    match value {
        0..1024 => format!("{value} B"),
        1024..1_048_576 => format!("{:.1} KiB", approximate(value) / 1024.0),
        1_048_576.. => format!("{:.1} MiB", approximate(value) / 1_048_576.0),
    }
}

/// Milliseconds in a unit that people read.
pub(super) fn millis(value: f64) -> String {
    if value >= 10_000.0 {
        format!("{:.1} s", value / 1000.0)
    } else if value >= 10.0 {
        format!("{value:.0} ms")
    } else {
        format!("{value:.2} ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::numbers::tests::sound;

    #[test]
    fn numbers_read_well() {
        for (value, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(value), text);
        }
        for (value, text) in [(1_023, "1023 B"), (1_536, "1.5 KiB"), (3 << 20, "3.0 MiB")] {
            assert_eq!(bytes(value), text);
        }
        for (value, text) in [(0.25, "0.25 ms"), (250.0, "250 ms"), (12_345.0, "12.3 s")] {
            assert_eq!(millis(value), text);
        }
        assert_eq!(sentence("it stalled"), "It stalled.");
    }

    #[test]
    fn the_facts_say_whether_the_ledgers_agree() {
        assert!(facts(&sound())[0].contains("none lost, none twice, none out of order"), "agree");
        let differ = Numbers { lost: Some(2), ..sound() };
        assert!(facts(&differ)[0].contains("2 lost, 0 twice"), "differ");
        let unknown = Numbers { lost: None, ..sound() };
        assert!(facts(&unknown)[0].contains("could not be compared"), "unknown");
    }
}
