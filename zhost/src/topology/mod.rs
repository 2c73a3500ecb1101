//! Who talks to whom: RouteMesh and ClientServer, with peers given by hand.

mod select;

use ztransport::socket::SocketAddress;

use crate::messaging::{Handler, IntoRequestHandler, IntoSendHandler};

pub(crate) use select::{SelectOne, WEIGHT_DEFAULT, WEIGHT_MAX, returned};

/// A mesh in which every node may call every other.
///
/// Both sides of a pair may send; a node listens, dials, or does both.
#[derive(Debug)]
pub struct RouteMesh {
    pub(crate) name: String,
    pub(crate) listen: Option<SocketAddress>,
    pub(crate) peers: Vec<MeshPeer>,
    pub(crate) channels: Vec<ChannelServer>,
}

impl RouteMesh {
    /// A mesh by name; both sides of a connection must agree on it.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), listen: None, peers: Vec::new(), channels: Vec::new() }
    }

    /// Listens for other nodes. Port 0 takes a free one.
    #[must_use]
    pub fn listen(mut self, address: SocketAddress) -> Self {
        self.listen = Some(address);
        self
    }

    /// Dials a node.
    #[must_use]
    pub fn peer(mut self, peer: MeshPeer) -> Self {
        self.peers.push(peer);
        self
    }

    /// Serves a channel.
    #[must_use]
    pub fn channel(mut self, channel: ChannelServer) -> Self {
        self.channels.push(channel);
        self
    }
}

/// A node of a mesh that this host dials.
#[derive(Clone, Debug)]
pub struct MeshPeer {
    pub(crate) node: String,
    pub(crate) address: SocketAddress,
    pub(crate) channels: Vec<(String, u32)>,
}

impl MeshPeer {
    /// The node with this id, at this address.
    pub fn new(node: impl Into<String>, address: SocketAddress) -> Self {
        Self { node: node.into(), address, channels: Vec::new() }
    }

    /// The node serves a channel, and is a candidate for its calls.
    #[must_use]
    pub fn serves(self, channel: impl Into<String>) -> Self {
        self.serves_with_weight(channel, WEIGHT_DEFAULT)
    }

    /// The same with a weight, 0 to 10,000; the default is 100. A weight of 0 gets no calls.
    #[must_use]
    pub fn serves_with_weight(mut self, channel: impl Into<String>, weight: u32) -> Self {
        self.channels.push((channel.into(), weight));
        self
    }
}

/// A channel between clients, which start all calls, and servers, which only reply.
#[derive(Debug)]
pub struct ClientServer {
    pub(crate) side: Side,
    pub(crate) channel: ChannelServer,
}

/// Which side of a ClientServer channel a host is on.
#[derive(Debug)]
pub(crate) enum Side {
    Client { servers: Vec<(SocketAddress, u32)> },
    Server { listen: SocketAddress },
}

impl ClientServer {
    /// The client side of a channel; add servers with [`ClientServer::connect`].
    pub fn client(channel: impl Into<String>) -> Self {
        let side = Side::Client { servers: Vec::new() };
        Self { side, channel: ChannelServer::new(channel) }
    }

    /// The server side of a channel.
    pub const fn server(channel: ChannelServer, listen: SocketAddress) -> Self {
        Self { side: Side::Server { listen }, channel }
    }

    /// A server to dial. Its node id is learned when it answers. A server side dials nobody: there
    /// this is a configuration error.
    #[must_use]
    pub fn connect(mut self, server: SocketAddress) -> Self {
        match &mut self.side {
            Side::Client { servers } => servers.push((server, WEIGHT_DEFAULT)),
            Side::Server { .. } => self.channel.dials_as_server = true,
        }
        self
    }
}

/// A channel that this host serves: its name and its handlers.
#[derive(Debug)]
pub struct ChannelServer {
    pub(crate) name: String,
    pub(crate) handlers: Vec<(String, Handler)>,
    pub(crate) dials_as_server: bool,
}

impl ChannelServer {
    /// A channel without handlers.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), handlers: Vec::new(), dials_as_server: false }
    }

    /// Handles one-way messages of a name: an async closure over a
    /// [`Message`](crate::Message), a [`Bytes`](bytes::Bytes), or a [`Json`](crate::Json).
    #[must_use]
    pub fn on_send<M>(mut self, name: impl Into<String>, handler: impl IntoSendHandler<M>) -> Self {
        self.handlers.push((name.into(), handler.into_handler()));
        self
    }

    /// Handles requests of a name: as [`ChannelServer::on_send`], and its result is the reply.
    #[must_use]
    pub fn on_request<M>(
        mut self,
        name: impl Into<String>,
        handler: impl IntoRequestHandler<M>,
    ) -> Self {
        self.handlers.push((name.into(), handler.into_handler()));
        self
    }
}
