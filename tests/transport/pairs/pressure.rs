//! Limits that hold whatever a peer or a line does.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;

use zcore::wire::{Head, Kind};
use zhost::{
    ByteCount, DropReason, ErrorKind, HighWaterMark, PeerState, PeerStatus, SocketAddress,
};
use ztests::proxy::Proxy;

use crate::lanes::tight;
use crate::raw::{RawPair, record, route, tcp};
use crate::world::{
    Bystander, CHANNEL, Server, block, client, is_connected, peer, spawn, still, until,
    until_in_time,
};

const KIB: usize = 1 << 10;

/// Records that are sent at once.
const BURST: usize = 1_000;

/// Bursts before the next look at the peer: what is under way then takes a slow machine seconds.
const BURSTS: usize = 10;

/// The contract's million where the code is optimized: it takes a minute and a half where not.
const MALFORMED: u64 = if cfg!(debug_assertions) { 50_000 } else { 1_000_000 };

/// Answers to probes that fit into the smallest buffers of both kernels, twice.
const LINE_MAX: u64 = 2 * (32 + 8) * 1_024 / 32;

fn numbered(number: u32, length: usize) -> Vec<u8> {
    let mut payload = vec![0; length];
    payload[..4].copy_from_slice(&number.to_le_bytes());
    payload
}

#[test]
fn b_021_a_slow_line_locks_sends_although_the_receiver_is_idle() {
    let server = Server::start(|host| host);
    let proxy = Proxy::start(tcp(&server.host), Duration::from_millis(2));
    let host = client("server", proxy.address(), tight);
    let channel = host.channel(CHANNEL).unwrap();
    let is_seen = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&is_seen);
    let sending = spawn(async move {
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) {
            channel.send("placed", numbered(number, 4 * KIB)).await.unwrap();
            number += 1;
        }
        number
    });
    let is_locked = || host.status().peers.iter().any(|peer| peer.send_queue.waiting > 0);
    let is_idle = || {
        let status = server.host.status();
        let holds_nothing = |peer: &PeerStatus| peer.receive_queue.accounted.is_zero();
        status.application_job_queue.in_use == 0 && status.peers.iter().all(holds_nothing)
    };
    until("sends are locked", || is_locked() && is_idle() && is_locked());
    is_seen.store(true, Ordering::Relaxed);
    let count = sending.join().unwrap();
    until("all have arrived", || server.ledger.len() == count as usize);
    assert_eq!(server.ledger.numbers(), (0..count).collect::<Vec<_>>(), "once and in order");
    let sent = peer(&host, "server").send_queue;
    assert!(sent.peak <= ByteCount::kib(64), "within the mark: {sent:?}");
}

#[test]
fn b_023_bytes_queued_while_disconnected_stay_charged_and_leave_in_order() {
    let server = Server::start(|host| host);
    let proxy = Proxy::start(tcp(&server.host), Duration::ZERO);
    let clock = still();
    let host = client("server", proxy.address(), |host| {
        let limit = Duration::from_mins(1);
        tight(host).default_socket_send_timeout(limit).clock(clock.clone())
    });
    let channel = host.channel(CHANNEL).unwrap();
    for number in 0..10 {
        block(channel.send("placed", numbered(number, KIB))).unwrap();
    }
    until("the line works", || server.ledger.len() == 10);
    until("nothing is in flight", || peer(&host, "server").send_queue.accounted.is_zero());
    proxy.cut();
    until("the pair has ended", || peer(&host, "server").state == PeerState::Disconnected);

    let call = channel.clone();
    let sending = spawn(async move {
        for number in 10..200 {
            call.send("placed", numbered(number, KIB)).await.unwrap();
        }
    });
    until("sends are locked", || peer(&host, "server").send_queue.waiting == 1);
    let locked = peer(&host, "server").send_queue.accounted.get();
    let one = (KIB + 32 + 64) as u64;
    assert_eq!(locked, (64 << 10) / one * one, "as many as fit");
    // Meanwhile it dials, in vain.
    let rejected = || host.status().rejected_connections;
    until_in_time("it has dialed three times", &clock, || rejected() >= 3);
    assert_eq!(peer(&host, "server").send_queue.accounted.get(), locked, "still charged");
    assert_eq!(server.ledger.len(), 10, "nothing gets through");

    proxy.mend();
    until_in_time("another pair is up", &clock, || is_connected(&host, "server"));
    sending.join().unwrap();
    until("all have arrived", || server.ledger.len() == 200);
    assert_eq!(server.ledger.numbers(), (0..200).collect::<Vec<_>>(), "once and in order");
    until("nothing is charged", || peer(&host, "server").send_queue.accounted.is_zero());
    assert!(peer(&host, "server").pairs >= 2, "over another pair");
}

#[test]
fn b_045_control_takes_a_permit_and_returns_it_without_a_job() {
    let server = Server::start(tight);
    let mut pair = RawPair::dial(&server.host, "raw");
    let kinds = [Kind::Probe, Kind::ProbeAnswer, Kind::SendReady];
    for _ in 0..1_000 {
        for kind in kinds {
            pair.application.say(&record(kind, 1, "", &[]));
        }
        pair.application.expect(Kind::ProbeAnswer);
    }
    until("each took a permit", || server.host.status().application_job_queue.records == 3_000);
    server.expect_empty();
    assert_eq!(server.host.status().handlers.started, 0, "no job came of them");

    for _ in 0..10 {
        pair.application.say(&record(Kind::Send, 0, "held", &[]));
    }
    until("every permit is taken", || server.host.is_saturated());
    pair.application.say(&record(Kind::Probe, 2, "", &[]));
    assert!(
        pair.application.is_quiet_for(Duration::from_millis(200)),
        "without a permit it is not received"
    );
    server.gate.add_permits(1 << 20);
    assert_eq!(pair.application.expect(Kind::ProbeAnswer).0.id, 2, "with one it is");
    server.expect_empty();
}

#[test]
fn b_046_malformed_records_leave_no_permit_in_use() {
    let server = Server::start(|host| host);
    let mut pair = RawPair::dial(&server.host, "raw");
    let unknown = record(Kind::Send, 0, "nobody", &[]);
    let not_json = record(Kind::Send, 0, "typed", b"{");
    let burst: Vec<u8> = [unknown, not_json].concat().repeat(BURST / 2);
    let rounds = MALFORMED / (BURST * BURSTS) as u64;
    for round in 1..=rounds {
        for _ in 0..BURSTS {
            pair.application.say(&burst);
        }
        pair.expect_alive(round);
    }
    let status = server.host.status();
    let jobs = status.application_job_queue;
    assert_eq!(jobs.records, MALFORMED + rounds, "each took a permit: {jobs:?}");
    assert!(jobs.peak_in_use <= jobs.limit, "within the limit: {jobs:?}");
    server.expect_empty();
    let dropped = server.host.status().dropped;
    for (reason, count) in dropped {
        let is_ours = matches!(reason, DropReason::NoHandler | DropReason::DecodeError);
        assert_eq!(count, if is_ours { MALFORMED / 2 } else { 0 }, "{}", reason.as_str());
    }
}

#[test]
fn a_flood_of_control_is_held_within_the_mark() {
    let server = Server::start(tight);
    let mut pair = RawPair::dial(&server.host, "raw");
    for _ in 0..10 {
        pair.application.say(&record(Kind::Send, 0, "held", &[]));
    }
    until("every permit is taken", || server.host.is_saturated());
    let raw = server.caller("raw");
    let sent = pair.fill(&raw, &record(Kind::SendReady, 0, "", &[0; 4_000]));
    let queue = peer(&server.host, "raw").receive_queue;
    let bound = ByteCount::kib(64 + 4 * 5);
    assert!(queue.peak <= bound, "{sent} records were sent, and this is held: {queue:?}");
    assert!(sent < 10_000, "the host stopped reading after {sent}");
    server.gate.add_permits(1 << 20);
    let taken = || server.host.status().application_job_queue.records;
    until("it goes on reading", || taken() == sent + 10);
    server.expect_counts(0, 0);
    drop(pair);
    server.expect_empty();
}

#[test]
fn b_099_a_message_above_the_limit_is_refused_whatever_marks_and_permits_there_are() {
    let limit = 64 * KIB;
    let marks = [HighWaterMark::Limit(ByteCount::kib(16)), HighWaterMark::Unlimited];
    let each = |mark| [1, 64].map(|permits| (mark, permits));
    for (mark, permits) in marks.into_iter().flat_map(each) {
        let size = ByteCount::new(limit as u64);
        let server = Server::start(|host| {
            host.max_message_size(size)
                .receive_high_water_mark(mark)
                .max_queued_application_jobs(permits)
        });
        let host = client("server", SocketAddress::Tcp(tcp(&server.host)), |host| {
            host.max_message_size(size).send_high_water_mark(mark)
        });
        let caller = host.channel(CHANNEL).unwrap();
        let above = block(caller.send("placed", numbered(1, limit + 1))).unwrap_err();
        assert_eq!(above.kind(), ErrorKind::MessageTooLarge, "{mark:?}, {permits}: {above}");
        block(caller.send("placed", numbered(2, limit))).unwrap();
        until("the limit itself arrives", || server.ledger.numbers() == [2]);

        // A peer that does not keep to it is cut off before its message takes any memory.
        let mut raw = RawPair::dial(&server.host, "raw");
        let head = Head {
            payload_len: u32::try_from(limit + 1).unwrap(),
            ..Head::new(Kind::Send, 0, route("placed"))
        };
        raw.application.say(&head.encode());
        raw.application.expect_end();
        server.expect_counts(0, 1);
        assert!(peer(&server.host, "raw").receive_queue.peak.is_zero(), "nothing was charged");
        assert_eq!(server.ledger.numbers(), [2], "nor handled");
    }
}

#[test]
fn a_gibibyte_that_is_announced_and_never_sent_takes_no_memory() {
    let gibibyte = ByteCount::mib(1_024);
    let server = Server::start(|host| {
        host.max_message_size(gibibyte)
            .receive_high_water_mark(HighWaterMark::Limit(ByteCount::kib(64)))
    });
    let bystander = Bystander::start(&server);
    let before = resident_bytes();
    let mut pairs = Vec::new();
    for index in 0..4 {
        let mut pair = RawPair::dial(&server.host, &format!("raw-{index}"));
        let payload_len = u32::try_from(gibibyte.get()).unwrap();
        let head = Head { payload_len, ..Head::new(Kind::Send, 0, route("placed")) };
        pair.application.say(&head.encode());
        until("it is charged", || {
            peer(&server.host, &format!("raw-{index}")).receive_queue.accounted >= gibibyte
        });
        pairs.push(pair);
    }
    // Of what other tests have taken meanwhile, enough is given back some time.
    until("4 GiB are announced, and nearly nothing is taken", || {
        resident_bytes().saturating_sub(before) < 256 << 20
    });
    drop(pairs);
    server.expect_empty();
    server.expect_counts(0, 4);
    bystander.expect_undisturbed();
}

/// Of this whole process, whose other tests run meanwhile.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib << 10
}

#[test]
fn a_flood_of_probes_whose_answers_are_never_read_holds_one_answer() {
    let server = Server::start(tight);
    let mut pair = RawPair::dial(&server.host, "raw");
    let small = 4 * KIB;
    rustix::net::sockopt::set_socket_recv_buffer_size(&pair.application.stream, small).unwrap();
    // One after the other, each has an answer of its own: twice what the line holds.
    for id in 1..=LINE_MAX {
        pair.application.say(&record(Kind::Probe, id, "", &[]));
        pair.expect_alive(id);
    }
    for _ in LINE_MAX..20_000 {
        pair.application.say(&record(Kind::Probe, 1, "", &[]));
    }
    let taken = || server.host.status().application_job_queue.records;
    until("each was taken", || taken() == 20_000 + LINE_MAX);
    let queue = peer(&server.host, "raw").send_queue;
    assert!(queue.accounted > ByteCount::new(0), "the line is full: {queue:?}");
    // A batch in flight and one behind it.
    assert!(queue.peak <= ByteCount::new(2 * (32 + 64)), "20,000 probes made {queue:?}");
    server.expect_counts(0, 0);
}
