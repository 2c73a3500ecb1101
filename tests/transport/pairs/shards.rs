//! A host of several shards: each peer is on one of them, with both of its connections.

use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use tokio::sync::Semaphore;
use zhost::{Host, MeshPeer, PeerState, PeerStatus, RouteMesh};

use crate::world::{
    CHANNEL, Ledger, MESH, Server, block, channel, peer, still, until, until_connected,
};

const SHARDS: u32 = 4;

/// Of crowds that come at once: in some of them nobody meets another one on the way.
const ROUNDS: u32 = 8;

/// A client with a name of its own that is connected.
fn connected(server: &Server, number: usize) -> Host {
    let address = server.host.listen_address(MESH).unwrap().clone();
    let name = format!("client-{number}");
    let mesh = RouteMesh::new(MESH).peer(MeshPeer::new("server", address).serves(CHANNEL));
    let host = Host::builder(name).clock(still()).shards(1).mesh(mesh).start().unwrap();
    until_connected(&host, "server");
    host
}

fn echo(host: &Host, text: &'static [u8]) {
    let reply = block(host.channel(CHANNEL).unwrap().request("echo", Bytes::from_static(text)));
    assert_eq!(reply.unwrap().payload(), text, "its own answer");
}

/// How many connected peers each shard of a host has.
fn loads(host: &Host) -> Vec<usize> {
    let peers = host.status().peers;
    let has = |shard: u32, peer: &PeerStatus| {
        u32::from(peer.shard) == shard && peer.state == PeerState::Connected
    };
    (0..SHARDS).map(|shard| peers.iter().filter(|peer| has(shard, peer)).count()).collect()
}

#[test]
fn accepted_peers_go_to_the_shard_that_has_the_fewest() {
    let server = Server::start(|host| host.shards(SHARDS));
    let clients: Vec<_> = (0..12).map(|number| connected(&server, number)).collect();
    let arrived = || loads(&server.host).iter().sum::<usize>();
    until("all are there", || arrived() == clients.len());
    assert_eq!(loads(&server.host), [3; 4], "three each");
    for client in &clients {
        echo(client, b"well?");
    }
    let status = server.host.status();
    assert!(status.shards.iter().all(|shard| shard.turns > 0), "all of them run");
    assert_eq!(status.rejected_connections, 0, "no connection was lost on its way");
    server.expect_empty();
}

#[test]
fn many_that_come_at_once_are_spread_as_well() {
    for _ in 0..ROUNDS {
        let server = Server::start(|host| host.shards(SHARDS));
        come_at_once(&server);
    }
}

fn come_at_once(server: &Server) {
    let clients: Vec<_> = thread::scope(|scope| {
        let dials: Vec<_> =
            (0..16).map(|number| scope.spawn(move || connected(server, number))).collect();
        dials.into_iter().map(|dial| dial.join().unwrap()).collect()
    });
    let arrived = || loads(&server.host).iter().sum::<usize>();
    until("all are there", || arrived() == clients.len());
    assert_eq!(loads(&server.host), [4; 4], "four each");
    for client in &clients {
        echo(client, b"well?");
    }
}

#[test]
fn a_peer_that_comes_back_finds_its_shard() {
    let server = Server::start(|host| host.shards(SHARDS));
    let stay: Vec<_> = (0..6).map(|number| connected(&server, number)).collect();
    let before: Vec<_> = (0..6).map(|n| peer(&server.host, &format!("client-{n}")).shard).collect();
    drop(stay);
    until("all have left", || loads(&server.host) == [0; 4]);
    // In another order, so that the fewest are elsewhere.
    for number in [5, 3, 1, 0, 2, 4] {
        let back = connected(&server, number);
        echo(&back, b"again");
        assert_eq!(
            peer(&server.host, &format!("client-{number}")).shard,
            before[number],
            "its queued messages and its waiting calls are on that one"
        );
    }
}

#[test]
fn peers_that_are_dialed_are_spread_as_well() {
    let names = ["north", "east", "south", "west"];
    let servers = names.map(|name| {
        let (ledger, gate) = (Ledger::default(), Arc::new(Semaphore::new(0)));
        let address = "127.0.0.1:0".parse().unwrap();
        let mesh = RouteMesh::new(MESH).listen(address).channel(channel(&ledger, &gate));
        Host::builder(name).clock(still()).mesh(mesh).start().unwrap()
    });
    let mesh = names.iter().zip(&servers).fold(RouteMesh::new(MESH), |mesh, (name, server)| {
        let address = server.listen_address(MESH).unwrap().clone();
        mesh.peer(MeshPeer::new(*name, address).serves(CHANNEL))
    });
    let host = Host::builder("dialer").clock(still()).shards(SHARDS).mesh(mesh);
    let host = host.start().unwrap();
    for name in names {
        until_connected(&host, name);
        let caller = host.node(MESH, name, CHANNEL).unwrap();
        let reply = block(caller.request("echo", Bytes::from_static(b"well?"))).unwrap();
        assert_eq!(reply.payload(), b"well?".as_slice(), "{name}");
    }
    assert_eq!(loads(&host), [1; 4], "one each");
}
