//! What a caller learns of a handler that failed, and that the host lives on.

use bytes::Bytes;
use zhost::{
    ByteCount, Caller, Certainty, ChannelServer, Dispatch, DropReason, ErrorKind, HighWaterMark,
    Host, Json, Rejection,
};

use crate::jam::{Jam, filler, is_connected};
use crate::world::{CHANNEL, receiver, run, sender, until};

/// So much above the limit that no slack of a few headers hides it.
const ABOVE: usize = 1;

fn dropped_for(host: &Host, reason: DropReason) -> u64 {
    host.status().dropped.iter().filter(|(why, _)| *why == reason).map(|(_, count)| count).sum()
}

fn failing() -> ChannelServer {
    ChannelServer::new(CHANNEL)
        .on_request("double", async |Json(count): Json<u32>| Ok(Json(count * 2)))
        .on_request("refuse", async |_: Bytes| Err::<Bytes, _>(Rejection))
        .on_request("fall", async |payload: Bytes| {
            assert!(payload.is_empty(), "a planted panic of the test");
            Ok(payload)
        })
        .on_send("tumble", async |payload: Bytes| {
            assert!(payload.is_empty(), "a planted panic of the test");
        })
        .on_send("count", async |_: Json<u32>| {})
}

async fn is_alive(caller: &Caller) {
    let reply = caller.request("double", Json(21)).await.unwrap();
    assert_eq!(reply.json::<u32>().unwrap(), 42, "the host goes on");
}

#[test]
fn each_failure_of_a_request_has_a_kind_of_its_own() {
    for dispatch in [Dispatch::Shard, Dispatch::Tokio] {
        run(async move {
            let receiver = receiver(failing(), |host| host.dispatch(dispatch));
            let sender = sender(&receiver, |host| host);
            let caller = sender.channel(CHANNEL).unwrap();
            let full = Bytes::from_static(b"{}");
            let errors = [
                (ErrorKind::NotFound, caller.request("unknown", full.clone()).await),
                (ErrorKind::TypeMismatch, caller.request("double", full.clone()).await),
                (ErrorKind::TypeMismatch, caller.request("double", Json("text")).await),
                (ErrorKind::Rejected, caller.request("refuse", full.clone()).await),
                (ErrorKind::InternalFailure, caller.request("fall", full).await),
            ];
            for (kind, outcome) in errors {
                let error = outcome.unwrap_err();
                assert_eq!(error.kind(), kind, "{error}, with {dispatch:?}");
                assert_eq!(error.certainty(), Certainty::ConfirmedFailure, "{error}");
            }
            is_alive(&caller).await;
            // The caller may hear of it before it is counted.
            let panicked = || receiver.status().handlers.panicked;
            until("the panic is counted", || panicked() > 0).await;
            assert_eq!(panicked(), 1, "once, with {dispatch:?}");
            let error = caller.request("double", Json(1)).await.unwrap().json::<String>();
            assert_eq!(error.unwrap_err().kind(), ErrorKind::TypeMismatch, "of the reply");
        });
    }
}

#[test]
fn each_failure_of_a_message_is_counted_for_its_reason() {
    for dispatch in [Dispatch::Shard, Dispatch::Tokio] {
        run(async move {
            let receiver =
                receiver(failing(), |host| host.dispatch(dispatch).max_queued_application_jobs(1));
            let sender = sender(&receiver, |host| host);
            let caller = sender.channel(CHANNEL).unwrap();
            for _ in 0..10 {
                caller.send("unknown", Bytes::new()).await.unwrap();
                caller.send("count", Json("text")).await.unwrap();
                caller.send("count", Bytes::from_static(b"1")).await.unwrap();
                caller.send("tumble", Bytes::from_static(b"!")).await.unwrap();
            }
            is_alive(&caller).await;
            until("panics are counted", || receiver.status().handlers.panicked == 10).await;
            let counted = || {
                [DropReason::NoHandler, DropReason::DecodeError]
                    .map(|reason| dropped_for(&receiver, reason))
            };
            until("drops are counted", || counted() == [10, 20]).await;
            let queue = || receiver.status().application_job_queue.in_use;
            until("every permit is back", || queue() == 0).await;
            until("every slot is back", || receiver.status().handlers.running == 0).await;
        });
    }
}

#[test]
fn d_006_the_smaller_limit_of_both_peers_binds() {
    let (small, large) = (ByteCount::kib(64), ByteCount::mib(1));
    for (ours, theirs) in [(small, large), (large, small)] {
        run(async move {
            let orders = ChannelServer::new(CHANNEL)
                .on_request("echo", async |payload: Bytes| Ok(payload))
                .on_request("grow", async |_: Bytes| Ok(vec![0; (64 << 10) + ABOVE]));
            let receiver = receiver(orders, |host| host.max_message_size(theirs));
            let sender = sender(&receiver, |host| host.max_message_size(ours));
            until("the limits are exchanged", || is_connected(&sender)).await;
            let caller = sender.channel(CHANNEL).unwrap();
            let fits = vec![0; 64 << 10];
            let reply = caller.request("echo", fits.clone()).await.unwrap();
            assert_eq!(reply.payload(), fits, "the limit itself is allowed");
            let above = vec![0; (64 << 10) + ABOVE];
            let error = caller.send("echo", above.clone()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::MessageTooLarge, "{error}");
            assert_eq!(error.certainty(), Certainty::SafeToRetryFailure, "nothing was sent");
            let error = caller.request("echo", above).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::MessageTooLarge, "{error}");
            let error = caller.request("grow", Bytes::new()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::MessageTooLarge, "the reply: {error}");
            assert_eq!(sender.status().pairs_ended, 0, "nobody is cut off for it");
        });
    }
}

#[test]
fn d_002_an_empty_queue_admits_one_message_above_its_mark_and_a_filled_one_does_not() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let large = Bytes::from(vec![9; 100 << 10]);
        let caller = jam.caller();
        caller.send("work", large.clone()).await.unwrap();
        jam.handlers.gate.add_permits(1);
        until("it arrives whole", || jam.handlers.has_ended(&large)).await;
        let (first, _) = jam.fill().await;
        first.abort();
        first.await.unwrap_err();
        let status = jam.sender.status();
        let queue = status.peers.first().unwrap().send_queue;
        assert_eq!(queue.mark, HighWaterMark::Limit(ByteCount::kib(16)), "as configured");
        assert!(!queue.accounted.is_zero(), "the queue holds something");
        let send = tokio::spawn(async move { caller.send("work", large).await });
        until("now it waits", || jam.waiting() == 1).await;
        jam.open();
        send.await.unwrap().unwrap();
        jam.caller().send("work", filler(1)).await.unwrap();
    });
}

#[test]
fn bu_007_no_kind_of_error_is_called_after_load() {
    // Exhaustive on purpose: a new kind has to be looked at here.
    let is_load = |kind: ErrorKind| match kind {
        ErrorKind::NotFound
        | ErrorKind::TypeMismatch
        | ErrorKind::NotConfigured
        | ErrorKind::Rejected
        | ErrorKind::Unavailable
        | ErrorKind::DeadlineExceeded
        | ErrorKind::ShuttingDown
        | ErrorKind::ProtocolError
        | ErrorKind::InvalidOperation
        | ErrorKind::InternalFailure
        | ErrorKind::MessageTooLarge => {
            let name = kind.as_str().to_lowercase();
            ["pressure", "capacity", "full", "drop", "load"].iter().any(|word| name.contains(word))
        }
    };
    run(async move {
        let jam = Jam::start(|host| host.max_waiting_operations(1)).await;
        let (waits, _) = jam.fill().await;
        let refused = jam.caller().send("work", filler(1)).await.unwrap_err();
        jam.clock.advance(core::time::Duration::from_secs(2));
        let expired = waits.await.unwrap().unwrap_err();
        for error in [refused, expired] {
            assert!(!is_load(error.kind()), "{error}");
            assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
        }
    });
}
