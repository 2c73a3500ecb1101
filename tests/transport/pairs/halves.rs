//! Half pairs: how many there may be, and for how long.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use zcore::wire::{HELLO_BYTES, Hello, Kind, Lane, Refusal, Role};

use crate::raw::{Connection, RawListener, RawPair, fresh_pair, hello};
use crate::world::{CHANNEL, Server, block, client, still, until};

/// Connections that may be without a pair (D-17).
const HALF_PAIRS_MAX: usize = 256;

/// One test at a time fills all these places, from both ends: many a process may have no more than
/// 1,024 descriptors, and a host without any takes nothing until time passes.
static CROWD: Mutex<()> = Mutex::new(());

const BEFORE: Duration = Duration::from_millis(4_900);

const REST: Duration = Duration::from_millis(200);

/// A hello that is turned down.
fn wrong_version() -> [u8; HELLO_BYTES] {
    let mut bytes = hello("stranger", Lane::Application, fresh_pair(), 1).encode();
    bytes[4] = 2;
    bytes
}

/// The host has taken every connection in that was made so far.
fn settle(server: &Server, node: &str) -> RawPair {
    let mut pair = RawPair::dial(&server.host, node);
    pair.expect_alive(1);
    pair
}

#[test]
fn a_greeting_has_five_seconds() {
    let clock = still();
    let server = Server::on_virtual_time(&clock);
    let mut silent = Connection::open(&server.host);
    let mut slow = Connection::open(&server.host);
    slow.say(b"ZLNK");
    let mut half = Connection::open(&server.host);
    half.greet(&hello("half", Lane::Application, fresh_pair(), 1));
    assert_eq!(half.read_hello().role, Role::Accept, "its other lane is missing");
    let mut refused = Connection::open(&server.host);
    refused.say(&wrong_version());
    assert_eq!(refused.read_hello().role, Role::Refuse, "and it does not hang up");
    let mut whole = settle(&server, "whole");

    clock.advance(BEFORE);
    whole.expect_alive(2);
    server.expect_counts(1, 0);
    for connection in [&silent, &slow, &half] {
        assert!(connection.is_quiet_for(Duration::from_millis(50)), "not early");
    }
    clock.advance(REST);
    for connection in [&mut silent, &mut slow, &mut half, &mut refused] {
        connection.expect_end();
    }
    whole.expect_alive(3);
    server.expect_counts(4, 0);
}

#[test]
fn connections_without_a_pair_are_limited() {
    let _nobody_else = CROWD.lock().unwrap_or_else(PoisonError::into_inner);
    let clock = still();
    let server = Server::on_virtual_time(&clock);
    let mut strangers: Vec<_> =
        (0..HALF_PAIRS_MAX).map(|_| Connection::open(&server.host)).collect();
    let mut beyond: Vec<_> = (0..20).map(|_| Connection::open(&server.host)).collect();
    for connection in &mut beyond {
        connection.expect_end();
    }
    server.expect_counts(20, 0);
    assert!(strangers[0].is_quiet_for(Duration::from_millis(50)), "the others may stay");
    clock.advance(BEFORE + REST);
    for connection in &mut strangers {
        connection.expect_end();
    }
    server.expect_counts(20 + HALF_PAIRS_MAX as u64, 0);
    settle(&server, "later");
}

#[test]
fn a_refused_connection_holds_one_place_and_gives_it_back_once() {
    let _nobody_else = CROWD.lock().unwrap_or_else(PoisonError::into_inner);
    let clock = still();
    let server = Server::on_virtual_time(&clock);
    for _ in 0..50 {
        let mut refused = Connection::open(&server.host);
        refused.say(&wrong_version());
        assert_eq!(refused.read_hello().role, Role::Refuse, "turned down");
        refused.reset();
    }
    // They are gone when another one is answered, except for the last.
    server.expect_counts(50, 0);
    settle(&server, "one");
    let mut refused: Vec<_> = (0..10)
        .map(|_| {
            let mut refused = Connection::open(&server.host);
            refused.say(&wrong_version());
            assert_eq!(refused.read_hello().role, Role::Refuse, "turned down, and it stays");
            refused
        })
        .collect();
    let silent: Vec<_> = (0..HALF_PAIRS_MAX - 10).map(|_| Connection::open(&server.host)).collect();
    let mut beyond = Connection::open(&server.host);
    beyond.expect_end();
    assert!(silent[0].is_quiet_for(Duration::from_millis(50)), "within the limit");
    server.expect_counts(61, 1);
    drop(silent);
    for connection in &mut refused {
        connection.stream.shutdown(std::net::Shutdown::Write).unwrap();
        connection.expect_end();
    }
    settle(&server, "two");
}

#[test]
fn a_half_pair_whose_dialer_comes_back_is_replaced() {
    let server = Server::start(|host| host);
    let mut half = Connection::open(&server.host);
    half.greet(&hello("node", Lane::Application, fresh_pair(), 1));
    assert_eq!(half.read_hello().role, Role::Accept, "the first half");
    let again = hello("node", Lane::Application, fresh_pair(), 2);
    let mut pair = RawPair::dial_as(&server.host, &again);
    half.expect_end();
    pair.expect_alive(1);
    let newest = Hello { pair: fresh_pair(), generation: 3, ..again };
    let mut newer = RawPair::dial_as(&server.host, &newest);
    pair.expect_end();
    newer.expect_alive(1);
    server.expect_counts(1, 1);
}

#[test]
fn an_acceptor_that_never_answers_is_given_up_and_dialed_again() {
    let clock = still();
    let time = Arc::clone(&clock);
    let listener = RawListener::bind("raw");
    let host = client("raw", listener.address(), |host| host.clock(time));
    let (mut mute, _) = listener.accept();
    // Five seconds to connect and five to greet.
    clock.advance(BEFORE + BEFORE);
    assert!(mute.is_quiet_for(Duration::from_millis(50)), "not early");
    clock.advance(REST + REST);
    mute.expect_end();
    until("it is counted", || host.status().rejected_connections == 1);
    clock.advance(REST);
    let mut pair = listener.accept_pair();
    block(host.channel(CHANNEL).unwrap().send("placed", vec![1])).unwrap();
    pair.application.expect(Kind::Send);
}

#[test]
fn more_peers_than_the_host_takes_are_refused() {
    let server = Server::start(|host| host.max_peers(2));
    let mut pairs = [1, 2].map(|index| RawPair::dial(&server.host, &format!("raw-{index}")));
    for rejected in 1..=5 {
        let mut beyond = Connection::open(&server.host);
        let node = format!("beyond-{rejected}");
        beyond.greet(&hello(&node, Lane::Application, fresh_pair(), 1));
        assert_eq!(beyond.read_hello().refusal, Some(Refusal::TooManyPeers), "{node}");
        beyond.expect_end();
        server.expect_counts(rejected, 0);
    }
    for pair in &mut pairs {
        pair.expect_alive(1);
    }
}
