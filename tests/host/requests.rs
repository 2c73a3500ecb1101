//! How long a request lasts, and what its timeout does not do.

use core::pin::pin;
use core::time::Duration;

use bytes::Bytes;
use zhost::{Certainty, ErrorKind, HostBuilder, Stage};

use crate::jam::{Jam, filler, poll_once, waiting};
use crate::world::{run, until, until_still};

const MILLISECOND: Duration = Duration::from_millis(1);

#[test]
fn b_076_one_timeout_bounds_the_wait_for_room_and_for_the_reply() {
    run(async {
        let hour = Duration::from_hours(1);
        let jam = Jam::start(|host| host.default_socket_send_timeout(hour)).await;
        let (first, accepted) = jam.fill().await;
        let caller = jam.caller();
        let asks = tokio::spawn(async move {
            let call = caller.request("ask", Bytes::from_static(b"asks"));
            call.timeout(Duration::from_secs(3)).await
        });
        until("it waits for room", || jam.waiting() == 2).await;
        jam.clock.advance(Duration::from_secs(2));
        jam.handlers.gate.add_permits(accepted as usize + 1);
        first.await.unwrap().unwrap();
        until("its handler runs", || jam.handlers.began().len() == accepted as usize + 2).await;
        jam.clock.advance(Duration::from_millis(999));
        until_still(|| asks.is_finished()).await;
        assert!(!asks.is_finished(), "a millisecond of the three seconds is left");
        jam.clock.advance(MILLISECOND);
        let error = asks.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
        assert_eq!(error.stage(), Stage::AwaitingReply, "{error}");
        assert_eq!(error.certainty(), Certainty::AmbiguousFailure, "the handler runs");
        assert_eq!(error.waited(), Duration::from_secs(3), "room and reply together");
        assert_eq!(jam.sender.status().request_timeouts, 1, "counted once");
    });
}

#[test]
fn a_request_without_room_ends_at_its_own_timeout_and_not_at_the_sockets() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let (first, accepted) = jam.fill().await;
        let caller = jam.caller();
        let asks = tokio::spawn(async move {
            let call = caller.request("ask", filler(9_999));
            call.timeout(Duration::from_secs(3)).await
        });
        until("it waits for room", || jam.waiting() == 2).await;
        jam.clock.advance(Duration::from_millis(2_999));
        first.await.unwrap().unwrap_err();
        until_still(|| asks.is_finished()).await;
        assert!(!asks.is_finished(), "the socket's second does not bind a request");
        jam.clock.advance(MILLISECOND);
        let error = asks.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
        assert_eq!(error.stage(), Stage::AwaitingRoom, "{error}");
        assert_eq!(error.certainty(), Certainty::SafeToRetryFailure, "it was never sent");
        jam.open();
        jam.caller().request("ask", Bytes::from_static(b"later")).await.unwrap();
        assert!(!jam.handlers.has_ended(&filler(9_999)), "it does not run later");
        assert_eq!(jam.handlers.ended().len(), accepted as usize + 1, "all others did");
    });
}

#[test]
fn b_080_a_timeout_neither_cancels_nor_rolls_back_a_handler_that_has_begun() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let caller = jam.caller();
        let call = caller.request("ask", Bytes::from_static(b"asks")).timeout(MILLISECOND);
        let mut asks = pin!(call.into_future());
        assert!(poll_once(asks.as_mut()).await.is_pending(), "it waits for its reply");
        until("its handler runs", || jam.handlers.began().len() == 1).await;
        jam.clock.advance(Duration::from_secs(1));
        let error = asks.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
        assert_eq!(jam.receiver.status().handlers.running, 1, "the handler goes on");
        jam.open();
        until("it runs to its end", || jam.handlers.has_ended(b"asks")).await;
        until("its reply is late", || jam.sender.status().late_replies == 1).await;
        let reply = caller.request("ask", Bytes::from_static(b"later")).await.unwrap();
        assert_eq!(reply.payload(), "later", "the late reply confuses nobody");
    });
}

#[test]
fn b_090_a_reply_waits_its_own_hosts_limit_whatever_the_caller_allows() {
    run(async {
        // A reply lane that can be full: the data lane, of which the receiver takes nothing.
        let tune = |host: HostBuilder| host.replies_on_the_application_connection();
        let jam = Jam::start(tune).await;
        let (waits, _) = jam.fill().await;
        waits.abort();
        until("nobody waits", || waiting(&jam.sender) == 0).await;
        let back = jam.receiver.node(crate::world::MESH, "sender", crate::world::CHANNEL).unwrap();
        let asks = tokio::spawn(async move {
            let call = back.request("echo", vec![1; 8 << 10]);
            call.timeout(Duration::from_secs(5)).await
        });
        until("the reply waits for room", || waiting(&jam.sender) == 1).await;
        jam.clock.advance(Duration::from_millis(999));
        until_still(|| waiting(&jam.sender)).await;
        assert_eq!(waiting(&jam.sender), 1, "a millisecond of its second is left");
        jam.clock.advance(MILLISECOND);
        until("the wait ends", || waiting(&jam.sender) == 0).await;
        // The fault goes over the Completion connection even here: the caller hears of it at once,
        // with four of its five seconds left.
        let error = asks.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InternalFailure, "{error}");
        assert_eq!(error.waited(), Duration::from_secs(1), "{error}");
        jam.open();
    });
}

#[test]
fn b_095_a_fifth_of_a_millisecond_is_one() {
    run(async {
        let limit = Duration::from_micros(200);
        let jam = Jam::start(|host| host.default_socket_send_timeout(limit)).await;
        let (waits, _) = jam.fill().await;
        jam.clock.advance(Duration::from_micros(999));
        until_still(|| waits.is_finished()).await;
        assert!(!waits.is_finished(), "it is rounded up");
        jam.clock.advance(Duration::from_micros(1));
        let error = waits.await.unwrap().unwrap_err();
        assert_eq!(error.waited(), MILLISECOND, "{error}");
    });
}

#[test]
fn a_request_without_time_is_a_mistake_of_its_caller() {
    run(async {
        let jam = Jam::start(|host| host).await;
        for timeout in [Duration::ZERO, Duration::MAX] {
            let caller = jam.caller();
            let call = caller.request("echo", Bytes::new()).timeout(timeout);
            let error = call.await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOperation, "{timeout:?}: {error}");
        }
    });
}
