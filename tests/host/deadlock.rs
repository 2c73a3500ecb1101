//! Two hosts that saturate each other while their handlers wait for each other's replies.
//!
//! With a lane of their own the replies get through and everything drains. Forced onto the
//! Application connection they wait behind the very messages that wait for them.

use core::time::Duration;
use std::sync::Arc;
use std::sync::OnceLock;

use bytes::Bytes;
use tokio::sync::Semaphore;
use zhost::clock::VirtualClock;
use zhost::{
    ByteCount, Caller, ChannelServer, ErrorKind, HighWaterMark, Host, HostBuilder, MeshPeer,
    RouteMesh, RunningLimit, SocketBuffers,
};

use crate::world::{CHANNEL, MESH, run, until, until_still};

/// Handlers on each host that wait for a reply, and as many that are to give one.
const HANDLERS: u32 = 4;

/// More than the queues of both hosts and the kernel hold together.
const FLOOD: usize = 600;

const PAYLOAD: usize = 8 << 10;

struct Side {
    host: Host,
    other: Arc<OnceLock<Caller>>,
    /// Lets the handlers of `leaf` reply.
    gate: Arc<Semaphore>,
}

impl Side {
    fn start(
        name: &str,
        clock: &Arc<VirtualClock>,
        mesh: RouteMesh,
        tune: impl Fn(HostBuilder) -> HostBuilder,
    ) -> Self {
        let other: Arc<OnceLock<Caller>> = Arc::default();
        let gate = Arc::new(Semaphore::new(0));
        let (asks, opened) = (Arc::clone(&other), Arc::clone(&gate));
        let channel = ChannelServer::new(CHANNEL)
            .on_send("work", move |_: Bytes| {
                let asks = asks.get().unwrap().clone();
                async move {
                    let timeout = Duration::from_hours(1);
                    asks.request("leaf", Bytes::new()).timeout(timeout).await.ok();
                }
            })
            .on_request("leaf", move |_: Bytes| {
                let opened = Arc::clone(&opened);
                async move {
                    opened.acquire().await.unwrap().forget();
                    Ok(Bytes::new())
                }
            })
            .on_send("flood", async |_: Bytes| {});
        let mark = HighWaterMark::Limit(ByteCount::kib(16));
        let running = RunningLimit::Limit((2 * HANDLERS).try_into().unwrap());
        let buffers = SocketBuffers { send: ByteCount::kib(64), receive: ByteCount::kib(64) };
        let builder = Host::builder(name)
            .mesh(mesh.channel(channel))
            .clock(Arc::<VirtualClock>::clone(clock))
            .send_high_water_mark(mark)
            .receive_high_water_mark(mark)
            .socket_buffers(buffers)
            .max_queued_application_jobs(4)
            .max_running_handlers(running);
        Self { host: tune(builder).start().unwrap(), other, gate }
    }

    fn is_saturated(&self) -> bool {
        let status = self.host.status();
        let Some(peer) = status.peers.first() else { return false };
        let jobs = status.application_job_queue;
        jobs.in_use == jobs.limit && peer.send_queue.waiting > 0
    }

    fn is_empty(&self) -> bool {
        let status = self.host.status();
        let peer = status.peers.first().unwrap();
        status.application_job_queue.in_use == 0
            && status.handlers.running == 0
            && peer.send_queue.accounted.is_zero()
            && peer.receive_queue.accounted.is_zero()
    }

    fn running(&self) -> u32 {
        self.host.status().handlers.running
    }

    fn flood(&self) -> Vec<tokio::task::JoinHandle<Result<(), ErrorKind>>> {
        let payload = Bytes::from(vec![7; PAYLOAD]);
        (0..FLOOD)
            .map(|_| {
                let (other, payload) = (self.other.get().unwrap().clone(), payload.clone());
                tokio::spawn(async move {
                    other.send("flood", payload).await.map_err(|error| error.kind())
                })
            })
            .collect()
    }
}

/// Both sides full, every handler slot taken by a wait for the other side.
async fn saturate(
    clock: &Arc<VirtualClock>,
    tune: impl Fn(HostBuilder) -> HostBuilder,
) -> ([Side; 2], Vec<tokio::task::JoinHandle<Result<(), ErrorKind>>>) {
    let listening = RouteMesh::new(MESH).listen("127.0.0.1:0".parse().unwrap());
    let one = Side::start("one", clock, listening, &tune);
    let address = one.host.listen_address(MESH).unwrap().clone();
    let dialing = RouteMesh::new(MESH).peer(MeshPeer::new("one", address));
    let two = Side::start("two", clock, dialing, &tune);
    until("the nodes know each other", || one.host.node(MESH, "two", CHANNEL).is_ok()).await;
    one.other.set(one.host.node(MESH, "two", CHANNEL).unwrap()).unwrap();
    two.other.set(two.host.node(MESH, "one", CHANNEL).unwrap()).unwrap();
    for side in [&one, &two] {
        for _ in 0..HANDLERS {
            side.other.get().unwrap().send("work", Bytes::new()).await.unwrap();
        }
    }
    let taken = || one.running() == 2 * HANDLERS && two.running() == 2 * HANDLERS;
    until("every handler has started and waits", taken).await;
    let mut floods = one.flood();
    floods.extend(two.flood());
    until("both sides are full", || one.is_saturated() && two.is_saturated()).await;
    for side in [&one, &two] {
        side.gate.add_permits(HANDLERS as usize);
    }
    ([one, two], floods)
}

#[test]
fn b_047_b_053_replies_get_through_two_hosts_that_saturate_each_other() {
    run(async {
        let clock = Arc::new(VirtualClock::new());
        let ([one, two], floods) = saturate(&clock, |host| host).await;
        for flood in floods {
            assert_eq!(flood.await.unwrap(), Ok(()), "time stands still: nothing can expire");
        }
        until("the backlog falls to nothing", || one.is_empty() && two.is_empty()).await;
    });
}

#[test]
fn b_054_without_a_lane_of_their_own_the_replies_never_come() {
    run(async {
        let clock = Arc::new(VirtualClock::new());
        let tune = |host: HostBuilder| {
            host.replies_on_the_application_connection()
                .default_socket_send_timeout(Duration::from_mins(1))
        };
        let ([one, two], floods) = saturate(&clock, tune).await;
        let stalled = until_still(|| {
            let unfinished = floods.iter().filter(|flood| !flood.is_finished()).count();
            let running = [one.running(), two.running()];
            (running, [one.host.status().handled, two.host.status().handled], unfinished)
        })
        .await;
        let (running, _, unfinished) = stalled;
        assert_eq!(running, [2 * HANDLERS; 2], "each handler waits, for a reply or to give one");
        assert!(unfinished > 0, "calls wait, and no deadline passes while the clock stands still");

        clock.advance(Duration::from_secs(61));
        let mut expired = 0;
        for flood in floods {
            match flood.await.unwrap() {
                Ok(()) => {}
                Err(kind) => {
                    assert_eq!(kind, ErrorKind::DeadlineExceeded, "the only end of a wait");
                    expired += 1;
                }
            }
        }
        assert!(expired > 0, "only their limits end the waits");
    });
}
