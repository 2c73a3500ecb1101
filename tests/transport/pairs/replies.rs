//! A reply belongs to one request of one pair, and reaches no other.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use zcore::wire::{Kind, Lane};
use zhost::HighWaterMark;

use crate::lanes::tight;
use crate::raw::{RawListener, RawPair, fresh_pair, hello, record};
use crate::world::{CHANNEL, Server, begin, block, client, spawn, still, until, until_in_time};

const QUIET: Duration = Duration::from_millis(200);

#[test]
fn nobody_answers_a_request_that_went_to_another_peer() {
    let server = Server::start(|host| host);
    let mut asked = RawPair::dial(&server.host, "asked");
    let mut thief = RawPair::dial(&server.host, "thief");
    let caller = server.caller("asked");
    let call = spawn(async move { caller.request("any", Bytes::new()).await });
    let (head, _) = asked.application.expect(Kind::Request);
    thief.completion.say(&record(Kind::Reply, head.id, "", b"stolen"));
    thief.expect_end();
    server.expect_counts(0, 1);
    asked.completion.say(&record(Kind::Reply, head.id, "", b"right"));
    let reply = call.join().unwrap().unwrap();
    assert_eq!(reply.payload(), b"right".as_slice(), "from the one that was asked");
    asked.expect_alive(1);
}

#[test]
fn nobody_answers_a_request_that_was_not_sent_yet() {
    let listener = RawListener::bind("raw");
    let host = client("raw", listener.address(), |host| {
        tight(host).send_high_water_mark(HighWaterMark::Unlimited)
    });
    let mut pair = listener.accept_pair();
    let raw = host.channel(CHANNEL).unwrap();
    let mut first = begin(raw.request("any", Bytes::new()).into_future());
    let (head, _) = pair.application.expect(Kind::Request);
    pair.completion.say(&record(Kind::Reply, head.id, "", &[]));
    block(&mut first).unwrap();
    // More than both kernels hold, and never read: the next one stays behind it.
    block(raw.send("placed", vec![0; 8 << 20])).unwrap();
    let next = begin(raw.request("any", Bytes::new()).into_future());
    // A host names its requests as it likes; this one counts the uses of their places.
    let guessed = head.id + (1 << 20);
    pair.completion.say(&record(Kind::Reply, guessed, "", b"guessed"));
    until("such a peer is cut off", || host.status().pairs_ended == 1);
    assert_eq!(host.status().pending_requests, 1, "the request goes on");
    drop(next);
}

#[test]
fn a_reply_that_is_ready_after_its_pair_has_ended_is_not_sent_over_the_next() {
    let server = Server::start(|host| host);
    let mut pair = RawPair::dial(&server.host, "raw");
    pair.application.say(&record(Kind::Request, 7, "later", b"old"));
    until("its handler runs", || server.host.status().handlers.running == 1);
    drop(pair);
    server.expect_counts(0, 1);
    // Another run of the peer's process: it counts its requests from the start.
    let again =
        zcore::wire::Hello { incarnation: 8, ..hello("raw", Lane::Application, fresh_pair(), 1) };
    let mut next = RawPair::dial_as(&server.host, &again);
    next.application.say(&record(Kind::Request, 7, "later", b"new"));
    until("both handlers run", || server.host.status().handlers.running == 2);
    server.gate.add_permits(2);
    let (head, body) = next.completion.expect(Kind::Reply);
    assert_eq!((head.id, body.as_slice()), (7, b"new".as_slice()), "of this pair");
    assert!(next.completion.is_quiet_for(QUIET), "the other one went to nobody");
    server.expect_counts(0, 1);
}

#[test]
fn replies_that_were_queued_when_their_pair_ended_are_not_sent_over_the_next() {
    let server = Server::start(|host| host);
    let mut pair = RawPair::dial(&server.host, "raw");
    // More than the kernel holds, and never read.
    for id in 1..=3 {
        pair.application.say(&record(Kind::Request, id, "echo", &vec![1; 1 << 20]));
    }
    until("each was handled", || server.host.status().handled == 3);
    pair.application.reset();
    pair.completion.reset();
    server.expect_counts(0, 1);
    let mut next = RawPair::dial(&server.host, "raw");
    assert!(next.completion.is_quiet_for(QUIET), "nothing of the old ones");
    next.expect_alive(1);
}

#[test]
fn a_peer_that_reads_no_replies_costs_a_bounded_number_of_them() {
    let clock = still();
    let time = Arc::clone(&clock);
    let server = Server::start(|host| host.default_socket_send_timeout(QUIET).clock(time));
    let mut pair = RawPair::dial(&server.host, "raw");
    for id in 1..=24 {
        pair.application.say(&record(Kind::Request, id, "later", &vec![1; 1 << 20]));
    }
    // The kernel gives up a line that takes nothing for 15 s (D-16), of the real ones. The
    // requests are there before the line is full, which leaves all of them to the replies.
    until("each handler waits", || server.host.status().handlers.running == 24);
    server.gate.add_permits(24);
    until("each has a reply", || server.host.status().handled == 24);
    let running = || server.host.status().handlers.running;
    until_in_time("no handler waits for ever", &clock, || running() == 0);
    server.expect_counts(0, 0);
    // Four of them may wait unsent (D-15), and the kernel holds some. Instead of the others an
    // error is sent, or counted if it finds no room either.
    let lost = server.host.status().lost_replies;
    let mut answers: Vec<_> = (lost..24).map(|_| pair.completion.next().unwrap().0).collect();
    let whole = answers.iter().filter(|head| head.kind == Kind::Reply).count();
    assert!(whole <= 16, "{whole} of 24 replies were held for a peer that did not read");
    answers.sort_by_key(|head| head.id);
    answers.dedup_by_key(|head| head.id);
    assert_eq!(answers.len() as u64, 24 - lost, "each request has one answer at most");
}
