//! What goes on and what stands still while a receiver is full.

use core::pin::pin;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use zhost::{ByteCount, ErrorKind, HighWaterMark, Host, HostBuilder, MeshPeer, RouteMesh};

use crate::jam::{Jam, bytes_held, dropped, filler, is_connected, poll_once};
use crate::world::{CHANNEL, MESH, run, run_on_one_thread, until, until_still};

#[test]
fn b_014_a_shutdown_ends_the_wait_for_a_permit_without_a_receive() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let (waits, _) = jam.fill().await;
        let queue = || jam.receiver.status().application_job_queue;
        until("ingress waits for a permit", || queue().waiting_sources == 1).await;
        let before = queue();
        let mut ends = pin!(jam.receiver.shutdown_within(Duration::from_secs(1)));
        assert!(poll_once(ends.as_mut()).await.is_pending(), "a handler still runs");
        jam.clock.advance(Duration::from_secs(2));
        ends.await;
        assert_eq!(queue().records, before.records, "nothing more left the receive queue");
        assert_eq!(jam.handlers.began().len(), 1, "no other handler began");
        waits.await.unwrap().unwrap_err();
    });
}

#[test]
fn b_024_at_the_limit_the_host_waits_and_one_permit_takes_one_record() {
    run(async {
        let jam = Jam::start(|host| host.max_queued_application_jobs(4)).await;
        let (waits, _) = jam.fill().await;
        let see = || {
            let jobs = jam.receiver.status().application_job_queue;
            (jobs.reserved + jobs.queued, jobs.in_use, jobs.records, jobs.waiting_sources)
        };
        until("one has begun, four wait, and ingress waits", || see() == (4, 4, 5, 1)).await;
        for taken in 1..=10 {
            jam.handlers.gate.add_permits(1);
            until("the next takes the permit", || see() == (4, 4, 5 + taken, 1)).await;
        }
        assert_eq!(jam.receiver.status().application_job_queue.peak_in_use, 4, "never above it");
        jam.open();
        waits.await.unwrap().unwrap();
    });
}

#[test]
fn b_025_nothing_grows_and_nobody_is_refused_while_the_host_waits() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let (first, accepted) = jam.fill().await;
        let see = || {
            let status = jam.receiver.status();
            let jobs = status.application_job_queue;
            (jobs.in_use, jobs.records, status.handlers, bytes_held(&status))
        };
        let before = until_still(see).await;
        let more: Vec<_> = (0..500)
            .map(|number| {
                let caller = jam.caller();
                tokio::spawn(async move { caller.send("work", filler(number)).await })
            })
            .collect();
        until("they all wait", || jam.waiting() == 501).await;
        assert_eq!(until_still(see).await, before, "the receiver holds what it held");
        assert!(more.iter().all(|send| !send.is_finished()), "nobody is refused");
        let receiving = jam.receiver.status().peers[0].receive_queue;
        assert_eq!(receiving.mark, HighWaterMark::Limit(ByteCount::kib(16)), "as configured");
        assert!(receiving.peak <= ByteCount::kib(16), "{:?} is above the mark", receiving.peak);
        jam.open();
        first.await.unwrap().unwrap();
        for send in more {
            send.await.unwrap().unwrap();
        }
        let all = accepted as usize + 501;
        until("all are handled", || jam.handlers.ended().len() == all).await;
        assert_eq!(dropped(&jam.receiver) + dropped(&jam.sender), 0, "load drops nothing");
    });
}

#[test]
fn b_042_b_043_a_reply_takes_no_permit_and_no_room() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let (waits, _) = jam.fill().await;
        let see = || {
            let status = jam.receiver.status();
            let jobs = status.application_job_queue;
            (jobs.in_use, jobs.records, bytes_held(&status), status.peers[0].receive_queue.peak)
        };
        let before = until_still(see).await;
        assert_eq!(before.0, 1, "every permit is taken");
        let back = jam.receiver.node(MESH, "sender", CHANNEL).unwrap();
        let large = Bytes::from(vec![1; 8 << 10]);
        let reply = back.request("echo", large.clone()).await.unwrap();
        assert_eq!(reply.payload(), large, "a reply gets through");
        let error = back.request("unknown", Bytes::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "an error reply gets through");
        assert!(!waits.is_finished(), "the receiver is still full");
        until("the requests have left", || see() == before).await;
    });
}

#[test]
fn b_044_what_arrives_as_data_gets_no_bypass_even_if_it_is_a_reply() {
    run(async {
        let tune = |host: HostBuilder| {
            host.replies_on_the_application_connection()
                .default_socket_send_timeout(Duration::from_hours(1))
        };
        let jam = Jam::start(tune).await;
        let back = jam.receiver.node(MESH, "sender", CHANNEL).unwrap();
        back.request("echo", Bytes::new()).await.unwrap();
        let (waits, _) = jam.fill().await;
        let mut asks = pin!(back.request("echo", Bytes::new()).into_future());
        assert!(poll_once(asks.as_mut()).await.is_pending(), "the reply takes its time");
        until("the reply waits for room, behind the data", || jam.waiting() == 2).await;
        let pending = until_still(|| jam.receiver.status().pending_requests).await;
        assert_eq!(pending, 1, "it does not overtake");
        jam.open();
        asks.await.unwrap();
        waits.await.unwrap().unwrap();
    });
}

#[test]
fn b_070_while_a_send_waits_another_task_of_the_same_thread_goes_on() {
    run_on_one_thread(async {
        let jam = Jam::start(|host| host).await;
        let (waits, _) = jam.fill().await;
        let ticks = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&ticks);
        let other = tokio::spawn(async move {
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        other.await.unwrap();
        assert_eq!(ticks.load(Ordering::Relaxed), 1_000, "the other task came to its end");
        let reply = jam.receiver.node(MESH, "sender", CHANNEL).unwrap();
        reply.request("echo", Bytes::new()).await.unwrap();
        assert!(!waits.is_finished(), "and the send still waits");
        jam.open();
        waits.await.unwrap().unwrap();
    });
}

#[test]
fn b_127_pressure_changes_neither_readiness_nor_liveness() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let see = || {
            let status = jam.receiver.status();
            (status.is_ready, status.peers[0].state, status.pairs_ended, status.peers.len())
        };
        let before = see();
        assert!(before.0, "it is ready");
        let paused = || jam.receiver.status().application_job_queue.is_paused;
        assert!(!paused(), "there is no pressure yet");
        let (waits, _) = jam.fill().await;
        until("there is now", paused).await;
        assert_eq!(until_still(see).await, before, "nothing else has changed");
        jam.open();
        waits.await.unwrap().unwrap();
        until("the pressure ends", || !paused()).await;
        assert_eq!(see(), before, "nothing else has changed");
    });
}

#[test]
fn bu_013_timeouts_replies_peers_and_shutdown_go_on_while_every_handler_is_suspended() {
    run(async {
        let jam = Jam::start(|host| host).await;
        let (waits, _) = jam.fill().await;
        let address = jam.receiver.listen_address(MESH).unwrap().clone();
        let peer = MeshPeer::new("receiver", address).serves(CHANNEL);
        let late = Host::builder("late").mesh(RouteMesh::new(MESH).peer(peer)).start().unwrap();
        until("a new peer gets in", || is_connected(&late)).await;
        let back = jam.receiver.node(MESH, "sender", CHANNEL).unwrap();
        back.request("echo", Bytes::new()).await.unwrap();
        let call = back.request("unserved", Bytes::new()).timeout(Duration::from_secs(1));
        assert_eq!(call.await.unwrap_err().kind(), ErrorKind::NotFound, "an error reply");
        let caller = late.channel(CHANNEL).unwrap();
        let call = caller.request("ask", Bytes::new()).timeout(Duration::from_millis(1));
        assert_eq!(call.await.unwrap_err().kind(), ErrorKind::DeadlineExceeded, "a timeout");
        let mut ends = pin!(jam.receiver.shutdown_within(Duration::from_secs(1)));
        assert!(poll_once(ends.as_mut()).await.is_pending(), "a handler still runs");
        jam.clock.advance(Duration::from_secs(2));
        ends.await;
        waits.await.unwrap().unwrap_err();
    });
}

#[test]
fn b_045_a_control_record_takes_a_permit_and_gives_it_back_at_once() {
    run(async {
        let jam = Jam::start(|host| host).await;
        // Long enough for a probe, short enough that nobody is given up for dead.
        let probe = Duration::from_secs(5);
        let jobs = || jam.receiver.status().application_job_queue;
        let caller = jam.caller();
        caller.send("work", Bytes::new()).await.unwrap();
        until("a handler runs and nothing waits", || jam.handlers.began().len() == 1).await;
        let before = jobs().records;
        jam.clock.advance(probe);
        until("a control record takes a permit", || jobs().records > before).await;
        until("and gives it back", || jobs().in_use == 0).await;
        assert_eq!(jam.receiver.status().handlers.started, 1, "it was no job");
        caller.send("work", Bytes::new()).await.unwrap();
        until("a job holds the only permit", || jobs().in_use == 1).await;
        let at_limit = until_still(|| jobs().records).await;
        jam.clock.advance(probe);
        assert_eq!(until_still(|| jobs().records).await, at_limit, "now it has to wait");
        jam.open();
        until("it gets its permit", || jobs().records > at_limit).await;
        until("and gives it back", || jobs().in_use == 0).await;
    });
}
