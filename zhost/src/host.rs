//! A running host.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use zcore::Instant;
use ztransport::socket::SocketAddress;
use ztransport::{DropReason, Peer};

use crate::builder::HostBuilder;
use crate::engine::Shared;
use crate::error::{Error, ErrorKind};
use crate::messaging::{Caller, Target};
use crate::observe::{Status, WorstCase};
use crate::threads::Threads;

/// How long a shutdown may take unless it says otherwise (D-19).
pub const DRAIN_DEADLINE_DEFAULT: Duration = Duration::from_secs(30);

/// One framework instance: its listeners, peers, channels and handlers.
///
/// Dropping a host ends it at once; [`Host::shutdown`] ends it well.
///
/// ```no_run
/// use bytes::Bytes;
/// use zhost::{ChannelServer, Host, RouteMesh};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = ChannelServer::new("orders")
///     .on_send("placed", async |order: Bytes| println!("{} B", order.len()))
///     .on_request("quote", async |order: Bytes| Ok(order));
/// let mesh = RouteMesh::new("shop").listen("127.0.0.1:7400".parse()?).channel(orders);
/// let host = Host::builder("warehouse").mesh(mesh).start()?;
/// host.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Host {
    pub(crate) shared: Arc<Shared>,
    pub(crate) threads: Option<Threads>,
    pub(crate) directory: Arc<Directory>,
}

/// What can be called, and where this host listens.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub(crate) channels: BTreeMap<String, Target>,
    /// The topology of each channel and of each mesh, by name.
    pub(crate) topologies: BTreeMap<String, u16>,
    pub(crate) listening: BTreeMap<String, SocketAddress>,
    /// Whom this host dials, by topology and address.
    pub(crate) dialed: Vec<(u16, SocketAddress, Arc<Peer>)>,
}

impl Host {
    /// Begins to describe a host with this node id: 1 to 63 letters, digits, `.`, `_` and `-`.
    pub fn builder(node: impl Into<String>) -> HostBuilder {
        HostBuilder::new(node.into())
    }

    /// Calls one candidate of a channel each time.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotConfigured`] when no topology of this host has a channel of that name to
    /// call.
    pub fn channel(&self, name: &str) -> Result<Caller, Error> {
        let target = self.directory.channels.get(name).ok_or_else(|| {
            let hint = "no peer of this host is said to serve the channel";
            Error::at_once(ErrorKind::NotConfigured, hint)
        })?;
        Ok(Caller::new(Arc::clone(&self.shared), target.clone(), name.into()))
    }

    /// Calls a channel of one node of a mesh, never another's (B-72).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] when the mesh has no such node, or has not met it yet.
    pub fn node(&self, mesh: &str, node: &str, channel: &str) -> Result<Caller, Error> {
        let peer = self.find(mesh, node)?;
        Ok(Caller::new(Arc::clone(&self.shared), Target::Node(peer), channel.into()))
    }

    /// Detaches a node for good: `topology` is the name of its mesh, or of its ClientServer channel.
    ///
    /// Nothing of it is waited for any more (D-18). Calls that wait for room end with
    /// [`ErrorKind::Unavailable`], and so do requests that were not sent; both are safe to repeat
    /// elsewhere. A request that was sent ends with the same kind and is ambiguous. One-way messages
    /// that were accepted and not sent are counted as dropped (`peer_gone`). The node is told, if it
    /// is connected, and not dialed any more; its place is free once its connections are closed.
    /// What it sent before is still handled. If it dials this host later, it is a peer as any other.
    ///
    /// Returns at once; the shard does it in its next turn. A second call does nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] when the topology has no such node, or has not met it yet.
    pub fn detach(&self, topology: &str, node: &str) -> Result<(), Error> {
        self.find(topology, node)?.detach();
        Ok(())
    }

    /// Detaches the peer that this host dials at an address, as [`Host::detach`] does: the node id of
    /// a server that never answered is not known.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] when the topology dials nobody at that address.
    pub fn detach_address(&self, topology: &str, address: &SocketAddress) -> Result<(), Error> {
        let index = self.directory.topologies.get(topology);
        let is_meant =
            |(of, at, _): &&(u16, SocketAddress, Arc<Peer>)| Some(of) == index && at == address;
        let dialed = self.directory.dialed.iter().find(is_meant);
        let (_, _, peer) = dialed.ok_or_else(|| {
            Error::at_once(ErrorKind::NotFound, "the topology dials nobody at this address")
        })?;
        peer.detach();
        Ok(())
    }

    fn find(&self, topology: &str, node: &str) -> Result<Arc<Peer>, Error> {
        let not_found = || Error::at_once(ErrorKind::NotFound, "the topology has no such node");
        let topology = *self.directory.topologies.get(topology).ok_or_else(not_found)?;
        let label = zcore::wire::Label::new(node).map_err(|_| not_found())?;
        self.shared.peers.find(topology, &label).ok_or_else(not_found)
    }

    /// Where a mesh or a channel listens, with the port that was taken.
    pub fn listen_address(&self, name: &str) -> Option<&SocketAddress> {
        self.directory.listening.get(name)
    }

    /// One look at the host. Takes each lock for a moment; meant for people and samplers, not for
    /// every message.
    pub fn status(&self) -> Status {
        Status::of(&self.shared)
    }

    /// The most bytes that are in flight to one peer, from the accepted send to the end of the
    /// handler, if the peer is set up like this host. Opens a socket for a moment, to see what the
    /// kernel grants.
    ///
    /// # Errors
    ///
    /// What the kernel says when no socket can be opened.
    pub fn worst_case(&self) -> std::io::Result<WorstCase> {
        WorstCase::of(&self.shared)
    }

    /// Whether every permit is taken. One lock.
    pub fn is_saturated(&self) -> bool {
        self.shared.permits.is_exhausted()
    }

    /// The host's time.
    pub fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    /// Runs client code on the first shard's own thread: no hop to the peers of that shard, the
    /// fastest way to send. `make` is called there, so its future need not be `Send`.
    pub fn on_shard<T, M, F>(&self, make: M) -> OnShard<T>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let cell = Arc::new(Mutex::new(ShardCell { output: None, is_over: false, waker: None }));
        let guard = CellGuard(Arc::clone(&cell));
        let spawn = Box::new(move || {
            let future = make();
            let local: crate::engine::LocalFuture = Box::pin(async move {
                let output = future.await;
                guard.finish(output);
            });
            local
        });
        self.shared.spawn(spawn);
        OnShard { cell }
    }

    /// Ends the host within [`DRAIN_DEADLINE_DEFAULT`].
    pub async fn shutdown(&self) -> DrainReport {
        self.shutdown_within(DRAIN_DEADLINE_DEFAULT).await
    }

    /// Takes nothing new, ends every waiting call with [`ErrorKind::ShuttingDown`], sends what was
    /// admitted, finishes what was accepted, says goodbye; cuts off what is left at the deadline
    /// and counts it (D-19).
    pub async fn shutdown_within(&self, limit: Duration) -> DrainReport {
        let deadline = self.shared.clock.now().saturating_add(limit);
        self.shared.drain(deadline);
        let failure = core::future::poll_fn(|context| self.shared.stop.poll(context)).await;
        if let Some(threads) = &self.threads {
            threads.join();
        }
        DrainReport { abandoned: self.abandoned(), failure }
    }

    fn abandoned(&self) -> u64 {
        let totals = self.shared.counters.dropped_totals();
        totals.iter().filter(|(reason, _)| *reason == DropReason::Shutdown).map(|(_, n)| n).sum()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Without a thread of its own the host ends with `block_on`, which drains it.
        if let Some(threads) = &self.threads {
            self.shared.drain(self.shared.clock.now());
            threads.join();
        }
    }
}

/// How a shutdown went.
#[derive(Clone, Debug)]
pub struct DrainReport {
    /// Admitted records that were not sent by the deadline.
    pub abandoned: u64,
    /// What the kernel said, if it ended the shard before.
    pub failure: Option<String>,
}

impl fmt::Display for DrainReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { abandoned, failure } = self;
        match failure {
            Some(failure) => write!(f, "ended early ({failure}); {abandoned} messages not sent"),
            None => write!(f, "drained; {abandoned} messages not sent"),
        }
    }
}

#[derive(Debug)]
struct ShardCell<T> {
    output: Option<T>,
    is_over: bool,
    waker: Option<Waker>,
}

/// Ends the waiting side even if the shard drops the future.
struct CellGuard<T>(Arc<Mutex<ShardCell<T>>>);

impl<T> CellGuard<T> {
    fn finish(&self, output: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).output = Some(output);
    }
}

impl<T> Drop for CellGuard<T> {
    fn drop(&mut self) {
        let waker = {
            let mut cell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            cell.is_over = true;
            cell.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// What client code on a shard comes to.
#[must_use = "the code runs whether or not this is awaited, but its output is lost"]
#[derive(Debug)]
pub struct OnShard<T> {
    cell: Arc<Mutex<ShardCell<T>>>,
}

impl<T> Future for OnShard<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = cx.waker().clone();
        let mut cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(output) = cell.output.take() {
            return Poll::Ready(Ok(output));
        }
        if cell.is_over {
            let hint = "the code panicked on the shard, or the host ended first";
            return Poll::Ready(Err(Error::at_once(ErrorKind::InternalFailure, hint)));
        }
        let replaced = cell.waker.replace(waker);
        drop(cell);
        drop(replaced);
        Poll::Pending
    }
}
