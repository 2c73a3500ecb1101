//! The host's one limit of jobs that wait for their handlers, and what no permit holds.

use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak, mpsc};

use bytes::Bytes;
use tokio::sync::Semaphore;
use zhost::clock::VirtualClock;
use zhost::{
    Caller, ChannelServer, ClientServer, Dispatch, Host, JobQueueStatus, MeshPeer, Message,
    RouteMesh, RunningLimit,
};

use crate::jam::{Gated, WIDE, is_connected, tight};
use crate::world::{CHANNEL, MESH, receiver, run, sender, until, until_still};

fn queue(host: &Host) -> JobQueueStatus {
    host.status().application_job_queue
}

const fn running(limit: u32) -> RunningLimit {
    match NonZeroU32::new(limit) {
        Some(limit) => RunningLimit::Limit(limit),
        None => RunningLimit::Unlimited,
    }
}

/// A host in two meshes that also serves a ClientServer channel.
fn served_three_ways(gate: &Arc<Semaphore>) -> Host {
    let channel = |name: &str| {
        let gate = Arc::clone(gate);
        ChannelServer::new(name).on_send("work", move |_: Bytes| {
            let gate = Arc::clone(&gate);
            async move { gate.acquire().await.unwrap().forget() }
        })
    };
    let anywhere = || "127.0.0.1:0".parse().unwrap();
    tight(Host::builder("receiver"))
        .max_queued_application_jobs(2)
        .mesh(RouteMesh::new("one").listen(anywhere()).channel(channel("first")))
        .mesh(RouteMesh::new("two").listen(anywhere()).channel(channel("second")))
        .client_server(ClientServer::server(channel("third"), anywhere()))
        .start()
        .unwrap()
}

#[test]
fn b_006_two_meshes_and_a_client_server_channel_share_one_limit() {
    run(async {
        let gate = Arc::new(Semaphore::new(0));
        let receiver = served_three_ways(&gate);
        let at = |name: &str| receiver.listen_address(name).unwrap().clone();
        let one = MeshPeer::new("receiver", at("one")).serves("first");
        let two = MeshPeer::new("receiver", at("two")).serves("second");
        let sender = Host::builder("sender")
            .mesh(RouteMesh::new("one").peer(one))
            .mesh(RouteMesh::new("two").peer(two))
            .client_server(ClientServer::client("third").connect(at("third")))
            .start()
            .unwrap();
        let callers = ["first", "second", "third"].map(|name| sender.channel(name).unwrap());
        for _ in 0..5 {
            for caller in &callers {
                caller.send("work", Bytes::new()).await.unwrap();
            }
        }
        until("every permit is taken", || queue(&receiver).in_use == 2).await;
        let arrived = || receiver.status().peers.iter().filter(|peer| peer.pairs == 1).count();
        until("all three sources are there", || arrived() == 3).await;
        let still = until_still(|| {
            let jobs = queue(&receiver);
            (jobs.records, jobs.in_use, receiver.status().handlers.started)
        });
        assert_eq!(still.await, (3, 2, 1), "one runs and two wait, of all three together");
        let waiting = || queue(&receiver).waiting_sources;
        until("each source has more and waits for a permit", || waiting() == 3).await;
        gate.add_permits(WIDE);
        until("all are handled", || receiver.status().handled == 15).await;
        assert_eq!(queue(&receiver).peak_in_use, 2, "never more than the limit");
    });
}

#[test]
fn b_009_payloads_of_started_handlers_take_no_receive_budget() {
    run(async {
        let handlers = Gated::new();
        let tune = |host| tight(host).max_running_handlers(running(100));
        let receiver = receiver(handlers.channel(), tune);
        let sender = sender(&receiver, |host| host);
        let caller = sender.channel(CHANNEL).unwrap();
        let payload = |number: u8| vec![number; 8 << 10];
        for number in 0..100 {
            caller.send("work", payload(number)).await.unwrap();
        }
        until("all have started", || handlers.began().len() == 100).await;
        let held = || receiver.status().peers[0].receive_queue.accounted.get();
        until("nothing is charged for what they hold", || held() == 0).await;
        handlers.gate.add_permits(WIDE);
        until("all have ended", || handlers.ended().len() == 100).await;
        let ended = handlers.ended();
        for number in 0..100 {
            assert!(ended.iter().any(|kept| *kept == payload(number)), "{number} is intact");
        }
    });
}

#[test]
fn b_011_the_permit_is_back_before_the_first_instruction_of_the_callback() {
    for dispatch in [Dispatch::Shard, Dispatch::Tokio] {
        run(async move {
            let host: Arc<OnceLock<Weak<Host>>> = Arc::default();
            let inside = Arc::new(Mutex::new(Vec::new()));
            let gate = Arc::new(Semaphore::new(0));
            let (probe, probed, opened) =
                (Arc::clone(&host), Arc::clone(&inside), Arc::clone(&gate));
            let orders = ChannelServer::new(CHANNEL)
                .on_send("work", move |_: Bytes| {
                    let host = probe.get().and_then(Weak::upgrade).unwrap();
                    probed.lock().unwrap().push(queue(&host).in_use);
                    core::future::ready(())
                })
                .on_send("wait", move |_: Bytes| {
                    let opened = Arc::clone(&opened);
                    async move { opened.acquire().await.unwrap().forget() }
                });
            let receiver = Arc::new(receiver(orders, |host| tight(host).dispatch(dispatch)));
            host.set(Arc::downgrade(&receiver)).unwrap();
            let sender = sender(&receiver, |host| host);
            let caller = sender.channel(CHANNEL).unwrap();
            caller.send("wait", Bytes::new()).await.unwrap();
            until("the only slot is taken", || receiver.status().handlers.running == 1).await;
            caller.send("work", Bytes::new()).await.unwrap();
            let before = || (queue(&receiver).queued, queue(&receiver).in_use);
            until("the job holds its permit before it begins", || before() == (1, 1)).await;
            gate.add_permits(1);
            until("it is handled", || receiver.status().handled == 2).await;
            assert_eq!(*inside.lock().unwrap(), [0], "the permit was back, with {dispatch:?}");
        });
    }
}

#[test]
fn b_012_a_job_in_the_run_queue_holds_its_permit() {
    run(async {
        let (release, released) = mpsc::sync_channel::<()>(0);
        let released = Mutex::new(released);
        let orders = ChannelServer::new(CHANNEL).on_send("work", move |_: Bytes| {
            // Holds the runner up without giving its thread back.
            released.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
            core::future::ready(())
        });
        let receiver = receiver(orders, |host| {
            host.dispatch(Dispatch::Tokio).max_queued_application_jobs(100)
        });
        let sender = sender(&receiver, |host| host);
        let caller = sender.channel(CHANNEL).unwrap();
        caller.send("work", Bytes::new()).await.unwrap();
        until("the first runs", || receiver.status().handlers.started == 1).await;
        until("and holds no permit", || queue(&receiver).in_use == 0).await;
        for _ in 0..3 {
            caller.send("work", Bytes::new()).await.unwrap();
        }
        until("the others hold theirs", || queue(&receiver).queued == 3).await;
        let handlers = receiver.status().handlers;
        assert_eq!((handlers.started, handlers.waiting), (1, 0), "no gate stops them");
        drop(release);
        until("all are handled", || receiver.status().handled == 4).await;
        assert_eq!(queue(&receiver).in_use, 0, "every permit is back");
    });
}

#[test]
fn b_013_a_hundred_handlers_are_suspended_with_one_permit_in_the_world() {
    for dispatch in [Dispatch::Shard, Dispatch::Tokio] {
        run(async move {
            let (first, second) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
            let resumed = Arc::new(AtomicU32::new(0));
            let (one, two, count) = (Arc::clone(&first), Arc::clone(&second), Arc::clone(&resumed));
            let orders = ChannelServer::new(CHANNEL).on_send("work", move |_: Bytes| {
                let (one, two, count) = (Arc::clone(&one), Arc::clone(&two), Arc::clone(&count));
                async move {
                    one.acquire().await.unwrap().forget();
                    count.fetch_add(1, Ordering::Relaxed);
                    two.acquire().await.unwrap().forget();
                }
            });
            let tune = |host| tight(host).max_running_handlers(running(100)).dispatch(dispatch);
            let receiver = receiver(orders, tune);
            let sender = sender(&receiver, |host| host);
            let caller = sender.channel(CHANNEL).unwrap();
            for _ in 0..100 {
                caller.send("work", Bytes::new()).await.unwrap();
            }
            let suspended = || receiver.status().handlers.running == 100;
            until("a hundred are suspended", suspended).await;
            until("they hold no permit", || queue(&receiver).in_use == 0).await;
            caller.send("work", Bytes::new()).await.unwrap();
            until("another job holds the only permit", || queue(&receiver).in_use == 1).await;
            first.add_permits(100);
            until("they resume", || resumed.load(Ordering::Relaxed) == 100).await;
            assert_eq!(queue(&receiver).in_use, 1, "without a permit, with {dispatch:?}");
            assert_eq!(receiver.status().handlers.running, 100, "and stay started");
            first.add_permits(1);
            second.add_permits(101);
            until("all are handled", || receiver.status().handled == 101).await;
        });
    }
}

#[test]
fn b_078_a_handler_that_awaits_a_nested_reply_keeps_its_slot() {
    run(async {
        let back: Arc<OnceLock<Caller>> = Arc::default();
        let asks = Arc::clone(&back);
        let orders = ChannelServer::new(CHANNEL).on_send("work", move |_: Bytes| {
            let asks = asks.get().unwrap().clone();
            async move {
                let timeout = core::time::Duration::from_hours(1);
                asks.request("ask", Bytes::new()).timeout(timeout).await.ok();
            }
        });
        let receiver = receiver(orders, |host| tight(host).max_running_handlers(running(1)));
        let handlers = Gated::new();
        let address = receiver.listen_address(MESH).unwrap().clone();
        let peer = MeshPeer::new("receiver", address).serves(CHANNEL);
        let mesh = RouteMesh::new(MESH).peer(peer).channel(handlers.channel());
        let sender = Host::builder("sender").mesh(mesh).start().unwrap();
        until("they know each other", || receiver.node(MESH, "sender", CHANNEL).is_ok()).await;
        back.set(receiver.node(MESH, "sender", CHANNEL).unwrap()).unwrap();
        let caller = sender.channel(CHANNEL).unwrap();
        for _ in 0..2 {
            caller.send("work", Bytes::new()).await.unwrap();
        }
        until("the first asks", || handlers.began().len() == 1).await;
        until("the second waits for the slot", || queue(&receiver).queued == 1).await;
        let still = until_still(|| (handlers.began().len(), receiver.status().handlers)).await;
        assert_eq!(still.0, 1, "the second has not begun");
        assert_eq!((still.1.running, still.1.started), (1, 1), "the first keeps its slot");
        handlers.gate.add_permits(1);
        until("then the second asks", || handlers.began().len() == 2).await;
        handlers.gate.add_permits(1);
        until("both are handled", || receiver.status().handled == 2).await;
    });
}

/// Hosts that each have more messages for the receiver than it has permits.
async fn three_senders(receiver: &Host) -> Vec<Host> {
    let address = receiver.listen_address(MESH).unwrap();
    let mut senders = Vec::new();
    for name in ["ann", "bob", "cas"] {
        let peer = MeshPeer::new("receiver", address.clone()).serves(CHANNEL);
        let host = Host::builder(name).mesh(RouteMesh::new(MESH).peer(peer)).start().unwrap();
        let caller = host.channel(CHANNEL).unwrap();
        for _ in 0..10 {
            caller.send("work", Bytes::new()).await.unwrap();
        }
        until("its pair is up", || is_connected(&host)).await;
        senders.push(host);
    }
    senders
}

#[test]
fn b_131_at_the_limit_the_source_that_waits_longest_is_served_first() {
    run(async {
        let gate = Arc::new(Semaphore::new(0));
        let order = Arc::new(Mutex::new(Vec::new()));
        let (opened, ledger) = (Arc::clone(&gate), Arc::clone(&order));
        let orders = ChannelServer::new(CHANNEL).on_send("work", move |message: Message| {
            ledger.lock().unwrap().push(message.sender().unwrap().to_string());
            let opened = Arc::clone(&opened);
            async move { opened.acquire().await.unwrap().forget() }
        });
        // On time that stands still, no source is late to take what it was granted.
        let clock = Arc::new(VirtualClock::new());
        let timed = |host| tight(host).clock(Arc::<VirtualClock>::clone(&clock));
        let receiver = receiver(orders, timed);
        let senders = three_senders(&receiver).await;
        // Nothing moves after that: the next job waits for the one that runs.
        let all_wait_behind = |began: usize| {
            let jobs = queue(&receiver);
            let have_begun = order.lock().unwrap().len();
            have_begun == began && jobs.waiting_sources == 3 && jobs.queued == 1
        };
        until("every source waits", || all_wait_behind(1)).await;
        for handled in 1..=15 {
            gate.add_permits(1);
            until("the next runs and all wait again", || all_wait_behind(1 + handled)).await;
        }
        let order = order.lock().unwrap().clone();
        // One ran and one was queued already when the last source came.
        let served = order.get(2..).unwrap();
        assert!(served.len() >= 12, "{served:?}");
        for (earlier, later) in served.iter().zip(served.iter().skip(3)) {
            assert_eq!(earlier, later, "each in turn: {served:?}");
        }
        let mut names = served.get(..3).unwrap().to_vec();
        names.sort();
        assert_eq!(names, ["ann", "bob", "cas"], "{served:?}");
        drop(senders);
    });
}

#[test]
fn b_132_a_batch_creates_no_more_jobs_than_permits() {
    for dispatch in [Dispatch::Shard, Dispatch::Tokio] {
        run(async move {
            let handlers = Gated::new();
            let tune = |host| tight(host).max_queued_application_jobs(3).dispatch(dispatch);
            let receiver = receiver(handlers.channel(), tune);
            let sender = sender(&receiver, |host| host);
            let caller = sender.channel(CHANNEL).unwrap();
            for number in 0..500_u16 {
                caller.send("work", number.to_le_bytes().to_vec()).await.unwrap();
            }
            until("every permit is taken", || queue(&receiver).in_use == 3).await;
            let records = until_still(|| queue(&receiver).records).await;
            assert_eq!(records, 4, "one has begun and three wait, with {dispatch:?}");
            handlers.gate.add_permits(WIDE);
            until("all are handled", || receiver.status().handled == 500).await;
            assert_eq!(queue(&receiver).peak_in_use, 3, "never more, with {dispatch:?}");
        });
    }
}

#[test]
fn d_014_no_more_handlers_run_than_the_limit_and_who_waits_keeps_a_permit() {
    for dispatch in [Dispatch::Shard, Dispatch::Tokio] {
        run(async move {
            let handlers = Gated::new();
            let receiver = receiver(handlers.channel(), |host| {
                host.max_running_handlers(running(3)).dispatch(dispatch)
            });
            let sender = sender(&receiver, |host| host);
            let caller = sender.channel(CHANNEL).unwrap();
            for number in 0..10_u8 {
                caller.send("work", vec![number]).await.unwrap();
            }
            let see = || (receiver.status().handlers.running, queue(&receiver).queued);
            until("three run and seven hold permits", || see() == (3, 7)).await;
            assert_eq!(until_still(see).await, (3, 7), "and stay so, with {dispatch:?}");
            for ended in 1..=10 {
                handlers.gate.add_permits(1);
                until("one more ends", || receiver.status().handled == ended).await;
            }
            assert_eq!(receiver.status().handlers.peak_running, 3, "never more");
        });
    }
}
