//! Silent peers are lost, peers that are not read are not.

use core::time::Duration;
use std::sync::Arc;

use zcore::wire::Kind;

use crate::lanes::{saturate, tight};
use crate::raw::{RawPair, fresh_pair, hello, record};
use crate::world::{CHANNEL, MESH, Server, block, client, peer, still, until, until_connected};

const INTERVAL: Duration = Duration::from_secs(5);

const MOMENT: Duration = Duration::from_millis(100);

const ALMOST: Duration = Duration::from_millis(4_900);

#[test]
fn a_peer_that_is_silent_for_fifteen_seconds_is_lost() {
    let clock = still();
    let server = Server::on_virtual_time(&clock);
    let mut pair = RawPair::dial(&server.host, "raw");
    until_connected(&server.host, "raw");
    for _ in 0..2 {
        clock.advance(INTERVAL);
        pair.application.expect(Kind::Probe);
    }
    clock.advance(ALMOST);
    assert!(pair.application.is_quiet_for(MOMENT), "not early");
    server.expect_counts(0, 0);
    clock.advance(MOMENT);
    pair.expect_end();
    server.expect_counts(0, 1);
}

#[test]
fn any_byte_on_the_application_lane_is_a_sign_of_life() {
    let clock = still();
    let server = Server::on_virtual_time(&clock);
    let mut pair = RawPair::dial(&server.host, "raw");
    until_connected(&server.host, "raw");
    let message = record(Kind::Send, 0, "placed", &[0; 4]);
    for byte in &message {
        clock.advance(INTERVAL);
        pair.application.expect(Kind::Probe);
        // Seen a whole round late, it would still come five seconds before the end.
        pair.application.say(&[*byte]);
    }
    until("the slowest message there is", || server.ledger.len() == 1);
    server.expect_counts(0, 0);
}

#[test]
fn replies_say_nothing_about_the_application_lane() {
    let clock = still();
    let server = Server::on_virtual_time(&clock);
    let mut pair = RawPair::dial(&server.host, "raw");
    let caller = server.caller("raw");
    until_connected(&server.host, "raw");
    for _ in 0..2 {
        pair.answer_one(&caller);
        clock.advance(INTERVAL);
        pair.application.expect(Kind::Probe);
    }
    clock.advance(INTERVAL);
    pair.expect_end();
    server.expect_counts(0, 1);
}

#[test]
fn a_peer_that_is_not_read_is_not_lost_and_still_hears_of_us() {
    let clock = still();
    let shared = Arc::clone(&clock);
    let server = Server::start(|host| tight(host).clock(shared));
    let mut pair = RawPair::dial(&server.host, "raw");
    let sent = saturate(&server, &mut pair, "raw");
    for _ in 0..8 {
        clock.advance(INTERVAL);
        pair.application.expect(Kind::Probe);
    }
    server.expect_counts(0, 0);
    server.gate.add_permits(1 << 20);
    until("all is handled", || server.ledger.len() as u64 == sent);
}

#[test]
fn a_host_does_not_give_up_on_a_receiver_that_is_full() {
    let clock = still();
    let time = || Arc::clone(&clock);
    let server = Server::start(|host| tight(host).clock(time()));
    let address = server.host.listen_address(MESH).unwrap().clone();
    let host = client("server", address, |host| tight(host).clock(time()));
    until_connected(&host, "server");
    let channel = host.channel(CHANNEL).unwrap();
    // Few enough that the receiver goes on reading: its queue is not full, its permits are.
    for number in 0..20_u32 {
        block(channel.send("held", number.to_le_bytes().to_vec())).unwrap();
    }
    until("every permit is taken", || server.host.is_saturated());
    let heard = || host.status().application_job_queue.records;
    let held = || peer(&server.host, "client").receive_queue.accounted;
    for _ in 0..8 {
        let before = (heard(), held());
        clock.advance(INTERVAL);
        until("the sender hears of the receiver", || heard() > before.0);
        // Without a permit it takes nothing, but it reads.
        until("and the receiver of the sender", || held() > before.1);
    }
    assert_eq!(peer(&host, "server").pairs, 1, "the pair of the start");
    assert_eq!(host.status().pairs_ended, 0, "it never ended");
    server.gate.add_permits(1 << 20);
    until("all is handled", || server.ledger.len() == 20);
}

#[test]
fn a_peer_that_comes_back_often_is_probed_as_seldom_as_any() {
    let clock = still();
    let server = Server::on_virtual_time(&clock);
    let mut pairs = Vec::new();
    for generation in 1..=8 {
        let first = hello("raw", zcore::wire::Lane::Application, fresh_pair(), generation);
        pairs.push(RawPair::dial_as(&server.host, &first));
        until("it is up", || peer(&server.host, "raw").pairs == u64::from(generation));
        clock.advance(Duration::from_millis(500));
    }
    let mut last = pairs.pop().unwrap();
    let mut probes = 0;
    // Two and a half seconds more than the second probe needs, and less than a third one does:
    // a shard that was about to sleep sees a new time one step later.
    for _ in 0..25 {
        clock.advance(Duration::from_millis(500));
        // Its reply is queued behind the probe, if there is one.
        last.application.say(&record(Kind::Probe, 1, "", &[]));
        while last.application.next().unwrap().0.kind == Kind::Probe {
            probes += 1;
        }
    }
    assert_eq!(probes, 2, "one every five seconds, in twelve and a half");
}
