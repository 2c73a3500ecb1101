//! How a lane ends, and how it begins anew.

use zcore::Ending;

use super::{Lane, Step};
use crate::record::Outgoing;

impl Lane {
    /// Closes the lane with its host: every waiting call ends, later ones are refused, and what was
    /// admitted is still sent.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        let now = self.context.clock.now();
        let (settled, _) = self.settle(&mut state, Step::End(Ending::Closed), now);
        drop(state);
        settled.finish();
    }

    /// Ends the lane, because its peer is gone for good: every waiting call ends, later ones are
    /// refused, and what is queued is dropped. How many messages that were. `last_word` leaves if
    /// there is a link for it.
    pub(crate) fn detach(&self, last_word: Option<Outgoing>) -> u64 {
        let mut state = self.lock();
        let cleared = state.chain.clear();
        let now = self.context.clock.now();
        let (settled, _) = self.settle(&mut state, Step::End(Ending::Detached), now);
        // Nothing is accounted any more, and this neither.
        let said = last_word.map(|mut record| {
            state.chain.push(&mut record);
            record
        });
        drop(state);
        drop(said);
        settled.finish();
        cleared.messages()
    }

    /// Begins anew: what is queued and what waits belongs to a pair that is gone. The new epoch, and
    /// how many messages were dropped.
    pub(crate) fn restart(&self) -> (u64, u64) {
        let mut state = self.lock();
        state.link = state.link.down();
        let cleared = state.chain.clear();
        let now = self.context.clock.now();
        let (settled, _) = self.settle(&mut state, Step::End(Ending::Detached), now);
        state.queue = state.queue.renewed();
        state.epoch += 1;
        let epoch = state.epoch;
        drop(state);
        settled.finish();
        (epoch, cleared.messages())
    }

    /// Ends the lane with its host: nothing more is sent, later submissions hear that the host shuts
    /// down. How many messages were dropped, those of a batch in flight among them: they may be lost
    /// as well, and nobody will tell.
    pub(crate) fn abandon(&self) -> u64 {
        let mut state = self.lock();
        state.link = state.link.down();
        let cleared = state.chain.clear();
        let in_flight = core::mem::take(&mut state.in_flight);
        let now = self.context.clock.now();
        let (settled, _) = self.settle(&mut state, Step::End(Ending::Closed), now);
        state.queue = state.queue.renewed();
        let (none, _) = self.settle(&mut state, Step::End(Ending::Closed), now);
        state.epoch += 1;
        drop(state);
        settled.finish();
        none.finish();
        cleared.messages() + in_flight
    }
}
