//! The two connections of a pair, and what each is for.

use core::num::NonZeroU32;
use core::time::Duration;

use bytes::Bytes;
use zcore::wire::{Kind, Lane};
use zhost::{ByteCount, HighWaterMark, HostBuilder, RunningLimit, SocketBuffers};
use ztransport::limits::RECONNECT_DELAY_MAX;

use crate::raw::{RawListener, RawPair, record};
use crate::world::{CHANNEL, Server, block, client, peer, spawn, still, until, until_connected};

/// Small enough to be full within a moment.
pub(crate) const fn tight(host: HostBuilder) -> HostBuilder {
    let buffers = SocketBuffers { send: ByteCount::kib(16), receive: ByteCount::kib(16) };
    host.send_high_water_mark(HighWaterMark::Limit(ByteCount::kib(64)))
        .receive_high_water_mark(HighWaterMark::Limit(ByteCount::kib(64)))
        .max_queued_application_jobs(4)
        .max_running_handlers(RunningLimit::Limit(NonZeroU32::MIN))
        .socket_buffers(buffers)
}

/// Sends messages whose handlers wait until the host reads no more. How many it was sent whole.
pub(crate) fn saturate(server: &Server, pair: &mut RawPair, node: &str) -> u64 {
    let sent = pair.fill(&server.caller(node), &record(Kind::Send, 0, "held", &[1; 8 << 10]));
    until("every permit is taken", || server.host.is_saturated());
    // A lane that stopped at its mark is armed again at half of it, and stays so in between.
    until("the receive queue is more than half full", || {
        let accounted = peer(&server.host, node).receive_queue.accounted;
        accounted > ByteCount::kib(32) && accounted <= ByteCount::kib(64)
    });
    sent
}

#[test]
fn b_048_one_peer_is_reached_over_exactly_two_connections() {
    let (clock, listener) = (still(), RawListener::bind("raw"));
    let host = client("raw", listener.address(), |host| host.clock(clock.clone()));
    let mut pair = listener.accept_pair();
    let lanes = [pair.application.lane, pair.completion.lane];
    assert_eq!(lanes, [Lane::Application, Lane::Completion], "one of each");
    until_connected(&host, "raw");
    let channel = host.channel(CHANNEL).unwrap();
    for number in 0..100_u64 {
        let call = channel.clone();
        let asked = spawn(async move { call.request("echo", Bytes::new()).await.map(drop) });
        let (head, _) = pair.application.expect(Kind::Request);
        pair.completion.say(&record(Kind::Reply, head.id, "", &number.to_le_bytes()));
        asked.join().unwrap().unwrap();
    }
    // Whatever might dial again within this time would do so now, and no probe is due.
    clock.advance(Duration::from_secs(4));
    assert_eq!(listener.dials_within(Duration::from_millis(500)), 0, "and there is no third");
    assert_eq!(peer(&host, "raw").pairs, 1, "the same pair all the time");
}

#[test]
fn b_052_replies_are_read_while_the_application_lane_is_not() {
    let server = Server::start(tight);
    let mut pair = RawPair::dial(&server.host, "raw");
    let sent = saturate(&server, &mut pair, "raw");
    let raw = server.caller("raw");
    for _ in 0..100 {
        let call = raw.clone();
        let asked = spawn(async move { call.request("any", Bytes::new()).await.unwrap() });
        let (head, _) = pair.application.expect(Kind::Request);
        pair.completion.say(&record(Kind::Reply, head.id, "", b"here"));
        assert_eq!(asked.join().unwrap().payload(), b"here".as_slice(), "its reply");
    }
    assert!(server.host.is_saturated(), "still not a permit is free");
    assert_eq!(server.ledger.len(), 0, "and no handler has ended");
    server.gate.add_permits(1 << 20);
    until("all is handled", || server.ledger.len() as u64 == sent);
}

#[test]
fn b_017_a_sender_locks_and_goes_on_without_a_question_to_its_peer() {
    // Time stands still: there are no probes.
    let listener = RawListener::bind("raw");
    let host = client("raw", listener.address(), tight);
    let mut pair = listener.accept_pair();
    let channel = host.channel(CHANNEL).unwrap();
    let sending = spawn(async move {
        for number in 0..1_000_u32 {
            let mut payload = vec![0; 4 << 10];
            payload[..4].copy_from_slice(&number.to_le_bytes());
            channel.send("placed", payload).await.unwrap();
        }
    });
    until("the send queue is locked", || peer(&host, "raw").send_queue.waiting > 0);
    for number in 0..1_000_u32 {
        let (head, body) = pair.application.next().unwrap();
        assert_eq!(head.kind, Kind::Send, "a message and nothing else");
        assert_eq!(body[..4], number.to_le_bytes(), "in order");
    }
    sending.join().unwrap();
    let quiet = Duration::from_millis(200);
    assert!(pair.application.is_quiet_for(quiet), "no record follows");
    assert!(pair.completion.is_quiet_for(quiet), "nor was there one on the other lane");
    assert!(peer(&host, "raw").send_queue.waits > 0, "it had locked");
}

#[test]
fn a_lane_that_dies_takes_the_other_along_and_both_are_built_again() {
    let (clock, listener) = (still(), RawListener::bind("raw"));
    let host = client("raw", listener.address(), |host| host.clock(clock.clone()));
    let mut generation = 0;
    for (ended, lane) in (1..).zip([Lane::Application, Lane::Completion]) {
        let RawPair { application, completion, heard } = listener.accept_pair();
        until_connected(&host, "raw");
        assert!(heard.generation > generation, "generations rise");
        generation = heard.generation;
        let (dying, mut living) = match lane {
            Lane::Application => (application, completion),
            Lane::Completion => (completion, application),
        };
        drop(dying);
        living.expect_end();
        until("the pair's end is counted", || host.status().pairs_ended == ended);
        clock.advance(RECONNECT_DELAY_MAX);
    }
    let mut pair = listener.accept_pair();
    until_connected(&host, "raw");
    assert_eq!(peer(&host, "raw").pairs, 3, "each time both lanes");
    block(host.channel(CHANNEL).unwrap().send("placed", vec![1])).unwrap();
    pair.application.expect(Kind::Send);
}

#[test]
fn the_kernel_keeps_all_four_ends_of_a_connected_pair_alive() {
    let server = Server::start(|host| host);
    let accepted = RawPair::dial(&server.host, "raw");
    let listener = RawListener::bind("raw");
    let host = client("raw", listener.address(), |host| host);
    let dialed = listener.accept_pair();
    until_connected(&host, "raw");
    for pair in [&accepted, &dialed] {
        for connection in [&pair.application, &pair.completion] {
            let own = connection.stream.local_addr().unwrap().port();
            let far = connection.stream.peer_addr().unwrap().port();
            // While an acknowledgement is due, the kernel shows that timer instead.
            until(&format!("keepalive of the {} lane", connection.lane), || {
                has_keepalive(far, own)
            });
        }
    }
}

/// Whether the keepalive timer runs for the connection from port `local` to port `remote`.
fn has_keepalive(local: u16, remote: u16) -> bool {
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    table.lines().any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let is_port = |field: Option<&&str>, port: u16| {
            field.is_some_and(|address| address.ends_with(&format!(":{port:04X}")))
        };
        is_port(fields.get(1), local)
            && is_port(fields.get(2), remote)
            && fields.get(5).is_some_and(|timer| timer.starts_with("02:"))
    })
}
