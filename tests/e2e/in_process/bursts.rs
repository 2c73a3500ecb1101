//! What makes a send wait, and what moves the moment at which it does.

use core::pin::pin;
use core::time::Duration;

use tokio::time::Instant;
use zhost::ErrorKind;

use super::world::{Gate, HOLD, Way, marks, on_the_spot, payload, receiver, run, sender, until};

#[test]
fn b_019_the_usual_rate_never_waits_and_a_burst_does() {
    run(async {
        let gate = Gate::new();
        gate.open();
        let receiver = receiver("receiver", gate.channel(), |host| marks(host, 16, 16));
        let (sender, caller) = sender("sender", &receiver, |host| marks(host, 16, 16));
        let payload = payload(4 << 10);
        let waits = || sender.status().peers.first().map_or(0, |peer| peer.send_queue.waits);
        for number in 0..200 {
            caller.send(HOLD, payload.clone()).await.unwrap();
            until("it is handled", || gate.handled() > number).await;
        }
        assert_eq!(waits(), 0, "one at a time always finds room");
        // How soon it catches up with the queue is the scheduler's affair; that it does is not.
        let mut sent = 200;
        while waits() == 0 {
            for _ in 0..2_000 {
                caller.send(HOLD, payload.clone()).await.unwrap();
            }
            sent += 2_000;
            assert!(sent < 100_000, "the same messages, but faster than they leave");
        }
        until("all are handled", || gate.handled() == sent).await;
    });
}

/// How many messages a sender takes for a receiver that does not handle any, until the first wait.
///
/// They come in small groups, each when the one before has found its place, so that the sender's
/// queue is the last to fill.
async fn absorbed(send_kib: u64, receive_kib: u64, payload_bytes: usize) -> u64 {
    let gate = Gate::new();
    let receiver = receiver("receiver", gate.channel(), |host| marks(host, 64, receive_kib));
    let (sender, caller) = sender("sender", &receiver, |host| marks(host, send_kib, 64));
    let way = Way { sender: &sender, receiver: &receiver, payload: payload_bytes };
    let payload = payload(payload_bytes);
    let (mut accepted, mut before, mut is_full_behind) = (0, way.levels(), false);
    while let Some(result) = on_the_spot(pin!(caller.send(HOLD, payload.clone()))).await {
        result.unwrap();
        accepted += 1;
        if accepted % 4 == 0 && !is_full_behind {
            is_full_behind = !way.settled(before).await;
            before = way.levels();
        }
    }
    assert!(is_full_behind, "the sender's queue is the last to fill");
    gate.open();
    accepted
}

#[test]
fn b_020_larger_payloads_wait_after_proportionally_fewer_messages() {
    run(async {
        let mut filled = Vec::new();
        for kib in [1, 2, 4, 8] {
            filled.push(kib * absorbed(256, 256, usize::try_from(kib << 10).unwrap()).await);
        }
        let (least, most) = (*filled.iter().min().unwrap(), *filled.iter().max().unwrap());
        // Heads weigh more on small messages, and the kernel's buffers are not charged alike.
        assert!(most * 10 <= least * 15, "KiB of payload until the first wait: {filled:?}");
    });
}

#[test]
fn b_104_a_higher_mark_absorbs_a_larger_burst_in_either_direction() {
    run(async {
        let (mut sending, mut receiving) = (Vec::new(), Vec::new());
        for kib in [64, 128, 256, 512] {
            sending.push(absorbed(kib, 64, 1 << 10).await);
            receiving.push(absorbed(64, kib, 1 << 10).await);
        }
        for counts in [sending, receiving] {
            assert!(counts.is_sorted_by(|less, more| less < more), "before the wait: {counts:?}");
        }
    });
}

/// How long a sender to a receiver that handles nothing takes until its first call fails.
async fn first_failure(kib: u64, limit: Duration) -> Duration {
    let gate = Gate::new();
    let receiver = receiver("receiver", gate.channel(), |host| marks(host, kib, kib));
    let (_sender, caller) = sender("sender", &receiver, |host| {
        marks(host, kib, kib).default_socket_send_timeout(limit)
    });
    let (begun, payload) = (Instant::now(), payload(1 << 10));
    let (called, error) = loop {
        let called = Instant::now();
        match caller.send(HOLD, payload.clone()).await {
            Ok(()) => {}
            Err(error) => break (called, error),
        }
    };
    let (waited, symptom) = (called.elapsed(), begun.elapsed());
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
    assert!(waited >= limit, "not early: {waited:?}; {:?}", error.waited());
    gate.open();
    symptom
}

/// A failure is never early, but a busy machine makes any of them late. So for each setting the
/// earliest of some failures counts.
#[test]
fn b_149_lower_limits_and_shorter_timeouts_fail_sooner_and_never_early() {
    run(async {
        let settings = [(16, 50), (64, 250), (256, 1_250)];
        let settings = settings.map(|(kib, limit)| (kib, Duration::from_millis(limit)));
        let mut symptoms = Vec::new();
        for (place, (kib, limit)) in settings.into_iter().enumerate() {
            let next = settings.get(place + 1).map_or(Duration::MAX, |(_, limit)| *limit);
            let mut earliest = Duration::MAX;
            for _ in 0..20 {
                earliest = earliest.min(first_failure(kib, limit).await);
                // The next setting's failure cannot come before its own limit.
                if earliest < next {
                    break;
                }
            }
            symptoms.push(earliest);
        }
        assert!(symptoms.is_sorted_by(|less, more| less < more), "{symptoms:?}");
    });
}
