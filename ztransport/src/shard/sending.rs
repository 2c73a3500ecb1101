//! Sealed batches go out, one at a time for each connection.

use std::sync::Arc;

use rustix::io::Errno;
use zcore::wire::Lane;

use super::connections::Connections;
use crate::batch::Batch;
use crate::close::CloseReason;
use crate::ingress::{DropReason, Ingress};
use crate::lane::Lane as SendLane;
use crate::link::Stage;
use crate::op::Op;
use crate::pair::Pair;
use crate::peer::Peer;
use crate::token::SocketId;

impl<I: Ingress> Connections<I> {
    /// Sends what a lane holds, unless a send is in flight: its end comes back here.
    pub(super) fn flush(&mut self, peer: u32, lane: Lane) {
        let Some(remote) = self.remote(peer) else { return };
        let Some(pair) = remote.pair.filter(Pair::is_up) else { return };
        let shared = Arc::clone(&remote.peer);
        let Some(link) = pair.socket(lane).and_then(|socket| self.link(socket)) else { return };
        if link.is_sending || !matches!(link.stage, Stage::Joined { .. }) {
            return;
        }
        if let Some(mut batch) = send_lane(&shared, lane).seal() {
            link.is_sending = true;
            let socket = link.socket;
            if lane == Lane::Application {
                self.give(peer, pair.generation, &mut batch);
            }
            self.push(Op::Send { socket, batch });
        }
    }

    /// Counts a batch that leaves for the kernel (D-25).
    fn give(&mut self, peer: u32, generation: u32, batch: &mut Batch) {
        let Some(remote) = self.remote(peer) else { return };
        batch.generation = generation;
        batch.give(&mut remote.memory.given);
        let shared = Arc::clone(&remote.peer);
        if !batch.requests().is_empty() {
            self.ingress.handed_over(&shared, batch.requests());
        }
    }

    /// A send ended. What the kernel did not take goes next, ahead of everything else.
    pub(super) fn sent(
        &mut self,
        socket: SocketId,
        outcome: Result<usize, Errno>,
        mut batch: Batch,
    ) {
        let Some(link) = self.link(socket) else { return };
        link.is_sending = false;
        let (stage, lane) = (link.stage, link.lane);
        let taken = outcome.map_or(0, |taken| taken as u64);
        let Some(peer) = stage.peer() else {
            // A refusal: it lingers already.
            self.finish_lingering(socket);
            return;
        };
        let Some(remote) = self.remote(peer) else { return };
        let shared = Arc::clone(&remote.peer);
        let is_greeting = batch.unsent_records().is_empty();
        if is_greeting {
            batch.advance(taken);
        } else {
            send_lane(&shared, lane).sent(&mut batch, taken);
        }
        let is_closing = matches!(stage, Stage::Closing { .. } | Stage::Lingering { .. });
        match outcome {
            Ok(_) if batch.unsent() > 0 && !is_closing => {
                if let Some(link) = self.link(socket) {
                    link.is_sending = true;
                }
                self.push(Op::Send { socket, batch });
                return;
            }
            Ok(_) => {}
            Err(errno) => self.close_link(socket, CloseReason::Failed(errno)),
        }
        if batch.unsent() > 0 && !is_greeting {
            self.lose(peer, lane, &batch);
        }
        self.flush(peer, lane);
        self.finish_lingering(socket);
        self.finish_goodbye(peer);
        self.finish_detaching(peer);
    }

    /// The rest of a batch will not be sent. What of it nobody answers is lost, unless the peer has
    /// told so already.
    fn lose(&mut self, peer: u32, lane: Lane, batch: &Batch) {
        let Some(remote) = self.remote(peer) else { return };
        let shared = Arc::clone(&remote.peer);
        let messages = send_lane(&shared, lane).lost(batch);
        let lost = match lane {
            Lane::Application => remote.memory.given.lose(batch.generation, batch.unsent_one_way()),
            Lane::Completion => messages,
        };
        if lost > 0 {
            self.ingress.dropped(&shared, lost, DropReason::ConnectionLost);
        }
    }
}

/// The sending side of a lane.
pub(super) const fn send_lane(peer: &Peer, lane: Lane) -> &Arc<SendLane> {
    match lane {
        Lane::Application => peer.application(),
        Lane::Completion => peer.completion(),
    }
}
