//! Dropping the future of a call (D-07).

use core::pin::pin;

use bytes::Bytes;

use crate::jam::{Jam, poll_once, waiting};
use crate::world::{run, until};

#[test]
fn d_007_a_dropped_waiting_send_never_arrives_and_frees_its_place() {
    run(async {
        let jam = Jam::start(|host| host.max_waiting_operations(2)).await;
        let (first, accepted) = jam.fill().await;
        let caller = jam.caller();
        let mut withdrawn = Box::pin(caller.send("work", Bytes::from_static(b"withdrawn")));
        assert!(poll_once(withdrawn.as_mut()).await.is_pending(), "it waits behind the first");
        assert_eq!(jam.waiting(), 2, "both wait");
        drop(withdrawn);
        assert_eq!(jam.waiting(), 1, "its place is free at once");
        let mut stays = pin!(caller.send("work", Bytes::from_static(b"stays")));
        assert!(poll_once(stays.as_mut()).await.is_pending(), "it takes the free place");
        jam.open();
        first.await.unwrap().unwrap();
        stays.await.unwrap();
        until("the last is handled", || jam.handlers.has_ended(b"stays")).await;
        assert!(!jam.handlers.has_ended(b"withdrawn"), "it was taken back");
        assert_eq!(jam.handlers.ended().len(), accepted as usize + 2, "all others came");
    });
}

#[test]
fn d_007_the_head_of_the_line_withdraws_and_the_next_takes_its_room() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let (first, accepted) = jam.fill().await;
        let caller = jam.caller();
        let mut next = pin!(caller.send("work", Bytes::from_static(b"next")));
        assert!(poll_once(next.as_mut()).await.is_pending(), "a small one never passes");
        first.abort();
        first.await.unwrap_err();
        next.await.unwrap();
        jam.open();
        until("the next is handled", || jam.handlers.has_ended(b"next")).await;
        assert_eq!(jam.handlers.ended().len(), accepted as usize + 1, "the first never came");
    });
}

#[test]
fn d_007_a_send_dropped_after_its_admission_still_arrives() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let (first, _) = jam.fill().await;
        let caller = jam.caller();
        let mut admitted = Box::pin(caller.send("work", Bytes::from_static(b"admitted")));
        assert!(poll_once(admitted.as_mut()).await.is_pending(), "it waits");
        jam.open();
        until("it is admitted", || waiting(&jam.sender) == 0).await;
        drop(admitted);
        first.await.unwrap().unwrap();
        until("it is handled", || jam.handlers.has_ended(b"admitted")).await;
    });
}

#[test]
fn d_007_a_dropped_request_discards_its_reply_and_later_ones_get_theirs() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let caller = jam.caller();
        let call = caller.request("ask", Bytes::from_static(b"dropped"));
        let mut dropped = Box::pin(call.into_future());
        assert!(poll_once(dropped.as_mut()).await.is_pending(), "it waits for its reply");
        until("its handler runs", || jam.handlers.began().len() == 1).await;
        assert_eq!(jam.sender.status().pending_requests, 1, "it is outstanding");
        drop(dropped);
        assert_eq!(jam.sender.status().pending_requests, 0, "nobody waits for its reply");
        jam.open();
        until("its handler ends", || jam.handlers.has_ended(b"dropped")).await;
        for number in 0..100_u8 {
            let reply = caller.request("echo", vec![number]).await.unwrap();
            assert_eq!(reply.payload(), vec![number], "each reply reaches its own request");
        }
        until("its reply is discarded", || jam.sender.status().late_replies == 1).await;
        assert_eq!(jam.sender.status().pairs_ended, 0, "a late reply is no offence");
    });
}

#[test]
fn d_007_a_request_dropped_while_it_waits_for_room_never_runs() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let (first, _) = jam.fill().await;
        let caller = jam.caller();
        let call = caller.request("ask", Bytes::from_static(b"withdrawn"));
        let mut withdrawn = Box::pin(call.into_future());
        assert!(poll_once(withdrawn.as_mut()).await.is_pending(), "it waits for room");
        drop(withdrawn);
        assert_eq!(jam.sender.status().pending_requests, 0, "it left nothing behind");
        jam.open();
        first.await.unwrap().unwrap();
        let reply = caller.request("ask", Bytes::from_static(b"later")).await.unwrap();
        assert_eq!(reply.payload(), "later", "later traffic works");
        assert!(!jam.handlers.has_ended(b"withdrawn"), "it was taken back");
    });
}
