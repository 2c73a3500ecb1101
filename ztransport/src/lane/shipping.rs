//! The shard's side of a lane: records leave, links come and go.

use std::sync::TryLockError;

use super::state::LaneState;
use super::{Lane, LaneLink};
use crate::batch::{Batch, SealedRecord};
use crate::wait_space::Settled;

impl Lane {
    /// Lets records leave over a new link.
    pub(crate) fn link_up(&self) {
        {
            let mut state = self.lock();
            state.link = state.link.up();
        }
        self.ring();
    }

    /// Keeps records back: the link is gone.
    pub(crate) fn link_down(&self) {
        let mut state = self.lock();
        state.link = state.link.down();
    }

    /// Cuts the next batch. The shard never waits for a lane: a busy one rings again.
    pub(crate) fn seal(&self) -> Option<Batch> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.ring();
                return None;
            }
        };
        if state.link != LaneLink::Idle {
            return None;
        }
        let bytes_max = state.batch_max();
        let mut batch = state.chain.seal(bytes_max, || self.context.clock.now())?;
        batch.epoch = state.epoch;
        state.in_flight = batch.unsent_messages();
        state.link = LaneLink::Busy;
        Some(batch)
    }

    /// Takes in that the kernel took `bytes` of a batch. The batch goes on while `unsent` is not
    /// zero.
    pub(crate) fn sent(&self, batch: &mut Batch, bytes: u64) {
        let epoch = batch.epoch;
        let records = batch.advance(bytes);
        let mut state = self.lock();
        let settled = self.release_batch(&mut state, records, epoch);
        state.in_flight = batch.unsent_messages();
        if batch.unsent() == 0 {
            state.batch_done();
        }
        drop(state);
        settled.finish();
    }

    /// Takes in that the rest of a batch will not be sent: its link is gone. How many messages there
    /// were.
    pub(crate) fn lost(&self, batch: &Batch) -> u64 {
        let records = batch.unsent_records();
        let mut state = self.lock();
        let settled = self.release_batch(&mut state, records, batch.epoch);
        state.in_flight = 0;
        state.batch_done();
        drop(state);
        settled.finish();
        batch.unsent_messages()
    }

    /// Whether everything that was admitted has been sent.
    pub(crate) fn is_flushed(&self) -> bool {
        let state = self.lock();
        state.chain.is_empty() && matches!(state.link, LaneLink::Absent | LaneLink::Idle)
    }

    /// Releases the records of a batch, unless the lane began anew since it was sealed.
    fn release_batch(
        &self,
        state: &mut LaneState,
        records: &[SealedRecord],
        epoch: u64,
    ) -> Settled {
        if state.epoch == epoch {
            self.release(state, records.iter().copied())
        } else {
            Settled::default()
        }
    }
}
