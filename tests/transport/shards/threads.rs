//! Shards on threads of their own, over real sockets.

use core::marker::PhantomData;
use core::time::Duration;
use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use ztests::alone::NoNewProcess;
use ztests::proxy::Proxy;
use ztransport::socket::{self, SocketAddress};
use ztransport::{Listener, Shard, ShardPlan, ShardSockets};

use super::ground::{Ground, Progress, Which};
use super::loops::Loop;
use super::recorder::Recorder;
use crate::replay::CALM;

/// Two threads, and a line between them that can be cut.
pub(super) struct Threads<L> {
    dialer: Option<JoinHandle<io::Result<()>>>,
    acceptor: Option<JoinHandle<io::Result<()>>>,
    line: Option<Proxy>,
    /// A listener that is full, and who fills it.
    deaf: Option<(OwnedFd, Vec<TcpStream>)>,
    kind: PhantomData<L>,
    _no_process: NoNewProcess,
}

impl<L: Loop> Threads<L> {
    fn start(
        plan: ShardPlan,
        host: Recorder,
        listening: Option<OwnedFd>,
    ) -> JoinHandle<io::Result<()>> {
        std::thread::spawn(move || {
            let listeners = listening.map(|socket| Listener { topology: 0, socket });
            let bell = Arc::clone(&plan.lanes.bell);
            let sockets = ShardSockets::alone(&bell, listeners.into_iter().collect());
            L::run(Shard::new(L::driver(), host, plan, sockets)?)
        })
    }
}

impl<L: Loop> Ground for Threads<L> {
    const NAME: &'static str = L::NAME;

    fn missing() -> Option<String> {
        L::missing()
    }

    fn seeds() -> Vec<u64> {
        vec![CALM]
    }

    fn new(_seed: u64) -> Self {
        Self {
            dialer: None,
            acceptor: None,
            line: None,
            deaf: None,
            kind: PhantomData,
            _no_process: NoNewProcess::hold(),
        }
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn start_acceptor(&mut self, plan: ShardPlan, host: Recorder) -> SocketAddress {
        let any = "127.0.0.1:0".parse().unwrap();
        let listening = socket::listen(&any, plan.buffers).unwrap();
        let address = socket::local_address(&listening).unwrap();
        self.acceptor = Some(Self::start(plan, host, Some(listening)));
        address
    }

    fn breakable(&mut self, address: SocketAddress) -> SocketAddress {
        let SocketAddress::Tcp(target) = address else { panic!("{address} is no TCP address") };
        let line = Proxy::start(target, Duration::ZERO);
        let address = line.address();
        self.line = Some(line);
        address
    }

    fn nowhere(&mut self) -> SocketAddress {
        let (listener, address, taken) = crate::scripts::deaf();
        self.deaf = Some((listener, taken));
        address
    }

    fn start_dialer(&mut self, plan: ShardPlan, host: Recorder) {
        self.dialer = Some(Self::start(plan, host, None));
    }

    fn break_oldest(&mut self) {
        self.line.as_ref().unwrap().cut_oldest();
    }

    fn run_a_while(&mut self) -> Progress {
        std::thread::park_timeout(LOOK);
        Progress::Unknown
    }

    fn is_over(&mut self, which: Which) -> bool {
        let thread = match which {
            Which::Dialer => &mut self.dialer,
            Which::Acceptor => &mut self.acceptor,
        };
        if let Some(ended) = thread.take_if(|thread| thread.is_finished()) {
            ended.join().unwrap().unwrap();
        }
        thread.is_none()
    }
}

/// Between two looks at the shards.
const LOOK: Duration = Duration::from_millis(1);
