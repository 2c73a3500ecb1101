//! What a send completes with, how long it waits, and what its error says.

use core::future::Future;
use core::time::Duration;

use bytes::Bytes;
use zhost::{Certainty, Error, ErrorKind, HighWaterMark, Stage};

use crate::jam::{Jam, dropped, filler};
use crate::world::{run, until, until_still};

/// One tick of the timers.
const TICK: Duration = Duration::from_millis(1);

#[test]
fn b_056_a_send_completes_while_the_handler_never_ends() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let caller = jam.caller();
        caller.send("work", Bytes::from_static(b"never ends")).await.unwrap();
        until("the handler waits", || jam.handlers.began().len() == 1).await;
        caller.send("work", Bytes::from_static(b"never begins")).await.unwrap();
        assert_eq!(jam.handlers.ended(), Vec::<Bytes>::new(), "neither has been handled");
    });
}

#[test]
fn b_057_a_completed_send_states_nothing_but_acceptance() {
    fn completes_with<F: Future<Output = Result<(), Error>>>(_: &F) {}
    run(async {
        let jam = Jam::start(|host| host).await;
        let caller = jam.caller();
        let send = caller.send("work", Bytes::new());
        completes_with(&send);
        send.await.unwrap();
    });
}

#[test]
fn b_059_room_at_nine_tenths_of_the_limit_admits_the_same_operation() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let (waits, accepted) = jam.fill().await;
        jam.clock.advance(Duration::from_millis(900));
        until_still(|| waits.is_finished()).await;
        assert!(!waits.is_finished(), "there is no room yet, and time");
        jam.open();
        waits.await.unwrap().unwrap();
        let all = accepted + 1;
        until("all are handled", || jam.handlers.ended().len() == all as usize).await;
        let expected: Vec<Bytes> = (0..all).map(filler).collect();
        assert_eq!(jam.handlers.ended(), expected, "each once, in order");
    });
}

#[test]
fn b_060_b_082_a_send_without_room_ends_at_one_second_and_never_earlier() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let (waits, _) = jam.fill().await;
        jam.clock.advance(Duration::from_secs(1) - Duration::from_nanos(1));
        until_still(|| waits.is_finished()).await;
        assert!(!waits.is_finished(), "one nanosecond is left of the default limit");
        jam.clock.advance(TICK);
        let error = waits.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
        assert_eq!(error.stage(), Stage::AwaitingRoom, "{error}");
        assert_eq!(error.certainty(), Certainty::SafeToRetryFailure, "nothing was sent");
        let waited = error.waited();
        assert!(waited >= Duration::from_secs(1), "{waited:?} is too early");
        assert!(waited <= Duration::from_secs(1) + TICK, "{waited:?} is too late");
    });
}

#[test]
fn b_062_what_expired_is_never_sent_and_no_option_changes_that() {
    let builder = include_str!("../../zhost/src/builder.rs");
    let options = builder.lines().filter_map(|line| line.trim().split_once("fn "));
    for (_, option) in options.filter(|(before, _)| before.starts_with("pub ")) {
        let name = option.split(['(', '<']).next().unwrap_or_default();
        for banned in ["retry", "retries", "resend", "redeliver", "attempt"] {
            assert!(!name.contains(banned), "`{name}` sounds like an automatic resend");
        }
    }
    run(async {
        let jam = Jam::start(|host| host).await;
        let (waits, accepted) = jam.fill().await;
        jam.clock.advance(Duration::from_secs(2));
        waits.await.unwrap().unwrap_err();
        jam.open();
        jam.caller().send("work", Bytes::from_static(b"last")).await.unwrap();
        until("the last is handled", || jam.handlers.has_ended(b"last")).await;
        let ended = jam.handlers.ended().len();
        assert_eq!(ended, accepted as usize + 1, "what was accepted, and nothing twice");
        assert!(!jam.handlers.has_ended(&filler(accepted)), "what expired does not come later");
    });
}

#[test]
fn b_065_an_error_states_facts_and_never_that_a_command_may_be_repeated() {
    let source = include_str!("../../zhost/src/error.rs");
    let (_, error) = source.split_once("impl Error {").unwrap();
    let (error, _) = error.split_once("\nimpl ").unwrap();
    let answers: Vec<_> = error
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub "))
        .filter_map(|item| item.split_once("fn "))
        .filter_map(|(_, item)| item.split_once('(').map(|(name, _)| name))
        .collect();
    assert_eq!(answers, ["kind", "stage", "certainty", "waited"], "all that an error says");
}

#[test]
fn b_063_the_error_tells_of_this_operation_and_not_of_the_peer() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let (waits, _) = jam.fill().await;
        jam.clock.advance(Duration::from_secs(2));
        let error = waits.await.unwrap().unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("DeadlineExceeded"), "{text}");
        assert!(text.contains("this submission was not accepted"), "{text}");
        let lower = text.to_lowercase();
        for about_the_peer in
            ["peer", "remote", "receiver", "handler", "network", "slow", "busy", "full", "orders"]
        {
            assert!(!lower.contains(about_the_peer), "`{about_the_peer}` in: {text}");
        }
    });
}

#[test]
fn b_069_a_full_wait_space_is_told_apart_and_ends_the_call_at_once() {
    run(async {
        let jam = Jam::start(|host| host.max_waiting_operations(1)).await;
        let (waits, _) = jam.fill().await;
        let error = jam.caller().send("work", filler(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
        assert_eq!(error.stage(), Stage::WaitSpaceFull, "{error}");
        assert_eq!(error.waited(), Duration::ZERO, "it ended at once");
        let text = error.to_string();
        assert!(text.contains("number of concurrent senders"), "what to look at: {text}");
        assert_eq!(jam.sender.status().wait_space_full, 1, "it has a counter of its own");
        jam.clock.advance(Duration::from_secs(2));
        let expired = waits.await.unwrap().unwrap_err();
        assert_eq!(expired.stage(), Stage::AwaitingRoom, "the other case of the same kind");
        assert_eq!(jam.sender.status().wait_space_full, 1, "which does not count there");
    });
}

#[test]
fn b_015_at_the_job_limit_what_arrived_is_neither_dropped_nor_refused() {
    run(async {
        let jam = Jam::start(|host| host.receive_high_water_mark(HighWaterMark::Unlimited)).await;
        let asks: Vec<_> = (0..50_u8)
            .map(|number| {
                let caller = jam.caller();
                tokio::spawn(async move { caller.request("ask", vec![number]).await })
            })
            .collect();
        let queue = || jam.receiver.status().application_job_queue;
        until("every permit is taken", || queue().in_use == 1).await;
        let held = || bytes_of(&jam);
        until_still(|| (held(), jam.handlers.began().len())).await;
        assert_eq!(jam.handlers.began().len(), 1, "one runs");
        assert!(held() > 0, "others have arrived and wait for a permit");
        assert!(asks.iter().all(|ask| !ask.is_finished()), "none was answered with an error");
        jam.open();
        for (number, ask) in (0..50_u8).zip(asks) {
            assert_eq!(ask.await.unwrap().unwrap().payload(), vec![number], "its own answer");
        }
        assert_eq!(dropped(&jam.receiver), 0, "load drops nothing");
    });
}

fn bytes_of(jam: &Jam) -> u64 {
    jam.receiver.status().peers.iter().map(|peer| peer.receive_queue.accounted.get()).sum()
}
