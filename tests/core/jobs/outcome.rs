//! What is certain of an operation, wherever it ends (D-08).

use zcore::{Certainty, Progress, ProgressEvent, Stage, Verdict};

const PROGRESSES: [Progress; 7] = [
    Progress::NotAdmitted,
    Progress::Queued,
    Progress::HandedToKernel,
    Progress::Disclaimed,
    Progress::PeerClaimed,
    Progress::Replied(Verdict::Success),
    Progress::Replied(Verdict::Failure),
];

const EVENTS: [ProgressEvent; 6] = [
    ProgressEvent::Admit,
    ProgressEvent::HandToKernel,
    ProgressEvent::Claim,
    ProgressEvent::Disclaim,
    ProgressEvent::Reply(Verdict::Success),
    ProgressEvent::Reply(Verdict::Failure),
];

#[test]
fn certainty_depends_on_how_far_an_operation_came_and_on_nothing_else() {
    let certainties = [
        Certainty::SafeToRetryFailure,
        Certainty::SafeToRetryFailure,
        Certainty::AmbiguousFailure,
        Certainty::SafeToRetryFailure,
        Certainty::AmbiguousFailure,
        Certainty::ConfirmedSuccess,
        Certainty::ConfirmedFailure,
    ];
    assert!(PROGRESSES.map(Progress::certainty).iter().eq(&certainties));
}

#[test]
fn progress_has_exactly_these_transitions() {
    let mut graph = Vec::new();
    for from in PROGRESSES {
        for event in EVENTS {
            graph.extend(from.after(event).map(|to| format!("{from:?} {event:?} {to:?}")));
        }
    }
    let wanted = [
        "NotAdmitted Admit Queued",
        "Queued HandToKernel HandedToKernel",
        "HandedToKernel Claim PeerClaimed",
        "HandedToKernel Disclaim Disclaimed",
        "HandedToKernel Reply(Success) Replied(Success)",
        "HandedToKernel Reply(Failure) Replied(Failure)",
        "PeerClaimed Reply(Success) Replied(Success)",
        "PeerClaimed Reply(Failure) Replied(Failure)",
    ];
    assert_eq!(graph, wanted);
}

#[test]
fn b_061_nothing_that_was_handed_over_gets_into_a_queue_again() {
    for handed in PROGRESSES.into_iter().skip(2) {
        for event in EVENTS {
            let after = handed.after(event);
            assert!(!matches!(after, Some(Progress::NotAdmitted | Progress::Queued)), "{after:?}");
        }
    }
}

#[test]
fn b_037_a_stage_names_where_this_operation_stood() {
    let names = [
        "locating_target",
        "awaiting_link",
        "awaiting_room",
        "wait_space_full",
        "queued",
        "awaiting_reply",
    ];
    assert_eq!(Stage::ALL.map(Stage::as_str), names);
}
