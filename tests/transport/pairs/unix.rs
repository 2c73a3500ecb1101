//! The same over Unix sockets.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use tempfile::TempDir;
use tokio::sync::Semaphore;
use zhost::clock::VirtualClock;
use zhost::{Host, MeshPeer, PeerState, RouteMesh, SocketAddress};

use crate::world::{
    CHANNEL, Ledger, MESH, Server, block, channel, client, is_connected, pause, peer, still, until,
    until_in_time,
};

/// A directory that goes when the test is over.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn socket(&self, name: &str) -> SocketAddress {
        format!("unix:{}", self.0.path().join(name).display()).parse().unwrap()
    }
}

#[test]
fn a_mesh_works_over_unix_sockets_and_outlives_a_restart() {
    let (clock, scratch) = (still(), Scratch::new());
    let address = scratch.socket("s");
    let first = Server::listen(address.clone(), |host| host);
    assert_eq!(first.host.listen_address(MESH), Some(&address), "where it listens");
    let host = client("server", address.clone(), |host| {
        host.default_socket_send_timeout(Duration::from_mins(1)).clock(clock.clone())
    });
    let orders = host.channel(CHANNEL).unwrap();
    for number in 0..1_000_u32 {
        block(orders.send("placed", number.to_le_bytes().to_vec())).unwrap();
    }
    let reply = block(orders.request("echo", Bytes::from_static(b"hi"))).unwrap();
    assert_eq!(reply.payload(), b"hi".as_slice(), "over the other socket");
    assert_eq!(first.ledger.numbers(), (0..1_000).collect::<Vec<_>>(), "in order");
    drop(first);
    until("the pair has ended", || peer(&host, "server").state == PeerState::Disconnected);
    assert!(scratch.0.path().join("s").exists(), "the socket file is left behind");
    for number in 0..50_u32 {
        block(orders.send("placed", number.to_le_bytes().to_vec())).unwrap();
    }
    let second = Server::listen(address, |host| host);
    until_in_time("another pair is up", &clock, || peer(&host, "server").pairs == 2);
    until("what was queued has arrived", || second.ledger.len() == 50);
    assert_eq!(second.ledger.numbers(), (0..50).collect::<Vec<_>>(), "in order");
    let reply = block(orders.request("echo", Bytes::from_static(b"again"))).unwrap();
    assert_eq!(reply.payload(), b"again".as_slice(), "requests, too");
    assert_eq!(peer(&host, "server").pairs, 2, "one pair before and one after");
}

/// A node that listens and dials the other.
fn node(scratch: &Scratch, own: &str, other: &str, clock: Arc<VirtualClock>) -> Host {
    let (ledger, gate) = (Ledger::default(), Arc::new(Semaphore::new(0)));
    let mesh = RouteMesh::new(MESH)
        .listen(scratch.socket(own))
        .peer(MeshPeer::new(other, scratch.socket(other)).serves(CHANNEL))
        .channel(channel(&ledger, &gate));
    Host::builder(own).clock(clock).mesh(mesh).start().unwrap()
}

#[test]
fn two_nodes_that_dial_each_other_come_to_one_pair_and_call_both_ways() {
    for _ in 0..10 {
        let (clock, scratch) = (still(), Scratch::new());
        let hosts = std::thread::scope(|scope| {
            let one = scope.spawn(|| node(&scratch, "one", "two", clock.clone()));
            let two = scope.spawn(|| node(&scratch, "two", "one", clock.clone()));
            [one.join().unwrap(), two.join().unwrap()]
        });
        let is_up = || is_connected(&hosts[0], "two") && is_connected(&hosts[1], "one");
        until_in_time("a pair is up", &clock, is_up);
        let pairs = || hosts.each_ref().map(|host| host.status().peers[0].pairs);
        let settled = pairs();
        // Whoever still means to dial does it within this time, and no probe is due.
        clock.advance(Duration::from_secs(4));
        pause(Duration::from_millis(100));
        for host in &hosts {
            assert_eq!(host.status().peers.len(), 1, "one peer");
            let caller = host.channel(CHANNEL).unwrap();
            for _ in 0..50 {
                let reply = block(caller.request("echo", Bytes::from_static(b"hi"))).unwrap();
                assert_eq!(reply.payload(), b"hi".as_slice(), "from the other");
            }
        }
        assert_eq!(pairs(), settled, "no pair comes or goes any more");
        let ended = hosts.each_ref().map(|host| host.status().pairs_ended);
        assert_eq!(ended[0], settled[0] - 1, "exactly one pair is left");
        assert_eq!(ended[1], settled[1] - 1, "on both sides");
    }
}
