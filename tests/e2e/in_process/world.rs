//! Hosts that serve a channel whose handler waits at a gate, and callers that fill them.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::task::Poll;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use tokio::select;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use zhost::{
    ByteCount, Caller, ChannelServer, HighWaterMark, Host, HostBuilder, MeshPeer, RouteMesh,
    RunningLimit, SocketBuffers, Status,
};

use crate::program::busy;

pub(crate) const MESH: &str = "shop";
pub(crate) const CHANNEL: &str = "orders";
/// The route of messages whose handler waits at the gate.
pub(crate) const HOLD: &str = "hold";

/// Permits of a receiver: few, so that queues fill soon.
pub(crate) const JOBS: u32 = 4;
/// Handlers of a receiver that may run at once.
pub(crate) const RUNNING: u32 = 1;

/// Runs a test on a runtime of its own, with the machine to itself.
pub(crate) fn run<T>(test: impl Future<Output = T>) {
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

/// Marks and buffers of `kib` KiB; the kernel's buffers are as small as they are useful. A send that
/// waits ends well however long others keep the processor, unless the test says otherwise.
pub(crate) fn marks(host: HostBuilder, send_kib: u64, receive_kib: u64) -> HostBuilder {
    let mark = |kib| HighWaterMark::Limit(ByteCount::kib(kib));
    let buffers = SocketBuffers { send: ByteCount::kib(16), receive: ByteCount::kib(16) };
    host.send_high_water_mark(mark(send_kib))
        .receive_high_water_mark(mark(receive_kib))
        .socket_buffers(buffers)
        .default_socket_send_timeout(Duration::from_mins(2))
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

/// The way of messages from a sender to a receiver whose handlers wait at a gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way<'hosts> {
    pub(crate) sender: &'hosts Host,
    pub(crate) receiver: &'hosts Host,
    /// Bytes of each payload.
    pub(crate) payload: usize,
}

/// How full a way is. What the kernel's buffers hold is not seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Levels {
    /// Bytes of the sender's queue.
    queued: u64,
    receiver: ReceiverLevels,
    /// Whether the receiver has no permit left and does not read on: its queue was full, and not
    /// half of that has left since (D-04).
    is_full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct ReceiverLevels {
    running: u32,
    permits: u32,
    bytes: u64,
}

impl Way<'_> {
    pub(crate) fn levels(self) -> Levels {
        let (receiver, sender) = (self.receiver.status(), self.sender.status());
        let received = receiver.peers.first().map(|peer| peer.receive_queue);
        let is_stopped = received.is_some_and(|queue| {
            let HighWaterMark::Limit(mark) = queue.mark else { return false };
            let was_full = !has_room(queue.peak, queue.mark, self.payload);
            was_full && 2 * queue.accounted.get() > mark.get()
        });
        let jobs = receiver.application_job_queue;
        Levels {
            queued: sender.peers.first().map_or(0, |peer| peer.send_queue.accounted.get()),
            receiver: ReceiverLevels {
                running: receiver.handlers.running,
                permits: jobs.in_use,
                bytes: received.map_or(0, |queue| queue.accounted.get()),
            },
            is_full: jobs.in_use == jobs.limit && is_stopped,
        }
    }

    /// Waits until the receiver is full and, look after look, nothing moves any more: then the
    /// kernel between the two is full as well. Each look costs a turn of the processor, so whoever
    /// has something to move has had its own.
    pub(crate) async fn still(self) -> Levels {
        let (mut last, mut unchanged) = (self.levels(), 0);
        for _ in 0..LOOKS_MAX {
            sleep(Duration::from_millis(5)).await;
            let now = self.levels();
            unchanged = if now == last && now.is_full { unchanged + 1 } else { 0 };
            last = now;
            if unchanged == STILL_LOOKS {
                return last;
            }
        }
        panic!("30 s were not enough to fill the way: {last:?}");
    }

    /// Waits until what was sent since `before` has found its place: at the receiver or, when that
    /// is full, in the kernel. False: in the sender's queue, as all behind it is full.
    pub(crate) async fn settled(self, before: Levels) -> bool {
        let is_in_place = || {
            let now = self.levels();
            let arrived = now.is_full || now.receiver != before.receiver;
            now.queued == 0 && now.receiver.running == RUNNING && arrived
        };
        select! {
            biased;
            () = until("what was sent is in its place", is_in_place) => true,
            _ = self.still() => false,
        }
    }
}

/// Whether a queue that holds `held` has room for two messages of this payload.
pub(crate) const fn has_room(held: ByteCount, mark: HighWaterMark, payload: usize) -> bool {
    let HighWaterMark::Limit(mark) = mark else { return true };
    held.get() + 2 * (payload as u64) <= mark.get()
}

/// Sends until a send waits although nothing moves any more, and withdraws that one. Returns how
/// many were accepted.
pub(crate) async fn fill(way: Way<'_>, caller: &Caller) -> u64 {
    let mut accepted = 0;
    loop {
        select! {
            biased;
            result = caller.send(HOLD, payload(way.payload)) => result.unwrap(),
            _ = way.still() => return accepted,
        }
        accepted += 1;
    }
}

/// Polls a call once: it ends on the spot, or it waits.
pub(crate) async fn on_the_spot<T>(mut call: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
    match polled {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
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

/// Half a second in which nothing moves.
const STILL_LOOKS: u32 = 100;
const LOOKS_MAX: u32 = 6_000;
