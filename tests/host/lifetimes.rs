//! Hosts that come, go and are cut short: what was accepted still arrives.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use zhost::{
    ByteCount, Caller, ChannelServer, ErrorKind, HighWaterMark, Host, MeshPeer, RouteMesh,
};

use crate::world::{CHANNEL, MESH, receiver, run, sender, until};

/// A channel that counts what it handles.
fn counting() -> (ChannelServer, Arc<AtomicU32>) {
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    let channel = ChannelServer::new(CHANNEL).on_send("placed", move |_: Bytes| {
        counted.fetch_add(1, Ordering::Relaxed);
        core::future::ready(())
    });
    (channel, count)
}

#[test]
fn d_019_a_shutdown_connects_first_if_messages_wait_for_that() {
    run(async {
        for _ in 0..20 {
            let (channel, count) = counting();
            let receiver = receiver(channel, |host| host);
            let sender = sender(&receiver, |host| host);
            // Accepted before the pair is up, and the shutdown comes at once.
            sender.channel(CHANNEL).unwrap().send("placed", Bytes::new()).await.unwrap();
            let report = sender.shutdown().await;
            assert_eq!(report.abandoned, 0, "{report}");
            until("the message arrives", || count.load(Ordering::Relaxed) == 1).await;
        }
    });
}

#[test]
fn client_code_that_owns_its_host_ends_with_a_drain() {
    run(async {
        let (channel, count) = counting();
        let receiver = receiver(channel, |host| host);
        let address = receiver.listen_address(MESH).unwrap().clone();
        let sent = tokio::task::spawn_blocking(move || {
            let peer = MeshPeer::new("receiver", address).serves(CHANNEL);
            Host::builder("sender").mesh(RouteMesh::new(MESH).peer(peer)).block_on(
                async |host: Host| {
                    let caller = host.channel(CHANNEL).unwrap();
                    for _ in 0..100 {
                        caller.send("placed", Bytes::new()).await.unwrap();
                    }
                    100
                },
            )
        });
        assert_eq!(sent.await.unwrap().unwrap(), 100, "all accepted");
        until("all arrive", || count.load(Ordering::Relaxed) == 100).await;
    });
}

#[test]
fn a_panic_of_client_code_on_the_shard_ends_that_code_only() {
    run(async {
        let (channel, count) = counting();
        let receiver = receiver(channel, |host| host);
        let sender = sender(&receiver, |host| host);
        let before = sender.on_shard(|| -> core::future::Ready<()> { panic!("before its future") });
        assert_eq!(before.await.unwrap_err().kind(), ErrorKind::InternalFailure, "it is told");
        let within = sender.on_shard(async || panic!("within its future"));
        let error: Result<(), _> = within.await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InternalFailure, "it is told");
        sender.channel(CHANNEL).unwrap().send("placed", Bytes::new()).await.unwrap();
        until("the host goes on", || count.load(Ordering::Relaxed) == 1).await;
    });
}

#[test]
fn client_code_left_for_a_host_that_has_ended_is_dropped_and_says_so() {
    run(async {
        let (channel, _) = counting();
        let host = receiver(channel, |host| host);
        host.shutdown().await;
        let late = host.on_shard(async || 1).await;
        assert_eq!(late.unwrap_err().kind(), ErrorKind::InternalFailure, "it never ran");
    });
}

#[test]
fn d_019_two_hosts_that_drain_at_once_handle_or_count_each_message() {
    run(async {
        for _ in 0..4 {
            let (channel, at_one) = counting();
            let one = receiver(channel, |host| host);
            let (channel, at_two) = counting();
            let address = one.listen_address(MESH).unwrap().clone();
            let peer = MeshPeer::new("receiver", address).serves(CHANNEL);
            let mesh = RouteMesh::new(MESH).peer(peer).channel(channel);
            let two = Host::builder("two").mesh(mesh).start().unwrap();
            until("they know each other", || one.node(MESH, "two", CHANNEL).is_ok()).await;
            let to_two = one.node(MESH, "two", CHANNEL).unwrap();
            let to_one = two.channel(CHANNEL).unwrap();
            for _ in 0..500 {
                to_two.send("placed", vec![1; 1_000]).await.unwrap();
                to_one.send("placed", vec![2; 1_000]).await.unwrap();
            }
            // More than handling takes: what a host was cut off from, it could not say. Not much more:
            // whoever still holds something for a host that has gone waits for all of it.
            let limit = Duration::from_secs(10);
            let (first, second) =
                tokio::join!(one.shutdown_within(limit), two.shutdown_within(limit));
            // Whoever hears the other's goodbye before it drains itself keeps the rest of what it
            // holds for a peer that does not come back: that is counted.
            let handled = [&at_one, &at_two].map(|count| u64::from(count.load(Ordering::Relaxed)));
            assert_eq!(handled[1] + first.abandoned, 500, "from one to two: {first}");
            assert_eq!(handled[0] + second.abandoned, 500, "from two to one: {second}");
        }
    });
}

#[test]
fn a_shutdown_can_be_cut_short() {
    run(async {
        let mesh = RouteMesh::new(MESH);
        let nowhere = MeshPeer::new("nowhere", "127.0.0.1:1".parse().unwrap()).serves(CHANNEL);
        let mark = HighWaterMark::Limit(ByteCount::kib(64));
        let host = Host::builder("lonely")
            .mesh(mesh.peer(nowhere))
            .send_high_water_mark(mark)
            .start()
            .unwrap();
        host.channel(CHANNEL).unwrap().send("placed", Bytes::new()).await.unwrap();
        let patient = host.shutdown_within(Duration::from_hours(1));
        let hasty = host.shutdown_within(Duration::from_millis(1));
        let (patient, hasty) = tokio::join!(patient, hasty);
        assert_eq!((patient.abandoned, hasty.abandoned), (1, 1), "the message has nowhere to go");
    });
}

#[test]
fn clients_that_leave_give_their_places_to_others() {
    run(async {
        let channel =
            ChannelServer::new(CHANNEL).on_request("echo", async |payload: Bytes| Ok(payload));
        let server = zhost::ClientServer::server(channel, "127.0.0.1:0".parse().unwrap());
        let server = Host::builder("server").client_server(server).max_peers(2).start().unwrap();
        let address = server.listen_address(CHANNEL).unwrap().clone();
        for number in 0..8 {
            let side = zhost::ClientServer::client(CHANNEL).connect(address.clone());
            let client =
                Host::builder(format!("client-{number}")).client_server(side).start().unwrap();
            let caller = client.channel(CHANNEL).unwrap();
            let reply = caller.request("echo", Bytes::from_static(b"here")).await.unwrap();
            assert_eq!(reply.payload(), "here", "client {number} of a server for two");
            client.shutdown().await;
            until("its place is free", || server.status().peers.is_empty()).await;
        }
    });
}

/// A payload whose owner sends when it goes, as one that logs through a host might.
struct SendsInDrop {
    bytes: Vec<u8>,
    caller: Caller,
    dropped: Arc<AtomicU32>,
}

impl AsRef<[u8]> for SendsInDrop {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for SendsInDrop {
    fn drop(&mut self) {
        let mut sends = core::pin::pin!(self.caller.send("placed", Bytes::new()));
        let mut context = core::task::Context::from_waker(core::task::Waker::noop());
        // Whether it is accepted does not matter, only that the lane's lock can be had.
        assert!(sends.as_mut().poll(&mut context).is_ready(), "there is room, or an end");
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn no_payload_is_dropped_under_a_lock() {
    run(async {
        let (channel, _) = counting();
        let receiver = receiver(channel, |host| host);
        let sender = sender(&receiver, |host| host.max_message_size(ByteCount::kib(64)));
        let caller = sender.channel(CHANNEL).unwrap();
        let dropped = Arc::new(AtomicU32::new(0));
        let payload = |size: usize| {
            let (caller, dropped) = (caller.clone(), Arc::clone(&dropped));
            Bytes::from_owner(SendsInDrop { bytes: vec![1; size], caller, dropped })
        };
        caller.send("placed", payload(100)).await.unwrap();
        caller.send("placed", payload(32 << 10)).await.unwrap();
        let error = caller.send("placed", payload(65 << 10)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MessageTooLarge, "{error}");
        until("each payload is dropped", || dropped.load(Ordering::Relaxed) == 3).await;
        sender.shutdown().await;
        let peak = sender.status().peers[0].send_queue.peak;
        assert!(peak >= ByteCount::kib(32), "an ended host still says what it reached: {peak}");
        let error = caller.send("placed", payload(100)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ShuttingDown, "{error}");
        assert_eq!(dropped.load(Ordering::Relaxed), 4, "refused at once, and dropped");
    });
}

#[test]
fn clients_that_vanish_with_replies_in_flight_hurt_nobody_who_takes_their_place() {
    run(async {
        let channel = ChannelServer::new(CHANNEL)
            .on_request("grow", async |_: Bytes| Ok(vec![7_u8; 1 << 20]))
            .on_request("echo", async |payload: Bytes| Ok(payload));
        let server = zhost::ClientServer::server(channel, "127.0.0.1:0".parse().unwrap());
        let server = Host::builder("server").client_server(server).max_peers(3).start().unwrap();
        let address = server.listen_address(CHANNEL).unwrap().clone();
        let client = |name: String| {
            let side = zhost::ClientServer::client(CHANNEL).connect(address.clone());
            Host::builder(name).client_server(side).start().unwrap()
        };
        for round in 0..40 {
            let host = client(format!("client-{round}"));
            let caller = host.channel(CHANNEL).unwrap();
            let reply = caller.request("echo", Bytes::from_static(b"here")).await.unwrap();
            assert_eq!(reply.payload(), "here", "round {round}");
            let calls: Vec<_> = (0..8)
                .map(|_| {
                    let caller = caller.clone();
                    tokio::spawn(async move { caller.request("grow", Bytes::new()).await.is_ok() })
                })
                .collect();
            until("replies are on their way", || server.status().handled > 0).await;
            drop(host);
            for call in calls {
                call.await.unwrap();
            }
        }
        until("every place is free", || server.status().peers.is_empty()).await;
        let host = client("last".into());
        let reply = host.channel(CHANNEL).unwrap().request("grow", Bytes::new()).await.unwrap();
        assert_eq!(reply.payload().len(), 1 << 20, "the server is as good as new");
    });
}
