//! The shards of a host, as they hand connections to each other.
//!
//! Whichever shard accepts a connection reads its hello, and then knows whose peer it is. A lane that
//! another shard owns goes there with all that was read of it, so that both lanes of a peer are on
//! one shard (D-17).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::moving::Place;
use crate::doorbell::Doorbell;

/// A connection on its way to the shard that has its peer.
#[derive(Debug)]
pub(super) struct Handover<S> {
    pub(super) place: Place,
    pub(super) socket: S,
    /// Everything that was read of it, from its hello on.
    pub(super) received: Vec<u8>,
}

/// The shards of a host: where each finds what the others hand to it.
#[derive(Debug)]
pub struct Crew<S> {
    desks: Vec<Desk<S>>,
}

#[derive(Debug)]
struct Desk<S> {
    bell: Arc<Doorbell>,
    /// `None` once its shard has ended. Holds no more than there may be half pairs: a connection
    /// keeps its place among those until a shard has joined it to a pair.
    handed: Mutex<Option<VecDeque<Handover<S>>>>,
}

impl<S> Crew<S> {
    /// A crew of as many shards as there are doorbells, in their order.
    pub fn new(bells: impl IntoIterator<Item = Arc<Doorbell>>) -> Arc<Self> {
        let desk = |bell| Desk { bell, handed: Mutex::new(Some(VecDeque::new())) };
        Arc::new(Self { desks: bells.into_iter().map(desk).collect() })
    }

    /// Leaves a connection for a shard. Given back if the shard has ended.
    pub(super) fn hand_over(&self, handover: Handover<S>) -> Result<(), Handover<S>> {
        let shard = usize::from(handover.place.shard);
        let Some(desk) = self.desks.get(shard) else { return Err(handover) };
        match &mut *desk.lock() {
            Some(handed) => handed.push_back(handover),
            None => return Err(handover),
        }
        desk.bell.knock();
        Ok(())
    }

    /// Takes one connection that was left for a shard.
    pub(super) fn take(&self, shard: u16) -> Option<Handover<S>> {
        self.desks.get(usize::from(shard))?.lock().as_mut()?.pop_front()
    }

    /// A shard has ended: what was left for it is closed, and nothing more is taken.
    pub(super) fn leave(&self, shard: u16) {
        let left = self.desks.get(usize::from(shard)).and_then(|desk| desk.lock().take());
        drop(left);
    }
}

impl<S> Desk<S> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<VecDeque<Handover<S>>>> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
