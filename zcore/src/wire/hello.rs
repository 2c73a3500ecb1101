//! The first bytes on every connection, in both directions.

use core::fmt;

use super::codes::{Lane, Refusal, Role, TopologyKind};
use super::label::{LABEL_BYTES, Label, LabelError};
use super::layout::{first_nonzero, get, put};

/// The length of a hello, in every version of the protocol.
pub const HELLO_BYTES: usize = 256;

/// How much of a hello stands in its place in every version of the protocol: magic, version, and
/// what a refusal echoes.
pub const HELLO_START_BYTES: usize = 32;

/// What a hello begins with.
pub const MAGIC: [u8; 4] = *b"ZLNK";

/// The version of this specification.
pub const VERSION: u16 = 1;

const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 4;
const LANE_AT: usize = 6;
const ROLE_AT: usize = 7;
const REFUSAL_AT: usize = 8;
const TOPOLOGY_KIND_AT: usize = 9;
const SHARD_AT: usize = 10;
const GENERATION_AT: usize = 12;
const PAIR_AT: usize = 16;
const INCARNATION_AT: usize = 32;
const CLAIMED_AT: usize = 40;
const LAST_GENERATION_AT: usize = 48;
const MESSAGE_SIZE_AT: usize = 52;
const OUTSTANDING_AT: usize = 56;
const RESERVED_AT: usize = 60;
const NODE_AT: usize = 64;
const TOPOLOGY_AT: usize = 128;
const CLAIMED_REQUESTS_AT: usize = 192;
const TAIL_AT: usize = 200;

/// Names a pair: 128 random bits that the dialer draws.
///
/// Whoever knows them can join the pair's second connection, so they are never shown.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct PairId(u128);

impl PairId {
    /// Wraps random bits.
    pub const fn new(bits: u128) -> Self {
        Self(bits)
    }

    /// The bits.
    pub const fn get(self) -> u128 {
        self.0
    }
}

impl fmt::Debug for PairId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PairId(..)")
    }
}

/// Who is on the other end, what the connection is for, and what the sender takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hello {
    /// What this hello is.
    pub role: Role,
    /// Why it says no. Travels with [`Role::Refuse`] alone; `None` there gives no reason.
    pub refusal: Option<Refusal>,
    /// The lane that the connection becomes.
    pub lane: Lane,
    /// The kind of the topology.
    pub topology_kind: TopologyKind,
    /// The acceptor's shard that owns the pair: chosen in its first answer, echoed after that.
    pub shard: u16,
    /// The pair that the connection belongs to.
    pub pair: PairId,
    /// Counts the pairs between two nodes; rises with each.
    pub generation: u32,
    /// Names this run of the sender's process: random, drawn at its start.
    pub incarnation: u64,
    /// The generation that `claimed` is about; 0 if there was none. In a refusal of a stale
    /// generation, the one that it was compared with.
    pub last_generation: u32,
    /// Messages, requests among them, that the sender took in `last_generation` (D-25).
    pub claimed: u64,
    /// How many of them were requests.
    pub claimed_requests: u64,
    /// Payload plus metadata of one message that the sender takes (D-06).
    pub max_message_size: u32,
    /// Unanswered requests that the sender takes (D-15).
    pub outstanding_max: u32,
    /// The sender's node id.
    pub node: Label,
    /// The topology's name.
    pub topology: Label,
}

impl Hello {
    /// The bytes on the wire. `refusal` is left out unless the role is [`Role::Refuse`].
    pub const fn encode(&self) -> [u8; HELLO_BYTES] {
        let refusal = match (self.role, self.refusal) {
            (Role::Refuse, Some(refusal)) => refusal.code(),
            (Role::Refuse, None) | (Role::Dial | Role::Accept, Some(_) | None) => 0,
        };
        let mut out = [0; HELLO_BYTES];
        put::<MAGIC_AT, _, _>(&mut out, MAGIC);
        put::<VERSION_AT, _, _>(&mut out, VERSION.to_le_bytes());
        put::<LANE_AT, _, _>(&mut out, [self.lane.code()]);
        put::<ROLE_AT, _, _>(&mut out, [self.role.code()]);
        put::<REFUSAL_AT, _, _>(&mut out, [refusal]);
        put::<TOPOLOGY_KIND_AT, _, _>(&mut out, [self.topology_kind.code()]);
        put::<SHARD_AT, _, _>(&mut out, self.shard.to_le_bytes());
        put::<GENERATION_AT, _, _>(&mut out, self.generation.to_le_bytes());
        put::<PAIR_AT, _, _>(&mut out, self.pair.get().to_le_bytes());
        put::<INCARNATION_AT, _, _>(&mut out, self.incarnation.to_le_bytes());
        put::<CLAIMED_AT, _, _>(&mut out, self.claimed.to_le_bytes());
        put::<LAST_GENERATION_AT, _, _>(&mut out, self.last_generation.to_le_bytes());
        put::<MESSAGE_SIZE_AT, _, _>(&mut out, self.max_message_size.to_le_bytes());
        put::<OUTSTANDING_AT, _, _>(&mut out, self.outstanding_max.to_le_bytes());
        put::<NODE_AT, _, _>(&mut out, self.node.to_field());
        put::<TOPOLOGY_AT, _, _>(&mut out, self.topology.to_field());
        put::<CLAIMED_REQUESTS_AT, _, _>(&mut out, self.claimed_requests.to_le_bytes());
        out
    }

    /// Checks the first bytes of a hello, however few are there: whoever does not speak this
    /// protocol need not be waited for.
    ///
    /// # Errors
    ///
    /// [`HelloError::Magic`] or [`HelloError::Version`], as soon as no further byte can help.
    pub fn check_start(bytes: &[u8]) -> Result<(), HelloError> {
        if bytes.iter().zip(&MAGIC).any(|(byte, wanted)| byte != wanted) {
            return Err(HelloError::Magic);
        }
        let Some(start) = bytes.first_chunk::<{ VERSION_AT + 2 }>() else { return Ok(()) };
        check_version(u16::from_le_bytes(get::<VERSION_AT, _, _>(start)))
    }

    /// The hello that `bytes` are.
    ///
    /// # Errors
    ///
    /// [`HelloError`] for the first field that is wrong. Magic and version come before all others:
    /// nothing is read from a hello of another version.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Result<Self, HelloError> {
        Self::check_start(bytes)?;
        let [code] = get::<LANE_AT, _, _>(bytes);
        let lane = Lane::from_code(code).ok_or(HelloError::Lane { code })?;
        let [code] = get::<ROLE_AT, _, _>(bytes);
        let role = Role::from_code(code).ok_or(HelloError::Role { code })?;
        let [code] = get::<REFUSAL_AT, _, _>(bytes);
        let refusal = read_refusal(role, code)?;
        let [code] = get::<TOPOLOGY_KIND_AT, _, _>(bytes);
        let topology_kind =
            TopologyKind::from_code(code).ok_or(HelloError::TopologyKind { code })?;
        check_reserved(RESERVED_AT, &get::<RESERVED_AT, 4, _>(bytes))?;
        check_reserved(TAIL_AT, &get::<TAIL_AT, TAIL_BYTES, _>(bytes))?;
        let node = get::<NODE_AT, LABEL_BYTES, _>(bytes);
        let topology = get::<TOPOLOGY_AT, LABEL_BYTES, _>(bytes);
        Ok(Self {
            role,
            refusal,
            lane,
            topology_kind,
            shard: u16::from_le_bytes(get::<SHARD_AT, _, _>(bytes)),
            pair: PairId(u128::from_le_bytes(get::<PAIR_AT, _, _>(bytes))),
            generation: u32::from_le_bytes(get::<GENERATION_AT, _, _>(bytes)),
            incarnation: u64::from_le_bytes(get::<INCARNATION_AT, _, _>(bytes)),
            last_generation: u32::from_le_bytes(get::<LAST_GENERATION_AT, _, _>(bytes)),
            claimed: u64::from_le_bytes(get::<CLAIMED_AT, _, _>(bytes)),
            claimed_requests: u64::from_le_bytes(get::<CLAIMED_REQUESTS_AT, _, _>(bytes)),
            max_message_size: u32::from_le_bytes(get::<MESSAGE_SIZE_AT, _, _>(bytes)),
            outstanding_max: u32::from_le_bytes(get::<OUTSTANDING_AT, _, _>(bytes)),
            node: Label::from_field(&node).map_err(HelloError::Node)?,
            topology: Label::from_field(&topology).map_err(HelloError::Topology)?,
        })
    }

    /// What a refusal of a hello needs that [`Hello::decode`] turned down, or [`Hello::check_start`].
    ///
    /// Only pair and generation are taken from its start, to be echoed and for nothing else: they
    /// stay in their place in every version. Everything else stands for the side that answers.
    pub const fn answerable(start: &[u8; HELLO_START_BYTES], lane: Lane, node: Label) -> Self {
        Self {
            role: Role::Dial,
            refusal: None,
            lane,
            topology_kind: TopologyKind::RouteMesh,
            shard: 0,
            pair: PairId(u128::from_le_bytes(get::<PAIR_AT, _, _>(start))),
            generation: u32::from_le_bytes(get::<GENERATION_AT, _, _>(start)),
            incarnation: 0,
            last_generation: 0,
            claimed: 0,
            claimed_requests: 0,
            max_message_size: 0,
            outstanding_max: 0,
            node,
            topology: node,
        }
    }
}

const fn check_version(version: u16) -> Result<(), HelloError> {
    if version == VERSION { Ok(()) } else { Err(HelloError::Version { version }) }
}

fn read_refusal(role: Role, code: u8) -> Result<Option<Refusal>, HelloError> {
    if code == 0 {
        return Ok(None);
    }
    let refusal = Refusal::from_code(code).filter(|_| role == Role::Refuse);
    refusal.map(Some).ok_or(HelloError::Refusal { role, code })
}

fn check_reserved(offset: usize, reserved: &[u8]) -> Result<(), HelloError> {
    first_nonzero(reserved)
        .map_or(Ok(()), |index| Err(HelloError::Reserved { at: offset.saturating_add(index) }))
}

const TAIL_BYTES: usize = HELLO_BYTES - TAIL_AT;

const _: () = {
    assert!(PAIR_AT + 16 == INCARNATION_AT, "no gap before the incarnation");
    assert!(RESERVED_AT + 4 == NODE_AT, "no gap before the node");
    assert!(NODE_AT + LABEL_BYTES == TOPOLOGY_AT, "no gap before the topology");
    assert!(TOPOLOGY_AT + LABEL_BYTES == CLAIMED_REQUESTS_AT, "no gap before the requests");
    assert!(CLAIMED_REQUESTS_AT + 8 == TAIL_AT, "no gap before the tail");
    assert!(PAIR_AT + 16 == HELLO_START_BYTES, "what is echoed lies in the start");
};

/// Bytes that are no hello of this version.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HelloError {
    /// They do not begin with [`MAGIC`]: whoever sent them does not speak this protocol.
    Magic,
    /// They are a hello of another version.
    Version {
        /// The version.
        version: u16,
    },
    /// No lane has this code.
    Lane {
        /// The code.
        code: u8,
    },
    /// No role has this code.
    Role {
        /// The code.
        code: u8,
    },
    /// No refusal has this code, or the role carries none.
    Refusal {
        /// The role.
        role: Role,
        /// The code.
        code: u8,
    },
    /// No kind of topology has this code.
    TopologyKind {
        /// The code.
        code: u8,
    },
    /// A reserved byte is not zero.
    Reserved {
        /// Its offset.
        at: usize,
    },
    /// The node id is no label.
    Node(LabelError),
    /// The topology's name is no label.
    Topology(LabelError),
}

impl HelloError {
    /// What to answer; `None` if the bytes deserve no answer but the end of the connection.
    pub const fn refusal(self) -> Option<Refusal> {
        match self {
            Self::Version { .. } => Some(Refusal::WrongVersion),
            Self::Role { .. } => Some(Refusal::WrongRole),
            Self::TopologyKind { .. } | Self::Topology(_) => Some(Refusal::WrongTopology),
            Self::Magic
            | Self::Lane { .. }
            | Self::Refusal { .. }
            | Self::Reserved { .. }
            | Self::Node(_) => None,
        }
    }
}

impl fmt::Display for HelloError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Magic => f.write_str("the connection does not begin with a hello"),
            Self::Version { version } => {
                write!(f, "a hello of protocol version {version}; this side speaks {VERSION}")
            }
            Self::Lane { code } => write!(f, "no lane has the code {code}"),
            Self::Role { code } => write!(f, "no role has the code {code}"),
            Self::Refusal { role, code } => {
                write!(f, "a hello of role {role} cannot carry the refusal {code}")
            }
            Self::TopologyKind { code } => write!(f, "no kind of topology has the code {code}"),
            Self::Reserved { at } => {
                write!(f, "reserved byte {at} of a hello of {HELLO_BYTES} B is not 0")
            }
            Self::Node(error) => write!(f, "the node id: {error}"),
            Self::Topology(error) => write!(f, "the topology: {error}"),
        }
    }
}

impl core::error::Error for HelloError {}
