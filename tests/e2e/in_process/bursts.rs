//! What makes a send wait, and what moves the moment at which it does.

use core::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zhost::ErrorKind;

use super::world::{Gate, HOLD, marks, payload, receiver, run, sender, until};

#[test]
fn b_019_the_usual_rate_never_waits_and_a_burst_does() {
    run(&["B-19"], async {
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
        for _ in 0..2_000 {
            caller.send(HOLD, payload.clone()).await.unwrap();
        }
        assert!(waits() > 0, "the same messages, but faster than they leave");
        until("all are handled", || gate.handled() == 2_200).await;
    });
}

/// How many messages a sender takes for a receiver that does not handle any, until the first wait.
///
/// They come in small groups, so that each has left the sender before the next comes as long as
/// anything behind it has room.
async fn absorbed(send_kib: u64, receive_kib: u64, payload_bytes: usize) -> u64 {
    let gate = Gate::new();
    let receiver = receiver("receiver", gate.channel(), |host| marks(host, 64, receive_kib));
    let (_sender, caller) = sender("sender", &receiver, |host| marks(host, send_kib, 64));
    let payload = payload(payload_bytes);
    let mut accepted = 0;
    // Zero: the call is polled once, so it is accepted on the spot or it waits.
    while let Ok(result) = timeout(Duration::ZERO, caller.send(HOLD, payload.clone())).await {
        result.unwrap();
        accepted += 1;
        if accepted % 4 == 0 {
            sleep(Duration::from_millis(3)).await;
        }
    }
    gate.open();
    accepted
}

#[test]
fn b_020_larger_payloads_wait_after_proportionally_fewer_messages() {
    run(&["B-20"], async {
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
    run(&["B-104"], async {
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

#[test]
fn b_149_lower_limits_and_shorter_timeouts_fail_sooner_and_never_early() {
    run(&["B-149"], async {
        let mut symptoms = Vec::new();
        for (kib, limit) in [(16, 50), (64, 250), (256, 1_250)] {
            let limit = Duration::from_millis(limit);
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
            assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
            let waited = called.elapsed();
            assert!(waited >= limit, "not early: {waited:?}; {:?}", error.waited());
            symptoms.push(begun.elapsed());
            gate.open();
        }
        assert!(symptoms.is_sorted_by(|less, more| less < more), "{symptoms:?}");
    });
}
