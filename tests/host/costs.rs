//! What a message costs in system calls.

use bytes::Bytes;
use zhost::{ChannelServer, Dispatch, DriverKind, Host, HostBuilder};

use crate::world::{CHANNEL, receiver, run, sender};

const ROUND_TRIPS: u64 = 1_000;

/// A call of each side hands its message over, and another one waits for the answer.
const CALLS_PER_ROUND_TRIP: u64 = 4;

/// Calls besides, as for timers.
const CALLS_BESIDES: u64 = ROUND_TRIPS / 20;

fn system_calls(host: &Host) -> u64 {
    host.status().shards.iter().map(|shard| shard.system_calls).sum()
}

#[test]
fn a_round_trip_between_shards_takes_two_system_calls_of_each() {
    let test = "a_round_trip_between_shards_takes_two_system_calls_of_each";
    ztests::run_or_skip(test, ztests::io_uring_missing(), || run(count_round_trips()));
}

async fn count_round_trips() {
    let on_shard =
        |host: HostBuilder| host.driver(DriverKind::Uring).shards(1).dispatch(Dispatch::Shard);
    let echo = ChannelServer::new(CHANNEL).on_request("echo", async |message: Bytes| Ok(message));
    let receiver = receiver(echo, on_shard);
    let sender = sender(&receiver, on_shard);
    let caller = sender.channel(CHANNEL).unwrap();
    caller.request("echo", Bytes::new()).await.unwrap();
    let both = || system_calls(&sender) + system_calls(&receiver);
    let before = both();
    let round_trips = async move || {
        for _ in 0..ROUND_TRIPS {
            caller.request("echo", Bytes::from_static(&[1; 64])).await.unwrap();
        }
    };
    sender.on_shard(round_trips).await.unwrap();
    let calls = both() - before;
    assert!(
        calls <= ROUND_TRIPS * CALLS_PER_ROUND_TRIP + CALLS_BESIDES,
        "{calls} system calls for {ROUND_TRIPS} round trips"
    );
}
