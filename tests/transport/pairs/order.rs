//! Control keeps its place among the messages.

use core::time::Duration;

use zcore::Charge;
use zcore::wire::{Goodbye, GoodbyeReason, Kind};

use crate::lanes::tight;
use crate::raw::{RawListener, RawPair, record};
use crate::world::{CHANNEL, Server, block, client, peer, spawn, until};

const MESSAGES: u32 = 50;

fn goodbye() -> Vec<u8> {
    let goodbye = Goodbye { reason: GoodbyeReason::Drain, window_ms: 0 };
    record(Kind::Goodbye, 0, "", &goodbye.encode())
}

/// A server whose permits are all taken by messages of a raw peer.
fn stuck() -> (Server, RawPair) {
    let server = Server::start(tight);
    let mut pair = RawPair::dial(&server.host, "raw");
    for number in 0..MESSAGES {
        pair.application.say(&record(Kind::Send, 0, "held", &number.to_le_bytes()));
    }
    until("every permit is taken", || server.host.is_saturated());
    (server, pair)
}

#[test]
fn b_050_a_probe_is_taken_behind_the_messages_before_it() {
    let (server, mut pair) = stuck();
    pair.application.say(&record(Kind::Probe, 9, "", &[]));
    let quiet = Duration::from_millis(300);
    assert!(pair.application.is_quiet_for(quiet), "the messages before it wait");
    server.gate.add_permits(1 << 20);
    let (head, _) = pair.application.expect(Kind::ProbeAnswer);
    assert_eq!(head.id, 9, "of this probe");
    let taken = server.host.status().application_job_queue.records;
    assert_eq!(taken, u64::from(MESSAGES) + 1, "every message was taken before");
}

#[test]
fn b_050_a_goodbye_is_taken_behind_the_messages_before_it() {
    let (server, mut pair) = stuck();
    pair.application.say(&goodbye());
    let quiet = Duration::from_millis(300);
    assert!(pair.application.is_quiet_for(quiet), "it has not been taken");
    server.gate.add_permits(1 << 20);
    pair.application.expect_end();
    let taken = server.host.status().application_job_queue.records;
    assert_eq!(taken, u64::from(MESSAGES) + 1, "every message was taken before");
    until("all are handled", || server.ledger.len() == MESSAGES as usize);
    assert_eq!(server.ledger.numbers(), (0..MESSAGES).collect::<Vec<_>>(), "in order");
}

#[test]
fn b_050_the_answer_to_a_probe_comes_behind_the_messages_that_were_queued_before() {
    let listener = RawListener::bind("raw");
    let host = client("raw", listener.address(), tight);
    let channel = host.channel(CHANNEL).unwrap();
    for number in 0..MESSAGES {
        let mut payload = vec![0; 1 << 10];
        payload[..4].copy_from_slice(&number.to_le_bytes());
        block(channel.send("placed", payload)).unwrap();
    }
    let mut pair = listener.accept_pair();
    pair.application.say(&record(Kind::Probe, 9, "", &[]));
    for number in 0..MESSAGES {
        let (_, body) = pair.application.expect(Kind::Send);
        assert_eq!(body[..4], number.to_le_bytes(), "the messages come first");
    }
    assert_eq!(pair.application.expect(Kind::ProbeAnswer).0.id, 9, "then the answer");
}

#[test]
fn b_050_the_goodbye_of_a_host_comes_behind_its_last_message() {
    let listener = RawListener::bind("raw");
    let host = client("raw", listener.address(), tight);
    let mut pair = listener.accept_pair();
    let channel = host.channel(CHANNEL).unwrap();
    for number in 0..MESSAGES {
        block(channel.send("placed", number.to_le_bytes().to_vec())).unwrap();
    }
    let ending = spawn(async move { host.shutdown().await });
    for number in 0..MESSAGES {
        let (_, body) = pair.application.expect(Kind::Send);
        assert_eq!(body, number.to_le_bytes(), "the messages come first");
    }
    let (_, body) = pair.application.expect(Kind::Goodbye);
    let said = Goodbye::decode(&body).unwrap();
    assert_eq!(said.reason, GoodbyeReason::Drain, "then the goodbye");
    drop(pair);
    assert_eq!(ending.join().unwrap().abandoned, 0, "nothing was cut off");
}

#[test]
fn the_goodbye_of_a_lost_pair_does_not_end_the_next_one() {
    let (server, mut pair) = stuck();
    let held = || peer(&server.host, "raw").receive_queue.accounted.get();
    let one = Charge::of_encoded(record(Kind::Send, 0, "held", &[0; 4]).len() as u64);
    until("every message has arrived", || {
        let taken = server.host.status().application_job_queue.records;
        held() == (u64::from(MESSAGES) - taken) * one.bytes().get()
    });
    let before = held();
    pair.application.say(&goodbye());
    until("the goodbye has arrived", || held() > before);
    pair.application.reset();
    server.expect_counts(0, 1);
    let mut next = RawPair::dial(&server.host, "raw");
    server.gate.add_permits(1 << 20);
    until("all are handled", || server.ledger.len() == MESSAGES as usize);
    next.expect_alive(1);
    assert!(next.application.is_quiet_for(Duration::from_millis(200)), "it stays");
    server.expect_empty();
}
