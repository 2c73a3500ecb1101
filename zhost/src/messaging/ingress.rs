//! What a shard hands to the host becomes a job, or the end of a call.

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use zcore::wire::{Fault, Kind};
use zcore::{Instant, Settlement};
use ztransport::{
    CloseReason, DropReason, Expectation, HandedOver, Incoming, Ingress, Peer, Permit, Prospect,
    ShardPlan,
};

use super::handler::HandlerJob;
use super::message::Message;
use super::reply::{DISGUISED, Duty};
use crate::dispatch::{LocalTasks, caught};
use crate::engine::Shared;
use crate::options::ReplyLane;
use crate::threads::Executor;

/// Polls of handlers in one turn of a shard, before its connections are looked at again.
const POLLS_A_TURN: usize = 256;

/// What a shard does besides serving its peers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Role {
    /// It ends requests whose time is up, and runs the client code of the host.
    First,
    /// Nothing.
    Other,
}

/// The host's side of a shard.
pub(crate) struct HostIngress {
    shared: Arc<Shared>,
    role: Role,
    tasks: LocalTasks,
    executor: Executor,
    /// Answers that are sent without a handler; they run on this shard.
    faults: VecDeque<(Duty, Fault)>,
}

impl fmt::Debug for HostIngress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shared: _, role, tasks, executor, faults } = self;
        f.debug_struct("HostIngress")
            .field("role", role)
            .field("tasks", &!tasks.is_empty())
            .field("executor", executor)
            .field("faults", &faults.len())
            .finish_non_exhaustive()
    }
}

impl HostIngress {
    /// The host's side of the shard that `bell` wakes, on its thread.
    pub(crate) fn new(shared: Arc<Shared>, executor: Executor, plan: &ShardPlan) -> Self {
        let bell = Arc::clone(&plan.lanes.bell);
        let tasks = LocalTasks::new(&shared.gate, Arc::new(move || bell.knock()));
        let role = if plan.index == 0 { Role::First } else { Role::Other };
        shared.add_executor(tasks.counts());
        match &executor {
            Executor::Shard => {}
            #[cfg(feature = "tokio")]
            Executor::Tokio(queues) => shared.add_executor(queues.counts()),
        }
        Self { shared, role, tasks, executor, faults: VecDeque::new() }
    }

    /// Takes over what other threads want to run on this shard.
    fn take_spawned(&mut self) {
        for make in self.shared.take_spawned() {
            // A panic ends the client code alone; whoever waits for it is told by its guard.
            if let Some(future) = caught(make) {
                self.tasks.spawn(future);
            }
        }
    }
}

impl Ingress for HostIngress {
    fn deliver(&mut self, peer: &Arc<Peer>, record: Incoming, permit: Permit) {
        let head = *record.head();
        let may_be_disguised = self.shared.settings.reply_lane == ReplyLane::Application;
        if may_be_disguised && head.route == DISGUISED {
            drop(permit);
            self.complete(peer, record);
            return;
        }
        let duty = match head.kind {
            Kind::Request => Duty::to_answer(Arc::clone(&self.shared), Arc::clone(peer), &record),
            Kind::Send
            | Kind::Reply
            | Kind::ErrorReply
            | Kind::Probe
            | Kind::ProbeAnswer
            | Kind::SendReady
            | Kind::Goodbye => Duty::none(Arc::clone(&self.shared), Arc::clone(peer)),
        };
        let Some((name, call)) = self.shared.routes.find(peer.topology(), head.route, head.kind)
        else {
            drop(permit);
            self.faults.push_back((duty, Fault::NotFound));
            return;
        };
        let remaining = Duration::from_millis(head.remaining_ms.into());
        let deadline =
            (head.remaining_ms > 0).then(|| self.shared.clock.now().saturating_add(remaining));
        let message = Message::new(record, Arc::clone(peer), deadline);
        let job = Box::new(HandlerJob { name, call, message, permit, duty });
        match &mut self.executor {
            Executor::Shard => self.tasks.submit(job),
            #[cfg(feature = "tokio")]
            Executor::Tokio(queues) => queues.submit(peer.slot(), job),
        }
    }

    fn expects(&mut self, peer: &Arc<Peer>, id: u64) -> Expectation {
        let expectation = self.shared.pending.expects(peer.slot(), id);
        if expectation == Expectation::Late {
            self.shared.counters.late_reply();
        }
        expectation
    }

    fn complete(&mut self, peer: &Arc<Peer>, record: Incoming) {
        if !self.shared.pending.answer(peer.slot(), record) {
            self.shared.counters.late_reply();
        }
    }

    fn link_up(&mut self, peer: &Arc<Peer>) {
        tracing::info!(peer = peer.slot(), pairs = peer.pairs(), "a pair is up");
    }

    fn handed_over(&mut self, _: &Arc<Peer>, requests: &[HandedOver]) {
        self.shared.pending.handed_over(requests);
    }

    fn link_down(&mut self, peer: &Arc<Peer>, reason: CloseReason, prospect: Prospect) {
        match prospect {
            Prospect::Until(until) => self.shared.pending.strand(peer.slot(), until),
            Prospect::Never => self.shared.pending.settle(peer.slot(), None),
        }
        self.shared.counters.pair_ended();
        tracing::info!(peer = peer.slot(), reason = reason.as_str(), "a pair ended");
    }

    fn settled(&mut self, peer: &Arc<Peer>, settlement: &Settlement) {
        self.shared.pending.settle(peer.slot(), Some(settlement));
    }

    fn lost_hope(&mut self, peer: &Arc<Peer>) {
        self.shared.pending.settle(peer.slot(), None);
    }

    fn detached(&mut self, peer: &Arc<Peer>) {
        self.shared.pending.detached(peer.slot());
        tracing::info!(peer = peer.slot(), "a peer is gone for good");
    }

    fn too_large(&mut self, _: &Arc<Peer>, id: u64) {
        self.shared.pending.too_large(id);
    }

    fn rejected(&mut self, reason: CloseReason) {
        self.shared.counters.rejected();
        tracing::info!(reason = reason.as_str(), "a connection ended before its pair was up");
    }

    fn dropped(&mut self, peer: &Arc<Peer>, records: u64, reason: DropReason) {
        self.shared.counters.dropped(records, reason);
        tracing::warn!(peer = peer.slot(), records, reason = reason.as_str(), "records dropped");
    }

    fn run(&mut self, now: Instant) -> bool {
        if self.role == Role::First {
            self.shared.pending.expire(now);
            self.take_spawned();
        }
        for (duty, fault) in core::mem::take(&mut self.faults) {
            self.tasks.spawn(Box::pin(duty.fail(fault)));
        }
        let clock = Arc::clone(&self.shared.clock);
        self.tasks.run(POLLS_A_TURN, || clock.now())
    }

    fn next_deadline(&self) -> Option<Instant> {
        match self.role {
            Role::First => self.shared.pending.next_deadline(),
            Role::Other => None,
        }
    }

    fn is_idle(&self) -> bool {
        self.shared.is_settled()
    }
}
