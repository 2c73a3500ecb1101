//! Scripts whose far end is a plain socket of the test: for drivers over the kernel's sockets.

pub(crate) mod accepting;
pub(crate) mod dropping;
pub(crate) mod peers;
pub(crate) mod sigpipe;
pub(crate) mod threads;

use core::time::Duration;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use ztransport::socket::{self, SocketAddress, SocketBuffers};

use crate::seen::End;
use crate::stand::Kernel;
use crate::world::World;

impl<S: Kernel> World<S> {
    /// An adopted socket and the other end of its connection, outside of the driver.
    pub(crate) fn connection(&mut self, buffers: SocketBuffers) -> (End, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let ours = OwnedFd::from(listener.accept().unwrap().0);
        socket::prepare(&ours, buffers).unwrap();
        (self.adopt(0, ours), peer)
    }

    /// A listener that accepts, and where to connect to it.
    pub(crate) fn tcp_listener(&mut self) -> (End, core::net::SocketAddr) {
        let address = self.stand.tcp();
        let (listener, address) = self.listen(0, &address, SocketBuffers::default());
        let SocketAddress::Tcp(address) = address else { panic!("{address} is no TCP address") };
        (listener, address)
    }
}

/// A listener that takes one connection into its backlog and answers no other.
pub(crate) fn deaf() -> (OwnedFd, SocketAddress, Vec<TcpStream>) {
    let any: SocketAddress = "127.0.0.1:0".parse().unwrap();
    let listener = socket::listen(&any, SocketBuffers::default()).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = socket::local_address(&listener).unwrap();
    let SocketAddress::Tcp(to) = address else { panic!("{address} is no TCP address") };
    let mut taken = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&to, Duration::from_millis(100)) {
        taken.push(stream);
        assert!(taken.len() < 8, "a backlog of nothing takes {} connections", taken.len());
    }
    (listener, address, taken)
}
