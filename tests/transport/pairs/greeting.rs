//! Connections that do not become pairs: each is closed with a reason and counted, and nothing else
//! notices.

use core::time::Duration;

use zcore::wire::{HELLO_BYTES, Hello, Kind, Label, Lane, Refusal, Role, TopologyKind};

use crate::raw::{Connection, RawPair, fresh_pair, hello, record};
use crate::world::{Bystander, Server, pause};

/// What a host says to a hello.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Answer {
    /// It ends the connection.
    Nothing,
    Refused(Refusal),
}

fn dial() -> Hello {
    hello("stranger", Lane::Application, fresh_pair(), 1)
}

fn with_byte(at: usize, byte: u8) -> Vec<u8> {
    let mut bytes = dial().encode().to_vec();
    bytes[at] = byte;
    bytes
}

fn bad_hellos() -> Vec<(&'static str, Vec<u8>, Answer)> {
    let refused = |hello: Hello, refusal| (hello.encode().to_vec(), Answer::Refused(refusal));
    let own = Hello { node: Label::new("server").unwrap(), ..dial() };
    let other = Hello { topology: Label::new("elsewhere").unwrap(), ..dial() };
    let kind = Hello { topology_kind: TopologyKind::ClientServer, ..dial() };
    let half = Hello { lane: Lane::Completion, ..dial() };
    let mut cases = vec![
        ("garbage", b"GET / HTTP/1.1\r\n".repeat(HELLO_BYTES / 16), Answer::Nothing),
        ("zeros", vec![0; HELLO_BYTES], Answer::Nothing),
        ("wrong magic", with_byte(3, b'X'), Answer::Nothing),
        ("wrong version", with_byte(4, 2), Answer::Refused(Refusal::WrongVersion)),
        ("unknown lane", with_byte(6, 3), Answer::Nothing),
        ("unknown role", with_byte(7, 9), Answer::Refused(Refusal::WrongRole)),
        ("a refusal in a dial", with_byte(8, 1), Answer::Nothing),
        ("unknown topology kind", with_byte(9, 9), Answer::Refused(Refusal::WrongTopology)),
        ("reserved byte", with_byte(60, 1), Answer::Nothing),
        ("reserved tail", with_byte(255, 1), Answer::Nothing),
        ("empty node id", with_byte(64, 0), Answer::Nothing),
        ("node id too long", with_byte(64, 64), Answer::Nothing),
        ("bad topology name", with_byte(129, b' '), Answer::Refused(Refusal::WrongTopology)),
    ];
    for (what, hello, refusal) in [
        ("an answer first", Hello { role: Role::Accept, ..dial() }, Refusal::WrongRole),
        ("a refusal first", Hello { role: Role::Refuse, ..dial() }, Refusal::WrongRole),
        ("its own node id", own, Refusal::SelfConnect),
        ("another topology", other, Refusal::WrongTopology),
        ("another kind of topology", kind, Refusal::WrongTopology),
        ("the second half first", half, Refusal::UnknownPair),
    ] {
        let (bytes, answer) = refused(hello, refusal);
        cases.push((what, bytes, answer));
    }
    cases
}

#[test]
fn each_bad_hello_is_answered_or_not_and_closed_and_counted() {
    let server = Server::start(|host| host);
    let bystander = Bystander::start(&server);
    for (index, (what, bytes, answer)) in (1..).zip(bad_hellos()) {
        let mut connection = Connection::open(&server.host);
        connection.say(&bytes);
        if let Answer::Refused(refusal) = answer {
            let heard = connection.read_hello();
            assert_eq!((heard.role, heard.refusal), (Role::Refuse, Some(refusal)), "{what}");
            assert_eq!(heard.node, Label::new("server").unwrap(), "{what}: who says so");
            let echoed = heard.pair.get().to_le_bytes();
            assert_eq!(echoed, bytes[16..32], "{what}: the pair comes back");
            assert_eq!(heard.generation.to_le_bytes(), bytes[12..16], "{what}: generation");
        }
        assert_eq!(read_rest(&mut connection), 0, "{what}: nothing but that, and the end");
        server.expect_counts(index, 0);
    }
    let peers = server.host.status().peers.len();
    assert_eq!(peers, 1, "none of them became a peer");
    bystander.expect_undisturbed();
}

fn read_rest(connection: &mut Connection) -> usize {
    use std::io::Read;
    let mut rest = Vec::new();
    // A reset is an end, too: the host had not read all when it closed.
    connection.stream.read_to_end(&mut rest).unwrap_or(rest.len())
}

#[test]
fn a_connection_that_ends_in_the_middle_of_its_hello_leaves_at_once() {
    // Time stands still: the timeout of a greeting does not help here.
    let server = Server::start(|host| host);
    for (index, length) in (1..).zip([0, 1, 3, 100, HELLO_BYTES - 1]) {
        let mut connection = Connection::open(&server.host);
        connection.say(&dial().encode()[..length]);
        drop(connection);
        server.expect_counts(index, 0);
    }
}

#[test]
fn a_hello_that_comes_byte_by_byte_is_taken() {
    let server = Server::start(|host| host);
    let first = dial();
    let mut application = Connection::open(&server.host);
    for byte in first.encode() {
        application.say(&[byte]);
        pause(Duration::from_micros(100));
    }
    let heard = application.read_hello();
    assert_eq!(heard.role, Role::Accept, "{heard:?}");
    let mut completion = Connection::open(&server.host);
    completion.lane = Lane::Completion;
    for byte in (Hello { lane: Lane::Completion, ..first }).encode() {
        completion.say(&[byte]);
        pause(Duration::from_micros(100));
    }
    assert_eq!(completion.read_hello().role, Role::Accept, "the other lane");
    RawPair { application, completion, heard }.expect_alive(1);
}

#[test]
fn a_third_connection_of_a_pair_is_refused_and_the_pair_lives() {
    let server = Server::start(|host| host);
    let first = dial();
    let mut pair = RawPair::dial_as(&server.host, &first);
    for (rejected, lane) in (1..).zip([Lane::Application, Lane::Completion]) {
        let mut third = Connection::open(&server.host);
        third.greet(&Hello { lane, ..first });
        let heard = third.read_hello();
        assert_eq!(heard.refusal, Some(Refusal::DuplicatePair), "{lane}");
        third.expect_end();
        server.expect_counts(rejected, 0);
        pair.expect_alive(rejected);
    }
}

#[test]
fn the_second_half_must_know_the_pair_that_it_joins() {
    let server = Server::start(|host| host);
    let first = dial();
    let mut application = Connection::open(&server.host);
    application.greet(&first);
    let heard = application.read_hello();
    let mut thief = Connection::open(&server.host);
    thief.greet(&Hello { lane: Lane::Completion, pair: fresh_pair(), ..first });
    assert_eq!(thief.read_hello().refusal, Some(Refusal::UnknownPair), "a guessed pair id");
    thief.expect_end();
    let mut completion = Connection::open(&server.host);
    completion.greet(&Hello { lane: Lane::Completion, ..first });
    assert_eq!(completion.read_hello().role, Role::Accept, "the right one still fits");
    let mut pair = RawPair { application, completion, heard };
    pair.expect_alive(1);
    server.expect_counts(1, 0);
}

#[test]
fn records_that_come_before_the_pair_is_up_are_kept() {
    let server = Server::start(|host| host);
    let first = dial();
    let mut application = Connection::open(&server.host);
    let mut early = first.encode().to_vec();
    for number in 0..100_u32 {
        early.extend(record(Kind::Send, 0, "placed", &number.to_le_bytes()));
    }
    application.say(&early);
    let heard = application.read_hello();
    for number in 100..200_u32 {
        application.say(&record(Kind::Send, 0, "placed", &number.to_le_bytes()));
    }
    assert_eq!(server.ledger.len(), 0, "nothing is handled before both lanes are up");
    let mut completion = Connection::open(&server.host);
    completion.greet(&Hello { lane: Lane::Completion, ..first });
    assert_eq!(completion.read_hello().role, Role::Accept, "the other lane");
    RawPair { application, completion, heard }.expect_alive(1);
    assert_eq!(server.ledger.numbers(), (0..200).collect::<Vec<_>>(), "all, in order");
}
