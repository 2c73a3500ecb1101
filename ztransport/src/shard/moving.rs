//! A connection goes to the shard that has its peer.
//!
//! It says whose it is in its hello, and some shard had to read that. What was read goes along.

use zcore::wire::{Hello, Lane};

use super::connections::{Connections, Intent};
use crate::close::CloseReason;
use crate::ingress::Ingress;
use crate::link::Stage;
use crate::peers::Reservation;
use crate::token::SocketId;

/// Where a connection goes.
#[derive(Debug)]
pub(super) struct Place {
    /// The index of its topology.
    pub(super) topology: u16,
    pub(super) shard: u16,
    /// For a peer that the shard has not met.
    pub(super) reservation: Option<Reservation>,
}

impl<I: Ingress> Connections<I> {
    /// Finds the shard that has a connection's peer, keeping room for a new one, and begins to give the
    /// connection to it. `false` if that is this one; whatever is to be refused is refused here, too.
    pub(super) fn moves_away(&mut self, socket: SocketId, topology: u16, hello: &Hello) -> bool {
        let has_come = self.link(socket).is_none_or(|link| link.reservation.is_some());
        if has_come || self.check_dial(topology, hello).is_err() {
            return false;
        }
        let peers = &self.plan.peers;
        let (shard, reservation) = match (peers.find(topology, &hello.node), hello.lane) {
            (Some(peer), _) => (peer.shard(), None),
            (None, Lane::Application) => {
                let reservation = peers.reserve();
                (reservation.shard(), Some(reservation))
            }
            (None, Lane::Completion) => return false,
        };
        let moves = shard != self.plan.index;
        let Some(link) = self.link(socket) else { return false };
        link.reservation = reservation;
        if moves {
            link.stage = Stage::Moving { topology, shard };
            self.pause(socket);
        }
        moves
    }

    /// Gives a connection away that has stopped receiving. It stays a stranger of the host.
    pub(super) fn give_away(&mut self, socket: SocketId, topology: u16, shard: u16) {
        let Some(link) = self.link(socket) else { return };
        let received = link.inbound.take_carry();
        let reservation = link.reservation.take();
        self.forget_link(socket);
        let place = Place { topology, shard, reservation };
        self.intend(Intent::HandOver { socket, place, received });
    }

    /// Takes a connection from another shard, with what was read of it. It was counted as a stranger
    /// when it was accepted, and still is. Its peer has the room that was kept for it, or nobody has,
    /// when this returns.
    pub(super) fn taken_over(&mut self, place: Place, socket: SocketId, received: &[u8]) {
        let Place { topology, shard: _, reservation } = place;
        self.add_stranger(topology, socket);
        self.await_hello(socket);
        let Some(link) = self.link(socket) else { return };
        if matches!(link.stage, Stage::Accepted { .. }) {
            link.reservation = reservation;
            self.received(socket, received);
        }
        if let Some(link) = self.link(socket) {
            link.reservation = None;
        }
    }

    /// A connection was lost between two shards.
    pub(super) fn not_taken_over(&mut self) {
        self.plan.lobby.leave();
        self.ingress.rejected(CloseReason::PeerClosed);
    }
}
