//! Nine peers that get or send at an even pace, and a tenth: once an origin that floods the receiver
//! which all share, once a receiver that stops reading while all share the sender.
//!
//! The nine together take 30 % of what the shared receiver can handle.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use zhost::{Caller, ChannelServer, Host, MeshPeer, RouteMesh};

use crate::{median, tight};

const PACED: usize = 9;
const MESSAGES: u32 = 20;
const PACE: Duration = Duration::from_millis(60);
pub(crate) const PAIRS: usize = 7;

/// Sends at the same time to the tenth.
const FLOODS: usize = 16;

/// One of the nine: where it sends, and how many of its messages were handled.
#[derive(Clone)]
struct Paced {
    caller: Caller,
    number: u8,
    handled: Arc<AtomicU64>,
}

/// What one of the nine came to, or the worst of each.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// Messages handled in a second.
    rate: f64,
    /// The longest that a send took to be accepted.
    slowest_send: Duration,
}

impl Paced {
    async fn run(self) -> Figures {
        let (begun, before) = (Instant::now(), self.handled.load(Relaxed));
        let mut slowest_send = Duration::ZERO;
        for number in 1..=MESSAGES {
            sleep((PACE * number).saturating_sub(begun.elapsed())).await;
            let asked = Instant::now();
            self.caller.send("paced", Bytes::from(vec![self.number; 256])).await.unwrap();
            slowest_send = slowest_send.max(asked.elapsed());
        }
        while self.handled.load(Relaxed) - before < u64::from(MESSAGES) {
            sleep(Duration::from_millis(1)).await;
        }
        Figures { rate: f64::from(MESSAGES) / begun.elapsed().as_secs_f64(), slowest_send }
    }
}

/// The worst of the nine.
async fn worst(nine: &[Paced]) -> Figures {
    let tasks: Vec<_> = nine.iter().map(|paced| tokio::spawn(paced.clone().run())).collect();
    let mut worst = Figures { rate: f64::INFINITY, slowest_send: Duration::ZERO };
    for task in tasks {
        let Figures { rate, slowest_send } = task.await.unwrap();
        worst.rate = worst.rate.min(rate);
        worst.slowest_send = worst.slowest_send.max(slowest_send);
    }
    worst
}

/// The same while the tenth is sent as much as it takes, or more.
async fn worst_beside(
    nine: &[Paced],
    tenth: &Caller,
    has_stopped: &watch::Sender<bool>,
) -> Figures {
    has_stopped.send_replace(true);
    let stop = Arc::new(AtomicBool::new(false));
    let floods: Vec<_> = (0..FLOODS)
        .map(|_| {
            let (tenth, stop) = (tenth.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Relaxed) {
                    tenth.send("tenth", Bytes::from_static(&[2; 1_024])).await.ok();
                }
            })
        })
        .collect();
    // Long enough for every queue on the way to be full.
    sleep(Duration::from_millis(200)).await;
    let figures = worst(nine).await;
    stop.store(true, Relaxed);
    has_stopped.send_replace(false);
    for flood in floods {
        flood.await.unwrap();
    }
    figures
}

async fn report(
    what: &str,
    pairs: usize,
    nine: &[Paced],
    tenth: &Caller,
    has_stopped: &watch::Sender<bool>,
) {
    println!("{PACED} paced peers beside one that {what}; of each figure the worst of the nine");
    let mut ratios = Vec::new();
    for _ in 0..pairs {
        let alone = worst(nine).await;
        let beside = worst_beside(nine, tenth, has_stopped).await;
        let ratio = beside.rate / alone.rate;
        println!(
            "alone {:>5.2} /s, slowest send {:>7.2?}   beside {:>5.2} /s, slowest send {:>7.2?}   \
             {ratio:.3}",
            alone.rate, alone.slowest_send, beside.rate, beside.slowest_send
        );
        ratios.push(ratio);
    }
    println!("median ratio {:.3}; the contract asks for 0.95\n", median(ratios));
}

fn counters() -> Vec<Arc<AtomicU64>> {
    (0..PACED).map(|_| Arc::default()).collect()
}

/// Ten origins, one receiver.
pub(crate) async fn beside_a_flood(pairs: usize) {
    let counted = counters();
    let handled = counted.clone();
    let channel = ChannelServer::new("orders")
        .on_send("paced", move |message: Bytes| {
            let handled = Arc::clone(&handled[usize::from(message[0])]);
            async move {
                sleep(Duration::from_millis(1)).await;
                handled.fetch_add(1, Relaxed);
            }
        })
        .on_send("tenth", async |_: Bytes| sleep(Duration::from_millis(1)).await);
    let mesh = RouteMesh::new("shop").listen("127.0.0.1:0".parse().unwrap()).channel(channel);
    let receiver = tight(Host::builder("receiver").mesh(mesh)).start().unwrap();
    let address = receiver.listen_address("shop").unwrap().clone();
    let origins: Vec<Host> = (0..=PACED)
        .map(|number| {
            let peer = MeshPeer::new("receiver", address.clone()).serves("orders");
            let mesh = RouteMesh::new("shop").peer(peer);
            tight(Host::builder(format!("origin-{number}")).mesh(mesh)).start().unwrap()
        })
        .collect();
    let callers: Vec<Caller> =
        origins.iter().map(|origin| origin.channel("orders").unwrap()).collect();
    let nine = paced(&callers, &counted);
    report("floods", pairs, &nine, &callers[PACED], &watch::Sender::new(false)).await;
}

/// One origin, ten receivers.
pub(crate) async fn beside_one_that_stops_reading(pairs: usize) {
    let counted = counters();
    let has_stopped = watch::Sender::new(false);
    let receivers: Vec<Host> = (0..=PACED)
        .map(|number| {
            let handled = counted.get(number).cloned().unwrap_or_default();
            let gate = has_stopped.subscribe();
            let channel = ChannelServer::new(format!("orders-{number}"))
                .on_send("paced", move |_: Bytes| {
                    handled.fetch_add(1, Relaxed);
                    core::future::ready(())
                })
                .on_send("tenth", move |_: Bytes| {
                    let mut gate = gate.clone();
                    async move {
                        drop(gate.wait_for(|has_stopped| !has_stopped).await.unwrap());
                    }
                });
            let listen = "127.0.0.1:0".parse().unwrap();
            let mesh = RouteMesh::new("shop").listen(listen).channel(channel);
            tight(Host::builder(format!("receiver-{number}")).mesh(mesh)).start().unwrap()
        })
        .collect();
    let mut mesh = RouteMesh::new("shop");
    for (number, receiver) in receivers.iter().enumerate() {
        let address = receiver.listen_address("shop").unwrap().clone();
        let peer = MeshPeer::new(format!("receiver-{number}"), address);
        mesh = mesh.peer(peer.serves(format!("orders-{number}")));
    }
    let origin = tight(Host::builder("origin").mesh(mesh)).start().unwrap();
    let callers: Vec<Caller> =
        (0..=PACED).map(|number| origin.channel(&format!("orders-{number}")).unwrap()).collect();
    let nine = paced(&callers, &counted);
    report("stops reading", pairs, &nine, &callers[PACED], &has_stopped).await;
}

fn paced(callers: &[Caller], handled: &[Arc<AtomicU64>]) -> Vec<Paced> {
    (0..)
        .zip(callers.iter().zip(handled))
        .map(|(number, (caller, handled))| Paced {
            caller: caller.clone(),
            number,
            handled: Arc::clone(handled),
        })
        .collect()
}
