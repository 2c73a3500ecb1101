//! Select-one: which candidate takes the next call.

use std::sync::{Arc, Mutex, PoisonError};

use ztransport::{Peer, PeerState, Peers};

/// The weight of a candidate unless it says otherwise (D-21).
pub(crate) const WEIGHT_DEFAULT: u32 = 100;

/// The largest weight (D-21).
pub(crate) const WEIGHT_MAX: u32 = 10_000;

/// Smooth weighted round-robin over the candidates of a channel.
///
/// Each ready candidate gathers its weight; the one with the most is chosen and pays the sum of all
/// weights. A choice is made once, before its operation starts (B-71): waiting never chooses again.
#[derive(Debug)]
pub(crate) struct SelectOne {
    candidates: Mutex<Vec<Candidate>>,
}

#[derive(Debug)]
struct Candidate {
    peer: Arc<Peer>,
    weight: u32,
    gathered: i64,
    /// As seen by the choice that is being made: it must not change in the middle of it.
    state: PeerState,
}

impl SelectOne {
    pub(crate) fn new(candidates: impl IntoIterator<Item = (Arc<Peer>, u32)>) -> Self {
        let candidates = candidates
            .into_iter()
            .map(|(peer, weight)| Candidate {
                peer,
                weight,
                gathered: 0,
                state: PeerState::Disconnected,
            })
            .collect();
        Self { candidates: Mutex::new(candidates) }
    }

    /// The next candidate: one that is connected, or else one whose queue keeps the message until
    /// it is. `None` if there is none at all. A node that was detached and is back is one again.
    pub(crate) fn choose(&self, peers: &Peers) -> Option<Arc<Peer>> {
        let mut candidates = self.candidates.lock().unwrap_or_else(PoisonError::into_inner);
        for candidate in candidates.iter_mut() {
            if let Some(returned) = returned(peers, &candidate.peer) {
                candidate.peer = returned;
            }
            candidate.state = candidate.peer.state();
        }
        choose(&mut candidates, |state| state == PeerState::Connected)
            .or_else(|| choose(&mut candidates, |state| state != PeerState::Detached))
    }
}

/// The peer that a detached one has come back as, if it has.
pub(crate) fn returned(peers: &Peers, peer: &Peer) -> Option<Arc<Peer>> {
    let node = peer.node().filter(|_| peer.state() == PeerState::Detached)?;
    peers.find(peer.topology(), node)
}

fn choose(
    candidates: &mut [Candidate],
    is_candidate: impl Fn(PeerState) -> bool,
) -> Option<Arc<Peer>> {
    let mut total: i64 = 0;
    let mut best: Option<(usize, i64)> = None;
    for (index, candidate) in candidates.iter_mut().enumerate() {
        if candidate.weight == 0 || !is_candidate(candidate.state) {
            continue;
        }
        candidate.gathered += i64::from(candidate.weight);
        total += i64::from(candidate.weight);
        if best.is_none_or(|(_, most)| candidate.gathered > most) {
            best = Some((index, candidate.gathered));
        }
    }
    let candidate = candidates.get_mut(best?.0)?;
    candidate.gathered -= total;
    Some(Arc::clone(&candidate.peer))
}
