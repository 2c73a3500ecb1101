//! Everything between two hosts is full, and it is no more than the worst case that they print.

use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU64, Ordering};
use std::io::Write;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::Semaphore;
use zcore::wire::HEAD_BYTES;
use zcore::{ByteCount, Charge};
use zhost::clock::VirtualClock;
use zhost::{
    ChannelServer, DriverKind, HighWaterMark, Host, MeshPeer, PeerStatus, RouteMesh, RunningLimit,
    SocketAddress, SocketBuffers, WorstCase,
};

use crate::jam::{WIDE, dropped, waiting};
use crate::world::{CHANNEL, MESH, until, until_still};

/// What is sent, and what bounds it.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Payload of each message, which is also the largest that is allowed.
    payload: usize,
    /// High-water mark of either queue.
    mark: ByteCount,
}

/// Permits of the receiver.
const PERMITS: u32 = 4;

/// Handlers of the receiver that run at once.
const RUNNING: u32 = 2;

/// How often everything is filled up.
const ROUNDS: u64 = 3;

/// Handlers that end between two of those.
const ENDED_A_ROUND: u64 = 30;

/// What happened to the messages so far.
#[derive(Debug, Default)]
struct Ledger {
    accepted: AtomicU64,
    ended: AtomicU64,
    /// The numbers of those whose handlers began, in that order.
    began: Mutex<Vec<u64>>,
    peak_in_flight: AtomicU64,
}

impl Ledger {
    /// Accepted and not handled to the end. Both counts lag a little while messages move: this is
    /// what is certainly in flight.
    fn in_flight(&self) -> u64 {
        let accepted = self.accepted.load(Ordering::SeqCst);
        accepted.saturating_sub(self.ended.load(Ordering::SeqCst))
    }

    fn accept(&self) {
        self.accepted.fetch_add(1, Ordering::SeqCst);
        self.peak_in_flight.fetch_max(self.in_flight(), Ordering::SeqCst);
    }
}

/// A sender and a receiver whose handlers wait for a gate.
#[derive(Debug)]
struct Scene {
    load: Load,
    ledger: Arc<Ledger>,
    gate: Arc<Semaphore>,
    receiver: Host,
    sender: Host,
}

impl Scene {
    fn start(driver: DriverKind, load: Load) -> Self {
        let (ledger, gate) = (Arc::<Ledger>::default(), Arc::new(Semaphore::new(0)));
        let (own_ledger, own_gate) = (Arc::clone(&ledger), Arc::clone(&gate));
        let orders = ChannelServer::new(CHANNEL).on_send("work", move |payload: Bytes| {
            let (ledger, gate) = (Arc::clone(&own_ledger), Arc::clone(&own_gate));
            async move {
                let number = u64::from_le_bytes(*payload.first_chunk().unwrap());
                ledger.began.lock().unwrap().push(number);
                gate.acquire().await.unwrap().forget();
                assert_eq!(payload, message(number, load.payload), "{number} is intact");
                ledger.ended.fetch_add(1, Ordering::SeqCst);
            }
        });
        // Time stands still: no call ends for having waited, and no lane is probed.
        let clock = Arc::new(VirtualClock::new());
        let build = |name: &str, mesh: RouteMesh| {
            let buffers = SocketBuffers { send: ByteCount::kib(128), receive: ByteCount::kib(128) };
            Host::builder(name)
                .mesh(mesh)
                .driver(driver)
                .clock(Arc::<VirtualClock>::clone(&clock))
                .max_message_size(ByteCount::new(load.payload as u64))
                .send_high_water_mark(HighWaterMark::Limit(load.mark))
                .receive_high_water_mark(HighWaterMark::Limit(load.mark))
                .socket_buffers(buffers)
                .max_queued_application_jobs(PERMITS)
                .max_running_handlers(RunningLimit::Limit(NonZeroU32::new(RUNNING).unwrap()))
                .start()
                .unwrap()
        };
        let listening = RouteMesh::new(MESH).listen("127.0.0.1:0".parse().unwrap());
        let receiver = build("receiver", listening.channel(orders));
        let address = receiver.listen_address(MESH).unwrap().clone();
        let peer = MeshPeer::new("receiver", address).serves(CHANNEL);
        let sender = build("sender", RouteMesh::new(MESH).peer(peer));
        Self { load, ledger, gate, receiver, sender }
    }

    /// Sends so many messages, each as soon as the one before is accepted.
    fn send(&self, count: u64) -> tokio::task::JoinHandle<()> {
        let (caller, ledger) = (self.sender.channel(CHANNEL).unwrap(), Arc::clone(&self.ledger));
        let size = self.load.payload;
        tokio::spawn(async move {
            for number in 0..count {
                caller.send("work", message(number, size)).await.unwrap();
                ledger.accept();
            }
        })
    }

    /// Waits until everything is full, at least `least` in all, and nothing moves any more.
    async fn full(&self, ended: u64, least: u64) -> Held {
        let Self { load, ledger, receiver, sender, .. } = self;
        until("so many have ended", || ledger.ended.load(Ordering::SeqCst) == ended).await;
        until("the sender waits", || waiting(sender) == 1).await;
        let jobs = || receiver.status().application_job_queue;
        until("every permit is taken", || jobs().in_use == PERMITS).await;
        until("as many handlers run as may", || receiver.status().handlers.running == RUNNING)
            .await;
        until("receiving has stopped at its mark", || is_high(receiver)).await;
        until("enough is in flight to mean something", || {
            ledger.in_flight() * load.payload as u64 >= least
        })
        .await;
        until_still(|| self.held()).await
    }

    /// At no time was there more than that.
    fn assert_peaks_within(&self, worst: &WorstCase) {
        let in_flight = self.ledger.peak_in_flight.load(Ordering::SeqCst);
        let bytes = in_flight * self.load.payload as u64;
        assert!(bytes <= sum(worst), "{bytes} B of {}", sum(worst));
        let (sending, receiving) = (self.sender.status(), self.receiver.status());
        let (from, to) = (&sending.peers[0], &receiving.peers[0]);
        assert!(from.send_queue.peak <= worst.send_queue(), "{:?}", from.send_queue);
        assert!(to.receive_queue.peak <= worst.receive_queue(), "{:?}", to.receive_queue);
        assert!(to.carried_peak <= worst.carry(), "{} carried", to.carried_peak);
        assert!(to.carried_peak > ByteCount::ZERO, "nothing was ever carried");
        let jobs = (receiving.application_job_queue.peak_in_use, receiving.handlers.peak_running);
        assert_eq!(jobs, (PERMITS, RUNNING), "every permit and every handler, and no more");
    }

    /// What is where.
    fn held(&self) -> Held {
        let (sending, receiving) = (self.sender.status(), self.receiver.status());
        let (from, to) = (sending.peers.first(), receiving.peers.first());
        let SocketAddress::Tcp(address) = self.receiver.listen_address(MESH).unwrap() else {
            panic!("TCP")
        };
        let kernel = Kernel::between(address.port());
        let payload = self.load.payload as u64;
        let charge = Charge::of_encoded(HEAD_BYTES as u64 + payload).bytes().get();
        Held {
            in_flight: self.ledger.in_flight() * payload,
            send_queue: from.map_or(0, |peer| peer.send_queue.accounted.get()),
            kernel,
            carry: to.map_or(0, |peer| peer.carried.get()),
            receive_queue: to.map_or(0, |peer| peer.receive_queue.accounted.get()),
            jobs: u64::from(receiving.application_job_queue.queued) * charge,
            handlers: u64::from(receiving.handlers.running) * payload,
        }
    }
}

/// Whether the receive queue is above its low-water mark: below it, receiving goes on.
fn is_high(receiver: &Host) -> bool {
    receiver.status().peers.first().is_some_and(|peer| {
        let PeerStatus { receive_queue, .. } = peer;
        receive_queue.accounted > receive_queue.mark.low_water()
    })
}

fn message(number: u64, size: usize) -> Bytes {
    let mut payload = vec![number.to_le_bytes()[0]; size];
    payload[..8].copy_from_slice(&number.to_le_bytes());
    payload.into()
}

/// Payload in flight, and the bytes that were found in each place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Held {
    in_flight: u64,
    send_queue: u64,
    kernel: Kernel,
    carry: u64,
    receive_queue: u64,
    jobs: u64,
    handlers: u64,
}

impl Held {
    fn assert_within(&self, worst: &WorstCase) {
        let Self { in_flight, send_queue, kernel, carry, receive_queue, jobs, handlers } = *self;
        let terms = [
            ("send queue", send_queue, worst.send_queue()),
            ("kernel, sending", kernel.sending, worst.kernel_send()),
            ("kernel, receiving", kernel.receiving, worst.kernel_receive()),
            ("carry", carry, worst.carry()),
            ("receive queue", receive_queue, worst.receive_queue()),
            ("jobs", jobs, worst.jobs()),
            ("handlers", handlers, worst.handlers()),
        ];
        for (name, found, bound) in terms {
            assert!(found <= bound.get(), "{name}: {found} B found, {bound} at most");
        }
        let everywhere = terms.map(|(_, found, _)| found).iter().sum::<u64>();
        assert!(in_flight <= everywhere, "{in_flight} B are in flight, and {everywhere} B found");
        assert!(in_flight <= sum(worst), "{in_flight} B of {}", sum(worst));
    }
}

/// The most payload in flight where one peer sends all of it.
fn sum(worst: &WorstCase) -> u64 {
    worst.one_direction().get() + worst.jobs().get() + worst.handlers().get()
}

/// Bytes that the kernel holds on the way to a port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Kernel {
    sending: u64,
    receiving: u64,
}

impl Kernel {
    /// As the kernel tells it: `proc_pid_net(5)`, tcp. What is on its way is in both numbers.
    fn between(port: u16) -> Self {
        const ESTABLISHED: &str = "01";
        let mut kernel = Self { sending: 0, receiving: 0 };
        let port_of =
            |address: &str| u16::from_str_radix(address.rsplit_once(':').unwrap().1, 16).unwrap();
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        for line in table.lines().skip(1) {
            let fields: Vec<_> = line.split_whitespace().collect();
            let [_, local, remote, state, queues, ..] = fields[..] else { continue };
            let (sending, receiving) = queues.split_once(':').unwrap();
            if state != ESTABLISHED {
                continue;
            }
            if port_of(remote) == port {
                kernel.sending += u64::from_str_radix(sending, 16).unwrap();
            }
            if port_of(local) == port {
                kernel.receiving += u64::from_str_radix(receiving, 16).unwrap();
            }
        }
        kernel
    }
}

/// Past the capture of a test that passes: the numbers are what this test is for.
fn print(name: &str, load: Load, worst: &WorstCase, held: &Held) {
    let Load { payload, mark } = load;
    let text = format!(
        "worst case on {name}, messages of {payload} B, marks of {mark}:\n{worst}\n\
         all of it                 {:>20} B\nfound: {held:?}\n\n",
        sum(worst)
    );
    std::io::stdout().lock().write_all(text.as_bytes()).unwrap();
}

async fn fill_everything(driver: DriverKind, name: &str, load: Load) {
    let scene = Scene::start(driver, load);
    let Scene { ledger, gate, receiver, sender, .. } = &scene;
    let worst = receiver.worst_case().unwrap();
    let without_carry = sum(&worst) - worst.carry().get();
    // More than all rounds can take in.
    let count = sum(&worst) / load.payload as u64 + ROUNDS * ENDED_A_ROUND;
    let sending = scene.send(count);
    for round in 0..ROUNDS {
        // How much of its buffers the kernel fills, and how much is carried, is not ours to say. All
        // the rest is full.
        let held = scene.full(round * ENDED_A_ROUND, without_carry / 2).await;
        if round == 0 {
            print(name, load, &worst, &held);
        }
        held.assert_within(&worst);
        assert!(
            held.in_flight >= without_carry / 2,
            "{} B in flight of {without_carry} B and the carry: too few to prove anything",
            held.in_flight
        );
        gate.add_permits(usize::try_from(ENDED_A_ROUND).unwrap());
    }
    gate.add_permits(WIDE);
    until("all have ended", || ledger.ended.load(Ordering::SeqCst) == count).await;
    sending.await.unwrap();
    let began = ledger.began.lock().unwrap().clone();
    assert!(began.into_iter().eq(0..count), "each once, in order");
    assert_eq!(dropped(sender) + dropped(receiver), 0, "nothing is lost");
    until("nothing is held any more", || {
        let Held { in_flight, send_queue, kernel, carry, receive_queue, jobs, handlers } =
            scene.held();
        let kernel = kernel.sending + kernel.receiving;
        in_flight + send_queue + kernel + carry + receive_queue + jobs + handlers == 0
    })
    .await;
    scene.assert_peaks_within(&worst);
}

/// Many messages below the mark, and then one above it in each queue.
fn fill_with_small_and_large(driver: DriverKind, name: &str) {
    let loads = [
        Load { payload: 16 << 10, mark: ByteCount::kib(256) },
        Load { payload: 96 << 10, mark: ByteCount::kib(8) },
    ];
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    for load in loads {
        runtime.block_on(fill_everything(driver, name, load));
    }
}

#[test]
fn b_105_bo_003_no_more_is_in_flight_than_the_worst_case_says_on_uring() {
    let test = "b_105_bo_003_no_more_is_in_flight_than_the_worst_case_says_on_uring";
    let fill = || fill_with_small_and_large(DriverKind::Uring, "uring");
    ztests::run_or_skip(test, ztests::io_uring_missing(), fill);
}

#[test]
fn b_105_bo_003_no_more_is_in_flight_than_the_worst_case_says_on_epoll() {
    fill_with_small_and_large(DriverKind::Epoll, "epoll");
}
