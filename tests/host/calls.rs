//! Sends, requests and replies between two hosts.

use std::sync::Arc;
use std::sync::Mutex;

use bytes::Bytes;
use zhost::{ChannelServer, Dispatch, Json};

use crate::world::{CHANNEL, receiver, run, sender};

#[test]
fn every_accepted_send_is_handled_once_and_in_order() {
    for dispatch in [Dispatch::Shard, Dispatch::Tokio] {
        run(async move {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let ledger = Arc::clone(&seen);
            let orders = ChannelServer::new(CHANNEL).on_send("placed", move |order: Bytes| {
                ledger.lock().unwrap().push(order);
                core::future::ready(())
            });
            let receiver = receiver(orders, |host| host.dispatch(dispatch));
            let sender = sender(&receiver, |host| host.dispatch(dispatch));
            let channel = sender.channel(CHANNEL).unwrap();
            for number in 0..10_000_u32 {
                channel.send("placed", number.to_le_bytes().to_vec()).await.unwrap();
            }
            let report = sender.shutdown().await;
            assert_eq!(report.abandoned, 0, "{report}");
            let report = receiver.shutdown().await;
            assert_eq!(report.abandoned, 0, "{report}");
            let seen = seen.lock().unwrap();
            let expected: Vec<Bytes> =
                (0..10_000_u32).map(|number| number.to_le_bytes().to_vec().into()).collect();
            assert_eq!(*seen, expected, "with {dispatch:?}");
        });
    }
}

#[test]
fn a_request_gets_the_reply_of_its_handler() {
    run(async {
        let orders = ChannelServer::new(CHANNEL)
            .on_request("quote", async |Json(count): Json<u32>| Ok(Json(count * 2)));
        let receiver = receiver(orders, |host| host);
        let sender = sender(&receiver, |host| host);
        let channel = sender.channel(CHANNEL).unwrap();
        for count in 0..1_000_u32 {
            let reply = channel.request("quote", Json(count)).await.unwrap();
            assert_eq!(reply.json::<u32>().unwrap(), count * 2, "the handler's answer");
        }
    });
}
