//! A peer as its shard sees it: two connections, one receive queue, one source of jobs.

use std::collections::VecDeque;
use std::sync::Arc;

use zcore::limits::CONTROL_ALLOWANCE;
use zcore::wire::{Goodbye, GoodbyeReason, Head, Hello, Kind, Lane, PairId};
use zcore::{
    Acquaintance, Arrival, Charge, Claims, Given, HighWaterMark, Instant, ReceiveQueue, Run,
    SourceId, Standing, Statement, Tally,
};

use crate::ingress::{Expectation, Ingress};
use crate::link::{Gate, Verdict};
use crate::peer::Peer;
use crate::reconnect::Backoff;
use crate::record::Incoming;
use crate::socket::SocketAddress;
use crate::token::SocketId;

/// Which side dialed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Origin {
    Dialed,
    Accepted,
}

/// Where a pair stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PairPhase {
    /// We dial and have not said hello.
    Silent,
    /// We have said hello and wait for the answer.
    Asking,
    /// One lane has greeted, the other has not.
    Agreed,
    /// Records flow.
    Up,
    /// The peer has said goodbye; a batch may still be in flight to it.
    Leaving,
    /// Our side of the Application lane is ended; replies still flow.
    Left,
}

/// Two connections that live and die together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) id: PairId,
    /// None before we have said hello; a proposal until the peer has answered.
    pub(crate) generation: u32,
    /// The run of the peer's process, once it has said which.
    pub(crate) incarnation: u64,
    /// The generation as the peer said it; our answer may have raised it.
    pub(crate) dialed: u32,
    /// What our hellos say of the pair before.
    pub(crate) said: Statement,
    /// What the peer's hellos say of it.
    pub(crate) heard: Statement,
    pub(crate) origin: Origin,
    pub(crate) application: SocketId,
    pub(crate) completion: Option<SocketId>,
    pub(crate) phase: PairPhase,
    /// The acceptor's shard, echoed in the hello of the Completion lane.
    pub(crate) shard: u16,
}

impl Pair {
    /// One that we dial, over this connection.
    pub(crate) fn dialed(id: PairId, application: SocketId) -> Self {
        Self {
            id,
            generation: 0,
            incarnation: 0,
            dialed: 0,
            said: Statement::default(),
            heard: Statement::default(),
            origin: Origin::Dialed,
            application,
            completion: None,
            phase: PairPhase::Silent,
            shard: 0,
        }
    }

    /// One that a peer dials, as its hello says, over this connection.
    pub(crate) const fn accepted(hello: &Hello, application: SocketId) -> Self {
        Self {
            id: hello.pair,
            generation: hello.generation,
            incarnation: hello.incarnation,
            dialed: hello.generation,
            said: Statement { generation: 0, claimed: Tally { messages: 0, requests: 0 } },
            heard: statement_of(hello),
            origin: Origin::Accepted,
            application,
            completion: None,
            phase: PairPhase::Agreed,
            shard: 0,
        }
    }

    /// Whether both lanes have greeted.
    pub(crate) const fn is_up(&self) -> bool {
        match self.phase {
            PairPhase::Silent | PairPhase::Asking | PairPhase::Agreed => false,
            PairPhase::Up | PairPhase::Leaving | PairPhase::Left => true,
        }
    }

    /// Whether the peer has said that it sends no more.
    pub(crate) const fn has_goodbye(&self) -> bool {
        match self.phase {
            PairPhase::Silent | PairPhase::Asking | PairPhase::Agreed | PairPhase::Up => false,
            PairPhase::Leaving | PairPhase::Left => true,
        }
    }

    /// What a hello that dials finds.
    pub(crate) const fn standing(&self) -> Standing {
        match self.phase {
            PairPhase::Silent => Standing::Silent,
            PairPhase::Asking => Standing::Asking,
            PairPhase::Agreed | PairPhase::Up | PairPhase::Leaving | PairPhase::Left => {
                Standing::Agreed
            }
        }
    }

    /// The run that the pair is agreed with.
    pub(crate) fn holder(&self) -> Option<Run> {
        let run = Run { incarnation: self.incarnation, heard: self.dialed };
        (self.standing() == Standing::Agreed).then_some(run)
    }

    /// Whether a hello of the second connection names this pair.
    pub(crate) fn is_named_by(&self, hello: &Hello) -> bool {
        self.id == hello.pair
            && self.generation == hello.generation
            && self.incarnation == hello.incarnation
    }

    /// The connection of a lane.
    pub(crate) const fn socket(&self, lane: Lane) -> Option<SocketId> {
        match lane {
            Lane::Application => Some(self.application),
            Lane::Completion => self.completion,
        }
    }
}

/// How this host reaches a peer.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    pub(crate) address: SocketAddress,
    pub(crate) backoff: Backoff,
    /// When to dial next, if that is planned.
    pub(crate) at: Option<Instant>,
}

/// What is kept of a peer from pair to pair.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) acquaintance: Acquaintance,
    /// What it was given in its last pair.
    pub(crate) given: Given,
    /// What it was taken from in its last pair.
    pub(crate) claims: Claims,
}

/// A peer of this shard.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) peer: Arc<Peer>,
    pub(crate) source: SourceId,
    pub(crate) receive: ReceiveQueue,
    /// Charged records that wait for a permit.
    pub(crate) ready: VecDeque<Incoming>,
    pub(crate) pair: Option<Pair>,
    /// The first half of a pair of another run of the peer's process, which takes the place of the
    /// present one when it proves that it lives.
    pub(crate) challenger: Option<Pair>,
    pub(crate) memory: Memory,
    pub(crate) dial: Option<Dial>,
    /// The epoch of its Completion lane: raised when a pair ends.
    pub(crate) epoch: u64,
    /// It stands in the shard's list of peers with ready records.
    pub(crate) is_active: bool,
    /// When the shard next looks whether it is alive.
    pub(crate) liveness_at: Option<Instant>,
}

impl Remote {
    pub(crate) fn new(
        peer: Arc<Peer>,
        source: SourceId,
        receive: ReceiveQueue,
        dial: Option<Dial>,
    ) -> Self {
        Self {
            peer,
            source,
            receive,
            ready: VecDeque::new(),
            pair: None,
            challenger: None,
            memory: Memory::default(),
            dial,
            epoch: 0,
            is_active: false,
            liveness_at: None,
        }
    }

    /// Gives memory back that an idle peer does not need. Its lists have grown with its longest
    /// queues; one that is busy makes new ones, which is nothing if it happens seldom.
    pub(crate) fn rest(&mut self) {
        if self.ready.is_empty() {
            self.ready = VecDeque::new();
        }
        self.peer.application().rest();
        self.peer.completion().rest();
    }

    /// Forgets control records that wait for a permit: they concern a pair that is gone, and a
    /// goodbye of it would end the next one. The goodbye, if there was one.
    pub(crate) fn forget_controls(&mut self) -> Option<GoodbyeReason> {
        let Self { receive, ready, .. } = self;
        let mut farewell = None;
        ready.retain(|record| {
            let head = record.head();
            if head.kind.is_control() {
                receive.discard(head.charge());
            }
            if head.kind == Kind::Goodbye {
                farewell = Some(farewell_of(record));
            }
            !head.kind.is_control()
        });
        farewell
    }

    /// Whether a pair has this id, or wants to be one.
    pub(crate) fn knows(&self, id: PairId) -> bool {
        self.pair.iter().chain(&self.challenger).any(|pair| pair.id == id)
    }

    /// Whether both connections are up.
    pub(crate) fn is_up(&self) -> bool {
        self.pair.as_ref().is_some_and(Pair::is_up)
    }
}

/// What a hello says of the pair before.
pub(crate) const fn statement_of(hello: &Hello) -> Statement {
    let claimed = Tally { messages: hello.claimed, requests: hello.claimed_requests };
    Statement { generation: hello.last_generation, claimed }
}

/// Why a peer says goodbye. One that it does not say well is a drain, as most are.
pub(crate) fn farewell_of(record: &Incoming) -> GoodbyeReason {
    Goodbye::decode(&record.payload()).map_or(GoodbyeReason::Drain, |goodbye| goodbye.reason)
}

/// Charges what arrives on the Application lane.
pub(crate) struct ApplicationGate<'shard> {
    pub(crate) receive: &'shard mut ReceiveQueue,
    pub(crate) ready: &'shard mut VecDeque<Incoming>,
    pub(crate) claims: &'shard mut Claims,
    pub(crate) epoch: u64,
}

impl ApplicationGate<'_> {
    /// Whether a control record may go above the mark. A well-behaved peer has few of them under
    /// way; from any other they wait for room like data.
    fn has_control_room(&self, charge: Charge) -> bool {
        let account = self.receive.account();
        let HighWaterMark::Limit(mark) = account.mark() else { return true };
        account.accounted().saturating_add(charge.bytes()) <= mark.saturating_add(CONTROL_ALLOWANCE)
    }
}

impl Gate for ApplicationGate<'_> {
    fn judge(&mut self, head: &Head) -> Verdict {
        if head.kind.is_control() && self.has_control_room(head.charge()) {
            self.receive.arrive_control(head.charge());
            return Verdict::Store;
        }
        match self.receive.arrive(head.charge()) {
            Arrival::Charged => Verdict::Store,
            Arrival::Full => Verdict::Blocked,
        }
    }

    /// From here on nothing keeps the record from its handler but the end of the host, so it is
    /// claimed (D-25).
    fn take(&mut self, record: Incoming) {
        self.claims.claim(record.head().kind);
        self.ready.push_back(record.of_epoch(self.epoch));
    }
}

/// Passes on what arrives on the Completion lane, without charge and permit (B-42, B-43).
pub(crate) struct CompletionGate<'shard, I> {
    pub(crate) peer: &'shard Arc<Peer>,
    pub(crate) ingress: &'shard mut I,
}

impl<I: Ingress> Gate for CompletionGate<'_, I> {
    fn judge(&mut self, head: &Head) -> Verdict {
        match self.ingress.expects(self.peer, head.id) {
            Expectation::Wanted => Verdict::Store,
            Expectation::Late => Verdict::Skip,
            Expectation::NeverIssued => Verdict::Break,
        }
    }

    fn take(&mut self, record: Incoming) {
        self.ingress.complete(self.peer, record);
    }
}
