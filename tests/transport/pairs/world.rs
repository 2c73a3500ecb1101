//! The hosts of these tests, and how they are looked at.

use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Waker};
use core::time::Duration;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use bytes::Bytes;
use tokio::sync::Semaphore;
use zhost::clock::VirtualClock;
use zhost::{
    Caller, ChannelServer, DropReason, Host, HostBuilder, Json, MeshPeer, PeerState, PeerStatus,
    RouteMesh, SocketAddress,
};

pub(crate) const MESH: &str = "shop";

pub(crate) const CHANNEL: &str = "orders";

/// Longer than any working machine needs, one that stops its threads for seconds included.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// How many times that a thread which makes many calls may take.
const CALLS: u32 = 5;

/// Waits for a call on this thread. On a clock that stands still nothing else ends one that hangs.
pub(crate) fn block<T>(call: impl IntoFuture<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let call = call.into_future();
    runtime.block_on(async { tokio::time::timeout(PATIENCE * CALLS, call).await }).unwrap()
}

/// Makes a call on a thread of its own.
pub(crate) fn spawn<T, F>(call: F) -> JoinHandle<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    std::thread::spawn(move || block(call))
}

/// Begins a call that does not end at once: it is registered, and queued if there was room.
#[track_caller]
pub(crate) fn begin<C>(call: C) -> Pin<Box<C::IntoFuture>>
where
    C: IntoFuture,
    C::IntoFuture: Future,
{
    let mut call = Box::pin(call.into_future());
    let is_pending = call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
    assert!(is_pending, "the call has ended at once");
    call
}

/// Lets real time pass: what a kernel and a raw peer do is on no virtual clock.
#[expect(clippy::disallowed_methods, reason = "nothing depends on its length but how much is seen")]
pub(crate) fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// Between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until something holds; it fails after a time that no working machine needs.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..PATIENCE.as_millis() / LOOK.as_millis() {
        if holds() {
            return;
        }
        pause(LOOK);
    }
    panic!("{PATIENCE:?} were not enough: {what}");
}

/// The same for something that takes a host's time, like another attempt to connect. Time passes
/// only with this thread's looks, so on a busy machine no limit of a host ends early.
#[track_caller]
pub(crate) fn until_in_time(what: &str, clock: &VirtualClock, holds: impl Fn() -> bool) {
    until(what, || {
        let is_so = holds();
        if !is_so {
            clock.advance(2 * LOOK);
        }
        is_so
    });
}

/// What handlers have seen, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<Vec<u32>>>);

impl Ledger {
    fn note(&self, payload: &[u8]) {
        let number = payload.first_chunk().map_or(u32::MAX, |bytes| u32::from_le_bytes(*bytes));
        self.0.lock().unwrap().push(number);
    }

    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// The handlers: `placed` notes a message, `held` waits for the gate first, `echo` replies,
/// `later` too, behind the gate, and `typed` takes JSON.
pub(crate) fn channel(ledger: &Ledger, gate: &Arc<Semaphore>) -> ChannelServer {
    let (placed, held) = (ledger.clone(), ledger.clone());
    let (opened, ready) = (Arc::clone(gate), Arc::clone(gate));
    ChannelServer::new(CHANNEL)
        .on_send("placed", move |order: Bytes| {
            placed.note(&order);
            core::future::ready(())
        })
        .on_send("held", move |order: Bytes| {
            let (held, opened) = (held.clone(), Arc::clone(&opened));
            async move {
                opened.acquire().await.unwrap().forget();
                held.note(&order);
            }
        })
        .on_send("typed", async |Json(_): Json<u32>| {})
        .on_request("later", move |order: Bytes| {
            let ready = Arc::clone(&ready);
            async move {
                ready.acquire().await.unwrap().forget();
                Ok(order)
            }
        })
        .on_request("echo", async |order: Bytes| Ok(order))
}

/// A clock that stands still unless its test moves it: nothing is probed and nothing times out,
/// however long a machine stops a thread. Hosts have one of their own if their test gives them none.
pub(crate) fn still() -> Arc<VirtualClock> {
    Arc::new(VirtualClock::new())
}

/// A host named `server` that serves the channel and listens.
pub(crate) struct Server {
    pub(crate) host: Host,
    pub(crate) ledger: Ledger,
    pub(crate) gate: Arc<Semaphore>,
}

impl Server {
    pub(crate) fn start(tune: impl FnOnce(HostBuilder) -> HostBuilder) -> Self {
        Self::listen("127.0.0.1:0".parse().unwrap(), tune)
    }

    /// On a clock that its test moves.
    pub(crate) fn on_virtual_time(clock: &Arc<VirtualClock>) -> Self {
        let clock = Arc::clone(clock);
        Self::start(|host| host.clock(clock))
    }

    pub(crate) fn listen(
        address: SocketAddress,
        tune: impl FnOnce(HostBuilder) -> HostBuilder,
    ) -> Self {
        let (ledger, gate) = (Ledger::default(), Arc::new(Semaphore::new(0)));
        let mesh = RouteMesh::new(MESH).listen(address).channel(channel(&ledger, &gate));
        let host = tune(Host::builder("server").clock(still()).mesh(mesh)).start().unwrap();
        Self { host, ledger, gate }
    }

    /// A caller of a node that has connected.
    #[track_caller]
    pub(crate) fn caller(&self, node: &str) -> Caller {
        until("the node is known", || self.host.node(MESH, node, CHANNEL).is_ok());
        self.host.node(MESH, node, CHANNEL).unwrap()
    }

    /// Waits for the counts of connections and pairs that ended.
    #[track_caller]
    pub(crate) fn expect_counts(&self, rejected: u64, ended: u64) {
        let counts = || {
            let status = self.host.status();
            (status.rejected_connections, status.pairs_ended)
        };
        until(&format!("{rejected} rejected and {ended} ended"), || counts() >= (rejected, ended));
        assert_eq!(counts(), (rejected, ended), "rejected connections and ended pairs");
    }

    /// Nothing of any peer is held any more.
    #[track_caller]
    pub(crate) fn expect_empty(&self) {
        until("nothing is held", || {
            let status = self.host.status();
            let is_empty = |peer: &PeerStatus| peer.receive_queue.accounted.is_zero();
            status.application_job_queue.in_use == 0 && status.peers.iter().all(is_empty)
        });
    }
}

/// A host named `client` that dials `node` at an address.
pub(crate) fn client(
    node: &str,
    address: SocketAddress,
    tune: impl FnOnce(HostBuilder) -> HostBuilder,
) -> Host {
    let mesh = RouteMesh::new(MESH).peer(MeshPeer::new(node, address).serves(CHANNEL));
    tune(Host::builder("client").clock(still()).mesh(mesh)).start().unwrap()
}

/// How many messages a host has given up for a reason.
pub(crate) fn dropped(host: &Host, wanted: DropReason) -> u64 {
    let dropped = host.status().dropped;
    dropped.iter().filter(|(reason, _)| *reason == wanted).map(|(_, count)| count).sum()
}

/// What a host shows of a peer.
#[track_caller]
pub(crate) fn peer(host: &Host, node: &str) -> PeerStatus {
    let peers = host.status().peers;
    peers.into_iter().find(|peer| peer.node.as_deref() == Some(node)).unwrap()
}

/// Whether a pair with a node is up.
pub(crate) fn is_connected(host: &Host, node: &str) -> bool {
    let is_up = |peer: &PeerStatus| {
        peer.node.as_deref() == Some(node) && peer.state == PeerState::Connected
    };
    host.status().peers.iter().any(is_up)
}

#[track_caller]
pub(crate) fn until_connected(host: &Host, node: &str) {
    until("the pair is up", || is_connected(host, node));
}

/// A well-behaved host that asks the server without a pause. What it comes to is that nothing of
/// all this disturbs it.
pub(crate) struct Bystander {
    host: Arc<Host>,
    is_over: Arc<AtomicBool>,
    asking: JoinHandle<()>,
}

impl Bystander {
    pub(crate) fn start(server: &Server) -> Self {
        let address = server.host.listen_address(MESH).unwrap().clone();
        let host = Arc::new(client("server", address, |host| host));
        until_connected(&host, "server");
        let is_over = Arc::new(AtomicBool::new(false));
        let (asked, stop) = (Arc::clone(&host), Arc::clone(&is_over));
        let asking = spawn(async move {
            let server = asked.channel(CHANNEL).unwrap();
            let mut answers = 0_u64;
            while answers < 10 || !stop.load(Ordering::Relaxed) {
                let reply = server.request("echo", Bytes::from_static(b"well?")).await.unwrap();
                assert_eq!(reply.payload(), b"well?".as_slice(), "its own answer");
                answers += 1;
            }
        });
        Self { host, is_over, asking }
    }

    /// It was answered all the time, over one pair.
    #[track_caller]
    pub(crate) fn expect_undisturbed(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.asking.join().unwrap();
        assert_eq!(peer(&self.host, "server").pairs, 1, "its pair never ended");
    }
}
