//! Puts a host together from its description.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use zcore::wire::{Label, TopologyKind};
use zcore::{JobQueue, SourceSlot};
use ztransport::clock::Clock;
use ztransport::socket::{self, SocketAddress};
use ztransport::uring::Uring;
use ztransport::{
    ByteLimits, Doorbell, LaneContext, Listener, Peer, Peers, Permits, ShardControl, ShardPlan,
    TopologyPlan, WaitSpace,
};

use crate::builder::{HostBuilder, StartError};
use crate::dispatch::StartGate;
use crate::engine::{Executor, Parts, Shared, run_shard, uring_options};
use crate::host::{Directory, Host};
use crate::messaging::{Routes, Target};
use crate::options::{ConfigError, ConfigErrors, Dispatch, Settings};
use crate::topology::{ChannelServer, ClientServer, RouteMesh, SelectOne, Side, WEIGHT_MAX};

/// A host that has everything but a thread.
pub(crate) struct Assembled {
    pub(crate) shared: Arc<Shared>,
    pub(crate) plan: ShardPlan,
    pub(crate) listeners: Vec<Listener<OwnedFd>>,
    pub(crate) executor: Executor,
    pub(crate) directory: Arc<Directory>,
}

/// Checks everything first, then binds, then builds.
pub(crate) fn assemble(builder: HostBuilder) -> Result<Assembled, StartError> {
    let HostBuilder { node, options, clock, meshes, client_servers } = builder;
    let mut errors = ConfigErrors::default();
    let node = label("node", &node, &mut errors);
    let settings = options.check(&mut errors);
    let mut topologies = describe(meshes, client_servers, &mut errors);
    let routes = register(&mut topologies, &mut errors);
    let executor_kind = choose_executor(options.dispatch, &mut errors);
    let (Some(node), Some(settings), Some(executor_kind), true) =
        (node, settings, executor_kind, errors.is_empty())
    else {
        return Err(errors.into());
    };

    let Some(mut draft) = Draft::new(settings, clock, &mut errors) else {
        return Err(errors.into());
    };
    let mut plans = Vec::new();
    for (index, topology) in (0_u16..).zip(topologies) {
        let (plan, listen) = draft.add(index, topology);
        plans.push((plan, listen));
    }
    if !draft.errors.is_empty() {
        return Err(draft.errors.into());
    }
    let (plans, listeners) = draft.listen(plans)?;
    let directory = draft.directory();
    let Draft { settings, peers, permits, lanes, .. } = draft;
    let control = Arc::new(ShardControl::default());
    let gate = StartGate::new(settings.running);
    let executor = executor_kind.build(&gate);
    let plan = ShardPlan {
        node,
        incarnation: random(),
        topologies: plans,
        buffers: settings.socket_buffers,
        peers: Arc::clone(&peers),
        permits: Arc::clone(&permits),
        lanes: lanes.clone(),
        control: Arc::clone(&control),
    };
    let parts = Parts { settings, peers, permits, lanes, control, routes, gate };
    let shared = Arc::new(Shared::new(parts));
    Ok(Assembled { shared, plan, listeners, executor, directory: Arc::new(directory) })
}

/// Runs a host and its client code on this thread.
pub(crate) fn block_on<T, M, F>(builder: HostBuilder, main: M) -> Result<T, StartError>
where
    M: FnOnce(Host) -> F + Send + 'static,
    F: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let Assembled { shared, plan, listeners, executor, directory } = assemble(builder)?;
    let driver = Uring::new(uring_options(&shared.settings)).map_err(StartError::Unavailable)?;
    let output = Arc::new(Mutex::new(None));
    let host = Host { shared: Arc::clone(&shared), engine: None, directory };
    let keep = Arc::clone(&output);
    let spawner = Host {
        shared: Arc::clone(&shared),
        engine: None,
        directory: Arc::new(Directory::default()),
    };
    drop(spawner.on_shard(move || {
        let ended = DrainAtEnd(Arc::clone(&host.shared));
        let future = main(host);
        async move {
            let value = future.await;
            *keep.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(value);
            drop(ended);
        }
    }));
    run_shard(driver, &shared, (plan, listeners), executor);
    drop(spawner);
    let value = output.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    value.ok_or(StartError::Ended)
}

/// Drains the host when its client code is over, however that ends.
struct DrainAtEnd(Arc<Shared>);

impl Drop for DrainAtEnd {
    fn drop(&mut self) {
        let limit = crate::host::DRAIN_DEADLINE_DEFAULT;
        self.0.drain(self.0.clock.now().saturating_add(limit));
    }
}

/// A topology whose names are checked.
struct Topology {
    kind: TopologyKind,
    name: Label,
    listen: Option<SocketAddress>,
    dials: Vec<PlannedDial>,
    channels: Vec<ChannelServer>,
}

struct PlannedDial {
    node: Option<Label>,
    address: SocketAddress,
    serves: Vec<(String, u32)>,
}

fn describe(
    meshes: Vec<RouteMesh>,
    client_servers: Vec<ClientServer>,
    errors: &mut ConfigErrors,
) -> Vec<Topology> {
    let mut names = BTreeSet::new();
    for mesh in &meshes {
        if !names.insert(mesh.name.as_str()) {
            let problem = format!("two meshes are called `{}`; describe each once", mesh.name);
            errors.push(ConfigError::new("mesh", problem));
        }
    }
    let meshes: Vec<_> = meshes.into_iter().map(|mesh| describe_mesh(mesh, errors)).collect();
    let sides = client_servers.into_iter().map(|side| describe_side(side, errors));
    let described: Vec<_> = meshes.into_iter().chain(sides).flatten().collect();
    if u16::try_from(described.len()).is_err() {
        errors.push(ConfigError::new("topologies", "there are more than 65535"));
    }
    described
}

fn describe_mesh(mesh: RouteMesh, errors: &mut ConfigErrors) -> Option<Topology> {
    let RouteMesh { name, listen, peers, channels } = mesh;
    let mut dials = Vec::new();
    for peer in peers {
        for (channel, weight) in &peer.channels {
            label("channel", channel, errors);
            errors.range("weight", (*weight).into(), 0..=WEIGHT_MAX.into(), "");
        }
        let node = label("peer", &peer.node, errors);
        dials.push(PlannedDial { node, address: peer.address, serves: peer.channels });
    }
    let name = label("mesh", &name, errors)?;
    Some(Topology { kind: TopologyKind::RouteMesh, name, listen, dials, channels })
}

fn describe_side(side: ClientServer, errors: &mut ConfigErrors) -> Option<Topology> {
    let ClientServer { side, channel } = side;
    let name = label("channel", &channel.name, errors)?;
    if channel.dials_as_server {
        let problem = "the server side of a channel dials nobody; connect on the client side";
        errors.push(ConfigError::new("connect", problem));
    }
    let kind = TopologyKind::ClientServer;
    Some(match side {
        Side::Client { servers } => {
            let dials = servers
                .into_iter()
                .map(|(address, weight)| PlannedDial {
                    node: None,
                    address,
                    serves: vec![(channel.name.clone(), weight)],
                })
                .collect();
            Topology { kind, name, listen: None, dials, channels: Vec::new() }
        }
        Side::Server { listen } => {
            let channels = vec![channel];
            Topology { kind, name, listen: Some(listen), dials: Vec::new(), channels }
        }
    })
}

/// Takes the handlers out of their channels.
fn register(topologies: &mut [Topology], errors: &mut ConfigErrors) -> Routes {
    let mut routes = Routes::default();
    for (index, topology) in (0_u16..).zip(topologies) {
        for ChannelServer { name, handlers, .. } in core::mem::take(&mut topology.channels) {
            label("channel", &name, errors);
            routes.add(index, &name, handlers, errors);
        }
    }
    routes
}

/// The parts of a host while it is put together.
struct Draft {
    peers: Arc<Peers>,
    permits: Arc<Permits>,
    lanes: LaneContext,
    topologies: BTreeMap<String, u16>,
    listening: BTreeMap<String, SocketAddress>,
    candidates: BTreeMap<String, Candidates>,
    settings: Settings,
    errors: ConfigErrors,
}

/// The peers that serve a channel, with their weights, and the topology that they belong to.
struct Candidates {
    topology: u16,
    peers: Vec<(Arc<Peer>, u32)>,
}

impl Draft {
    fn new(settings: Settings, clock: Arc<dyn Clock>, errors: &mut ConfigErrors) -> Option<Self> {
        let limits = ByteLimits {
            send: settings.send,
            receive: settings.receive,
            message_size_max: settings.message_size_max,
        };
        let slots = vec![SourceSlot::EMPTY; settings.peers_max as usize].into_boxed_slice();
        let queue = JobQueue::new(slots, settings.permit_limit, settings.thresholds);
        let queue = errors.take("max_peers", queue)?;
        let bell = Arc::new(Doorbell::new(settings.peers_max));
        let lanes = LaneContext {
            space: Arc::new(WaitSpace::new(settings.quotas)),
            timekeeper: Arc::clone(&bell),
            bell,
            clock: Arc::clone(&clock),
        };
        Some(Self {
            peers: Arc::new(Peers::new(limits, settings.peers_max)),
            permits: Arc::new(Permits::new(queue, clock)),
            lanes,
            topologies: BTreeMap::new(),
            listening: BTreeMap::new(),
            candidates: BTreeMap::new(),
            settings,
            errors: ConfigErrors::default(),
        })
    }

    /// Takes a topology in; where it is to listen is for later, when nothing is wrong.
    fn add(&mut self, index: u16, topology: Topology) -> (TopologyPlan, Option<SocketAddress>) {
        let Topology { kind, name, listen, dials, channels: _ } = topology;
        self.topologies.insert(name.to_string(), index);
        let mut planned = Vec::new();
        for PlannedDial { node, address, serves } in dials {
            let Ok(peer) = self.peers.add(index, node, &self.lanes) else {
                let problem = format!("there are more peers than {}", self.settings.peers_max);
                self.errors.push(ConfigError::new("max_peers", problem));
                break;
            };
            for (channel, weight) in serves {
                self.add_candidate(index, channel, (Arc::clone(&peer), weight));
            }
            planned.push((peer, address));
        }
        (TopologyPlan { kind, name, dials: planned }, listen)
    }

    fn add_candidate(&mut self, index: u16, channel: String, candidate: (Arc<Peer>, u32)) {
        let fresh = || Candidates { topology: index, peers: Vec::new() };
        let candidates = self.candidates.entry(channel).or_insert_with(fresh);
        if candidates.topology == index {
            candidates.peers.push(candidate);
        } else {
            let problem = "a channel belongs to one topology; use another name";
            self.errors.push(ConfigError::new("channel", problem));
        }
    }

    fn listen(
        &mut self,
        plans: Vec<(TopologyPlan, Option<SocketAddress>)>,
    ) -> Result<(Vec<TopologyPlan>, Vec<Listener<OwnedFd>>), StartError> {
        let buffers = self.settings.socket_buffers;
        let (mut topologies, mut listeners) = (Vec::new(), Vec::new());
        for (topology, (plan, address)) in (0_u16..).zip(plans) {
            if let Some(address) = address {
                let bound = socket::listen(&address, buffers)
                    .and_then(|socket| Ok((socket::local_address(&socket)?, socket)));
                let (local, socket) =
                    bound.map_err(|source| StartError::Listen { address, source })?;
                self.listening.insert(plan.name.to_string(), local);
                listeners.push(Listener { topology, socket });
            }
            topologies.push(plan);
        }
        Ok((topologies, listeners))
    }

    fn directory(&mut self) -> Directory {
        let candidates = core::mem::take(&mut self.candidates).into_iter();
        Directory {
            channels: candidates
                .map(|(channel, candidates)| {
                    let select = SelectOne::new(candidates.peers);
                    (channel, Target::Channel(Arc::new(select)))
                })
                .collect(),
            topologies: core::mem::take(&mut self.topologies),
            listening: core::mem::take(&mut self.listening),
        }
    }
}

enum ExecutorKind {
    Shard,
    #[cfg(feature = "tokio")]
    Tokio(tokio::runtime::Handle),
}

impl ExecutorKind {
    #[cfg_attr(not(feature = "tokio"), expect(unused_variables, reason = "the shard has the gate"))]
    fn build(self, gate: &Arc<StartGate>) -> Executor {
        match self {
            Self::Shard => Executor::Shard,
            #[cfg(feature = "tokio")]
            Self::Tokio(handle) => {
                let runner = crate::dispatch::TokioRunner::new(handle, Arc::clone(gate));
                Executor::Tokio(crate::engine::TokioQueues::new(runner))
            }
        }
    }
}

#[cfg(feature = "tokio")]
fn choose_executor(dispatch: Dispatch, errors: &mut ConfigErrors) -> Option<ExecutorKind> {
    let runtime = tokio::runtime::Handle::try_current().ok();
    let is_threaded = |handle: &tokio::runtime::Handle| {
        handle.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread
    };
    match (dispatch, runtime) {
        (Dispatch::Shard, _) => Some(ExecutorKind::Shard),
        (Dispatch::Auto, runtime) => {
            Some(runtime.filter(is_threaded).map_or(ExecutorKind::Shard, ExecutorKind::Tokio))
        }
        (Dispatch::Tokio, Some(handle)) => Some(ExecutorKind::Tokio(handle)),
        (Dispatch::Tokio, None) => {
            let problem = "Tokio needs a runtime around `start`; use Auto or Shard without one";
            errors.push(ConfigError::new("dispatch", problem));
            None
        }
    }
}

#[cfg(not(feature = "tokio"))]
fn choose_executor(dispatch: Dispatch, errors: &mut ConfigErrors) -> Option<ExecutorKind> {
    match dispatch {
        Dispatch::Auto | Dispatch::Shard => Some(ExecutorKind::Shard),
        Dispatch::Tokio => {
            let problem = "Tokio needs the feature `tokio` of this crate; use Auto or Shard";
            errors.push(ConfigError::new("dispatch", problem));
            None
        }
    }
}

fn label(option: &str, name: &str, errors: &mut ConfigErrors) -> Option<Label> {
    errors.take(option, Label::new(name))
}

/// Sets this run of the process apart from any other.
fn random() -> u64 {
    use core::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}
