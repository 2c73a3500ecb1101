//! Peers that speak the protocol by hand. What many do, they do side by side: a shard that sleeps
//! between any two of them costs a loaded machine seconds.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;

use zcore::ByteCount;
use zcore::wire::{
    HEAD_BYTES, HELLO_BYTES, Head, Hello, Kind, Label, Lane, Limits, PairId, Role, RouteHash,
    TopologyKind,
};

use crate::process::{CHANNEL, ECHO, MESH};

/// Both connections of a peer that dialed.
#[derive(Debug)]
pub(crate) struct RawPeer {
    application: TcpStream,
    completion: TcpStream,
}

/// One connection of each peer, and what was said on it.
type Half = Vec<(TcpStream, Hello)>;

/// Dials a host as many peers of different names.
pub(crate) fn dial(host: SocketAddr, name: &str, count: usize) -> Vec<RawPeer> {
    let mut peers = Vec::with_capacity(count);
    while peers.len() < count {
        let numbers = peers.len()..count.min(peers.len() + AT_ONCE);
        let hellos = numbers.map(|number| first_hello(&format!("{name}-{number}"))).collect();
        let first = greet(host, hellos);
        let hellos = first.iter().map(|(_, answer)| second_hello(answer)).collect();
        let second = greet(host, hellos);
        peers.extend(
            first
                .into_iter()
                .zip(second)
                .map(|((application, _), (completion, _))| RawPeer { application, completion }),
        );
    }
    peers
}

/// Says hello on a connection for each, and hears the answers.
fn greet(host: SocketAddr, hellos: Vec<Hello>) -> Half {
    let mut half = Half::new();
    for hello in hellos {
        let mut stream = TcpStream::connect(host).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&hello.encode()).unwrap();
        half.push((stream, hello));
    }
    for (stream, said) in &mut half {
        let mut bytes = [0; HELLO_BYTES];
        stream.read_exact(&mut bytes).unwrap();
        let heard = Hello::decode(&bytes).unwrap();
        assert_eq!(heard.role, Role::Accept, "the answer to {said:?}");
        *said = Hello { shard: heard.shard, generation: heard.generation, ..*said };
    }
    half
}

fn first_hello(node: &str) -> Hello {
    let node = Label::new(node).unwrap();
    Hello {
        role: Role::Dial,
        refusal: None,
        lane: Lane::Application,
        topology_kind: TopologyKind::RouteMesh,
        shard: 0,
        pair: PairId::new(RouteHash::of(&[node.as_str().as_bytes()]).get().into()),
        generation: 1,
        incarnation: 7,
        last_generation: 0,
        claimed: 0,
        claimed_requests: 0,
        max_message_size: 16 << 20,
        outstanding_max: 1_000,
        node,
        topology: Label::new(MESH).unwrap(),
    }
}

const fn second_hello(first: &Hello) -> Hello {
    Hello { lane: Lane::Completion, ..*first }
}

impl RawPeer {
    /// Each sends 64 bytes and gets them back.
    pub(crate) fn exchange(peers: &mut [Self]) {
        let route = RouteHash::of(&[CHANNEL.as_bytes(), ECHO.as_bytes()]);
        for peer in &mut *peers {
            say(&mut peer.application, Head::new(Kind::Request, 1, route), &MESSAGE);
        }
        for peer in peers {
            let (head, body) = hear(&mut peer.completion, Lane::Completion);
            assert_eq!((head.kind, body.as_slice()), (Kind::Reply, MESSAGE.as_slice()), "an echo");
        }
    }

    /// Each is probed and answers.
    pub(crate) fn answer_probes(peers: &mut [Self]) {
        for peer in peers {
            let (head, _) = hear(&mut peer.application, Lane::Application);
            assert_eq!(head.kind, Kind::Probe, "an idle lane is probed");
            let answer = Head::new(Kind::ProbeAnswer, head.id, RouteHash::NONE);
            say(&mut peer.application, answer, &[]);
        }
    }
}

fn say(stream: &mut TcpStream, head: Head, payload: &[u8]) {
    let payload_len = u32::try_from(payload.len()).unwrap();
    let mut bytes = Head { payload_len, ..head }.encode().to_vec();
    bytes.extend(payload);
    stream.write_all(&bytes).unwrap();
}

fn hear(stream: &mut TcpStream, lane: Lane) -> (Head, Vec<u8>) {
    let mut bytes = [0; HEAD_BYTES];
    stream.read_exact(&mut bytes).unwrap();
    let limits = Limits { lane, max_message_size: ByteCount::mib(16) };
    let head = Head::decode(&bytes, &limits).unwrap();
    let mut body = vec![0; usize::try_from(head.body_len()).unwrap()];
    stream.read_exact(&mut body).unwrap();
    (head, body)
}

/// What is exchanged.
const MESSAGE: [u8; 64] = [7; 64];

/// Peers that dial at once: a quarter of the strangers that a host has at a time, as each is one with
/// either connection.
const AT_ONCE: usize = ztransport::limits::HALF_PAIRS_MAX / 4;

/// Longer than any working machine needs, one that stops its threads for seconds included.
const PATIENCE: Duration = Duration::from_mins(2);
