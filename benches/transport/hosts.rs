//! Two hosts of one shard each, on a thread of their own each, with handlers and client code on the
//! shards.
//!
//! A host has one pair with a node of a mesh. Many connections are many client hosts, or many meshes
//! between the same two hosts, each with a listener, a channel and a task of its own.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;
use zhost::{
    Caller, ChannelServer, Dispatch, DriverKind, Host, HostBuilder, MeshPeer, RouteMesh,
    SocketAddress, StartError,
};

use crate::load::{Calls, Load, Sample, Way};

fn described(node: &str, driver: DriverKind) -> HostBuilder {
    Host::builder(node).driver(driver).shards(1).dispatch(Dispatch::Shard)
}

fn mesh_name(number: usize) -> String {
    format!("mesh-{number}")
}

fn channel_name(number: usize) -> String {
    format!("channel-{number}")
}

/// System calls of a host's drivers so far.
pub(crate) fn calls(host: &Host) -> u64 {
    host.status().shards.iter().map(|shard| shard.system_calls).sum()
}

/// A host that serves, on a thread of its own, until it is dropped.
pub(crate) struct Server {
    pub(crate) host: Arc<Host>,
    pub(crate) addresses: Vec<SocketAddress>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(driver: DriverKind, listeners: u32) -> Self {
        let (ready, is_ready) = sync_channel(1);
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || serve(driver, listeners, ready, stopped).unwrap());
        let host: Arc<Host> = is_ready.recv().unwrap();
        let numbers = 0..usize::try_from(listeners).unwrap();
        let addresses = numbers.map(|number| host.listen_address(&mesh_name(number)).cloned());
        let addresses = addresses.map(Option::unwrap).collect();
        Self { host, addresses, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join);
    }
}

fn serve(
    driver: DriverKind,
    listeners: u32,
    ready: SyncSender<Arc<Host>>,
    stopped: oneshot::Receiver<()>,
) -> Result<(), StartError> {
    let mut builder = described("server", driver);
    for number in 0..usize::try_from(listeners).unwrap() {
        let listen = "127.0.0.1:0".parse().unwrap();
        let mesh = RouteMesh::new(mesh_name(number)).listen(listen).channel(served(number));
        builder = builder.mesh(mesh);
    }
    builder.block_on(move |host| {
        ready.send(Arc::new(host)).unwrap();
        async move {
            stopped.await.ok();
        }
    })
}

/// `mark` answers how many messages were counted since the last one: handlers of a pair begin in
/// the order of arrival, and these end as they begin.
fn served(number: usize) -> ChannelServer {
    let counted = Arc::new(AtomicU32::new(0));
    let marked = Arc::clone(&counted);
    ChannelServer::new(channel_name(number))
        .on_request("echo", async |message: Bytes| Ok(message))
        .on_send("count", move |_: Bytes| {
            counted.fetch_add(1, Relaxed);
            core::future::ready(())
        })
        .on_request("mark", move |_: Bytes| {
            let count = marked.swap(0, Relaxed).to_le_bytes();
            async move { Ok(Bytes::copy_from_slice(&count)) }
        })
}

/// Runs a phase between a client host on this thread and a server on one of its own.
pub(crate) fn run(driver: DriverKind, load: Load) -> Sample {
    let server = Server::start(driver, load.way.connections());
    let host = Arc::clone(&server.host);
    call("client", driver, load, &server.addresses, move || calls(&host)).unwrap()
}

/// Runs the client side of a phase on this thread. `served` reads the server's count.
pub(crate) fn call(
    node: &str,
    driver: DriverKind,
    load: Load,
    servers: &[SocketAddress],
    served: impl Fn() -> u64 + Send + 'static,
) -> Result<Sample, StartError> {
    let mut builder = described(node, driver);
    for (number, address) in servers.iter().enumerate() {
        let peer = MeshPeer::new("server", address.clone()).serves(channel_name(number));
        builder = builder.mesh(RouteMesh::new(mesh_name(number)).peer(peer));
    }
    builder.block_on(move |host| async move {
        let both = || Calls { client: calls(&host), server: served() };
        pass(&host, load, load.warm_up).await;
        let (begun, before) = (Instant::now(), both());
        pass(&host, load, load.messages).await;
        let (elapsed, ever) = (begun.elapsed(), both());
        Sample { elapsed, calls: ever.since(before), ever }
    })
}

/// Moves this many messages of a load and comes back when all are handled.
async fn pass(host: &Host, load: Load, messages: u32) {
    let payload = Bytes::from(vec![1; load.size]);
    match load.way {
        Way::Echo { connections } => {
            let callers = (0..usize::try_from(connections).unwrap())
                .map(|number| host.channel(&channel_name(number)).unwrap());
            let tasks: Vec<_> = callers
                .map(|caller| {
                    let payload = payload.clone();
                    host.on_shard(move || echo(caller, payload, messages / connections))
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        }
        Way::OneWay => {
            let caller = host.channel(&channel_name(0)).unwrap();
            for _ in 0..messages {
                caller.send("count", payload.clone()).await.unwrap();
            }
            let counted = caller.request("mark", Bytes::new()).await.unwrap().payload();
            assert_eq!(*counted, messages.to_le_bytes(), "each message is handled once");
        }
    }
}

async fn echo(caller: Caller, payload: Bytes, messages: u32) {
    for _ in 0..messages {
        let reply = caller.request("echo", payload.clone()).await.unwrap();
        assert_eq!(reply.payload().len(), payload.len(), "an echo is as long as what it answers");
    }
}
