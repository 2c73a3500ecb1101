//! Pairs that end come back, and what was queued goes on.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;
use zcore::wire::{Hello, Kind, Lane, Refusal, Role};
use zhost::clock::VirtualClock;
use zhost::{Certainty, ErrorKind, Host, MeshPeer, RouteMesh};
use ztransport::limits::RECONNECT_DELAY_MAX;

use crate::raw::{Connection, RawListener, RawPair, fresh_pair, hello, record};
use crate::world::{
    CHANNEL, Ledger, MESH, Server, block, channel, client, peer, spawn, still, until,
    until_connected, until_in_time,
};

#[test]
fn traffic_resumes_in_order_when_the_receiver_is_restarted_on_its_port() {
    // An address of its own: nobody takes the port while nobody listens on it.
    let first = Server::listen("127.0.0.2:0".parse().unwrap(), |host| host);
    let (clock, address) = (still(), first.host.listen_address(MESH).unwrap().clone());
    let host = client("server", address.clone(), |host| {
        host.default_socket_send_timeout(Duration::from_mins(1)).clock(clock.clone())
    });
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (over, count) = (Arc::clone(&stop), Arc::clone(&sent));
    let orders = host.channel(CHANNEL).unwrap();
    let sending = spawn(async move {
        while !over.load(Ordering::Relaxed) {
            let number = count.fetch_add(1, Ordering::Relaxed);
            orders.send("placed", number.to_le_bytes().to_vec()).await.unwrap();
        }
    });
    until("traffic flows", || first.ledger.len() > 1_000);
    let Server { host: old, ledger: before, .. } = first;
    drop(old);
    let second = Server::listen(address, |host| host);
    until_in_time("another pair is up", &clock, || peer(&host, "server").pairs == 2);
    until("traffic flows again", || second.ledger.len() > 1_000);
    stop.store(true, Ordering::Relaxed);
    sending.join().unwrap();
    let last = sent.load(Ordering::Relaxed) - 1;
    until("the last one", || second.ledger.numbers().last() == Some(&last));
    let mut seen = before.numbers();
    seen.extend(second.ledger.numbers());
    assert!(seen.is_sorted_by(|one, next| one < next), "none twice, none out of order");
    let after = second.ledger.numbers();
    let whole: Vec<_> = (after[0]..=last).collect();
    assert_eq!(after, whole, "none is missing once the pair is up again");
    assert_eq!(peer(&host, "server").pairs, 2, "one pair before and one after");
    assert_eq!(host.status().pairs_ended, 1, "and one end between them");
}

#[test]
fn requests_of_a_lost_pair_end_with_the_next_one_and_queued_ones_go_on() {
    let (clock, listener) = (still(), RawListener::bind("raw"));
    let host = client("raw", listener.address(), |host| host.clock(clock.clone()));
    let mut pair = listener.accept_pair();
    let first = pair.heard.generation;
    let orders = host.channel(CHANNEL).unwrap();
    let ask = |text: &'static [u8]| {
        let call = orders.clone();
        spawn(async move {
            let call = call.request("any", Bytes::from_static(text));
            call.timeout(Duration::from_mins(1)).await
        })
    };
    let handed_over = ask(b"handed over");
    pair.application.expect(Kind::Request);
    pair.application.reset();
    until("the pair has ended", || host.status().pairs_ended == 1);
    assert!(!handed_over.is_finished(), "the peer may still tell");

    let mut queued = Vec::new();
    let held = || peer(&host, "raw").send_queue.accounted;
    for (index, text) in (2..).zip([b"one".as_slice(), b"two", b"three"]) {
        let before = held();
        queued.push((ask(text), text));
        // It is pending before it has its place in the queue.
        until("it is queued", || held() > before);
        assert_eq!(host.status().pending_requests, index, "and it waits for its reply");
        block(orders.send("placed", text)).unwrap();
    }
    clock.advance(RECONNECT_DELAY_MAX);
    let mut next = listener.accept_pair();
    assert!(next.heard.generation > first, "a newer generation");
    let end = handed_over.join().unwrap().unwrap_err();
    assert_eq!(end.kind(), ErrorKind::Unavailable, "{end}");
    assert_eq!(end.certainty(), Certainty::AmbiguousFailure, "the peer says nothing: {end}");
    for (asked, text) in queued {
        let (head, body) = next.application.expect(Kind::Request);
        assert_eq!(body, text, "in order");
        let (_, body) = next.application.expect(Kind::Send);
        assert_eq!(body, text, "messages and requests alike");
        next.completion.say(&record(Kind::Reply, head.id, "", text));
        assert_eq!(asked.join().unwrap().unwrap().payload(), text, "answered");
    }
    assert!(next.application.is_quiet_for(Duration::from_millis(200)), "nothing is sent again");
}

/// A host that listens and dials `node`.
fn both_ways(node: &str, listener: &RawListener, clock: Arc<VirtualClock>) -> Host {
    let (ledger, gate) = (Ledger::default(), Arc::new(Semaphore::new(0)));
    let mesh = RouteMesh::new(MESH)
        .listen("127.0.0.1:0".parse().unwrap())
        .peer(MeshPeer::new(node, listener.address()).serves(CHANNEL))
        .channel(channel(&ledger, &gate));
    Host::builder("middle").clock(clock).mesh(mesh).start().unwrap()
}

#[test]
fn of_two_dials_the_one_of_the_smaller_node_id_stays() {
    // The host is the smaller one: it turns the other dial down and goes on with its own.
    let listener = RawListener::bind("zeta");
    let host = both_ways("zeta", &listener, still());
    let (mut application, heard) = listener.accept();
    let mut other = Connection::open(&host);
    other.greet(&hello("zeta", Lane::Application, fresh_pair(), 1));
    assert_eq!(other.read_hello().refusal, Some(Refusal::SimultaneousDial), "it has its own");
    other.expect_end();
    application.say(&listener.answer(&heard).encode());
    let (mut completion, second) = listener.accept();
    completion.say(&listener.answer(&second).encode());
    until_connected(&host, "zeta");
    RawPair { application, completion, heard }.expect_alive(1);

    // The host is the larger one: it gives its own dial up.
    let (clock, listener) = (still(), RawListener::bind("alpha"));
    let host = both_ways("alpha", &listener, clock.clone());
    let (mut own, _) = listener.accept();
    let mut pair = RawPair::dial(&host, "alpha");
    own.expect_end();
    pair.expect_alive(1);
    // If it was to dial again, it would have done so by this time.
    clock.advance(Duration::from_secs(1));
    assert_eq!(listener.dials_within(Duration::from_millis(500)), 0, "it has a pair");
    pair.expect_alive(2);
    assert_eq!(peer(&host, "alpha").pairs, 1, "the one that was dialed here");
}

#[test]
fn an_answer_from_another_node_than_the_one_meant_is_no_pair() {
    let (clock, listener) = (still(), RawListener::bind("impostor"));
    let host = client("raw", listener.address(), |host| host.clock(clock.clone()));
    for rejected in 1..=2 {
        let (mut connection, heard) = listener.accept();
        connection.say(&listener.answer(&heard).encode());
        connection.expect_end();
        until("it is counted", || host.status().rejected_connections == rejected);
        clock.advance(RECONNECT_DELAY_MAX);
    }
    assert_eq!(peer(&host, "raw").pairs, 0, "there was never a pair");
}

#[test]
fn a_dialer_that_is_refused_or_answered_badly_tries_again() {
    let (clock, listener) = (still(), RawListener::bind("raw"));
    let host = client("raw", listener.address(), |host| host.clock(clock.clone()));
    let answers: [fn(Hello) -> Vec<u8>; 4] = [
        |answer| Hello { role: Role::Refuse, ..answer }.encode().to_vec(),
        |answer| Hello { pair: fresh_pair(), ..answer }.encode().to_vec(),
        |answer| Hello { generation: 0, ..answer }.encode().to_vec(),
        |_| vec![b'?'; 256],
    ];
    for (rejected, bad) in (1..).zip(answers) {
        let (mut connection, heard) = listener.accept();
        connection.say(&bad(listener.answer(&heard)));
        connection.expect_end();
        until("it is counted", || host.status().rejected_connections == rejected);
        clock.advance(RECONNECT_DELAY_MAX);
    }
    let mut pair = listener.accept_pair();
    until_connected(&host, "raw");
    block(host.channel(CHANNEL).unwrap().send("placed", vec![1])).unwrap();
    pair.application.expect(Kind::Send);
}

#[test]
fn data_of_an_acceptor_that_comes_before_its_last_answer_is_kept() {
    let listener = RawListener::bind("raw");
    let (ledger, gate) = (Ledger::default(), Arc::new(Semaphore::new(0)));
    let mesh = RouteMesh::new(MESH)
        .peer(MeshPeer::new("raw", listener.address()))
        .channel(channel(&ledger, &gate));
    let host = Host::builder("client").clock(still()).mesh(mesh).start().unwrap();
    let (mut application, heard) = listener.accept();
    let mut early = listener.answer(&heard).encode().to_vec();
    for number in 0..10_u32 {
        early.extend(record(Kind::Send, 0, "placed", &number.to_le_bytes()));
    }
    application.say(&early);
    let (mut completion, second) = listener.accept();
    application.say(&record(Kind::Send, 0, "placed", &10_u32.to_le_bytes()));
    completion.say(&listener.answer(&second).encode());
    until_connected(&host, "raw");
    until("all of it", || ledger.len() == 11);
    assert_eq!(ledger.numbers(), (0..11).collect::<Vec<_>>(), "in order");
}
