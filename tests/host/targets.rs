//! Which peer gets a call, and that a waiting call keeps its peer.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::task::JoinHandle;
use zhost::clock::VirtualClock;
use zhost::{Caller, ChannelServer, Error, ErrorKind, Host, MeshPeer, RouteMesh};

use crate::jam::{Gated, WIDE, fill, is_connected, tight, waiting};
use crate::world::{CHANNEL, MESH, run, until, until_still};

/// Hosts that serve the channel with a weight, and one that calls them.
struct Shop {
    servers: Vec<(Host, Arc<Mutex<Vec<Bytes>>>)>,
    sender: Host,
}

impl Shop {
    async fn start(weights: &[(&str, u32)]) -> Self {
        let mut mesh = RouteMesh::new(MESH);
        let mut servers = Vec::new();
        for &(name, weight) in weights {
            let seen: Arc<Mutex<Vec<Bytes>>> = Arc::default();
            let ledger = Arc::clone(&seen);
            let channel = ChannelServer::new(CHANNEL).on_send("placed", move |order: Bytes| {
                ledger.lock().unwrap().push(order);
                core::future::ready(())
            });
            let listening = RouteMesh::new(MESH).listen("127.0.0.1:0".parse().unwrap());
            let host = Host::builder(name).mesh(listening.channel(channel)).start().unwrap();
            let address = host.listen_address(MESH).unwrap().clone();
            mesh = mesh.peer(MeshPeer::new(name, address).serves_with_weight(CHANNEL, weight));
            servers.push((host, seen));
        }
        let sender = Host::builder("sender").mesh(mesh).start().unwrap();
        until("all pairs are up", || is_connected(&sender)).await;
        Self { servers, sender }
    }

    fn counts(&self) -> Vec<usize> {
        self.servers.iter().map(|(_, seen)| seen.lock().unwrap().len()).collect()
    }

    async fn send(&self, caller: &Caller, count: usize) -> Vec<usize> {
        let before: usize = self.counts().iter().sum();
        for _ in 0..count {
            caller.send("placed", Bytes::new()).await.unwrap();
        }
        let arrived = || self.counts().iter().sum::<usize>() == before + count;
        until("all have arrived", arrived).await;
        self.counts()
    }
}

#[test]
fn a_node_gets_every_call_that_names_it_whatever_the_weights() {
    run(async {
        let shop = Shop::start(&[("one", 0), ("two", 10_000)]).await;
        let one = shop.sender.node(MESH, "one", CHANNEL).unwrap();
        assert_eq!(shop.send(&one, 100).await, [100, 0], "all to the node named");
        let two = shop.sender.node(MESH, "two", CHANNEL).unwrap();
        assert_eq!(shop.send(&two, 50).await, [100, 50], "all to the other");
        let error = shop.sender.node(MESH, "three", CHANNEL).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    });
}

#[test]
fn b_073_a_channel_chooses_a_candidate_for_each_call() {
    run(async {
        let shop = Shop::start(&[("one", 100), ("two", 100)]).await;
        let channel = shop.sender.channel(CHANNEL).unwrap();
        assert_eq!(shop.send(&channel, 100).await, [50, 50], "in turn");
    });
}

#[test]
fn d_021_weights_divide_the_calls_smoothly_and_zero_gets_none() {
    run(async {
        let shop = Shop::start(&[("one", 300), ("two", 100), ("off", 0)]).await;
        let channel = shop.sender.channel(CHANNEL).unwrap();
        assert_eq!(shop.send(&channel, 4).await, [3, 1, 0], "in every four");
        assert_eq!(shop.send(&channel, 4).await, [6, 2, 0], "in every four");
        assert_eq!(shop.send(&channel, 392).await, [300, 100, 0], "as the weights say");
    });
}

/// Two servers, the first of which takes nothing and is full.
struct HalfFull {
    clock: Arc<VirtualClock>,
    full: (Gated, Host),
    free: (Gated, Host),
    sender: Host,
    first: JoinHandle<Result<(), Error>>,
}

async fn half_full() -> HalfFull {
    let clock = Arc::new(VirtualClock::new());
    let timed = |name: &str| tight(Host::builder(name)).clock(Arc::<VirtualClock>::clone(&clock));
    let mut mesh = RouteMesh::new(MESH);
    let mut servers = Vec::new();
    for name in ["full", "free"] {
        let handlers = Gated::new();
        let listening = RouteMesh::new(MESH).listen("127.0.0.1:0".parse().unwrap());
        let host = timed(name).mesh(listening.channel(handlers.channel())).start().unwrap();
        let address = host.listen_address(MESH).unwrap().clone();
        mesh = mesh.peer(MeshPeer::new(name, address).serves(CHANNEL));
        servers.push((handlers, host));
    }
    let [full, free] = servers.try_into().unwrap_or_else(|_| panic!("there are two"));
    free.0.gate.add_permits(WIDE);
    let sender = timed("sender").mesh(mesh).start().unwrap();
    until("both pairs are up", || is_connected(&sender)).await;
    let (first, _) = fill(&sender, &sender.node(MESH, "full", CHANNEL).unwrap()).await;
    HalfFull { clock, full, free, sender, first }
}

/// Two calls to the channel: one for each candidate. Returns the one that waits.
async fn one_waits(shop: &HalfFull) -> (JoinHandle<Result<(), Error>>, Bytes) {
    let channel = shop.sender.channel(CHANNEL).unwrap();
    let payloads = [Bytes::from_static(b"left"), Bytes::from_static(b"right")];
    let sends = payloads.clone().map(|payload| {
        let channel = channel.clone();
        tokio::spawn(async move { channel.send("work", payload).await })
    });
    until("one waits", || waiting(&shop.sender) == 2).await;
    until("the other is done", || sends.iter().any(JoinHandle::is_finished)).await;
    let finished = until_still(|| sends.each_ref().map(JoinHandle::is_finished)).await;
    assert_ne!(finished, [true, true], "one candidate is full");
    let [left, right] = sends;
    let [is_left_done, _] = finished;
    let (done, waits, index) = if is_left_done { (left, right, 1) } else { (right, left, 0) };
    done.await.unwrap().unwrap();
    (waits, payloads[index].clone())
}

#[test]
fn b_074_a_waiting_call_does_not_choose_again_though_another_has_room() {
    run(async {
        let shop = half_full().await;
        let (waits, payload) = one_waits(&shop).await;
        let free = shop.sender.node(MESH, "free", CHANNEL).unwrap();
        free.send("work", Bytes::from_static(b"has room")).await.unwrap();
        until("the other has room", || shop.free.0.has_ended(b"has room")).await;
        assert!(!waits.is_finished(), "the call keeps its target");
        shop.full.0.gate.add_permits(WIDE);
        shop.first.await.unwrap().unwrap();
        waits.await.unwrap().unwrap();
        until("its target handles it", || shop.full.0.has_ended(&payload)).await;
        assert!(!shop.free.0.has_ended(&payload), "and the other does not");
    });
}

#[test]
fn b_074_a_waiting_call_ends_with_its_target_and_goes_nowhere_else() {
    run(async {
        let shop = half_full().await;
        let (waits, payload) = one_waits(&shop).await;
        let HalfFull { clock, full: (_, full), free: (served, free), sender, first } = shop;
        let ends = tokio::spawn(async move {
            full.shutdown_within(core::time::Duration::from_millis(1)).await;
        });
        until("the target is gone", || {
            clock.advance(core::time::Duration::from_millis(1));
            ends.is_finished()
        })
        .await;
        // What broke with the connection may make room here; both end, and go nowhere else.
        clock.advance(core::time::Duration::from_secs(2));
        first.await.unwrap().ok();
        waits.await.unwrap().ok();
        let to_free = sender.node(MESH, "free", CHANNEL).unwrap();
        to_free.send("work", Bytes::from_static(b"last")).await.unwrap();
        until("the other goes on", || served.has_ended(b"last")).await;
        assert!(!served.has_ended(&payload), "it never got the call");
        drop(free);
    });
}

#[test]
fn b_075_a_later_call_may_choose_a_changed_candidate() {
    run(async {
        let shop = Shop::start(&[("one", 100), ("two", 100)]).await;
        let channel = shop.sender.channel(CHANNEL).unwrap();
        assert_eq!(shop.send(&channel, 10).await, [5, 5], "both are candidates");
        let Some((one, _)) = shop.servers.first() else { panic!("it was started") };
        one.shutdown().await;
        let gone = || {
            shop.sender.status().peers.iter().any(|peer| {
                peer.node.as_deref() == Some("one") && peer.state != zhost::PeerState::Connected
            })
        };
        until("one is gone", gone).await;
        assert_eq!(shop.send(&channel, 10).await, [5, 15], "later calls choose the other");
    });
}
