//! The way of an overload from the handler back to the caller, stage by stage.

use core::pin::pin;

use tokio::select;
use tokio::time::Instant;
use zhost::{Caller, QueueStatus, Status};

use super::world::{
    Gate, HOLD, JOBS, RUNNING, Way, fill, has_room, marks, on_the_spot, payload, receiver, run,
    sender, until,
};

const MARK_KIB: u64 = 64;
const PAYLOAD: usize = 1 << 10;

#[test]
fn b_027_a_sender_runs_ahead_of_the_handlers_by_what_the_queues_hold_and_no_more() {
    run(async {
        let gate = Gate::new();
        let receiver = receiver("receiver", gate.channel(), |host| marks(host, MARK_KIB, MARK_KIB));
        let (sender, caller) = sender("sender", &receiver, |host| marks(host, MARK_KIB, MARK_KIB));
        let way = Way { sender: &sender, receiver: &receiver, payload: PAYLOAD };
        let capacity = fill_up(way, &caller).await;
        for round in 1..=3_u64 {
            gate.let_through(100);
            until("the handlers end", || gate.handled() == 100 * round).await;
            let accepted = fill_up(way, &caller).await;
            // The kernel packs its buffers a little differently each time.
            assert!(
                (40..=160).contains(&accepted),
                "100 of {capacity} were handled, so {accepted} more were accepted"
            );
        }
        let status = receiver.status();
        let queue = status.peers.first().unwrap().receive_queue;
        assert!(queue.peak.get() <= (MARK_KIB << 10) + (PAYLOAD as u64), "{queue:?}");
        gate.open();
    });
}

#[test]
fn b_030_while_the_receiver_takes_nothing_the_send_queue_stays_full_and_the_send_waits() {
    run(async {
        let gate = Gate::new();
        let receiver = receiver("receiver", gate.channel(), |host| marks(host, MARK_KIB, MARK_KIB));
        let (sender, caller) = sender("sender", &receiver, |host| marks(host, MARK_KIB, MARK_KIB));
        let way = Way { sender: &sender, receiver: &receiver, payload: PAYLOAD };
        let payload = payload(PAYLOAD);
        let mut accepted = 0;
        let mut waiting = loop {
            let mut send = Box::pin(caller.send(HOLD, payload.clone()));
            select! {
                biased;
                result = send.as_mut() => result.unwrap(),
                () = rest(way) => break send,
            }
            accepted += 1;
            assert!(accepted < 1_000, "the receiver takes nothing, so there is an end to it");
        };
        let after = sender.status().peers.first().unwrap().send_queue;
        // Having been full, a queue lets waiting calls in when half of it has left (D-04).
        assert!(after.peak.get() + 2 * (PAYLOAD as u64) > MARK_KIB << 10, "it was full: {after:?}");
        assert!(after.accounted.get() > MARK_KIB << 9, "no more than half has left: {after:?}");
        assert_eq!(after.waiting, 1, "the one call");
        gate.open();
        waiting.as_mut().await.unwrap();
        until("all are handled", || gate.handled() == accepted + 1).await;
    });
}

/// Sends until the queue takes nothing any more, even once the kernel's buffers have settled.
async fn fill_up(way: Way<'_>, caller: &Caller) -> u64 {
    let mut accepted = 0;
    loop {
        let more = fill(way, caller).await;
        if more == 0 {
            return accepted;
        }
        accepted += more;
        rest(way).await;
    }
}

/// Waits until nothing has left the sender's queue for a second. The kernel's own buffers settle
/// late: its window probes come further and further apart.
async fn rest(way: Way<'_>) {
    for _ in 0..20 {
        if way.still().await == way.still().await {
            return;
        }
    }
    panic!("the receiver takes nothing, but the queue drains: {:?}", way.levels());
}

/// What is full when a stage of the cascade is reached, in their order.
const STAGES: [&str; 5] = ["handlers", "permits", "receive queue", "send queue", "send"];

/// Which stages are reached right now.
fn reached(receiver: &Status, sender: &Status) -> [bool; 5] {
    let jobs = receiver.application_job_queue;
    let is_full = |queue: QueueStatus| !has_room(queue.accounted, queue.mark, PAYLOAD);
    [
        receiver.handlers.running == RUNNING,
        jobs.in_use == JOBS && jobs.waiting_sources > 0,
        receiver.peers.first().is_some_and(|peer| is_full(peer.receive_queue)),
        sender.peers.first().is_some_and(|peer| is_full(peer.send_queue)),
        sender.peers.first().is_some_and(|peer| peer.send_queue.waiting > 0),
    ]
}

/// Messages come one by one, each after the one before has found its place, so that every stage is
/// there to be seen before the next begins.
#[test]
fn b_036_overload_walks_from_the_handler_to_the_caller_stage_by_stage() {
    run(async {
        let gate = Gate::new();
        let receiver = receiver("receiver", gate.channel(), |host| marks(host, MARK_KIB, MARK_KIB));
        let (sender, caller) = sender("sender", &receiver, |host| marks(host, MARK_KIB, MARK_KIB));
        let way = Way { sender: &sender, receiver: &receiver, payload: PAYLOAD };
        let payload = payload(PAYLOAD);
        let mut trace = [None; STAGES.len()];
        let mut is_full_behind = false;
        for _ in 0..2_000 {
            if trace[4].is_some() {
                break;
            }
            let before = way.levels();
            let mut send = pin!(caller.send(HOLD, payload.clone()));
            if let Some(result) = on_the_spot(send.as_mut()).await {
                result.unwrap();
                is_full_behind = is_full_behind || !way.settled(before).await;
            }
            let (now, reached) = (Instant::now(), reached(&receiver.status(), &sender.status()));
            for (first, _) in trace.iter_mut().zip(reached).filter(|(_, is_reached)| *is_reached) {
                first.get_or_insert(now);
            }
        }
        assert!(trace.iter().all(Option::is_some), "{STAGES:?}: {trace:?}");
        assert!(trace.is_sorted(), "{STAGES:?}: {trace:?}");
        assert!(trace[1] < trace[2] && trace[2] < trace[3], "one by one: {STAGES:?}: {trace:?}");
        gate.open();
    });
}
