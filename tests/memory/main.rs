//! What an idle peer costs the process that accepts it.
//!
//! The host runs in a process of its own, so that nothing else is counted; the peers are raw sockets
//! of the test.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod peers;
mod process;

use std::io::Write;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zhost::DriverKind;

use peers::{RawPeer, dial};
use process::{Accepting, is_the_host, serve};

/// Peers of one measurement.
const PEERS: u64 = 1_000;

/// What the design allows for one of them.
const IDLE_PEER_MAX: u64 = 8 << 10;

/// Peers of every shard before the measurement: what a host makes once is no peer's cost.
const EARLIER: usize = 16;

/// Exchanges of each of those. Together they go round every ring of provided buffers: 64 of them for
/// each lane of a shard, so that all their pages have been touched.
const ROUNDS: usize = 64;

/// Measures, or is the host that is measured.
fn measure(test: &str, driver: DriverKind, name: &str) {
    if is_the_host() {
        serve(driver);
        return;
    }
    raise_descriptor_limit();
    let mut host = Accepting::start(test);
    let mut earlier = dial(host.address(), "earlier", EARLIER);
    for _ in 0..ROUNDS {
        RawPeer::exchange(&mut earlier);
    }
    let before = host.own_bytes();
    let mut idle = dial(host.address(), "idle", usize::try_from(PEERS).unwrap());
    RawPeer::exchange(&mut idle);
    // An idle peer is probed, and what that takes belongs to it.
    host.let_time_pass();
    RawPeer::answer_probes(&mut idle);
    RawPeer::answer_probes(&mut earlier);
    // Behind its answer, so that it was taken; and then whole turns in which memory is given back.
    RawPeer::exchange(&mut idle);
    for _ in 0..ROUNDS {
        RawPeer::exchange(&mut earlier);
    }
    let taken = host.own_bytes().saturating_sub(before);
    let each = taken / PEERS;
    let line = format!("idle peer: {each} B on {name} (2,000 connections)\n");
    // Past the capture of a test that passes: the number is what this test is for.
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    assert!(each > 0, "a peer costs something: {taken} B");
    assert!(each <= IDLE_PEER_MAX, "{each} B for each of {PEERS} peers");
    host.end();
}

/// As many descriptors as this process may have; the one it starts inherits that.
fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

#[test]
fn an_idle_peer_on_uring_costs_at_most_8_kib() {
    let test = "an_idle_peer_on_uring_costs_at_most_8_kib";
    ztests::run_or_skip(test, ztests::io_uring_missing(), || {
        measure(test, DriverKind::Uring, "uring");
    });
}

#[test]
fn an_idle_peer_on_epoll_costs_at_most_8_kib() {
    measure("an_idle_peer_on_epoll_costs_at_most_8_kib", DriverKind::Epoll, "epoll");
}
