//! A slow neighbour: traffic of others at 30 % of what the receiver can do does not feel it.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use zhost::{Caller, ChannelServer, ErrorKind, Host, RouteMesh};

use super::world::{CHANNEL, Gate, HOLD, MESH, marks, payload, peer, receiver, run, sender, until};

/// Messages of one measurement.
const OFFERED: u64 = 40;

/// How often a neighbour is measured alone and beside a flood.
const PAIRS: usize = 7;

/// Of messages to a node that handles them at once.
const PACE: Duration = Duration::from_micros(6_600);

/// What a neighbour keeps of its rate.
const KEPT: f64 = 0.8;

/// Of a send to a node that takes nothing.
const LIMIT: Duration = Duration::from_millis(100);

/// Sends `OFFERED` messages at `pace` and returns how long it took until all were handled.
async fn paced(
    caller: &Caller,
    route: &str,
    pace: Duration,
    handled: impl Fn() -> u64,
) -> Duration {
    let (begun, before) = (Instant::now(), handled());
    for number in 1..=OFFERED {
        let due = pace * u32::try_from(number).unwrap();
        sleep(due.saturating_sub(begun.elapsed())).await;
        caller.send(route, payload(256)).await.unwrap();
    }
    until("all are handled", || handled() - before == OFFERED).await;
    begun.elapsed()
}

/// The pace of 30 % of what the receiver can do for one caller on this machine right now.
async fn moderate_pace(caller: &Caller, route: &str, handled: impl Fn() -> u64) -> Duration {
    let (begun, before) = (Instant::now(), handled());
    for _ in 0..OFFERED {
        caller.send(route, payload(256)).await.unwrap();
    }
    until("all are handled", || handled() - before == OFFERED).await;
    begun.elapsed() * 10 / 3 / u32::try_from(OFFERED).unwrap()
}

/// Calls that go on until they are stopped.
struct Flood {
    stop: Arc<AtomicBool>,
    calls: Vec<JoinHandle<()>>,
}

impl Flood {
    fn start(caller: &Caller, route: &'static str) -> Self {
        let stop: Arc<AtomicBool> = Arc::default();
        let calls = (0..16).map(|_| {
            let (caller, stop) = (caller.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Relaxed) {
                    // At its deadline a call says so, and the next one waits.
                    caller.send(route, payload(1 << 10)).await.ok();
                }
            })
        });
        Self { calls: calls.collect(), stop }
    }

    async fn stop(self) {
        self.stop.store(true, Relaxed);
        for call in self.calls {
            call.await.unwrap();
        }
    }
}

fn waits(host: &Host) -> bool {
    host.status().peers.iter().any(|peer| peer.send_queue.waiting > 0)
}

/// The middle of the ratios of a rate beside a flood to the rate alone.
fn median(mut pairs: Vec<(Duration, Duration)>) -> f64 {
    let ratio = |(alone, beside): &(Duration, Duration)| alone.div_duration_f64(*beside);
    pairs.sort_by(|one, other| ratio(one).total_cmp(&ratio(other)));
    ratio(&pairs[pairs.len() / 2])
}

#[test]
fn b_028_an_origin_does_not_feel_that_another_one_is_saturated() {
    run(async {
        let handled: Arc<[AtomicU64; 2]> = Arc::default();
        let counts = Arc::clone(&handled);
        let handler = move |which: usize| {
            let counts = Arc::clone(&counts);
            move |_: Bytes| {
                let counts = Arc::clone(&counts);
                async move {
                    sleep(Duration::from_millis(1)).await;
                    counts[which].fetch_add(1, Relaxed);
                }
            }
        };
        let channel = ChannelServer::new(CHANNEL)
            .on_send("quiet", handler.clone()(0))
            .on_send("loud", handler(1));
        let receiver = receiver("receiver", channel, |host| marks(host, 16, 16));
        let (_one, quiet) = sender("quiet", &receiver, |host| marks(host, 16, 16));
        let (two, loud) = sender("loud", &receiver, |host| marks(host, 16, 16));
        let quiet_handled = || handled[0].load(Relaxed);
        let mut pairs = Vec::new();
        for _ in 0..PAIRS {
            let pace = moderate_pace(&quiet, "quiet", quiet_handled).await;
            let alone = paced(&quiet, "quiet", pace, quiet_handled).await;
            let flood = Flood::start(&loud, "loud");
            until("the other origin is saturated", || waits(&two)).await;
            let beside = paced(&quiet, "quiet", pace, quiet_handled).await;
            until("and it still is", || waits(&two)).await;
            flood.stop().await;
            let is_empty = || two.status().peers[0].send_queue.accounted.is_zero();
            until("the flood has left", || is_empty() && !receiver.is_saturated()).await;
            pairs.push((alone, beside));
        }
        assert!(median(pairs.clone()) >= KEPT, "alone, beside the flood: {pairs:?}");
    });
}

#[test]
fn b_150_a_slow_node_delays_only_those_who_wait_for_it() {
    run(async {
        let (slow_gate, fast_gate) = (Gate::new(), Gate::new());
        fast_gate.open();
        let slow = receiver("slow", slow_gate.channel(), |host| marks(host, 16, 16));
        let fast = receiver("fast", fast_gate.channel(), |host| marks(host, 16, 16));
        let mesh = RouteMesh::new(MESH).peer(peer("slow", &slow)).peer(peer("fast", &fast));
        // Room for all that goes to the fast node: there no send meets the limit, whatever happens.
        let host = marks(Host::builder("sender").mesh(mesh), 64, 16);
        let host = host.default_socket_send_timeout(LIMIT).start().unwrap();
        let (to_slow, to_fast) =
            (host.node(MESH, "slow", CHANNEL).unwrap(), host.node(MESH, "fast", CHANNEL).unwrap());

        let fast_handled = || fast_gate.handled();
        let mut pairs = Vec::new();
        for _ in 0..PAIRS {
            let alone = paced(&to_fast, HOLD, PACE, fast_handled).await;
            let flood = Flood::start(&to_slow, HOLD);
            until("calls to the slow node wait", || waits(&host)).await;
            let beside = paced(&to_fast, HOLD, PACE, fast_handled).await;
            pairs.push((alone, beside));
            flood.stop().await;
        }
        assert!(median(pairs.clone()) >= KEPT, "alone, beside the flood: {pairs:?}");

        // The kernel may have made a little room since.
        while to_slow.send(HOLD, payload(1 << 10)).await.is_ok() {}
        let begun = Instant::now();
        for _ in 0..5 {
            let error = to_slow.send(HOLD, payload(1 << 10)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
            to_fast.send(HOLD, payload(256)).await.unwrap();
        }
        assert!(begun.elapsed() >= 5 * LIMIT, "whoever awaits both goes at the pace of the slow");
        slow_gate.open();
    });
}
