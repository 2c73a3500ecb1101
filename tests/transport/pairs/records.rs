//! Records that break the protocol end their pair, and nothing else.

use core::time::Duration;

use bytes::Bytes;
use zcore::wire::{Head, Kind, Lane, RouteHash};
use zhost::ErrorKind;

use crate::raw::{RawPair, record};
use crate::world::{Bystander, Server, spawn, still, until};

fn with_length(length: u32) -> Vec<u8> {
    let mut bytes = record(Kind::Send, 0, "placed", b"four");
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

fn with_byte(at: usize, byte: u8) -> Vec<u8> {
    let mut bytes = record(Kind::Send, 0, "placed", b"four");
    bytes[at] = byte;
    bytes
}

fn bad_records() -> Vec<(&'static str, Lane, Vec<u8>)> {
    let (data, replies) = (Lane::Application, Lane::Completion);
    let long_control = Head { payload_len: 4_096, ..Head::new(Kind::Probe, 1, RouteHash::NONE) };
    let metadata = Head { metadata_len: 1_025, ..Head::new(Kind::Send, 1, RouteHash::NONE) };
    let reply_too_long =
        Head { payload_len: (16 << 20) + 1, ..Head::new(Kind::Reply, 1, RouteHash::NONE) };
    vec![
        ("the largest length there is", data, with_length(u32::MAX)),
        ("one byte above the limit", data, with_length(32 + (16 << 20) + 1)),
        ("a length below the head's", data, with_length(31)),
        ("a length of nothing", data, with_length(0)),
        ("an unknown kind", data, with_byte(4, 99)),
        ("kind zero", data, with_byte(4, 0)),
        ("a flag", data, with_byte(5, 1)),
        ("an address longer than the record", data, with_byte(6, 255)),
        ("an unknown content type", data, with_byte(7, 200)),
        ("a reserved byte", data, with_byte(11, 1)),
        ("control that is too long", data, long_control.encode().to_vec()),
        ("metadata that is too long", data, metadata.encode().to_vec()),
        ("a reply", data, record(Kind::Reply, 1, "", b"")),
        ("an error reply", data, record(Kind::ErrorReply, 1, "", &[1, 0, 0, 0])),
        ("garbage", data, vec![0xff; 64]),
        ("garbage", replies, vec![0xff; 64]),
        ("a reply that is too long", replies, reply_too_long.encode().to_vec()),
        ("the reply to a request never made", replies, record(Kind::Reply, 1 << 60, "", b"")),
        (
            "an error in reply to none",
            replies,
            record(Kind::ErrorReply, u64::MAX, "", &[1, 0, 0, 0]),
        ),
        ("a second hello", data, b"ZLNK".repeat(64)),
    ]
}

#[test]
fn each_bad_record_ends_its_pair_and_is_counted() {
    let server = Server::start(|host| host);
    let bystander = Bystander::start(&server);
    for (ended, (what, lane, bytes)) in (1..).zip(bad_records()) {
        let mut pair = RawPair::dial(&server.host, &format!("raw-{ended}"));
        pair.application.say(&record(Kind::Send, 0, "placed", &[7, 0, 0, 0]));
        until(what, || server.ledger.len() as u64 == ended);
        match lane {
            Lane::Application => pair.application.say(&bytes),
            Lane::Completion => pair.completion.say(&bytes),
        }
        pair.expect_end();
        server.expect_counts(0, ended);
    }
    server.expect_empty();
    bystander.expect_undisturbed();
}

#[test]
fn what_came_before_a_bad_record_is_still_handled() {
    let server = Server::start(|host| host);
    let mut pair = RawPair::dial(&server.host, "raw");
    let mut bytes = Vec::new();
    for number in 0..100_u32 {
        bytes.extend(record(Kind::Send, 0, "placed", &number.to_le_bytes()));
    }
    bytes.extend(with_byte(4, 99));
    bytes.extend(record(Kind::Send, 0, "placed", &100_u32.to_le_bytes()));
    pair.application.say(&bytes);
    pair.expect_end();
    until("those before it", || server.ledger.len() == 100);
    server.expect_empty();
    assert_eq!(server.ledger.numbers(), (0..100).collect::<Vec<_>>(), "and none behind it");
}

#[test]
fn half_a_record_is_given_back_when_its_connection_ends() {
    let server = Server::start(|host| host);
    for (ended, cut) in (1..).zip([1, 31, 32, 40]) {
        let mut pair = RawPair::dial(&server.host, "raw");
        pair.application.say(&record(Kind::Send, 0, "placed", &[0; 1_000])[..cut]);
        drop(pair);
        server.expect_counts(0, ended);
        server.expect_empty();
    }
    RawPair::dial(&server.host, "raw").expect_alive(1);
}

#[test]
fn a_late_reply_is_read_over_and_counted_and_the_pair_lives() {
    let clock = still();
    let server = Server::on_virtual_time(&clock);
    let mut pair = RawPair::dial(&server.host, "raw");
    let caller = server.caller("raw");
    for late in 1..=3 {
        let call = caller.clone();
        let asked = spawn(async move {
            call.request("any", Bytes::new()).timeout(Duration::from_secs(1)).await
        });
        let (head, _) = pair.application.expect(Kind::Request);
        clock.advance(Duration::from_secs(1));
        let end = asked.join().unwrap().unwrap_err();
        assert_eq!(end.kind(), ErrorKind::DeadlineExceeded, "its time is over");
        pair.completion.say(&record(Kind::Reply, head.id, "", &vec![9; 100_000]));
        until("it is counted", || server.host.status().late_replies == late);

        let call = caller.clone();
        let asked = spawn(async move { call.request("any", Bytes::new()).await.unwrap() });
        let (head, _) = pair.application.expect(Kind::Request);
        pair.completion.say(&record(Kind::Reply, head.id, "", b"in time"));
        assert_eq!(asked.join().unwrap().payload(), b"in time".as_slice(), "the next one");
    }
    server.expect_counts(0, 0);
}

#[test]
fn a_second_reply_to_one_request_is_read_over() {
    let server = Server::start(|host| host);
    let mut pair = RawPair::dial(&server.host, "raw");
    let caller = server.caller("raw");
    let asked = spawn(async move { caller.request("any", Bytes::new()).await.unwrap() });
    let (head, _) = pair.application.expect(Kind::Request);
    let replies = [b"one", b"two"].map(|text| record(Kind::Reply, head.id, "", text));
    pair.completion.say(&replies.concat());
    assert_eq!(asked.join().unwrap().payload(), b"one".as_slice(), "the first");
    until("the other is counted", || server.host.status().late_replies == 1);
    pair.expect_alive(1);
    server.expect_counts(0, 0);
}
