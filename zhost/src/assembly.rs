//! Puts a host together from its description.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use zcore::wire::{Label, TopologyKind};
use zcore::{JobQueue, SourceSlot};
use ztransport::clock::Clock;
use ztransport::socket::{self, SocketAddress};
use ztransport::{
    ByteLimits, Crew, Doorbell, LaneContext, Listener, Lobby, Peer, Peers, Permits, ShardControl,
    ShardPlan, ShardSockets, TopologyPlan, WaitSpace,
};

use crate::builder::{HostBuilder, StartError};
use crate::dispatch::StartGate;
use crate::engine::{Parts, Shared};
use crate::host::{Directory, Host};
use crate::messaging::{Routes, Target};
use crate::options::{ConfigError, ConfigErrors, Dispatch, Settings};
use crate::threads::{Executor, ShardParts, ShardSeat, Threads, open_driver, run_shard};
use crate::topology::{ChannelServer, ClientServer, RouteMesh, SelectOne, Side, WEIGHT_MAX};

/// A host that has everything but its threads.
pub(crate) struct Assembled {
    pub(crate) shared: Arc<Shared>,
    pub(crate) shards: Vec<ShardParts>,
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
    let listeners = draft.listen(&plans)?;
    let directory = draft.directory();
    let plans = plans.into_iter().map(|(plan, _)| plan).collect();
    let Draft { settings, peers, permits, lanes, .. } = draft;
    let wiring = Wiring { node, topologies: plans, listeners, executor: executor_kind };
    let parts = Parts {
        routes,
        gate: StartGate::new(settings.running),
        control: Arc::new(ShardControl::default()),
        crew: lanes.iter().map(|lanes| ShardSeat::new(Arc::clone(&lanes.bell))).collect(),
        space: Arc::clone(&draft.space),
        clock: draft.clock,
        settings,
        peers,
        permits,
    };
    let shared = Arc::new(Shared::new(parts));
    let shards = wiring.shards(&shared, lanes);
    Ok(Assembled { shared, shards, directory: Arc::new(directory) })
}

/// What is dealt out to the shards.
struct Wiring {
    node: Label,
    topologies: Vec<TopologyPlan>,
    listeners: Vec<Listener<OwnedFd>>,
    executor: ExecutorKind,
}

impl Wiring {
    /// One plan for each shard: the peers that it has, and its share of the listeners.
    fn shards(self, shared: &Shared, lanes: Vec<LaneContext>) -> Vec<ShardParts> {
        let Self { node, topologies, listeners, executor } = self;
        let crew = Crew::new(lanes.iter().map(|lanes| Arc::clone(&lanes.bell)));
        let lobby = Arc::new(Lobby::default());
        let incarnation = random();
        let mut shares: Vec<Vec<_>> = lanes.iter().map(|_| Vec::new()).collect();
        for (index, listener) in listeners.into_iter().enumerate() {
            let shard = index % shares.len();
            shares[shard].push(listener);
        }
        let seats = (0_u16..).zip(lanes).zip(shares).zip(&shared.crew);
        let parts = |(((index, lanes), listeners), seat): (_, &ShardSeat)| ShardParts {
            plan: ShardPlan {
                node,
                incarnation,
                topologies: topologies.iter().map(|plan| plan.of_shard(index)).collect(),
                buffers: shared.settings.socket_buffers,
                peers: Arc::clone(&shared.peers),
                permits: Arc::clone(&shared.permits),
                lanes,
                control: Arc::clone(&shared.control),
                index,
                lobby: Arc::clone(&lobby),
                gauge: Arc::clone(&seat.gauge),
                spin: shared.settings.spin,
            },
            sockets: ShardSockets { listeners, crew: Arc::clone(&crew) },
            executor: executor.build(&shared.gate),
        };
        seats.map(parts).collect()
    }
}

/// Runs a host and its client code on this thread.
pub(crate) fn block_on<T, M, F>(builder: HostBuilder, main: M) -> Result<T, StartError>
where
    M: FnOnce(Host) -> F + Send + 'static,
    F: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let Assembled { shared, shards, directory } = assemble(builder)?;
    let opened = open_driver(&shared, 0)?;
    let output = Arc::new(Mutex::new(None));
    let host = Host { shared: Arc::clone(&shared), threads: None, directory };
    let keep = Arc::clone(&output);
    let spawner = Host {
        shared: Arc::clone(&shared),
        threads: None,
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
    let mut shards = shards.into_iter();
    let first = shards.next().ok_or(StartError::Ended)?;
    let others = Threads::start(&shared, shards.collect(), 1)?;
    run_shard(opened, &shared, first);
    others.join();
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
    space: Arc<WaitSpace>,
    clock: Arc<dyn Clock>,
    /// One for each shard.
    lanes: Vec<LaneContext>,
    topologies: BTreeMap<String, u16>,
    listening: BTreeMap<String, SocketAddress>,
    candidates: BTreeMap<String, Candidates>,
    dialed: Vec<(u16, SocketAddress, Arc<Peer>)>,
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
        let space = Arc::new(WaitSpace::new(settings.quotas));
        let bells: Vec<_> =
            (0..settings.shards).map(|_| Arc::new(Doorbell::new(settings.peers_max))).collect();
        let timekeeper = bells.first().map(Arc::clone)?;
        let context = |bell: &Arc<Doorbell>| LaneContext {
            space: Arc::clone(&space),
            timekeeper: Arc::clone(&timekeeper),
            bell: Arc::clone(bell),
            clock: Arc::clone(&clock),
        };
        let lanes: Vec<_> = bells.iter().map(context).collect();
        Some(Self {
            peers: Arc::new(Peers::new(limits, settings.peers_max, lanes.clone())),
            permits: Arc::new(Permits::new(queue, Arc::clone(&clock))),
            space,
            clock,
            lanes,
            topologies: BTreeMap::new(),
            listening: BTreeMap::new(),
            candidates: BTreeMap::new(),
            dialed: Vec::new(),
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
            let Ok(peer) = self.peers.add(index, node) else {
                let problem = format!("there are more peers than {}", self.settings.peers_max);
                self.errors.push(ConfigError::new("max_peers", problem));
                break;
            };
            for (channel, weight) in serves {
                self.add_candidate(index, channel, (Arc::clone(&peer), weight));
            }
            self.dialed.push((index, address.clone(), Arc::clone(&peer)));
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
        plans: &[(TopologyPlan, Option<SocketAddress>)],
    ) -> Result<Vec<Listener<OwnedFd>>, StartError> {
        let buffers = self.settings.socket_buffers;
        let mut listeners = Vec::new();
        for (topology, (plan, address)) in (0_u16..).zip(plans) {
            let Some(address) = address else { continue };
            let bound = socket::listen(address, buffers)
                .and_then(|socket| Ok((socket::local_address(&socket)?, socket)));
            let refused = |source| StartError::Listen { address: address.clone(), source };
            let (local, socket) = bound.map_err(refused)?;
            self.listening.insert(plan.name.to_string(), local);
            listeners.push(Listener { topology, socket });
        }
        Ok(listeners)
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
            dialed: core::mem::take(&mut self.dialed),
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
    fn build(&self, gate: &Arc<StartGate>) -> Executor {
        match self {
            Self::Shard => Executor::Shard,
            #[cfg(feature = "tokio")]
            Self::Tokio(handle) => {
                let runner = crate::dispatch::TokioRunner::new(handle.clone(), Arc::clone(gate));
                Executor::Tokio(crate::threads::TokioQueues::new(runner))
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
