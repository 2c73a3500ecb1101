//! Two hosts of a mesh, one of which serves the channel `orders`.

use core::future::Future;
use core::time::Duration;

use zhost::{ChannelServer, Host, HostBuilder, MeshPeer, RouteMesh};

/// The name of the mesh.
pub(crate) const MESH: &str = "shop";

/// The name of the channel.
pub(crate) const CHANNEL: &str = "orders";

/// Runs a test on a runtime of its own.
pub(crate) fn run<T>(test: impl Future<Output = T>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(ends(test));
}

/// A call that never ends fails its test instead of holding up all others.
async fn ends<T>(test: impl Future<Output = T>) {
    let ended = tokio::time::timeout(Duration::from_mins(2), test).await;
    assert!(ended.is_ok(), "something that should have ended did not");
}

/// The same with only one thread for every task of the test.
pub(crate) fn run_on_one_thread<T>(test: impl Future<Output = T>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(ends(test));
}

/// How long a send may wait here: tests on the real clock are about other limits, and a machine may
/// stop a thread for longer than the default.
const PATIENCE: Duration = Duration::from_mins(1);

/// A host that serves `channel` and listens.
pub(crate) fn receiver(channel: ChannelServer, tune: impl Fn(HostBuilder) -> HostBuilder) -> Host {
    let mesh = RouteMesh::new(MESH).listen("127.0.0.1:0".parse().unwrap()).channel(channel);
    let host = Host::builder("receiver").default_socket_send_timeout(PATIENCE).mesh(mesh);
    tune(host).start().unwrap()
}

/// A host that calls `receiver`.
pub(crate) fn sender(receiver: &Host, tune: impl Fn(HostBuilder) -> HostBuilder) -> Host {
    let address = receiver.listen_address(MESH).unwrap().clone();
    let mesh = RouteMesh::new(MESH).peer(MeshPeer::new("receiver", address).serves(CHANNEL));
    let host = Host::builder("sender").default_socket_send_timeout(PATIENCE).mesh(mesh);
    tune(host).start().unwrap()
}

/// Waits until something holds; it fails after a time that no working machine needs.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("30 s were not enough: {what}");
}

/// Waits until what is seen has not changed for half a second, and returns it.
pub(crate) async fn until_still<T: PartialEq>(see: impl Fn() -> T) -> T {
    let mut last = see();
    let mut unchanged = 0;
    while unchanged < 100 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let now = see();
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
    }
    last
}
