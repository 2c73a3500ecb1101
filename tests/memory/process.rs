//! The process of the accepting host: this very program, told by its environment to be one.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use zhost::clock::VirtualClock;
use zhost::{ChannelServer, DriverKind, Host, RouteMesh, SocketAddress};
use ztransport::limits::PROBE_INTERVAL;

pub(crate) const MESH: &str = "shop";
pub(crate) const CHANNEL: &str = "orders";
pub(crate) const ECHO: &str = "echo";

/// Whether this process is the host.
pub(crate) fn is_the_host() -> bool {
    std::env::var_os(HOST).is_some()
}

/// Is a host with default options, until its input ends. Its clock moves a line of input at a time,
/// so that no peer counts as lost however slow the machine is.
#[expect(clippy::print_stdout, reason = "the test reads it")]
pub(crate) fn serve(driver: DriverKind) {
    let channel = ChannelServer::new(CHANNEL).on_request(ECHO, async |order: Bytes| Ok(order));
    let mesh = RouteMesh::new(MESH).listen("127.0.0.1:0".parse().unwrap()).channel(channel);
    let clock = Arc::new(VirtualClock::new());
    let host = Host::builder("server").driver(driver).clock(clock.clone()).mesh(mesh);
    let host = host.start().unwrap();
    let address = host.listen_address(MESH).unwrap();
    println!("{LISTENS}{address}");
    for line in std::io::stdin().lines() {
        assert_eq!(line.unwrap(), "", "nothing but the ends of lines");
        clock.advance(PROBE_INTERVAL + Duration::from_secs(1));
    }
    drop(host);
}

/// The process of a host, as the test sees it.
#[derive(Debug)]
pub(crate) struct Accepting {
    child: Child,
    address: SocketAddr,
}

impl Accepting {
    /// Starts this program again, to run the named test only and as the host.
    pub(crate) fn start(test: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", test])
            .env(HOST, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let said = lines.find_map(|line| Some(line.split_once(LISTENS)?.1.to_owned()));
        // Its output stays open: a host that ends badly says why.
        std::thread::spawn(move || lines.for_each(drop));
        match said.map(|address| address.parse().unwrap()) {
            Some(SocketAddress::Tcp(address)) => Self { child, address },
            other => panic!("the host listens on {other:?}"),
        }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Moves the host's clock to where idle peers are probed.
    pub(crate) fn let_time_pass(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// What this process alone has written to: `Private_Dirty`, and what of it is swapped out. `Rss`
    /// also counts the program's code, of which the kernel keeps one copy, and grows with each page
    /// of it that runs for the first time.
    pub(crate) fn own_bytes(&self) -> u64 {
        let path = format!("/proc/{}/smaps_rollup", self.child.id());
        let rollup = std::fs::read_to_string(path).unwrap();
        let kib = |name: &str| -> u64 {
            let line = rollup.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim_end_matches("kB").trim().parse().unwrap()
        };
        (kib("Private_Dirty:") + kib("Swap:")) << 10
    }

    /// Ends the host and sees that it was well.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "the host ended with {status}");
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Says that a process of this program is a host.
const HOST: &str = "ZLINK_TEST_IDLE_HOST";

/// What comes before the host's address.
const LISTENS: &str = "the host listens on ";
