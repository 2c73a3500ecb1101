//! ClientServer: clients start all calls, servers only reply.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use zhost::clock::VirtualClock;
use zhost::{ChannelServer, ClientServer, ErrorKind, Host, HostBuilder, Json};

use crate::jam::{Gated, WIDE, fill, is_connected, tight, waiting};
use crate::world::{CHANNEL, run, until, until_still};

fn server(name: &str, channel: ChannelServer, tune: impl Fn(HostBuilder) -> HostBuilder) -> Host {
    let side = ClientServer::server(channel, "127.0.0.1:0".parse().unwrap());
    tune(Host::builder(name)).client_server(side).start().unwrap()
}

fn client(servers: &[&Host], tune: impl Fn(HostBuilder) -> HostBuilder) -> Host {
    let address = |server: &&Host| server.listen_address(CHANNEL).unwrap().clone();
    let client = ClientServer::client(CHANNEL);
    let side = servers.iter().map(address).fold(client, ClientServer::connect);
    tune(Host::builder("client")).client_server(side).start().unwrap()
}

#[test]
fn clients_call_and_servers_reply() {
    run(async {
        let orders = || {
            ChannelServer::new(CHANNEL)
                .on_request("double", async |Json(count): Json<u32>| Ok(Json(count * 2)))
                .on_send("placed", async |_: Bytes| {})
        };
        let (one, two) =
            (server("one", orders(), |host| host), server("two", orders(), |host| host));
        let client = client(&[&one, &two], |host| host);
        until("both servers are there", || {
            is_connected(&client) && client.status().peers.len() == 2
        })
        .await;
        let caller = client.channel(CHANNEL).unwrap();
        for count in 0..10_u32 {
            let reply = caller.request("double", Json(count)).await.unwrap();
            assert_eq!(reply.json::<u32>().unwrap(), count * 2, "the handler's answer");
        }
        for _ in 0..10 {
            caller.send("placed", Bytes::new()).await.unwrap();
        }
        let handled = || [one.status().handled, two.status().handled];
        until("each server has half", || handled() == [10, 10]).await;
    });
}

#[test]
fn a_server_starts_no_calls() {
    run(async {
        let orders = ChannelServer::new(CHANNEL);
        let server = server("server", orders, |host| host);
        let client = client(&[&server], |host| host);
        until("the client is there", || is_connected(&client) && is_connected(&server)).await;
        let error = server.channel(CHANNEL).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotConfigured, "{error}");
    });
}

#[test]
fn b_085_the_clients_limit_is_in_force_and_not_the_servers() {
    run(async {
        let clock = Arc::new(VirtualClock::new());
        let timed = |host: HostBuilder, limit: Duration| {
            tight(host).clock(Arc::<VirtualClock>::clone(&clock)).default_socket_send_timeout(limit)
        };
        let limit = Duration::from_millis(200);
        let handlers = Gated::new();
        let five = Duration::from_secs(5);
        let server = server("server", handlers.channel(), |host| timed(host, five));
        let client = client(&[&server], |host| timed(host, limit));
        until("the server is there", || is_connected(&client)).await;
        let caller = client.channel(CHANNEL).unwrap();
        let (waits, _) = fill(&client, &caller).await;
        clock.advance(limit.saturating_sub(Duration::from_nanos(1)));
        until_still(|| waits.is_finished()).await;
        assert!(!waits.is_finished(), "a nanosecond of the client's limit is left");
        clock.advance(Duration::from_millis(1));
        let error = waits.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
        handlers.gate.add_permits(WIDE);
        until("the client can send again", || waiting(&client) == 0).await;
        caller.send("work", Bytes::new()).await.unwrap();
    });
}
