//! Which connection of two nodes stays their pair, and what a late hello does to it (D-17).

use core::time::Duration;
use std::sync::Arc;

use tokio::sync::Semaphore;
use zcore::wire::{Hello, Lane, Refusal, Role};
use zhost::clock::VirtualClock;
use zhost::{Host, MeshPeer, RouteMesh};
use ztransport::limits::{GREETING_TIMEOUT, RECONNECT_DELAY_MAX};

use crate::raw::{Connection, RawListener, RawPair, fresh_pair, hello};
use crate::world::{
    CHANNEL, Ledger, MESH, Server, channel, client, peer, still, until, until_connected,
};

const MOMENT: Duration = Duration::from_millis(50);

/// The first hello of `node`, as a run of its process says it.
fn dial(node: &str, incarnation: u64, generation: u32) -> Hello {
    Hello { incarnation, ..hello(node, Lane::Application, fresh_pair(), generation) }
}

/// Says a hello on a connection of its own; the answer.
#[track_caller]
fn say(host: &Host, hello: &Hello) -> (Connection, Hello) {
    let mut connection = Connection::open(host);
    connection.greet(hello);
    let answer = connection.read_hello();
    (connection, answer)
}

/// A hello that is refused; the connection ends and the generation it was compared with comes back.
#[track_caller]
fn expect_refused(host: &Host, hello: &Hello, refusal: Refusal) -> u32 {
    let (mut connection, answer) = say(host, hello);
    assert_eq!((answer.role, answer.refusal), (Role::Refuse, Some(refusal)), "{answer:?}");
    connection.expect_end();
    answer.last_generation
}

#[test]
fn a_generation_that_was_heard_is_refused_and_the_pair_lives() {
    let server = Server::start(|host| host);
    let mut pair = RawPair::dial_as(&server.host, &dial("raw", 7, 5));
    for (rejected, generation) in (1..).zip([5, 4, 1, 0]) {
        let late = dial("raw", 7, generation);
        let heard = expect_refused(&server.host, &late, Refusal::StaleGeneration);
        assert_eq!(heard, 5, "and it is told why");
        pair.expect_alive(rejected);
        server.expect_counts(rejected, 0);
    }
    drop(pair);
    server.expect_counts(4, 1);
    let late = dial("raw", 7, 5);
    expect_refused(&server.host, &late, Refusal::StaleGeneration);
    RawPair::dial_as(&server.host, &dial("raw", 7, 6)).expect_alive(1);
}

#[test]
fn a_newer_generation_shows_that_the_pair_was_given_up() {
    let server = Server::start(|host| host);
    let mut old = RawPair::dial_as(&server.host, &dial("raw", 7, 5));
    old.expect_alive(1);
    // One answer is enough: who was up at 5 and says 6 does not hold the pair any more.
    let (_half, answer) = say(&server.host, &dial("raw", 7, 6));
    assert_eq!(answer.role, Role::Accept, "{answer:?}");
    old.expect_end();
    server.expect_counts(0, 1);
    let mut next = RawPair::dial_as(&server.host, &dial("raw", 7, 9));
    next.expect_alive(1);
    server.expect_counts(1, 1);
}

#[test]
fn another_run_takes_the_pair_over_when_it_proves_that_it_lives() {
    let server = Server::start(|host| host);
    let mut old = RawPair::dial_as(&server.host, &dial("raw", 7, 5));
    old.expect_alive(1);
    let first = dial("raw", 8, 1);
    let (application, heard) = say(&server.host, &first);
    assert_eq!(heard.role, Role::Accept, "it is answered");
    assert!(heard.generation > 5, "above all that was used here: {heard:?}");
    old.expect_alive(2);
    server.expect_counts(0, 0);
    let second = Hello { lane: Lane::Completion, generation: heard.generation, ..first };
    let (completion, answer) = say(&server.host, &second);
    assert_eq!(answer.role, Role::Accept, "{answer:?}");
    old.expect_end();
    let mut next = RawPair { application, completion, heard };
    next.expect_alive(1);
    server.expect_counts(0, 1);
    assert_eq!(peer(&server.host, "raw").pairs, 2, "one of each run");
}

#[test]
fn a_run_that_has_ended_does_not_take_the_pair_over_however_late_its_hello_comes() {
    let clock = still();
    let server = Server::on_virtual_time(&clock);
    let mut pair = RawPair::dial_as(&server.host, &dial("raw", 8, 1));
    pair.expect_alive(1);
    // It ends behind its hello.
    let (ghost, answer) = say(&server.host, &dial("raw", 7, 9));
    assert_eq!(answer.role, Role::Accept, "nobody can know: {answer:?}");
    drop(ghost);
    server.expect_counts(1, 0);
    pair.expect_alive(2);
    // Its end gets lost.
    let (mut silent, _) = say(&server.host, &dial("raw", 6, 9));
    clock.advance(GREETING_TIMEOUT);
    silent.expect_end();
    server.expect_counts(2, 0);
    pair.expect_alive(3);
    // Only the last one that tries may do so.
    let (mut before, _) = say(&server.host, &dial("raw", 5, 9));
    let (_last, _) = say(&server.host, &dial("raw", 4, 9));
    before.expect_end();
    server.expect_counts(3, 0);
    pair.expect_alive(4);
    assert_eq!(peer(&server.host, "raw").pairs, 1, "the same pair all the time");
}

#[test]
fn a_run_that_was_followed_by_another_one_comes_back_only_when_that_is_gone() {
    let server = Server::start(|host| host);
    let old = RawPair::dial_as(&server.host, &dial("raw", 7, 1));
    let mut next = RawPair::dial_as(&server.host, &dial("raw", 8, 1));
    server.expect_counts(0, 1);
    for (rejected, generation) in (1..).zip([2, 100]) {
        expect_refused(&server.host, &dial("raw", 7, generation), Refusal::StaleGeneration);
        next.expect_alive(rejected);
        server.expect_counts(rejected, 1);
    }
    drop(next);
    server.expect_counts(2, 2);
    RawPair::dial_as(&server.host, &dial("raw", 7, 101)).expect_alive(1);
    drop(old);
}

#[test]
fn the_second_connection_names_pair_generation_and_run() {
    let server = Server::start(|host| host);
    let first = dial("raw", 7, 3);
    let (application, heard) = say(&server.host, &first);
    let second = Hello { lane: Lane::Completion, ..first };
    let wrong = [
        Hello { pair: fresh_pair(), ..second },
        Hello { generation: 4, ..second },
        Hello { incarnation: 8, ..second },
    ];
    for other in wrong {
        expect_refused(&server.host, &other, Refusal::UnknownPair);
    }
    let (completion, answer) = say(&server.host, &second);
    assert_eq!(answer.role, Role::Accept, "this one fits: {answer:?}");
    let mut pair = RawPair { application, completion, heard };
    pair.expect_alive(1);
    server.expect_counts(3, 0);
}

/// A host named `middle` that listens, and dials `node` at the listener.
fn both_ways(node: &str, listener: &RawListener, clock: Arc<VirtualClock>) -> Host {
    let (ledger, gate) = (Ledger::default(), Arc::new(Semaphore::new(0)));
    let mesh = RouteMesh::new(MESH)
        .listen("127.0.0.1:0".parse().unwrap())
        .peer(MeshPeer::new(node, listener.address()).serves(CHANNEL))
        .channel(channel(&ledger, &gate));
    Host::builder("middle").clock(clock).mesh(mesh).start().unwrap()
}

#[test]
fn the_late_hello_of_a_dial_that_was_given_up_does_not_end_the_pair() {
    // The other one has dialed eight times in vain, and its ninth hello is on its way when it
    // takes the dial of the host instead.
    let listener = RawListener::bind("zeta");
    let host = both_ways("zeta", &listener, still());
    let late = dial("zeta", 9, 9);
    let mut pair = listener.accept_pair_saying(|answer| Hello { generation: 10, ..answer });
    assert_eq!(pair.heard.generation, 1, "the first dial of the host");
    until_connected(&host, "zeta");
    expect_refused(&host, &late, Refusal::StaleGeneration);
    pair.expect_alive(1);
    assert_eq!(peer(&host, "zeta").pairs, 1, "the same pair");
    let next = dial("zeta", 9, 11);
    let (_half, answer) = say(&host, &next);
    assert_eq!(answer.role, Role::Accept, "the next one is no late one: {answer:?}");
    pair.expect_end();
}

#[test]
fn an_acceptor_raises_the_generation_above_its_own_dials() {
    let (clock, listener) = (still(), RawListener::bind("alpha"));
    let host = both_ways("alpha", &listener, clock.clone());
    let mut last = None;
    for generation in 1..=3 {
        if generation > 1 {
            clock.advance(RECONNECT_DELAY_MAX);
        }
        let (connection, heard) = listener.accept();
        assert_eq!(heard.generation, generation, "each dial one more");
        // The last one stays under way.
        last = (generation == 3).then_some(connection);
        let rejected = || host.status().rejected_connections;
        until("it is given up", || rejected() == u64::from(generation.min(2)));
    }
    let mut pair = RawPair::dial_as(&host, &dial("alpha", 9, 1));
    assert_eq!(pair.heard.generation, 4, "no hello of its dials is above that");
    pair.expect_alive(1);
    last.unwrap().expect_end();
    drop(pair);
    until("the pair has ended", || host.status().pairs_ended == 1);
    clock.advance(RECONNECT_DELAY_MAX);
    let (_connection, heard) = listener.accept();
    assert_eq!(heard.generation, 5, "and the next dial is above the pair");
}

#[test]
fn a_dialer_that_was_refused_as_stale_dials_above_what_it_is_told() {
    let (clock, listener) = (still(), RawListener::bind("raw"));
    let host = client("raw", listener.address(), |host| host.clock(clock.clone()));
    let (mut connection, heard) = listener.accept();
    assert_eq!(heard.generation, 1, "its first dial");
    let stale = Hello {
        role: Role::Refuse,
        refusal: Some(Refusal::StaleGeneration),
        last_generation: 50,
        ..listener.answer(&heard)
    };
    connection.say(&stale.encode());
    connection.expect_end();
    until("it is counted", || host.status().rejected_connections == 1);
    clock.advance(RECONNECT_DELAY_MAX);
    let pair = listener.accept_pair();
    assert_eq!(pair.heard.generation, 51, "above that");
    until_connected(&host, "raw");
}

#[test]
fn of_two_dials_under_way_the_other_one_is_refused_until_the_own_one_has_failed() {
    let (clock, listener) = (still(), RawListener::bind("zeta"));
    let host = both_ways("zeta", &listener, clock.clone());
    let (mute, _) = listener.accept();
    expect_refused(&host, &dial("zeta", 9, 1), Refusal::SimultaneousDial);
    expect_refused(&host, &dial("zeta", 9, 2), Refusal::SimultaneousDial);
    assert!(mute.is_quiet_for(MOMENT), "the own one is still under way");
    drop(mute);
    until("it has failed", || host.status().rejected_connections == 3);
    RawPair::dial_as(&host, &dial("zeta", 9, 3)).expect_alive(1);
    assert_eq!(peer(&host, "zeta").pairs, 1, "the one that was dialed here");
}
