//! What is certain of the records of a broken pair, once its peer is back (D-25).

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use zcore::wire::{Hello, Kind, Lane};
use zhost::clock::VirtualClock;
use zhost::{Caller, Certainty, ClientServer, DropReason, ErrorKind, Host, PeerState, Reply};
use ztransport::limits::{RECONNECT_DELAY_MAX, RETURN_MAX};

use crate::raw::{RawListener, RawPair, fresh_generation, fresh_pair, hello, record, tcp};
use crate::world::{
    CHANNEL, Ledger, Server, begin, block, channel, client, dropped, is_connected, peer, still,
    until, until_connected, until_in_time,
};
use ztests::proxy::Proxy;

const LONG: Duration = Duration::from_mins(10);

type Asked = core::pin::Pin<Box<dyn Future<Output = Result<Reply, zhost::Error>> + Send>>;

/// Asks without an end of its own.
#[track_caller]
fn ask(caller: &Caller, name: &'static str, payload: Vec<u8>) -> Asked {
    let caller = caller.clone();
    let asked: Asked = begin(async move { caller.request(name, payload).timeout(LONG).await });
    asked
}

/// How a request ended whose connection broke.
#[track_caller]
fn certainty(asked: Asked) -> Certainty {
    let error = block(asked).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    error.certainty()
}

/// What one side gives the other, in this order: lengths of payloads, requests among them.
const GIVEN: [(Kind, usize); 7] = [
    (Kind::Send, 4),
    (Kind::Request, 10),
    (Kind::Send, 4),
    // Longer than what is copied next to other records.
    (Kind::Request, 5_000),
    (Kind::Send, 3_000),
    (Kind::Request, 0),
    (Kind::Send, 4),
];

const HEAD: usize = zcore::wire::HEAD_BYTES;

/// Each point that is special to the records: their edges, and those of their heads and bodies.
fn points() -> Vec<usize> {
    let mut points = Vec::new();
    let mut start = 0;
    for (_, length) in GIVEN {
        let end = start + HEAD + length;
        points.extend([
            start,
            start + 1,
            start + HEAD - 1,
            start + HEAD,
            start + HEAD + length / 2,
        ]);
        points.extend([end - 1, end]);
        start = end;
    }
    points.sort_unstable();
    points.dedup();
    points
}

/// Gives everything, over a line that is cut behind so many bytes.
fn give_over_a_line_cut_behind(bytes: usize) {
    let server = Server::start(|host| host);
    let proxy = Proxy::start(tcp(&server.host), Duration::ZERO);
    // Everything is queued before the first pair is there: it takes all of it.
    proxy.cut();
    let clock = still();
    let host = client("server", proxy.address(), |host| host.clock(clock.clone()));
    let orders = host.channel(CHANNEL).unwrap();
    let mut asked = Vec::new();
    let (mut end, mut arrived) = (0, 0);
    for (number, (kind, length)) in (0_u32..).zip(GIVEN) {
        end += HEAD + length;
        arrived += usize::from(end <= bytes);
        let mut payload = vec![0; length];
        if kind == Kind::Request {
            asked.push((end, ask(&orders, "later", payload)));
        } else {
            payload[..4].copy_from_slice(&number.to_le_bytes());
            block(orders.send("placed", payload)).unwrap();
        }
    }
    proxy.cut_behind(bytes);
    proxy.mend();
    let has_ended = || host.status().pairs_ended == 1;
    until_in_time("a pair comes up", &clock, || is_connected(&host, "server") || has_ended());
    until("the line is cut", has_ended);
    assert_eq!(host.status().pending_requests, 3, "nobody has told yet");
    until_in_time("it comes back", &clock, || is_connected(&host, "server"));
    for (end, asked) in asked {
        let expected =
            if end <= bytes { Certainty::AmbiguousFailure } else { Certainty::SafeToRetryFailure };
        assert_eq!(certainty(asked), expected, "cut behind {bytes}, it ends at {end}");
    }
    let is_send =
        |(number, (kind, _)): &(u32, (Kind, usize))| (*kind == Kind::Send).then_some(*number);
    let sends: Vec<_> = (0..).zip(GIVEN).collect();
    let taken: Vec<_> = sends.iter().take(arrived).filter_map(is_send).collect();
    let lost = sends.iter().skip(arrived).filter_map(is_send).count() as u64;
    block(orders.request("echo", Bytes::new())).unwrap();
    assert_eq!(server.ledger.numbers(), taken, "cut behind {bytes}: nothing is sent again");
    let counted = || dropped(&host, DropReason::ConnectionLost);
    until("each lost message is counted", || counted() >= lost);
    assert_eq!(counted(), lost, "cut behind {bytes}: once");
}

#[test]
fn wherever_the_line_is_cut_what_arrived_is_ambiguous_and_the_rest_is_safe_and_counted() {
    for bytes in points() {
        give_over_a_line_cut_behind(bytes);
    }
}

/// A host that dials a raw peer, and what it has given it when the connection breaks.
struct Broken {
    clock: Arc<VirtualClock>,
    listener: RawListener,
    host: Host,
    asked: Vec<Asked>,
    ids: Vec<u64>,
    generation: u32,
}

/// Three requests with a message behind each, and a connection that breaks when all were read.
fn broken() -> Broken {
    let (clock, listener) = (still(), RawListener::bind("raw"));
    let host = client("raw", listener.address(), |host| host.clock(clock.clone()));
    let mut pair = listener.accept_pair();
    let orders = host.channel(CHANNEL).unwrap();
    let mut asked = Vec::new();
    for number in 0..3_u8 {
        asked.push(ask(&orders, "any", vec![number]));
        block(orders.send("placed", vec![number])).unwrap();
    }
    let ids = (0..3).map(|_| {
        let (head, _) = pair.application.expect(Kind::Request);
        pair.application.expect(Kind::Send);
        head.id
    });
    let ids = ids.collect();
    pair.application.reset();
    until("the pair has ended", || host.status().pairs_ended == 1);
    Broken { clock, listener, host, asked, ids, generation: pair.heard.generation }
}

#[test]
fn a_peer_that_comes_back_splits_what_it_was_given_at_what_it_claims() {
    // Whatever it claims, no more can be lost than was given: the last one claims nonsense.
    for (claimed, requests, safe, lost) in
        [(0, 0, 3, 3), (1, 1, 2, 3), (2, 1, 2, 2), (3, 2, 1, 2), (6, 3, 0, 0), (99, 99, 0, 0)]
    {
        let broken = broken();
        broken.clock.advance(RECONNECT_DELAY_MAX);
        let pair = broken.listener.accept_pair_saying(|answer| Hello {
            last_generation: broken.generation,
            claimed,
            claimed_requests: requests,
            ..answer
        });
        let ends: Vec<_> = broken.asked.into_iter().map(certainty).collect();
        let ambiguous = ends.len() - safe;
        let (above, below) = ends.split_at(ambiguous);
        let is_so = above.iter().all(|end| *end == Certainty::AmbiguousFailure)
            && below.iter().all(|end| *end == Certainty::SafeToRetryFailure);
        assert!(is_so, "{claimed} claimed: {ends:?}");
        let counted = dropped(&broken.host, DropReason::ConnectionLost);
        assert_eq!(counted, lost, "{claimed} claimed, {requests} of them requests");
        assert!(pair.application.is_quiet_for(Duration::from_millis(50)), "nothing again");
    }
}

/// Another hello than one that tells.
type Change = fn(Hello) -> Hello;

#[test]
fn another_run_or_another_generation_tells_nothing() {
    let changes: [(&str, Change); 3] = [
        ("another run", |answer| Hello { incarnation: 10, ..answer }),
        ("another generation", |answer| Hello {
            last_generation: answer.last_generation + 1,
            ..answer
        }),
        ("none", |answer| Hello { last_generation: 0, ..answer }),
    ];
    for (what, change) in changes {
        let broken = broken();
        broken.clock.advance(RECONNECT_DELAY_MAX);
        let _pair = broken.listener.accept_pair_saying(|answer| {
            change(Hello { last_generation: broken.generation, ..answer })
        });
        for asked in broken.asked {
            assert_eq!(certainty(asked), Certainty::AmbiguousFailure, "{what}");
        }
        let counted = dropped(&broken.host, DropReason::ConnectionLost);
        assert_eq!(counted, 0, "{what}: the kernel had taken all of it");
    }
}

#[test]
fn a_peer_that_has_told_half_way_has_told_although_that_pair_fails() {
    let broken = broken();
    broken.clock.advance(RECONNECT_DELAY_MAX);
    let (mut application, heard) = broken.listener.accept();
    let answer = broken.listener.answer(&heard);
    let stated =
        Hello { last_generation: broken.generation, claimed: 2, claimed_requests: 1, ..answer };
    application.say(&stated.encode());
    let ends: Vec<_> = broken.asked.into_iter().map(certainty).collect();
    let (ambiguous, safe) = (Certainty::AmbiguousFailure, Certainty::SafeToRetryFailure);
    assert_eq!(ends, [ambiguous, safe, safe], "at once");
    let (completion, _) = broken.listener.accept();
    drop((application, completion));
    until("that pair has failed", || broken.host.status().rejected_connections == 1);
    broken.clock.advance(RECONNECT_DELAY_MAX);
    let _pair = broken.listener.accept_pair();
    until_connected(&broken.host, "raw");
    assert_eq!(dropped(&broken.host, DropReason::ConnectionLost), 2, "counted once");
}

#[test]
fn a_peer_that_dials_back_tells_as_well() {
    let server = Server::start(|host| host);
    let mut pair = RawPair::dial(&server.host, "raw");
    let raw = server.caller("raw");
    let asked = [ask(&raw, "any", vec![1]), ask(&raw, "any", vec![2])];
    for _ in 0..2 {
        pair.application.expect(Kind::Request);
    }
    let generation = pair.heard.generation;
    pair.application.reset();
    server.expect_counts(0, 1);
    let first = Hello {
        last_generation: generation,
        claimed: 1,
        claimed_requests: 1,
        ..hello("raw", Lane::Application, fresh_pair(), fresh_generation())
    };
    let mut next = RawPair::dial_as(&server.host, &first);
    let ends = asked.map(certainty);
    assert_eq!(ends, [Certainty::AmbiguousFailure, Certainty::SafeToRetryFailure], "each");
    next.expect_alive(1);
}

#[test]
fn a_host_states_what_it_took_whole_and_charged_whether_it_dials_or_accepts() {
    // No permit comes back: most of what is claimed has no handler yet.
    let server = Server::start(crate::lanes::tight);
    let mut pair = RawPair::dial(&server.host, "raw");
    assert_eq!(pair.heard.last_generation, 0, "there was none before");
    for number in 0..20_u32 {
        pair.application.say(&record(Kind::Send, 0, "held", &number.to_le_bytes()));
    }
    pair.application.say(&record(Kind::Request, 1, "echo", b"?"));
    pair.application.say(&record(Kind::SendReady, 0, "", &[]));
    let part = record(Kind::Request, 2, "echo", b"never whole");
    pair.application.say(&part[..part.len() - 1]);
    until("every permit is taken", || server.host.is_saturated());
    // Whatever follows the last byte is the end: all of it is taken in first.
    pair.application.stream.shutdown(std::net::Shutdown::Write).unwrap();
    pair.application.expect_end();
    server.expect_counts(0, 1);
    let next = RawPair::dial(&server.host, "raw");
    let Hello { last_generation, claimed, claimed_requests, .. } = next.heard;
    assert_eq!(last_generation, pair.heard.generation, "of the pair before");
    assert_eq!((claimed, claimed_requests), (21, 1), "no control, and no part of a record");
    server.gate.add_permits(1 << 20);
    until("and each of them is handled", || server.ledger.len() == 20);

    let (clock, listener) = (still(), RawListener::bind("raw"));
    let (ledger, gate) = (Ledger::default(), Arc::new(tokio::sync::Semaphore::new(0)));
    let mesh = zhost::RouteMesh::new(crate::world::MESH)
        .peer(zhost::MeshPeer::new("raw", listener.address()))
        .channel(channel(&ledger, &gate));
    let host = Host::builder("dialer").clock(clock.clone()).mesh(mesh).start().unwrap();
    let mut pair = listener.accept_pair();
    pair.application.say(&record(Kind::Send, 0, "placed", &[1; 4]));
    until("it has come", || ledger.len() == 1);
    pair.application.reset();
    until("the pair has ended", || host.status().pairs_ended == 1);
    clock.advance(RECONNECT_DELAY_MAX);
    let next = listener.accept_pair();
    assert_eq!(next.heard.last_generation, pair.heard.generation, "of the pair before");
    assert_eq!((next.heard.claimed, next.heard.claimed_requests), (1, 0), "what it took");
}

#[test]
fn a_request_without_word_of_its_peer_ends_within_its_own_time() {
    let (clock, listener) = (still(), RawListener::bind("raw"));
    let host = client("raw", listener.address(), |host| host.clock(clock.clone()));
    let mut pair = listener.accept_pair();
    let raw = host.channel(CHANNEL).unwrap();
    let mut calls: Vec<_> = [Duration::from_secs(3), LONG]
        .map(|timeout| {
            let call = raw.clone();
            begin(async move { call.request("any", Bytes::new()).timeout(timeout).await })
        })
        .into();
    for _ in 0..2 {
        pair.application.expect(Kind::Request);
    }
    pair.application.reset();
    until("the pair has ended", || host.status().pairs_ended == 1);
    clock.advance(Duration::from_millis(2_900));
    assert_eq!(host.status().pending_requests, 2, "both have time");
    clock.advance(Duration::from_millis(200));
    let long = calls.pop().unwrap();
    let error = block(calls.pop().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "its connection broke: {error}");
    assert_eq!(error.certainty(), Certainty::AmbiguousFailure, "{error}");
    assert_eq!(host.status().pending_requests, 1, "the other one still waits");
    assert_eq!(host.status().request_timeouts, 0, "why they have no answer is known");
    clock.advance(RETURN_MAX);
    let error = block(long).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "who lives has come by now: {error}");
    assert_eq!(error.certainty(), Certainty::AmbiguousFailure, "{error}");
}

#[test]
fn nobody_waits_for_a_peer_whose_address_refuses_or_that_has_said_goodbye() {
    let broken = broken();
    drop(broken.listener);
    broken.clock.advance(RECONNECT_DELAY_MAX);
    for asked in broken.asked {
        assert_eq!(certainty(asked), Certainty::AmbiguousFailure, "its process is gone");
    }

    let listener = RawListener::bind("raw");
    let host = client("raw", listener.address(), |host| host);
    let mut pair = listener.accept_pair();
    let asked = ask(&host.channel(CHANNEL).unwrap(), "any", Vec::new());
    pair.application.expect(Kind::Request);
    pair.application.say(&record(Kind::Goodbye, 0, "", &[1, 0, 0, 0, 0, 0, 0, 0]));
    pair.application.expect_end();
    until("it leaves", || peer(&host, "raw").state == PeerState::Leaving);
    assert_eq!(host.status().pending_requests, 1, "it may still answer");
    drop(pair);
    assert_eq!(certainty(asked), Certainty::AmbiguousFailure, "it has not");
}

#[test]
fn the_next_pair_does_not_answer_the_requests_of_the_one_before() {
    let broken = broken();
    broken.clock.advance(RECONNECT_DELAY_MAX);
    let mut pair = broken.listener.accept_pair_saying(|answer| Hello {
        last_generation: broken.generation,
        claimed: 6,
        claimed_requests: 3,
        ..answer
    });
    until_connected(&broken.host, "raw");
    for id in &broken.ids {
        pair.completion.say(&record(Kind::Reply, *id, "", b"too late"));
    }
    for asked in broken.asked {
        assert_eq!(certainty(asked), Certainty::AmbiguousFailure, "claimed, and not answered");
    }
    until("each is read over", || broken.host.status().late_replies == 3);
    pair.answer_one(&broken.host.channel(CHANNEL).unwrap());
    assert_eq!(broken.host.status().pairs_ended, 1, "and the pair lives");
}

#[test]
fn a_client_that_comes_back_is_told_although_its_server_has_given_its_place_away() {
    let (ledger, gate) = (Ledger::default(), Arc::new(tokio::sync::Semaphore::new(0)));
    let side = ClientServer::server(channel(&ledger, &gate), "127.0.0.1:0".parse().unwrap());
    let server = Host::builder("server").clock(still()).client_server(side).start().unwrap();
    let Some(zhost::SocketAddress::Tcp(address)) = server.listen_address(CHANNEL) else {
        panic!("it listens")
    };
    let proxy = Proxy::start(*address, Duration::ZERO);
    // Both are queued before the first pair is there.
    proxy.cut();
    let clock = still();
    let side = ClientServer::client(CHANNEL).connect(proxy.address());
    let host = Host::builder("client").clock(clock.clone()).client_server(side).start().unwrap();
    let orders = host.channel(CHANNEL).unwrap();
    let asked = [ask(&orders, "later", Vec::new()), ask(&orders, "later", Vec::new())];
    // The first one whole, and half of the other.
    proxy.cut_behind(HEAD + HEAD / 2);
    proxy.mend();
    until_in_time("the line is cut", &clock, || host.status().pairs_ended == 1);
    until("its place is free", || server.status().peers.is_empty());
    until_in_time("it comes back", &clock, || is_connected(&host, "server"));
    let ends = asked.map(certainty);
    assert_eq!(ends, [Certainty::AmbiguousFailure, Certainty::SafeToRetryFailure], "each");
    gate.add_permits(1);
}
