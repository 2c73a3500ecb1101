//! A peer that speaks the protocol by hand, over blocking sockets.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use bytes::Bytes;
use rustix::net::sockopt;
use zcore::ByteCount;
use zcore::wire::{
    HEAD_BYTES, HELLO_BYTES, Head, Hello, Kind, Label, Lane, Limits, PairId, Role, RouteHash,
    TopologyKind,
};
use zhost::{Caller, Host, SocketAddress};

use crate::world::{CHANNEL, MESH, PATIENCE, pause, spawn};

/// Records that no host takes without a handler.
const FILL_MAX: usize = 20_000;

/// Round trips without room for another byte, after which there will be none: the host has looked
/// at its connections in each of them.
const IN_VAIN_MAX: u32 = 3;

/// What a raw peer sends first.
pub(crate) fn hello(node: &str, lane: Lane, pair: PairId, generation: u32) -> Hello {
    Hello {
        role: Role::Dial,
        refusal: None,
        lane,
        topology_kind: TopologyKind::RouteMesh,
        shard: 0,
        pair,
        generation,
        incarnation: 7,
        last_generation: 0,
        claimed: 0,
        claimed_requests: 0,
        max_message_size: 16 << 20,
        outstanding_max: 1_000,
        node: Label::new(node).unwrap(),
        topology: Label::new(MESH).unwrap(),
    }
}

/// A pair id that no other test uses.
pub(crate) fn fresh_pair() -> PairId {
    static LAST: AtomicU64 = AtomicU64::new(0);
    PairId::new((1 << 64) + u128::from(LAST.fetch_add(1, Ordering::Relaxed)))
}

/// A generation above all that any test has used.
pub(crate) fn fresh_generation() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// A whole record for the host's channel.
pub(crate) fn record(kind: Kind, id: u64, name: &str, payload: &[u8]) -> Vec<u8> {
    let is_message = matches!(kind, Kind::Send | Kind::Request);
    let route = if is_message { route(name) } else { RouteHash::NONE };
    let payload_len = u32::try_from(payload.len()).unwrap();
    let mut bytes = Head { payload_len, ..Head::new(kind, id, route) }.encode().to_vec();
    bytes.extend(payload);
    bytes
}

/// The route of a handler of the host's channel.
pub(crate) const fn route(name: &str) -> RouteHash {
    RouteHash::of(&[CHANNEL.as_bytes(), name.as_bytes()])
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) lane: Lane,
}

impl Connection {
    pub(crate) fn open(host: &Host) -> Self {
        Self::over(TcpStream::connect(tcp(host)).unwrap())
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream, lane: Lane::Application }
    }

    /// Sends bytes; it does not matter whether the host still takes them.
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).ok();
    }

    pub(crate) fn greet(&mut self, hello: &Hello) {
        self.lane = hello.lane;
        self.say(&hello.encode());
    }

    #[track_caller]
    pub(crate) fn read_hello(&mut self) -> Hello {
        let mut bytes = [0; HELLO_BYTES];
        self.stream.read_exact(&mut bytes).unwrap();
        Hello::decode(&bytes).unwrap()
    }

    /// The next record; `None` at the end of the stream.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Option<(Head, Vec<u8>)> {
        let mut bytes = [0; HEAD_BYTES];
        match self.stream.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(error) if is_end(error.kind()) => return None,
            Err(error) => panic!("nothing came, and no end: {error}"),
        }
        let limits = Limits { lane: self.lane, max_message_size: ByteCount::mib(16) };
        let head = Head::decode(&bytes, &limits).unwrap();
        let mut body = vec![0; usize::try_from(head.body_len()).unwrap()];
        self.stream.read_exact(&mut body).unwrap();
        Some((head, body))
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, kind: Kind) -> (Head, Vec<u8>) {
        let (head, body) = self.next().unwrap();
        assert_eq!(head.kind, kind, "what came: {head:?}");
        (head, body)
    }

    /// Whether nothing comes for a while.
    pub(crate) fn is_quiet_for(&self, span: Duration) -> bool {
        self.stream.set_read_timeout(Some(span)).unwrap();
        let peeked = loop {
            match self.stream.peek(&mut [0]) {
                // A host in this process has work for this thread.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                peeked => break peeked,
            }
        };
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        matches!(peeked, Err(error) if is_timeout(error.kind()))
    }

    /// Reads over whatever comes until the host ends the connection.
    #[track_caller]
    pub(crate) fn expect_end(&mut self) {
        let mut sink = [0; 4_096];
        loop {
            match self.stream.read(&mut sink) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_end(error.kind()) => return,
                Err(error) => panic!("the host does not end the connection: {error}"),
            }
        }
    }

    /// Writes the same record again and again while there is room, from where `written` bytes of
    /// them have left it. How many have then.
    #[track_caller]
    fn write_on(&mut self, record: &[u8], mut written: usize) -> usize {
        self.stream.set_nonblocking(true).unwrap();
        while written < FILL_MAX * record.len() {
            match self.stream.write(&record[written % record.len()..]) {
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("the host ends the connection: {error}"),
            }
        }
        self.stream.set_nonblocking(false).unwrap();
        written
    }

    /// Ends the connection with a reset, as a crash does.
    pub(crate) fn reset(self) {
        sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
    }
}

/// Both connections of a pair.
#[derive(Debug)]
pub(crate) struct RawPair {
    pub(crate) application: Connection,
    pub(crate) completion: Connection,
    /// What the dialer said on the Application lane, or the host's answer to it.
    pub(crate) heard: Hello,
}

impl RawPair {
    /// Dials a host as `node`.
    #[track_caller]
    pub(crate) fn dial(host: &Host, node: &str) -> Self {
        Self::dial_as(host, &hello(node, Lane::Application, fresh_pair(), fresh_generation()))
    }

    #[track_caller]
    pub(crate) fn dial_as(host: &Host, first: &Hello) -> Self {
        let mut application = Connection::open(host);
        application.greet(first);
        let heard = application.read_hello();
        assert_eq!(heard.role, Role::Accept, "the host takes {:?}: {heard:?}", first.node);
        let mut completion = Connection::open(host);
        let Hello { shard, generation, .. } = heard;
        completion.greet(&Hello { lane: Lane::Completion, shard, generation, ..*first });
        let second = completion.read_hello();
        assert_eq!(second.role, Role::Accept, "the other lane: {second:?}");
        Self { application, completion, heard }
    }

    #[track_caller]
    pub(crate) fn expect_end(&mut self) {
        self.application.expect_end();
        self.completion.expect_end();
    }

    /// Answers a request of the host: a round trip through its shard.
    #[track_caller]
    pub(crate) fn answer_one(&mut self, caller: &Caller) {
        let call = caller.clone();
        let asked = spawn(async move { call.request("any", Bytes::new()).await.map(drop) });
        let (head, _) = self.application.expect(Kind::Request);
        self.completion.say(&record(Kind::Reply, head.id, "", &[]));
        asked.join().unwrap().unwrap();
    }

    /// Writes the same record until the host takes no more. How many left whole; the last one may
    /// have left in part.
    ///
    /// That there is no room says nothing: the host may not have come to read yet.
    #[track_caller]
    pub(crate) fn fill(&mut self, caller: &Caller, record: &[u8]) -> u64 {
        let (mut written, mut in_vain) = (0, 0);
        while in_vain < IN_VAIN_MAX {
            let before = written;
            written = self.application.write_on(record, before);
            in_vain = if written == before { in_vain + 1 } else { 0 };
            self.answer_one(caller);
        }
        (written / record.len()) as u64
    }

    /// Whether a request of this peer is answered: the pair lives.
    #[track_caller]
    pub(crate) fn expect_alive(&mut self, id: u64) {
        self.application.say(&record(Kind::Request, id, "echo", b"alive?"));
        let (head, body) = self.completion.expect(Kind::Reply);
        assert_eq!((head.id, body.as_slice()), (id, b"alive?".as_slice()), "the echo");
    }
}

/// A place where hosts dial a raw peer.
#[derive(Debug)]
pub(crate) struct RawListener {
    listener: TcpListener,
    node: &'static str,
}

impl RawListener {
    pub(crate) fn bind(node: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // A host that does not dial fails its test, too.
        sockopt::set_socket_timeout(&listener, sockopt::Timeout::Recv, Some(PATIENCE)).unwrap();
        Self { listener, node }
    }

    pub(crate) fn address(&self) -> SocketAddress {
        SocketAddress::Tcp(self.listener.local_addr().unwrap())
    }

    /// Takes a connection and its hello, which waits for an answer.
    #[track_caller]
    pub(crate) fn accept(&self) -> (Connection, Hello) {
        let (stream, _) = self.listener.accept().unwrap();
        let mut connection = Connection::over(stream);
        let hello = connection.read_hello();
        connection.lane = hello.lane;
        (connection, hello)
    }

    /// The answer that joins a connection to its pair.
    pub(crate) fn answer(&self, dial: &Hello) -> Hello {
        let node = Label::new(self.node).unwrap();
        let silent = Hello { last_generation: 0, claimed: 0, claimed_requests: 0, ..*dial };
        Hello { role: Role::Accept, shard: 3, node, incarnation: 9, ..silent }
    }

    #[track_caller]
    pub(crate) fn accept_pair(&self) -> RawPair {
        self.accept_pair_saying(|answer| answer)
    }

    /// Takes a pair, with something else in both answers than usual.
    #[track_caller]
    pub(crate) fn accept_pair_saying(&self, change: impl Fn(Hello) -> Hello) -> RawPair {
        let (mut application, heard) = self.accept();
        assert_eq!(heard.lane, Lane::Application, "this lane comes first");
        application.say(&change(self.answer(&heard)).encode());
        let (mut completion, second) = self.accept();
        assert_eq!(second.lane, Lane::Completion, "the other half: {second:?}");
        assert_eq!((second.pair, second.shard), (heard.pair, 3), "of the same pair");
        completion.say(&change(self.answer(&second)).encode());
        RawPair { application, completion, heard }
    }

    /// How many connections come within a while.
    pub(crate) fn dials_within(&self, span: Duration) -> usize {
        pause(span);
        self.listener.set_nonblocking(true).unwrap();
        let dials = core::iter::from_fn(|| self.listener.accept().ok()).count();
        self.listener.set_nonblocking(false).unwrap();
        dials
    }
}

pub(crate) fn tcp(host: &Host) -> SocketAddr {
    match host.listen_address(MESH) {
        Some(SocketAddress::Tcp(address)) => *address,
        other => panic!("the host listens on {other:?}"),
    }
}

const fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

const fn is_end(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}
