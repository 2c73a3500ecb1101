//! What happens when nothing else does.

use std::sync::Arc;

use bytes::Bytes;
use zcore::Instant;
use zcore::wire::{Kind, Lane, RouteHash};

use super::connections::{Connections, Phase};
use crate::close::CloseReason;
use crate::ingress::Ingress;
use crate::limits::{PROBE_INTERVAL, SILENCE_MAX};
use crate::link::{Receiving, Stage};
use crate::pair::Pair;
use crate::record::Outgoing;
use crate::token::SocketId;

/// A timer of a shard. One that is out of date when it fires does nothing.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Timer {
    /// Accept again on a listener.
    Accept(SocketId),
    /// Dial a peer.
    Dial(u32),
    /// A connection must have joined a pair.
    Greeting(SocketId),
    /// Look whether a peer is alive.
    Liveness(u32),
    /// A peer that is detached has had its time to say goodbye.
    Farewell(u32),
}

impl<I: Ingress> Connections<I> {
    /// When something is due, if nothing happens before.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let own = self.timers.first().map(|(at, _)| *at);
        let phase = match self.phase {
            Phase::Serving => None,
            Phase::Draining(deadline) | Phase::Lingering(deadline) => Some(deadline),
        };
        let (waits, grants) = if self.is_timekeeper() {
            (self.plan.lanes.space.next_deadline(), self.plan.permits.next_deadline())
        } else {
            (None, None)
        };
        let all = [own, phase, waits, grants, self.ingress.next_deadline()];
        all.into_iter().flatten().min()
    }

    /// Ends what is due.
    pub(super) fn run_timers(&mut self) {
        while let Some(&(at, timer)) = self.timers.first() {
            if at > self.now {
                break;
            }
            self.timers.pop_first();
            match timer {
                Timer::Accept(listener) if self.listens(listener) => {
                    self.accept(listener);
                }
                Timer::Accept(_) => {}
                Timer::Dial(peer) => self.dial(peer),
                Timer::Greeting(socket) => self.end_greeting(socket),
                Timer::Liveness(peer) => self.check_liveness(peer, at),
                Timer::Farewell(peer) => self.end_farewell(peer),
            }
        }
        if self.is_timekeeper() {
            self.end_waits();
            if self.plan.permits.next_deadline().is_some_and(|at| at <= self.now) {
                self.plan.permits.expire_grants(self.now);
            }
        }
    }

    /// Ends waiting calls whose deadline has passed. The token is copied out first: the lane's lock
    /// comes before that of the wait space.
    fn end_waits(&mut self) {
        while let Some((queue, token)) = self.plan.lanes.space.first_due(self.now) {
            let Some(lane) = self.plan.peers.lane(queue) else {
                debug_assert!(false, "queue {} has no lane", queue.index());
                return;
            };
            lane.expire(token, self.now);
        }
    }

    fn is_timekeeper(&self) -> bool {
        Arc::ptr_eq(&self.plan.lanes.bell, &self.plan.lanes.timekeeper)
    }

    fn end_greeting(&mut self, socket: SocketId) {
        let Some(link) = self.link(socket) else { return };
        match link.stage {
            Stage::Connecting { .. }
            | Stage::Greeting { .. }
            | Stage::Accepted { .. }
            | Stage::Moving { .. }
            | Stage::Challenging { .. } => {
                self.close_link(socket, CloseReason::GreetingTimeout);
            }
            Stage::Joined { peer } => {
                // The other half never came.
                if self.remote(peer).is_some_and(|remote| !remote.is_up()) {
                    self.end_pair(peer, CloseReason::GreetingTimeout);
                }
            }
            Stage::Lingering { .. } => self.shut(socket),
            Stage::Closing { .. } => {}
        }
    }

    /// Silence counts only while this side reads: a paused lane says nothing about its peer (D-16).
    ///
    /// A probe goes out whatever comes in: a peer that is full answers none of ours for as long as
    /// they wait behind its data, and must hear of us even so.
    fn check_liveness(&mut self, peer: u32, at: Instant) {
        let now = self.now;
        let Some(remote) = self.remote(peer) else { return };
        // The pair that this timer was set for may be gone, and its successor has its own.
        if remote.liveness_at != Some(at) {
            return;
        }
        remote.liveness_at = None;
        let Some(pair) = remote.pair.filter(Pair::is_up) else { return };
        remote.rest();
        let shared = Arc::clone(&remote.peer);
        let Some(link) = self.link(pair.application) else { return };
        if link.receiving != Receiving::On {
            link.heard_at = now;
        }
        let silence = now.since(link.heard_at);
        if silence >= SILENCE_MAX {
            self.end_pair(peer, CloseReason::Silent);
            return;
        }
        let none = RouteHash::default();
        shared.application().submit_control(Outgoing::new(Kind::Probe, 0, none, Bytes::new()));
        self.flush(peer, Lane::Application);
        self.watch_liveness(peer);
    }

    /// Looks at a peer again after the probe interval, and at no other time.
    pub(super) fn watch_liveness(&mut self, peer: u32) {
        let at = self.now.saturating_add(PROBE_INTERVAL);
        let Some(remote) = self.remote(peer) else { return };
        remote.liveness_at = Some(at);
        self.timers.insert((at, Timer::Liveness(peer)));
    }
}
