//! Wherever handlers and client code run, the results are the same.

use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use zhost::{ChannelServer, Dispatch, ErrorKind, Host, Json, MeshPeer, RouteMesh, StartError};

use crate::world::{CHANNEL, MESH, receiver, run, sender, until};

/// What comes of the same calls: replies, what was handled, and in which order.
async fn script(dispatch: Dispatch) -> (Vec<u32>, Vec<u32>, [ErrorKind; 2]) {
    let seen: Arc<Mutex<Vec<u32>>> = Arc::default();
    let ledger = Arc::clone(&seen);
    let orders = ChannelServer::new(CHANNEL)
        .on_send("placed", move |Json(number): Json<u32>| {
            let ledger = Arc::clone(&ledger);
            ledger.lock().unwrap().push(number);
            async move { tokio::task::yield_now().await }
        })
        .on_request("double", async |Json(number): Json<u32>| {
            tokio::task::yield_now().await;
            Ok(Json(number * 2))
        });
    let receiver = receiver(orders, |host| host.dispatch(dispatch));
    let sender = sender(&receiver, |host| host.dispatch(dispatch));
    let caller = sender.channel(CHANNEL).unwrap();
    let mut doubled = Vec::new();
    for number in 0..200 {
        caller.send("placed", Json(number)).await.unwrap();
        let reply = caller.request("double", Json(number)).await.unwrap();
        doubled.push(reply.json().unwrap());
    }
    let mismatch = caller.request("double", Bytes::new()).await.unwrap_err().kind();
    let unknown = caller.request("unknown", Bytes::new()).await.unwrap_err().kind();
    until("all are handled", || receiver.status().handled == 400).await;
    let seen = seen.lock().unwrap().clone();
    (doubled, seen, [mismatch, unknown])
}

#[test]
fn every_dispatch_gives_the_same_results() {
    run(async {
        let expected: Vec<u32> = (0..200).collect();
        for dispatch in [Dispatch::Auto, Dispatch::Shard, Dispatch::Tokio] {
            let (doubled, seen, kinds) = script(dispatch).await;
            assert_eq!(seen, expected, "in order, with {dispatch:?}");
            assert!(
                doubled.iter().zip(&expected).all(|(two, one)| *two == one * 2),
                "{dispatch:?}"
            );
            assert_eq!(kinds, [ErrorKind::TypeMismatch, ErrorKind::NotFound], "{dispatch:?}");
        }
    });
}

#[test]
fn handlers_run_where_the_host_says() {
    for (dispatch, is_on_shard) in
        [(Dispatch::Auto, false), (Dispatch::Tokio, false), (Dispatch::Shard, true)]
    {
        run(async move {
            let orders = ChannelServer::new(CHANNEL).on_request("where", async |_: Bytes| {
                let thread = thread::current();
                Ok(thread.name().unwrap_or_default().as_bytes().to_vec())
            });
            let receiver = receiver(orders, |host| host.dispatch(dispatch));
            let sender = sender(&receiver, |host| host);
            let caller = sender.channel(CHANNEL).unwrap();
            let thread = caller.request("where", Bytes::new()).await.unwrap().payload();
            assert_eq!(thread == "zlink-shard-0", is_on_shard, "{thread:?} with {dispatch:?}");
        });
    }
}

#[test]
fn code_on_the_shard_calls_like_any_other() {
    run(async {
        let orders =
            ChannelServer::new(CHANNEL).on_request("echo", async |payload: Bytes| Ok(payload));
        let receiver = receiver(orders, |host| host);
        let sender = sender(&receiver, |host| host);
        let caller = sender.channel(CHANNEL).unwrap();
        let replies = sender.on_shard(move || async move {
            let mut replies = std::rc::Rc::new(0);
            for number in 0..100_u8 {
                let reply = caller.request("echo", vec![number]).await.unwrap();
                assert_eq!(reply.payload(), vec![number], "its own reply");
                *std::rc::Rc::get_mut(&mut replies).unwrap() += 1;
            }
            (*replies, thread::current().name().map(ToOwned::to_owned))
        });
        assert_eq!(replies.await.unwrap(), (100, Some("zlink-shard-0".into())), "on the shard");
        let fails = sender.on_shard(|| async { panic!("a planted panic of the test") });
        let error = fails.await.map(|(): ()| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InternalFailure, "{error}");
        let caller = sender.channel(CHANNEL).unwrap();
        caller.request("echo", Bytes::new()).await.unwrap();
    });
}

#[test]
fn a_host_runs_on_the_calling_thread() {
    run(async {
        let orders =
            ChannelServer::new(CHANNEL).on_request("echo", async |payload: Bytes| Ok(payload));
        let receiver = receiver(orders, |host| host);
        let address = receiver.listen_address(MESH).unwrap().clone();
        let caller = thread::spawn(move || {
            let peer = MeshPeer::new("receiver", address).serves(CHANNEL);
            let mesh = RouteMesh::new(MESH).peer(peer);
            let own = thread::current().id();
            Host::builder("sender").mesh(mesh).block_on(move |host| async move {
                let caller = host.channel(CHANNEL).unwrap();
                for number in 0..100_u8 {
                    let reply = caller.request("echo", vec![number]).await.unwrap();
                    assert_eq!(reply.payload(), vec![number], "its own reply");
                }
                thread::current().id() == own
            })
        });
        let is_own = tokio::task::spawn_blocking(move || caller.join().unwrap()).await.unwrap();
        assert!(is_own.unwrap(), "no other thread");
        until("the receiver has answered", || receiver.status().handled == 100).await;
    });
}

#[test]
fn client_code_that_panics_ends_its_host_with_an_error() {
    run(async {
        let ends = tokio::task::spawn_blocking(|| {
            Host::builder("alone").block_on(|_| async { panic!("a planted panic of the test") })
        });
        let ended: Result<(), StartError> = ends.await.unwrap();
        assert!(matches!(ended, Err(StartError::Ended)), "{ended:?}");
    });
}
