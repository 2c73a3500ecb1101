//! The threads of a host: one for each shard, each with a driver of its own.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use ztransport::driver::{Driver, DriverKind};
use ztransport::epoll::{Epoll, EpollOptions, EpollUnavailable};
use ztransport::probe::Unavailable;
use ztransport::uring::{Uring, UringOptions};
use ztransport::{Doorbell, Shard, ShardGauge, ShardPlan, ShardSockets};

use crate::dispatch::DispatchCounts;
use crate::engine::Shared;
use crate::messaging::HostIngress;
use crate::options::Settings;

/// Where the handlers of a host run.
#[derive(Debug)]
pub(crate) enum Executor {
    /// On the shard.
    Shard,
    /// On Tokio.
    #[cfg(feature = "tokio")]
    Tokio(TokioQueues),
}

/// One queue of jobs for each peer.
#[cfg(feature = "tokio")]
#[derive(Debug)]
pub(crate) struct TokioQueues {
    runner: crate::dispatch::TokioRunner,
    queues: Vec<Option<crate::dispatch::PairQueue>>,
}

#[cfg(feature = "tokio")]
impl TokioQueues {
    pub(crate) const fn new(runner: crate::dispatch::TokioRunner) -> Self {
        Self { runner, queues: Vec::new() }
    }

    /// What its handlers count.
    pub(crate) const fn counts(&self) -> &Arc<DispatchCounts> {
        self.runner.counts()
    }

    /// Hands a job to the runner of a peer.
    pub(crate) fn submit(&mut self, peer: u32, job: crate::dispatch::Job) {
        let index = usize::try_from(peer).unwrap_or(usize::MAX);
        if self.queues.len() <= index {
            self.queues.resize_with(index + 1, || None);
        }
        let Self { runner, queues } = self;
        if let Some(queue) = queues.get_mut(index) {
            queue.get_or_insert_with(|| runner.pair()).submit(job);
        }
    }
}

/// What every thread sees of a shard.
#[derive(Debug)]
pub(crate) struct ShardSeat {
    pub(crate) bell: Arc<Doorbell>,
    pub(crate) gauge: Arc<ShardGauge>,
    /// Which driver it has, once it has one.
    pub(crate) driver: OnceLock<DriverChoice>,
}

impl ShardSeat {
    pub(crate) fn new(bell: Arc<Doorbell>) -> Self {
        Self { bell, gauge: Arc::default(), driver: OnceLock::new() }
    }
}

/// Which driver a shard runs on, and why not on `io_uring`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct DriverChoice {
    pub(crate) name: &'static str,
    /// Why, in words.
    pub(crate) reason: String,
    /// The most that it still receives of a connection once a pause is due, in bytes.
    pub(crate) carry_max: u64,
}

/// What a shard is built from.
#[derive(Debug)]
pub(crate) struct ShardParts {
    pub(crate) plan: ShardPlan,
    pub(crate) sockets: ShardSockets<OwnedFd>,
    pub(crate) executor: Executor,
}

/// The threads of the shards.
#[derive(Debug)]
pub(crate) struct Threads {
    handles: Mutex<Vec<JoinHandle<()>>>,
}

/// Why a shard did not start.
#[derive(Debug)]
pub(crate) enum ThreadsError {
    /// There is no thread to be had.
    Thread(std::io::Error),
    /// There is no driver of the wanted kind to be had.
    Driver(DriverError),
}

/// Why there is no driver.
#[derive(Debug)]
pub(crate) enum DriverError {
    Uring(Unavailable),
    Epoll(EpollUnavailable),
}

impl Threads {
    /// Starts a thread for each shard, from `first` on, and waits until their drivers stand. Either
    /// all run, or none does.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        parts: Vec<ShardParts>,
        first: usize,
    ) -> Result<Self, ThreadsError> {
        let (report, reported) = std::sync::mpsc::sync_channel(parts.len());
        let (mut handles, mut outcome) = (Vec::new(), Ok(()));
        for (index, parts) in (first..).zip(parts) {
            let (shared, report) = (Arc::clone(shared), report.clone());
            let body = move || match open_driver(&shared, index) {
                Ok(opened) => {
                    report.send(Ok(())).ok();
                    run_shard(opened, &shared, parts);
                }
                Err(error) => {
                    report.send(Err(error)).ok();
                    shared.shard_ended(None);
                }
            };
            let name = format!("zlink-shard-{index}");
            match std::thread::Builder::new().name(name).spawn(body) {
                Ok(handle) => handles.push(handle),
                Err(error) => outcome = Err(ThreadsError::Thread(error)),
            }
        }
        for _ in &handles {
            match reported.recv() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => outcome = Err(ThreadsError::Driver(error)),
                Err(_) => {
                    let ended = std::io::Error::other("a shard's thread ended");
                    outcome = Err(ThreadsError::Thread(ended));
                }
            }
        }
        let threads = Self { handles: Mutex::new(handles) };
        if outcome.is_err() {
            shared.drain(shared.clock.now());
            threads.join();
        }
        outcome.map(|()| threads)
    }

    /// Waits for the threads to end. From one of their own handlers this is impossible for that
    /// one, which is skipped.
    pub(crate) fn join(&self) {
        let handles =
            core::mem::take(&mut *self.handles.lock().unwrap_or_else(PoisonError::into_inner));
        for handle in handles {
            if handle.thread().id() != std::thread::current().id() {
                // A panic of the shard was reported by the panic hook.
                drop(handle.join());
            }
        }
    }
}

/// A driver of one of the kinds.
#[derive(Debug)]
pub(crate) struct OpenDriver {
    driver: AnyDriver,
    choice: DriverChoice,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each shard, moved once")]
enum AnyDriver {
    Uring(Uring),
    Epoll(Epoll),
}

/// Opens a driver for a shard, on the thread that calls, and notes which it is.
pub(crate) fn open_driver(shared: &Shared, shard: usize) -> Result<OpenDriver, DriverError> {
    let opened = open_kind(&shared.settings)?;
    if let Some(seat) = shared.crew.get(shard) {
        seat.driver.set(opened.choice.clone()).ok();
    }
    Ok(opened)
}

/// Opens a driver of the kind that the settings name.
fn open_kind(settings: &Settings) -> Result<OpenDriver, DriverError> {
    let uring = |reason: &str| {
        Uring::new(uring_options(settings)).map(|driver| {
            let choice = choice("uring", reason, &driver);
            OpenDriver { driver: AnyDriver::Uring(driver), choice }
        })
    };
    let epoll = |reason: &str| {
        let driver = Epoll::new(EpollOptions { sockets_max: sockets_max(settings) });
        driver.map_err(DriverError::Epoll).map(|driver| {
            let choice = choice("epoll", reason, &driver);
            OpenDriver { driver: AnyDriver::Epoll(driver), choice }
        })
    };
    match settings.driver {
        DriverKind::Uring => uring("it was asked for").map_err(DriverError::Uring),
        DriverKind::Epoll => epoll("it was asked for"),
        DriverKind::Auto => {
            uring("it works here").or_else(|unavailable| epoll(&unavailable.to_string()))
        }
    }
}

fn choice(name: &'static str, reason: &str, driver: &impl Driver) -> DriverChoice {
    DriverChoice { name, reason: reason.into(), carry_max: driver.carry_max() }
}

/// Runs a shard on this thread until it has drained, whatever happens to it.
pub(crate) fn run_shard(opened: OpenDriver, shared: &Arc<Shared>, parts: ShardParts) {
    let OpenDriver { driver, choice } = opened;
    tracing::info!(
        shard = parts.plan.index,
        driver = choice.name,
        reason = choice.reason,
        "a shard runs"
    );
    match driver {
        AnyDriver::Uring(driver) => run_on(driver, shared, parts),
        AnyDriver::Epoll(driver) => run_on(driver, shared, parts),
    }
}

fn run_on(driver: impl Driver<Socket = OwnedFd>, shared: &Arc<Shared>, parts: ShardParts) {
    /// Tells the host even if the shard panics.
    struct Ended<'shard>(&'shard Shared, Option<String>);

    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            self.0.shard_ended(self.1.take());
        }
    }

    let ShardParts { plan, sockets, executor } = parts;
    let mut ended = Ended(shared, Some("a shard panicked".into()));
    let ingress = HostIngress::new(Arc::clone(shared), executor, &plan);
    let outcome = Shard::new(driver, ingress, plan, sockets).and_then(Shard::run);
    ended.1 = outcome.err().map(|error| error.to_string());
}

fn uring_options(settings: &Settings) -> UringOptions {
    UringOptions { sockets_max: sockets_max(settings), ..UringOptions::default() }
}

/// Two connections for each peer, the listeners, and those that have not said who they are. One
/// shard may have them all.
fn sockets_max(settings: &Settings) -> u32 {
    let strangers = u32::try_from(ztransport::limits::HALF_PAIRS_MAX).unwrap_or(u32::MAX);
    settings.peers_max.saturating_mul(2).saturating_add(strangers * 2)
}
