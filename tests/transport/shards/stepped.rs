//! Shards that take turns in the test's thread, over a simulated network.

use ztransport::sim::{Sim, SimFaults, SimId, SimNetwork, SimOptions, Way};
use ztransport::socket::SocketAddress;
use ztransport::{Listener, Shard, ShardPlan, ShardSockets, Turn};

use super::ground::{Ground, Progress, Which};
use super::loops::SOCKETS_MAX;
use super::recorder::Recorder;
use crate::replay::{CALM, seeds};

/// Two shards of one thread.
pub(super) struct Stepped {
    network: SimNetwork,
    is_exact: bool,
    /// The driver of the shard that is to dial.
    dialing: Option<Sim>,
    dialing_id: SimId,
    dialer: Option<Shard<Sim, Recorder>>,
    acceptor: Option<Shard<Sim, Recorder>>,
}

impl Stepped {
    fn driver(network: &SimNetwork) -> Sim {
        network.driver(SimOptions { sockets_max: SOCKETS_MAX, ..SimOptions::default() })
    }

    /// Gives a shard a turn. One that is over is dropped, as its loop would.
    fn step(shard: &mut Option<Shard<Sim, Recorder>>) -> Turn {
        let turn = shard.as_mut().map_or(Turn::Idle, |shard| shard.turn().unwrap());
        if turn == Turn::Over {
            *shard = None;
        }
        turn
    }
}

impl Ground for Stepped {
    const NAME: &'static str = "sim";

    fn missing() -> Option<String> {
        None
    }

    fn seeds() -> Vec<u64> {
        seeds(SEEDS)
    }

    fn new(seed: u64) -> Self {
        let faults = if seed == CALM { SimFaults::none() } else { SimFaults::benign() };
        let network = SimNetwork::new(seed, faults);
        let dialing = Self::driver(&network);
        let dialing_id = dialing.id();
        Self {
            network,
            is_exact: seed == CALM,
            dialing: Some(dialing),
            dialing_id,
            dialer: None,
            acceptor: None,
        }
    }

    fn is_exact(&self) -> bool {
        self.is_exact
    }

    fn start_acceptor(&mut self, plan: ShardPlan, host: Recorder) -> SocketAddress {
        let any = "127.0.0.1:0".parse().unwrap();
        let socket = self.network.listen(&any, plan.buffers).unwrap();
        let address = socket.local_address().unwrap();
        let listeners = vec![Listener { topology: 0, socket }];
        let sockets = ShardSockets::alone(&plan.lanes.bell, listeners);
        let driver = Self::driver(&self.network);
        self.acceptor = Some(Shard::new(driver, host, plan, sockets).unwrap());
        address
    }

    fn breakable(&mut self, address: SocketAddress) -> SocketAddress {
        address
    }

    fn nowhere(&mut self) -> SocketAddress {
        let address = "127.0.0.1:9".parse().unwrap();
        self.network.cut(self.dialing_id, &address, Way::Both);
        address
    }

    fn start_dialer(&mut self, plan: ShardPlan, host: Recorder) {
        let driver = self.dialing.take().unwrap();
        let sockets = ShardSockets::alone(&plan.lanes.bell, Vec::new());
        self.dialer = Some(Shard::new(driver, host, plan, sockets).unwrap());
    }

    fn break_oldest(&mut self) {
        let oldest = self.network.connections()[0].id;
        self.network.reset(oldest);
    }

    fn run_a_while(&mut self) -> Progress {
        let turns = [Self::step(&mut self.dialer), Self::step(&mut self.acceptor)];
        let is_idle = turns.iter().all(|turn| *turn == Turn::Idle);
        if is_idle && self.network.is_quiet() { Progress::None } else { Progress::Some }
    }

    fn is_over(&mut self, which: Which) -> bool {
        match which {
            Which::Dialer => self.dialer.is_none(),
            Which::Acceptor => self.acceptor.is_none(),
        }
    }
}

/// A script of two shards takes thousands of polls: each fault strikes many times in each.
const SEEDS: u64 = 10;
