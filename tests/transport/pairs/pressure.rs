//! Limits that hold whatever a peer or a line does.

use core::time::Duration;
use std::sync::Arc;

use zcore::wire::{Head, Kind};
use zhost::clock::VirtualClock;
use zhost::{ByteCount, DropReason, HighWaterMark, PeerState};

use crate::lanes::tight;
use crate::proxy::Proxy;
use crate::raw::{RawPair, record, route, tcp};
use crate::world::{Bystander, CHANNEL, Server, block, client, pause, peer, run, spawn, until};

const KIB: usize = 1 << 10;

/// Records that are sent at once.
const BURST: usize = 1_000;

/// The contract's million where the code is optimized: it takes a minute and a half where not.
const MALFORMED: u64 = if cfg!(debug_assertions) { 50_000 } else { 1_000_000 };

fn numbered(number: u32, length: usize) -> Vec<u8> {
    let mut payload = vec![0; length];
    payload[..4].copy_from_slice(&number.to_le_bytes());
    payload
}

#[test]
fn b_021_a_slow_line_locks_sends_although_the_receiver_is_idle() {
    run(&["B-21"], || {
        let server = Server::start(|host| host);
        let proxy = Proxy::start(tcp(&server.host), Duration::from_millis(2));
        let host = client("server", proxy.address(), tight);
        let channel = host.channel(CHANNEL).unwrap();
        let sending = spawn(async move {
            for number in 0..400 {
                channel.send("placed", numbered(number, 4 * KIB)).await.unwrap();
            }
        });
        until("sends are locked", || {
            host.status().peers.iter().any(|peer| peer.send_queue.waiting > 0)
        });
        sending.join().unwrap();
        until("all have arrived", || server.ledger.len() == 400);
        assert_eq!(server.ledger.numbers(), (0..400).collect::<Vec<_>>(), "once and in order");
        let sent = peer(&host, "server").send_queue;
        assert!(sent.peak <= ByteCount::kib(64), "within the mark: {sent:?}");
        let taken = peer(&server.host, "client").receive_queue;
        assert!(taken.peak < ByteCount::kib(512), "the receiver had room all the time: {taken:?}");
    });
}

#[test]
fn b_023_bytes_queued_while_disconnected_stay_charged_and_leave_in_order() {
    run(&["B-23"], || {
        let server = Server::start(|host| host);
        let proxy = Proxy::start(tcp(&server.host), Duration::ZERO);
        let host = client("server", proxy.address(), |host| {
            tight(host).default_socket_send_timeout(Duration::from_mins(1))
        });
        let channel = host.channel(CHANNEL).unwrap();
        for number in 0..10 {
            block(channel.send("placed", numbered(number, KIB))).unwrap();
        }
        until("the line works", || server.ledger.len() == 10);
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
        pause(Duration::from_millis(300));
        assert_eq!(peer(&host, "server").send_queue.accounted.get(), locked, "still charged");
        assert_eq!(server.ledger.len(), 10, "nothing gets through");

        proxy.mend();
        sending.join().unwrap();
        until("all have arrived", || server.ledger.len() == 200);
        assert_eq!(server.ledger.numbers(), (0..200).collect::<Vec<_>>(), "once and in order");
        until("nothing is charged", || peer(&host, "server").send_queue.accounted.is_zero());
        assert!(peer(&host, "server").pairs >= 2, "over another pair");
    });
}

#[test]
fn b_045_control_takes_a_permit_and_returns_it_without_a_job() {
    run(&["B-45"], || {
        let clock = Arc::new(VirtualClock::new());
        let server = Server::start(|host| tight(host).clock(clock));
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
    });
}

#[test]
fn b_046_malformed_records_leave_no_permit_in_use() {
    run(&["B-46"], || {
        let server = Server::start(|host| host);
        let mut pair = RawPair::dial(&server.host, "raw");
        let unknown = record(Kind::Send, 0, "nobody", &[]);
        let not_json = record(Kind::Send, 0, "typed", b"{");
        let burst: Vec<u8> = [unknown, not_json].concat().repeat(BURST / 2);
        for _ in 0..MALFORMED / BURST as u64 {
            pair.application.say(&burst);
        }
        pair.expect_alive(1);
        let status = server.host.status();
        let jobs = status.application_job_queue;
        assert_eq!(jobs.records, MALFORMED + 1, "each took a permit: {jobs:?}");
        assert!(jobs.peak_in_use <= jobs.limit, "within the limit: {jobs:?}");
        server.expect_empty();
        let dropped = server.host.status().dropped;
        for (reason, count) in dropped {
            let is_ours = matches!(reason, DropReason::NoHandler | DropReason::DecodeError);
            assert_eq!(count, if is_ours { MALFORMED / 2 } else { 0 }, "{}", reason.as_str());
        }
    });
}

#[test]
fn a_flood_of_control_is_held_within_the_mark() {
    run(&[], || {
        let clock = Arc::new(VirtualClock::new());
        let server = Server::start(|host| tight(host).clock(clock));
        let mut pair = RawPair::dial(&server.host, "raw");
        for _ in 0..10 {
            pair.application.say(&record(Kind::Send, 0, "held", &[]));
        }
        until("every permit is taken", || server.host.is_saturated());
        let sent = pair.application.fill(&record(Kind::SendReady, 0, "", &[0; 4_000]));
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
    });
}

#[test]
fn a_gibibyte_that_is_announced_and_never_sent_takes_no_memory() {
    run(&[], || {
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
        let grown = resident_bytes().saturating_sub(before);
        assert!(grown < 256 << 20, "4 GiB are announced, and {grown} B were taken");
        drop(pairs);
        server.expect_empty();
        server.expect_counts(0, 4);
        bystander.expect_undisturbed();
    });
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
    run(&[], || {
        let clock = Arc::new(VirtualClock::new());
        let server = Server::start(|host| tight(host).clock(clock));
        let mut pair = RawPair::dial(&server.host, "raw");
        let small = 4 * KIB;
        rustix::net::sockopt::set_socket_recv_buffer_size(&pair.application.stream, small).unwrap();
        for _ in 0..20_000 {
            pair.application.say(&record(Kind::Probe, 1, "", &[]));
        }
        until("each was taken", || server.host.status().application_job_queue.records == 20_000);
        let queue = peer(&server.host, "raw").send_queue;
        assert!(queue.accounted > ByteCount::new(0), "the line is full: {queue:?}");
        // A batch in flight and one behind it.
        assert!(queue.peak <= ByteCount::new(2 * (32 + 64)), "20,000 probes made {queue:?}");
        server.expect_counts(0, 0);
    });
}
