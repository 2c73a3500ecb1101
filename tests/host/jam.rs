//! A pair of hosts whose receiver can be stopped: its one handler waits for a gate, its one permit
//! is taken, its receive queue is full, and so is everything before it.

use core::future::Future;
use core::num::NonZeroU32;
use core::pin::Pin;
use core::task::Poll;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use zhost::clock::VirtualClock;
use zhost::{
    ByteCount, Caller, ChannelServer, Error, HighWaterMark, Host, HostBuilder, MeshPeer, RouteMesh,
    RunningLimit, SocketBuffers, Status,
};

use crate::world::{CHANNEL, MESH, until, until_still};

/// The payload of one message that fills.
const PAYLOAD: usize = 8 << 10;

/// More messages than the queues of both hosts and the kernel hold together.
const MORE_THAN_FITS: u32 = 600;

/// What opens every gate for good.
pub(crate) const WIDE: usize = 1_000_000;

/// Limits small enough that a test reaches them.
pub(crate) const fn tight(host: HostBuilder) -> HostBuilder {
    let mark = HighWaterMark::Limit(ByteCount::kib(16));
    let buffers = SocketBuffers { send: ByteCount::kib(64), receive: ByteCount::kib(64) };
    host.send_high_water_mark(mark)
        .receive_high_water_mark(mark)
        .socket_buffers(buffers)
        .max_queued_application_jobs(1)
        .max_running_handlers(RunningLimit::Limit(NonZeroU32::MIN))
}

/// What the gated handlers of a host did.
#[derive(Clone, Debug)]
pub(crate) struct Gated {
    /// One permit lets one handler end.
    pub(crate) gate: Arc<Semaphore>,
    began: Arc<Mutex<Vec<Bytes>>>,
    ended: Arc<Mutex<Vec<Bytes>>>,
}

impl Gated {
    pub(crate) fn new() -> Self {
        Self { gate: Arc::new(Semaphore::new(0)), began: Arc::default(), ended: Arc::default() }
    }

    /// Takes sends as `work` and requests as `ask`, which echo; each waits at the gate.
    pub(crate) fn channel(&self) -> ChannelServer {
        let (works, asks) = (self.clone(), self.clone());
        ChannelServer::new(CHANNEL)
            .on_send("work", move |payload: Bytes| works.clone().pass(payload))
            .on_request("ask", move |payload: Bytes| {
                let asks = asks.clone();
                async move {
                    asks.pass(payload.clone()).await;
                    Ok(payload)
                }
            })
            .on_request("echo", async |payload: Bytes| Ok(payload))
    }

    async fn pass(self, payload: Bytes) {
        self.began.lock().unwrap().push(payload.clone());
        self.gate.acquire().await.unwrap().forget();
        self.ended.lock().unwrap().push(payload);
    }

    /// The payloads of the handlers that began, in order.
    pub(crate) fn began(&self) -> Vec<Bytes> {
        self.began.lock().unwrap().clone()
    }

    /// The payloads of the handlers that got through the gate, in order.
    pub(crate) fn ended(&self) -> Vec<Bytes> {
        self.ended.lock().unwrap().clone()
    }

    pub(crate) fn has_ended(&self, payload: &[u8]) -> bool {
        self.ended.lock().unwrap().iter().any(|ended| ended == payload)
    }
}

/// A sender and a receiver whose handlers wait for a gate.
#[derive(Debug)]
pub(crate) struct Jam {
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) handlers: Gated,
    pub(crate) receiver: Host,
    pub(crate) sender: Host,
}

impl Jam {
    pub(crate) async fn start(tune: impl Fn(HostBuilder) -> HostBuilder) -> Self {
        let clock = Arc::new(VirtualClock::new());
        let handlers = Gated::new();
        let build = |name: &str, mesh: RouteMesh| {
            let timed = Host::builder(name).mesh(mesh).clock(Arc::<VirtualClock>::clone(&clock));
            tune(tight(timed)).start().unwrap()
        };
        let listening = RouteMesh::new(MESH).listen("127.0.0.1:0".parse().unwrap());
        let receiver = build("receiver", listening.channel(handlers.channel()));
        let address = receiver.listen_address(MESH).unwrap().clone();
        let to_receiver = MeshPeer::new("receiver", address).serves(CHANNEL);
        let serves =
            ChannelServer::new(CHANNEL).on_request("echo", async |payload: Bytes| Ok(payload));
        let sender = build("sender", RouteMesh::new(MESH).peer(to_receiver).channel(serves));
        until("the hosts know each other", || receiver.node(MESH, "sender", CHANNEL).is_ok()).await;
        until("the pair is up", || is_connected(&sender) && is_connected(&receiver)).await;
        Self { clock, handlers, receiver, sender }
    }

    pub(crate) fn caller(&self) -> Caller {
        self.sender.channel(CHANNEL).unwrap()
    }

    /// Fills everything on the way to the receiver's handler. Returns the one send that waits, and
    /// how many were accepted before it. Time does not pass.
    pub(crate) async fn fill(&self) -> (JoinHandle<Result<(), Error>>, u32) {
        fill(&self.sender, &self.caller()).await
    }

    pub(crate) fn open(&self) {
        self.handlers.gate.add_permits(WIDE);
    }

    /// Calls that wait for room to the receiver.
    pub(crate) fn waiting(&self) -> u32 {
        waiting(&self.sender)
    }
}

pub(crate) fn waiting(sender: &Host) -> u32 {
    sender.status().peers.iter().map(|peer| peer.send_queue.waiting).sum()
}

pub(crate) fn is_connected(host: &Host) -> bool {
    let peers = host.status().peers;
    !peers.is_empty() && peers.iter().all(|peer| peer.state == zhost::PeerState::Connected)
}

/// The payload of one message that fills.
pub(crate) fn filler(number: u32) -> Bytes {
    let mut payload = vec![7; PAYLOAD];
    payload[..4].copy_from_slice(&number.to_le_bytes());
    payload.into()
}

/// Sends `work` one by one until a send keeps waiting.
pub(crate) async fn fill(sender: &Host, caller: &Caller) -> (JoinHandle<Result<(), Error>>, u32) {
    for number in 0..MORE_THAN_FITS {
        let task = caller.clone();
        let send = tokio::spawn(async move { task.send("work", filler(number)).await });
        let taken = || send.is_finished() || waiting(sender) > 0;
        until("a send is accepted or waits", taken).await;
        if !send.is_finished() {
            let charged = || bytes_held(&sender.status());
            until_still(|| (send.is_finished(), charged())).await;
        }
        if !send.is_finished() {
            return (send, number);
        }
        send.await.unwrap().unwrap();
    }
    panic!("{MORE_THAN_FITS} messages of {PAYLOAD} B found room");
}

pub(crate) fn bytes_held(status: &Status) -> Vec<[u64; 2]> {
    let held = |peer: &zhost::PeerStatus| {
        [peer.send_queue.accounted.get(), peer.receive_queue.accounted.get()]
    };
    status.peers.iter().map(held).collect()
}

/// Polls once.
pub(crate) async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    core::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// How many records a host gave up, for whatever reason.
pub(crate) fn dropped(host: &Host) -> u64 {
    host.status().dropped.iter().map(|(_, count)| count).sum()
}
