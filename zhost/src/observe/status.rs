//! One look at a host.

use zcore::{ByteCount, HighWaterMark, Pressure};
use ztransport::{DropReason, Peer, PeerState};

use crate::engine::Shared;
use crate::threads::ShardSeat;

/// A host as of one moment. Each part is consistent in itself.
///
/// A counter is raised by the thread that sees its event: a caller may hold its answer a moment
/// before the host that gave it has counted it.
#[derive(Clone, Debug)]
pub struct Status {
    /// The threads that move bytes, in the order of their numbers.
    pub shards: Vec<ShardStatus>,
    /// Whether the host takes new work. Pressure never changes this (B-127).
    pub is_ready: bool,
    /// Permits of jobs that wait for their handlers.
    pub application_job_queue: JobQueueStatus,
    /// Handlers, from their start to their end.
    pub handlers: HandlerStatus,
    /// Handlers that ran to their end, ever.
    pub handled: u64,
    /// Requests that wait for a reply.
    pub pending_requests: u32,
    /// Requests that ended at their timeout, ever.
    pub request_timeouts: u64,
    /// Replies that came too late, ever.
    pub late_replies: u64,
    /// Replies that this host could not send, ever.
    pub lost_replies: u64,
    /// Calls that ended at once because too many waited already, ever. Look at the number of
    /// concurrent senders first (B-69).
    pub wait_space_full: u64,
    /// Connections that ended before they were half of a pair, ever.
    pub rejected_connections: u64,
    /// Pairs that ended, ever.
    pub pairs_ended: u64,
    /// Records given up, by reason; never for load.
    pub dropped: [(DropReason, u64); DropReason::COUNT],
    /// Every peer.
    pub peers: Vec<PeerStatus>,
}

/// One shard.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ShardStatus {
    /// Its driver, `uring` or `epoll`; empty until it has one.
    pub driver: &'static str,
    /// Why that one: in words, with the remedy where `io_uring` is missing.
    pub driver_reason: String,
    /// Turns of its loop, ever.
    pub turns: u64,
    /// How often it went to sleep, ever.
    pub sleeps: u64,
    /// System calls of its driver, ever.
    pub system_calls: u64,
}

impl ShardStatus {
    fn of(seat: &ShardSeat) -> Self {
        let choice = seat.driver.get();
        Self {
            driver: choice.map_or("", |choice| choice.name),
            driver_reason: choice.map_or_else(String::new, |choice| choice.reason.clone()),
            turns: seat.gauge.turns(),
            sleeps: seat.gauge.sleeps(),
            system_calls: seat.gauge.system_calls(),
        }
    }
}

/// The handlers of a host.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct HandlerStatus {
    /// Started, or about to start, and not ended.
    pub running: u32,
    /// The most running at once.
    pub peak_running: u32,
    /// Executors whose oldest job waits for the start gate (D-14).
    pub waiting: u32,
    /// Started, ever.
    pub started: u64,
    /// Ended in their first poll, ever: they cost no task.
    pub finished_at_once: u64,
    /// Panicked, ever; each ended only its own job.
    pub panicked: u64,
    /// Polls that held a shard longer than 10 ms, ever.
    pub held: u64,
}

impl HandlerStatus {
    fn of(shared: &Shared) -> Self {
        let gate = &shared.gate;
        let mut status = Self {
            running: gate.running(),
            peak_running: gate.peak_running(),
            waiting: gate.waiting(),
            ..Self::default()
        };
        for counts in shared.dispatch_counts() {
            status.started += counts.started.total();
            status.finished_at_once += counts.finished_at_once.total();
            status.panicked += counts.panicked.total();
            status.held += counts.held.total();
        }
        status
    }
}

/// The permits of a host.
#[derive(Clone, Copy, Debug)]
pub struct JobQueueStatus {
    /// How many there are.
    pub limit: u32,
    /// Taken for records that have not left their receive queue.
    pub reserved: u32,
    /// Held by jobs whose handlers have not begun.
    pub queued: u32,
    /// Reserved and queued.
    pub in_use: u32,
    /// The most in use at once.
    pub peak_in_use: u32,
    /// Sources that wait for a permit.
    pub waiting_sources: u32,
    /// Records that took a permit, ever.
    pub records: u64,
    /// Whether in use has reached the pause threshold and not fallen to the resume threshold.
    pub is_paused: bool,
}

/// One direction's bytes.
#[derive(Clone, Copy, Debug)]
pub struct QueueStatus {
    /// Bytes charged now.
    pub accounted: ByteCount,
    /// The most bytes charged at once.
    pub peak: ByteCount,
    /// The high-water mark in force.
    pub mark: HighWaterMark,
    /// Calls that wait for room now; always 0 for a receive queue.
    pub waiting: u32,
    /// Calls that had to wait, ever; always 0 for a receive queue.
    pub waits: u64,
}

/// One peer.
#[derive(Clone, Debug)]
pub struct PeerStatus {
    /// Its node id, once known.
    pub node: Option<String>,
    /// The shard that has both of its connections.
    pub shard: u16,
    /// Whether it can be reached.
    pub state: PeerState,
    /// How often its pair came up.
    pub pairs: u64,
    /// Messages and requests to it.
    pub send_queue: QueueStatus,
    /// Messages and requests from it.
    pub receive_queue: QueueStatus,
    /// Bytes that came behind a record without room in the receive queue, and are not charged yet.
    pub carried: ByteCount,
    /// The most bytes that were so at once.
    pub carried_peak: ByteCount,
}

impl Status {
    pub(crate) fn of(shared: &Shared) -> Self {
        let (jobs, pressure) = shared.permits.snapshot();
        let counters = &shared.counters;
        Self {
            shards: shared.crew.iter().map(ShardStatus::of).collect(),
            is_ready: !shared.is_draining(),
            application_job_queue: JobQueueStatus {
                limit: jobs.limit,
                reserved: jobs.reserved,
                queued: jobs.queued,
                in_use: jobs.in_use,
                peak_in_use: jobs.peak_in_use,
                waiting_sources: jobs.waiting,
                records: shared.permits.records(),
                is_paused: pressure == Pressure::Paused,
            },
            handlers: HandlerStatus::of(shared),
            handled: counters.handled_total(),
            pending_requests: shared.pending.open(),
            request_timeouts: counters.request_timeouts_total(),
            late_replies: counters.late_replies_total(),
            lost_replies: counters.lost_replies_total(),
            wait_space_full: counters.wait_space_full_total(),
            rejected_connections: counters.rejected_total(),
            pairs_ended: counters.pairs_ended_total(),
            dropped: counters.dropped_totals(),
            peers: shared.peers.all().iter().map(|peer| PeerStatus::of(peer)).collect(),
        }
    }
}

impl PeerStatus {
    fn of(peer: &Peer) -> Self {
        let sending = peer.application().snapshot();
        let receiving = peer.receive_queue();
        Self {
            node: peer.node().map(ToString::to_string),
            shard: peer.shard(),
            state: peer.state(),
            pairs: peer.pairs(),
            send_queue: QueueStatus {
                accounted: sending.accounted,
                peak: sending.peak,
                mark: sending.mark,
                waiting: sending.waiting,
                waits: sending.waits,
            },
            receive_queue: QueueStatus {
                accounted: receiving.accounted,
                peak: receiving.peak,
                mark: receiving.mark,
                waiting: 0,
                waits: 0,
            },
            carried: receiving.carried,
            carried_peak: receiving.carried_peak,
        }
    }
}
