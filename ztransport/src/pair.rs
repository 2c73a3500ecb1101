//! A peer as its shard sees it: two connections, one receive queue, one source of jobs.

use std::collections::VecDeque;
use std::sync::Arc;

use zcore::limits::CONTROL_ALLOWANCE;
use zcore::wire::{Head, Lane, PairId};
use zcore::{Arrival, Charge, HighWaterMark, Instant, ReceiveQueue, SourceId};

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
    /// Not both lanes have greeted.
    Greeting,
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
    pub(crate) generation: u32,
    /// The run of the peer's process, once it has said which.
    pub(crate) incarnation: u64,
    pub(crate) origin: Origin,
    pub(crate) application: SocketId,
    pub(crate) completion: Option<SocketId>,
    pub(crate) phase: PairPhase,
    /// The acceptor's shard, echoed in the hello of the Completion lane.
    pub(crate) shard: u16,
}

impl Pair {
    /// Whether both lanes have greeted.
    pub(crate) const fn is_up(&self) -> bool {
        match self.phase {
            PairPhase::Greeting => false,
            PairPhase::Up | PairPhase::Leaving | PairPhase::Left => true,
        }
    }

    /// Whether the peer has said that it sends no more.
    pub(crate) const fn has_goodbye(&self) -> bool {
        match self.phase {
            PairPhase::Greeting | PairPhase::Up => false,
            PairPhase::Leaving | PairPhase::Left => true,
        }
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

/// A peer of this shard.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) peer: Arc<Peer>,
    pub(crate) source: SourceId,
    pub(crate) receive: ReceiveQueue,
    /// Charged records that wait for a permit.
    pub(crate) ready: VecDeque<Incoming>,
    pub(crate) pair: Option<Pair>,
    pub(crate) dial: Option<Dial>,
    /// The epoch of its Completion lane: raised when a pair ends.
    pub(crate) epoch: u64,
    /// The generation of the last pair.
    pub(crate) generation: u32,
    /// It stands in the shard's list of peers with ready records.
    pub(crate) is_active: bool,
    /// When the shard next looks whether it is alive.
    pub(crate) liveness_at: Option<Instant>,
}

impl Remote {
    pub(crate) const fn new(
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
            dial,
            epoch: 0,
            generation: 0,
            is_active: false,
            liveness_at: None,
        }
    }

    /// Forgets control records that wait for a permit: they concern a pair that is gone, and a
    /// goodbye of it would end the next one.
    pub(crate) fn forget_controls(&mut self) {
        let Self { receive, ready, .. } = self;
        ready.retain(|record| {
            let head = record.head();
            if head.kind.is_control() {
                receive.discard(head.charge());
            }
            !head.kind.is_control()
        });
    }

    /// Whether both connections are up.
    pub(crate) fn is_up(&self) -> bool {
        self.pair.as_ref().is_some_and(Pair::is_up)
    }
}

/// Charges what arrives on the Application lane.
pub(crate) struct ApplicationGate<'shard> {
    pub(crate) receive: &'shard mut ReceiveQueue,
    pub(crate) ready: &'shard mut VecDeque<Incoming>,
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

    fn take(&mut self, record: Incoming) {
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
