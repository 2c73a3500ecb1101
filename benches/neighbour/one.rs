//! What an origin keeps of its rate while another one saturates the receiver they share (B-28).
//!
//! One handler at a time takes about a millisecond. The quiet origin offers 30 % of that; the loud one
//! as much as it can. Both rates come from one interleaved run, and only their ratio means anything.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use zhost::{Caller, ChannelServer, Host, MeshPeer, RouteMesh};

use crate::{median, tight};

const MESSAGES: u64 = 150;
const PACE: Duration = Duration::from_micros(6_600);
pub(crate) const PAIRS: usize = 15;

fn origin(node: &str, receiver: &Host) -> (Host, Caller) {
    let address = receiver.listen_address("shop").unwrap().clone();
    let mesh = RouteMesh::new("shop").peer(MeshPeer::new("receiver", address).serves("orders"));
    let host = tight(Host::builder(node).mesh(mesh)).start().unwrap();
    let caller = host.channel("orders").unwrap();
    (host, caller)
}

/// Messages handled in a second while the quiet origin offers its share.
async fn rate(quiet: &Caller, handled: &AtomicU64) -> f64 {
    let (begun, before) = (Instant::now(), handled.load(Relaxed));
    for number in 1..=MESSAGES {
        let due = PACE * u32::try_from(number).unwrap();
        sleep(due.saturating_sub(begun.elapsed())).await;
        quiet.send("quiet", Bytes::from_static(&[1; 256])).await.unwrap();
    }
    while handled.load(Relaxed) - before < MESSAGES {
        sleep(Duration::from_millis(1)).await;
    }
    f64::from(u32::try_from(MESSAGES).unwrap()) / begun.elapsed().as_secs_f64()
}

async fn beside_flood(quiet: &Caller, loud: &Caller, handled: &AtomicU64) -> f64 {
    let stop = Arc::new(AtomicBool::new(false));
    let floods: Vec<_> = (0..16)
        .map(|_| {
            let (loud, stop) = (loud.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Relaxed) {
                    loud.send("loud", Bytes::from_static(&[2; 1_024])).await.ok();
                }
            })
        })
        .collect();
    // Long enough for both queues of the loud origin to be full.
    sleep(Duration::from_millis(200)).await;
    let rate = rate(quiet, handled).await;
    stop.store(true, Relaxed);
    for flood in floods {
        flood.await.unwrap();
    }
    rate
}

async fn measure(pairs: usize) -> Vec<(f64, f64)> {
    let handled = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&handled);
    let channel = ChannelServer::new("orders")
        .on_send("quiet", move |_: Bytes| {
            let counted = Arc::clone(&counted);
            async move {
                sleep(Duration::from_millis(1)).await;
                counted.fetch_add(1, Relaxed);
            }
        })
        .on_send("loud", async |_: Bytes| sleep(Duration::from_millis(1)).await);
    let listen = "127.0.0.1:0".parse().unwrap();
    let mesh = RouteMesh::new("shop").listen(listen).channel(channel);
    let receiver = tight(Host::builder("receiver").mesh(mesh)).start().unwrap();
    let (_one, quiet) = origin("quiet", &receiver);
    let (_two, loud) = origin("loud", &receiver);
    let mut rates = Vec::new();
    for _ in 0..pairs {
        let alone = rate(&quiet, &handled).await;
        let beside = beside_flood(&quiet, &loud, &handled).await;
        println!("alone {alone:>6.1} /s   beside a flood {beside:>6.1} /s   {:.3}", beside / alone);
        rates.push((alone, beside));
    }
    rates
}

pub(crate) async fn run(pairs: usize) {
    println!("one origin at 30 % of the receiver's capacity, beside one that floods it");
    let rates = measure(pairs).await;
    let ratio = median(rates.iter().map(|(alone, beside)| beside / alone).collect());
    println!("median ratio {ratio:.3}; the contract asks for 0.95\n");
}
