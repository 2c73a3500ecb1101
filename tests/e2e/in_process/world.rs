//! Hosts that serve a channel whose handler waits at a gate, and callers that fill them.

use core::future::Future;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use zhost::{
    ByteCount, Caller, ChannelServer, HighWaterMark, Host, HostBuilder, MeshPeer, RouteMesh,
    RunningLimit, SocketBuffers, Status,
};

use crate::program::{busy, can_run};

pub(crate) const MESH: &str = "shop";
pub(crate) const CHANNEL: &str = "orders";
/// The route of messages whose handler waits at the gate.
pub(crate) const HOLD: &str = "hold";

/// Permits of a receiver: few, so that queues fill soon.
pub(crate) const JOBS: u32 = 4;
/// Handlers of a receiver that may run at once.
pub(crate) const RUNNING: u32 = 1;

/// Runs a test on a runtime of its own, with the machine to itself.
pub(crate) fn run<T>(ids: &[&str], test: impl Future<Output = T>) {
    if !can_run(ids) {
        return;
    }
    let _busy = busy();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(test);
}

/// What the handlers of one host wait for and count.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    open: Arc<Semaphore>,
    handled: Arc<AtomicU64>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { open: Arc::new(Semaphore::new(0)), handled: Arc::default() }
    }

    /// Lets `count` more handlers end.
    pub(crate) fn let_through(&self, count: usize) {
        self.open.add_permits(count);
    }

    /// Lets all handlers end, also those to come.
    pub(crate) fn open(&self) {
        self.open.close();
    }

    pub(crate) fn handled(&self) -> u64 {
        self.handled.load(Relaxed)
    }

    pub(crate) fn channel(&self) -> ChannelServer {
        let gate = self.clone();
        ChannelServer::new(CHANNEL).on_send(HOLD, move |_: Bytes| {
            let gate = gate.clone();
            async move {
                if let Ok(permit) = gate.open.acquire().await {
                    permit.forget();
                }
                gate.handled.fetch_add(1, Relaxed);
            }
        })
    }
}

/// Marks and buffers of `kib` KiB; the kernel's buffers are as small as they are useful.
pub(crate) fn marks(host: HostBuilder, send_kib: u64, receive_kib: u64) -> HostBuilder {
    let mark = |kib| HighWaterMark::Limit(ByteCount::kib(kib));
    let buffers = SocketBuffers { send: ByteCount::kib(16), receive: ByteCount::kib(16) };
    host.send_high_water_mark(mark(send_kib))
        .receive_high_water_mark(mark(receive_kib))
        .socket_buffers(buffers)
}

/// A host that serves `channel` with few permits and handlers.
pub(crate) fn receiver(
    name: &str,
    channel: ChannelServer,
    tune: impl FnOnce(HostBuilder) -> HostBuilder,
) -> Host {
    let mesh = RouteMesh::new(MESH).listen("127.0.0.1:0".parse().unwrap()).channel(channel);
    let builder = Host::builder(name)
        .mesh(mesh)
        .max_queued_application_jobs(JOBS)
        .max_running_handlers(RunningLimit::Limit(RUNNING.try_into().unwrap()));
    tune(builder).start().unwrap()
}

/// The description of a peer.
pub(crate) fn peer(name: &str, host: &Host) -> MeshPeer {
    MeshPeer::new(name, host.listen_address(MESH).unwrap().clone()).serves(CHANNEL)
}

/// A host that calls `receiver`, and its caller.
pub(crate) fn sender(
    name: &str,
    receiver: &Host,
    tune: impl FnOnce(HostBuilder) -> HostBuilder,
) -> (Host, Caller) {
    let mesh = RouteMesh::new(MESH).peer(peer("receiver", receiver));
    let host = tune(Host::builder(name).mesh(mesh)).start().unwrap();
    let caller = host.channel(CHANNEL).unwrap();
    (host, caller)
}

/// Sends until a send waits although nothing moves any more, and withdraws that one. Returns how
/// many were accepted.
pub(crate) async fn fill(caller: &Caller, payload: &Bytes) -> u64 {
    let mut accepted = 0;
    while let Ok(result) = timeout(STILL, caller.send(HOLD, payload.clone())).await {
        result.unwrap();
        accepted += 1;
    }
    accepted
}

/// A payload of `bytes` bytes.
pub(crate) fn payload(bytes: usize) -> Bytes {
    vec![7; bytes].into()
}

/// Waits until something holds; it fails after a time that no working machine needs.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..15_000 {
        if holds() {
            return;
        }
        sleep(Duration::from_millis(2)).await;
    }
    panic!("30 s were not enough: {what}");
}

/// Records given up, for whatever reason.
pub(crate) fn dropped(status: &Status) -> u64 {
    status.dropped.iter().map(|(_, count)| count).sum()
}

/// Far below the limit of a send, far above what a moving queue pauses.
const STILL: Duration = Duration::from_millis(250);
