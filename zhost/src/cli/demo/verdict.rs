//! The verdict: a pure function of a run's numbers. Each rule is one function and can fail.

use super::ledger::Comparison;
use super::numbers::{Numbers, Verdict};
use super::words::grouped;

/// What the run says beside its numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    /// What broke the run itself, as sentences: a process that ended early, a stall.
    pub(super) breakdowns: Vec<String>,
    /// Numbers that the ledgers hold beyond the JSON object.
    pub(super) sends: Comparison,
    pub(super) requests: Comparison,
    /// Requests that the last receiver answered while it had no permit left.
    pub(super) answered_while_full: u64,
    /// What receivers that were killed under `--reconnect` may have taken with them.
    pub(super) forgiven_losses: u64,
    pub(super) forgiven_errors: u64,
    /// What the reader should know and the verdict does not turn on, as sentences.
    pub(super) notes: Vec<String>,
}

/// A verdict and its reasons, one sentence each. A pass has none.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    pub(super) reasons: Vec<String>,
}

/// Judges one run.
///
/// A broken promise is a fail, whatever else was seen. Without one, a run in which the receiver
/// was never overloaded proves nothing and is inconclusive.
pub(super) fn judge(numbers: &Numbers, findings: &Findings) -> Judgement {
    let mut reasons = findings.breakdowns.clone();
    reasons.extend(ledger_rules(numbers, findings));
    reasons.extend(bound_rules(numbers));
    reasons.extend(reply_rule(numbers, findings.answered_while_full));
    let unsaturated = saturation_rules(numbers);
    if !reasons.is_empty() {
        return Judgement { verdict: Verdict::Fail, reasons };
    }
    if !unsaturated.is_empty() {
        return Judgement { verdict: Verdict::Inconclusive, reasons: unsaturated };
    }
    Judgement { verdict: Verdict::Pass, reasons }
}

fn ledger_rules(numbers: &Numbers, findings: &Findings) -> Vec<String> {
    let (accepted, handled) = (numbers.sends_accepted, numbers.sends_handled);
    let never_accepted = findings.sends.never_accepted + findings.requests.never_accepted;
    let unrecorded = findings.sends.unrecorded + findings.requests.unrecorded;
    let rules = [
        (
            numbers.lost.is_none_or(|lost| lost > findings.forgiven_losses),
            match numbers.lost {
                Some(lost) => format!("{lost} accepted messages were never handled"),
                None => "the ledgers could not be compared".to_owned(),
            },
        ),
        (
            numbers.duplicated.is_some_and(|count| count > 0),
            format!("{} messages were handled twice", numbers.duplicated.unwrap_or(0)),
        ),
        (
            numbers.out_of_order.is_some_and(|count| count > 0),
            format!(
                "{} messages were handled after a later one of the same producer",
                numbers.out_of_order.unwrap_or(0)
            ),
        ),
        (
            numbers.other_errors > findings.forgiven_errors,
            format!(
                "{} calls or messages ended in an error other than a deadline",
                numbers.other_errors
            ),
        ),
        (
            handled > accepted || accepted - handled > findings.forgiven_losses,
            format!("{accepted} sends were accepted, but {handled} were handled"),
        ),
        (
            never_accepted > 0,
            format!("{never_accepted} messages were handled that had never been accepted"),
        ),
        (
            unrecorded > 0,
            format!(
                "{unrecorded} messages came in so much disorder that no ledger could hold them"
            ),
        ),
    ];
    broken(rules)
}

fn bound_rules(numbers: &Numbers) -> Vec<String> {
    let allowed = rss_allowed(numbers);
    let over = |what: &str, value: u64, limit: u64| {
        (value > limit, format!("{what} {} B, above {} B", grouped(value), grouped(limit)))
    };
    let rules = [
        over("the send queue held", numbers.send_queue_peak_bytes, numbers.send_queue_bound_bytes),
        over(
            "the receive queue held",
            numbers.receive_queue_peak_bytes,
            numbers.receive_queue_bound_bytes,
        ),
        (
            numbers.permits_peak > numbers.permit_limit,
            format!(
                "{} permits were in use, above the limit of {}",
                numbers.permits_peak, numbers.permit_limit
            ),
        ),
        over("the sender's memory grew by", numbers.sender_rss_growth_bytes, allowed),
        over("the receiver's memory grew by", numbers.receiver_rss_growth_bytes, allowed),
    ];
    broken(rules)
}

/// Every answer that was given while no permit was left has arrived, or its request failed; and not
/// all of those requests did.
///
/// Both sides count the same answers. How many there are is the scheduler's affair: where the
/// receiver gets the processor only now and then, its handlers may take turns with its shard so
/// that a permit is always free when one of them ends. That is missing overload.
fn reply_rule(numbers: &Numbers, answered: u64) -> Option<String> {
    let arrived = numbers.requests_ok_while_full;
    let is_missing = answered > arrived.saturating_add(numbers.requests_failed);
    (is_missing || answered > 0 && arrived == 0).then(|| {
        format!(
            "{answered} requests were answered while the receiver had no permit left, but only \
             {arrived} of the replies arrived: replies did not flow past the full queues"
        )
    })
}

fn saturation_rules(numbers: &Numbers) -> Vec<String> {
    let low = |what: &str, peak: u64, bound: u64| {
        let low = u128::from(peak) * 100 < u128::from(bound) * PEAK_PERCENT_MIN;
        let (peak, bound) = (grouped(peak), grouped(bound));
        (
            low,
            format!(
                "the {what} queue held at most {peak} B of {bound} B, below {PEAK_PERCENT_MIN} %"
            ),
        )
    };
    let rules = [
        (
            numbers.permits_peak < numbers.permit_limit,
            format!(
                "at most {} of {} permits were in use",
                numbers.permits_peak, numbers.permit_limit
            ),
        ),
        low("send", numbers.send_queue_peak_bytes, numbers.send_queue_bound_bytes),
        low("receive", numbers.receive_queue_peak_bytes, numbers.receive_queue_bound_bytes),
        (
            numbers.sends_waited < WAITED_MIN,
            format!("{} sends waited, fewer than {WAITED_MIN}", numbers.sends_waited),
        ),
        (
            numbers.permits_peak >= numbers.permit_limit && numbers.requests_ok_while_full == 0,
            "no request was answered while the receiver had no permit left".to_owned(),
        ),
    ];
    broken(rules)
}

/// The most that either process's memory may grow: what the queues may hold, and the slack of
/// allocators and stacks.
pub(super) const fn rss_allowed(numbers: &Numbers) -> u64 {
    numbers
        .send_queue_bound_bytes
        .saturating_add(numbers.receive_queue_bound_bytes)
        .saturating_add(RSS_SLACK)
}

/// The sentences of the rules that are broken, with a capital letter and a full stop left to the
/// reader's side.
fn broken<const N: usize>(rules: [(bool, String); N]) -> Vec<String> {
    rules.into_iter().filter(|(broken, _)| *broken).map(|(_, sentence)| sentence).collect()
}

const PEAK_PERCENT_MIN: u128 = 90;
const WAITED_MIN: u64 = 1_000;
const RSS_SLACK: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::numbers::tests::sound;

    #[track_caller]
    fn judged(verdict: Verdict, sentence: &str, change: impl FnOnce(&mut Numbers)) {
        let mut numbers = sound();
        change(&mut numbers);
        let judgement = judge(&numbers, &Findings::default());
        assert_eq!(judgement, Judgement { verdict, reasons: vec![sentence.to_owned()] });
    }

    #[test]
    fn a_sound_run_passes_without_a_reason() {
        let judgement = judge(&sound(), &Findings::default());
        assert_eq!(judgement, Judgement { verdict: Verdict::Pass, reasons: Vec::new() });
    }

    #[test]
    fn each_broken_promise_fails_with_its_own_sentence() {
        use Verdict::Fail;
        judged(Fail, "3 accepted messages were never handled", |n| n.lost = Some(3));
        judged(Fail, "the ledgers could not be compared", |n| n.lost = None);
        judged(Fail, "2 messages were handled twice", |n| n.duplicated = Some(2));
        judged(Fail, "4 messages were handled after a later one of the same producer", |n| {
            n.out_of_order = Some(4);
        });
        judged(Fail, "1 calls or messages ended in an error other than a deadline", |n| {
            n.other_errors = 1;
        });
        judged(Fail, "50000 sends were accepted, but 49999 were handled", |n| {
            n.sends_handled -= 1;
        });
        judged(Fail, "the send queue held 101 B, above 100 B", |n| n.send_queue_peak_bytes = 101);
        judged(Fail, "the receive queue held 101 B, above 100 B", |n| {
            n.receive_queue_peak_bytes = 101;
        });
        judged(Fail, "65 permits were in use, above the limit of 64", |n| n.permits_peak = 65);
        judged(Fail, "the sender's memory grew by 8,388,809 B, above 8,388,808 B", |n| {
            n.sender_rss_growth_bytes += 1;
        });
        judged(Fail, "the receiver's memory grew by 8,388,809 B, above 8,388,808 B", |n| {
            n.receiver_rss_growth_bytes = 8_388_809;
        });
    }

    #[test]
    fn an_answer_given_while_full_arrives_or_its_request_fails() {
        let findings = Findings { answered_while_full: 5, ..Findings::default() };
        let arrived = Numbers { requests_ok_while_full: 3, requests_failed: 2, ..sound() };
        assert_eq!(judge(&arrived, &findings).verdict, Verdict::Pass);
        let missing = Numbers { requests_failed: 1, ..arrived };
        let sentence = "5 requests were answered while the receiver had no permit left, but only 3 \
                        of the replies arrived: replies did not flow past the full queues";
        let judgement = judge(&missing, &findings);
        assert_eq!(judgement.verdict, Verdict::Fail);
        assert_eq!(judgement.reasons, [sentence]);
        let none = Numbers { requests_ok_while_full: 0, requests_failed: 5, ..sound() };
        assert_eq!(judge(&none, &findings).verdict, Verdict::Fail, "all of them failed");
    }

    #[test]
    fn each_missing_overload_is_inconclusive_with_its_own_sentence() {
        use Verdict::Inconclusive;
        judged(Inconclusive, "at most 63 of 64 permits were in use", |n| n.permits_peak = 63);
        judged(Inconclusive, "the send queue held at most 89 B of 100 B, below 90 %", |n| {
            n.send_queue_peak_bytes = 89;
        });
        judged(Inconclusive, "the receive queue held at most 89 B of 100 B, below 90 %", |n| {
            n.receive_queue_peak_bytes = 89;
        });
        judged(Inconclusive, "999 sends waited, fewer than 1000", |n| n.sends_waited = 999);
        judged(
            Inconclusive,
            "no request was answered while the receiver had no permit left",
            |n| n.requests_ok_while_full = 0,
        );
        judged(Inconclusive, "at most 1 of 64 permits were in use", |n| {
            n.permits_peak = 1;
            n.requests_ok_while_full = 0;
        });
    }

    #[test]
    fn what_the_ledgers_and_the_run_say_beside_the_numbers_fails_too() {
        let odd = Comparison { never_accepted: 1, unrecorded: 2, ..Comparison::default() };
        let findings = Findings {
            breakdowns: vec!["it stalled".into()],
            sends: odd,
            requests: odd,
            ..Findings::default()
        };
        let judgement = judge(&sound(), &findings);
        assert_eq!(judgement.verdict, Verdict::Fail);
        assert_eq!(
            judgement.reasons,
            [
                "it stalled",
                "2 messages were handled that had never been accepted",
                "4 messages came in so much disorder that no ledger could hold them",
            ]
        );
    }

    #[test]
    fn what_a_killed_receiver_took_with_it_is_forgiven_up_to_what_it_can_hold() {
        let findings = Findings { forgiven_losses: 5, forgiven_errors: 2, ..Findings::default() };
        let numbers = Numbers { lost: Some(5), other_errors: 2, sends_handled: 49_995, ..sound() };
        assert_eq!(judge(&numbers, &findings).verdict, Verdict::Pass);
        for worse in [
            Numbers { lost: Some(6), ..numbers.clone() },
            Numbers { lost: None, ..numbers.clone() },
            Numbers { sends_handled: 49_994, ..numbers.clone() },
            Numbers { sends_handled: 50_001, ..numbers.clone() },
            Numbers { other_errors: 3, ..numbers.clone() },
            Numbers { duplicated: Some(1), ..numbers.clone() },
            Numbers { out_of_order: Some(1), ..numbers },
        ] {
            assert_eq!(judge(&worse, &findings).verdict, Verdict::Fail, "{worse:?}");
        }
    }

    #[test]
    fn a_broken_promise_outweighs_missing_overload() {
        let numbers = Numbers { permits_peak: 1, lost: Some(1), ..sound() };
        let judgement = judge(&numbers, &Findings::default());
        assert_eq!(judgement.verdict, Verdict::Fail);
        assert_eq!(judgement.reasons, ["1 accepted messages were never handled"]);
    }

    #[test]
    fn deadlines_alone_do_not_fail_a_run() {
        let numbers = Numbers { deadline_exceeded: 5, requests_failed: 5, ..sound() };
        assert_eq!(judge(&numbers, &Findings::default()).verdict, Verdict::Pass);
    }
}
