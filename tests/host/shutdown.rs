//! How a host ends, and how its calls do.

use core::pin::pin;
use core::time::Duration;
use std::collections::BTreeSet;

use bytes::Bytes;
use zhost::{ErrorKind, Host, MeshPeer, RouteMesh};

use crate::jam::{Gated, Jam, filler, poll_once};
use crate::world::{CHANNEL, MESH, receiver, run, sender, until};

#[test]
fn bo_008_waiting_calls_end_once_with_shutting_down_and_are_not_admitted_later() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let (first, accepted) = jam.fill().await;
        let mut waits = vec![first];
        for number in 0..10 {
            let caller = jam.caller();
            waits.push(tokio::spawn(
                async move { caller.send("work", filler(10_000 + number)).await },
            ));
        }
        until("all wait", || jam.waiting() == 11).await;
        let mut ends = pin!(jam.sender.shutdown_within(Duration::from_secs(1)));
        assert!(poll_once(ends.as_mut()).await.is_pending(), "what was admitted is not sent");
        for call in waits {
            let error = call.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ShuttingDown, "{error}");
        }
        let error = jam.caller().send("work", Bytes::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ShuttingDown, "a later call: {error}");
        assert!(!jam.sender.status().is_ready, "it takes no new work");
        jam.open();
        let report = ends.await;
        assert_eq!(report.abandoned, 0, "{report}");
        let all = || jam.handlers.ended().len() == accepted as usize;
        until("what was accepted is handled", all).await;
    });
}

#[test]
fn d_019_a_shutdown_counts_what_it_could_not_send() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let (waits, accepted) = jam.fill().await;
        waits.abort();
        waits.await.unwrap_err();
        for number in 0..10_u8 {
            jam.caller().send("work", vec![number]).await.unwrap();
        }
        let mut ends = pin!(jam.sender.shutdown_within(Duration::from_secs(1)));
        assert!(poll_once(ends.as_mut()).await.is_pending(), "it tries until the deadline");
        jam.clock.advance(Duration::from_secs(2));
        let report = ends.await;
        assert!(report.abandoned >= 10, "{report}");
        assert!(report.abandoned < u64::from(accepted), "some had left: {report}");
        assert!(report.to_string().contains("not sent"), "{report}");
    });
}

#[test]
fn d_019_a_shutdown_flushes_what_was_accepted() {
    run(async {
        let handlers = Gated::new();
        handlers.gate.add_permits(crate::jam::WIDE);
        let receiver = receiver(handlers.channel(), |host| host);
        let sender = sender(&receiver, |host| host);
        let caller = sender.channel(CHANNEL).unwrap();
        for number in 0..100 {
            caller.send("work", filler(number)).await.unwrap();
        }
        let report = sender.shutdown().await;
        assert_eq!((report.abandoned, report.failure), (0, None), "all was sent");
        until("all are handled", || handlers.ended().len() == 100).await;
    });
}

#[test]
fn b_064_the_kinds_of_failure_are_told_apart() {
    run(async {
        let jam = Jam::start(|host| host.max_message_size(zhost::ByteCount::kib(64))).await;
        let caller = jam.caller();
        let mut kinds = Vec::new();
        let too_large = vec![0; 128 << 10];
        kinds.push((ErrorKind::MessageTooLarge, caller.send("work", too_large).await));
        let unknown = jam.sender.channel("unknown").map(|_| ());
        kinds.push((ErrorKind::NotConfigured, unknown));
        let nobody = jam.sender.node(MESH, "nobody", CHANNEL).map(|_| ());
        kinds.push((ErrorKind::NotFound, nobody));
        let no_handler = caller.request("unserved", Bytes::new()).await.map(|_| ());
        kinds.push((ErrorKind::NotFound, no_handler));
        let no_time = caller.request("echo", Bytes::new()).timeout(Duration::ZERO);
        kinds.push((ErrorKind::InvalidOperation, no_time.await.map(|_| ())));
        let (waits, _) = jam.fill().await;
        jam.clock.advance(Duration::from_secs(2));
        kinds.push((ErrorKind::DeadlineExceeded, waits.await.unwrap()));
        let mut asks = pin!(caller.request("ask", Bytes::new()).into_future());
        assert!(poll_once(asks.as_mut()).await.is_pending(), "it is on its way or waits");
        let mut ends = pin!(jam.sender.shutdown_within(Duration::from_secs(1)));
        assert!(poll_once(ends.as_mut()).await.is_pending(), "it drains");
        kinds.push((ErrorKind::ShuttingDown, caller.send("work", Bytes::new()).await));
        jam.clock.advance(Duration::from_secs(2));
        ends.await;
        let names: BTreeSet<_> = kinds.iter().map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(names.len(), 6, "{names:?}");
        for (kind, outcome) in kinds {
            assert_eq!(outcome.unwrap_err().kind(), kind, "the kind says what happened");
        }
        asks.await.unwrap_err();
    });
}

#[test]
fn a_request_whose_connection_breaks_is_unavailable_and_ambiguous() {
    run(async {
        let handlers = Gated::new();
        let receiver = receiver(handlers.channel(), |host| host);
        let sender = sender(&receiver, |host| host);
        let caller = sender.channel(CHANNEL).unwrap();
        let asks = tokio::spawn(async move {
            caller.request("ask", Bytes::new()).timeout(Duration::from_mins(5)).await
        });
        until("its handler runs", || handlers.began().len() == 1).await;
        drop(receiver);
        let error = asks.await.unwrap().unwrap_err();
        let expected = [ErrorKind::Unavailable, ErrorKind::ShuttingDown];
        assert!(expected.contains(&error.kind()), "{error}");
        assert_ne!(error.certainty(), zhost::Certainty::SafeToRetryFailure, "it had begun");
    });
}

#[test]
fn an_address_that_is_taken_is_said() {
    run(async {
        let receiver = receiver(Gated::new().channel(), |host| host);
        let address = receiver.listen_address(MESH).unwrap().clone();
        let mesh = RouteMesh::new(MESH)
            .listen(address.clone())
            .peer(MeshPeer::new("receiver", address.clone()));
        let error = Host::builder("second").mesh(mesh).start().unwrap_err();
        assert!(matches!(error, zhost::StartError::Listen { .. }), "{error}");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    });
}
