//! One value of everything that travels.

use zcore::ByteCount;
use zcore::wire::{
    ContentType, ErrorReply, Fault, Goodbye, GoodbyeReason, Head, Hello, Kind, Label, Lane, Limits,
    PairId, Refusal, Role, RouteHash, TopologyKind,
};

pub(crate) const ORDERS: RouteHash = RouteHash::of(&[b"orders", b"place"]);

/// A limit that none of the samples reaches.
pub(crate) const fn limits(lane: Lane) -> Limits {
    Limits { lane, max_message_size: ByteCount::kib(64) }
}

/// A head of each kind, no two of them alike.
pub(crate) fn heads() -> Vec<Head> {
    let request = Head {
        kind: Kind::Request,
        content: ContentType::Json,
        address_len: 9,
        metadata_len: 0x0102,
        payload_len: 0x0304,
        remaining_ms: 0x0506_0708,
        id: 0x090a_0b0c_0d0e_0f10,
        route: ORDERS,
    };
    let reply = Head {
        content: ContentType::Postcard,
        payload_len: 3,
        ..Head::new(Kind::Reply, request.id, RouteHash::NONE)
    };
    let error = Head { payload_len: 4, ..Head::new(Kind::ErrorReply, u64::MAX, RouteHash::NONE) };
    let goodbye = Head { payload_len: 8, ..Head::new(Kind::Goodbye, 0, RouteHash::NONE) };
    vec![
        Head { content: ContentType::Protobuf, ..Head::new(Kind::Send, 0, ORDERS) },
        request,
        reply,
        error,
        Head::new(Kind::Probe, 1, RouteHash::NONE),
        Head::new(Kind::ProbeAnswer, 1, RouteHash::NONE),
        Head::new(Kind::SendReady, 2, RouteHash::NONE),
        goodbye,
    ]
}

/// A hello of each role, no two of them alike.
pub(crate) fn hellos() -> Vec<Hello> {
    let dial = Hello {
        role: Role::Dial,
        refusal: None,
        lane: Lane::Application,
        topology_kind: TopologyKind::RouteMesh,
        shard: 0,
        pair: PairId::new(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
        generation: 0x1112_1314,
        incarnation: 0x1516_1718_191a_1b1c,
        last_generation: 0x1112_1313,
        claimed: 0x1d1e_1f20_2122_2324,
        claimed_requests: 0x2728_292a_2b2c_2d2e,
        max_message_size: 16 << 20,
        outstanding_max: 16_384,
        node: Label::new("node-1.example").unwrap(),
        topology: Label::new("orders").unwrap(),
    };
    let accept = Hello {
        role: Role::Accept,
        lane: Lane::Completion,
        shard: 0x2526,
        node: Label::new(&"n".repeat(63)).unwrap(),
        ..dial
    };
    let refuse = Hello {
        role: Role::Refuse,
        refusal: Some(Refusal::SimultaneousDial),
        topology_kind: TopologyKind::ClientServer,
        topology: Label::new("_").unwrap(),
        ..dial
    };
    vec![dial, accept, refuse]
}

pub(crate) const ERROR_REPLY: ErrorReply =
    ErrorReply { fault: Fault::InternalFailure, started: true };

pub(crate) const GOODBYE: Goodbye =
    Goodbye { reason: GoodbyeReason::Drain, window_ms: 0x0102_0304 };

/// Numbers that look random and are the same in every run (xorshift64). A test that fails while it
/// has some says which seed they grew from.
pub(crate) struct Numbers {
    seed: u64,
    state: u64,
}

impl Numbers {
    /// `seed` is not zero: zero grows nothing.
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    pub(crate) const fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[3]
    }
}

impl Drop for Numbers {
    #[expect(clippy::print_stderr, reason = "whoever replays a failure needs its seed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed is {}", self.seed);
        }
    }
}
