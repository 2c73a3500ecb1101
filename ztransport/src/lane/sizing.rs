//! A peer may come back and take less than before (D-06).

use bytes::Bytes;
use zcore::wire::Kind;
use zcore::{ByteCount, Instant};

use super::Lane;
use super::state::LaneState;
use crate::chain::Retracted;
use crate::peers::largest_charge;
use crate::wait_space::{Settled, WaitEnd};

/// Queued messages that a peer does not take, and that will not be sent.
#[derive(Debug, Default)]
pub(crate) struct Oversize {
    /// How many of them nobody waits for.
    pub(crate) one_way: u64,
    /// The ids of the requests among them.
    pub(crate) requests: Vec<u64>,
}

impl Lane {
    /// Sets the payload plus metadata of the largest message that the peer takes. Calls that wait
    /// with a larger one end; queued ones are taken out, and nothing else is disturbed.
    pub(crate) fn limit_messages(&self, size_max: ByteCount) -> Oversize {
        let mut state = self.lock();
        let is_less = size_max < state.message_size_max;
        state.message_size_max = size_max;
        state.queue.set_charge_max(largest_charge(size_max));
        if !is_less {
            return Oversize::default();
        }
        let now = self.context.clock.now();
        // First, so that none of them is admitted when the others make room.
        let refused = self.refuse_waiting(&mut state, size_max, now);
        let retracted = state.chain.retract_larger(size_max);
        let settled = self.release(&mut state, retracted.iter().map(|found| found.record));
        let has_room = refused.admitted > 0 || settled.admitted > 0;
        let must_ring = has_room && state.must_ring();
        drop(state);
        if must_ring {
            self.ring();
        }
        refused.finish();
        settled.finish();
        let mut oversize = Oversize::default();
        for Retracted { record, id, payload } in retracted {
            match record.kind {
                Kind::Request => oversize.requests.push(id),
                Kind::Send
                | Kind::Reply
                | Kind::ErrorReply
                | Kind::Probe
                | Kind::ProbeAnswer
                | Kind::SendReady
                | Kind::Goodbye => oversize.one_way += 1,
            }
            drop::<Bytes>(payload);
        }
        oversize
    }

    fn refuse_waiting(&self, state: &mut LaneState, size_max: ByteCount, now: Instant) -> Settled {
        let mut settled = Settled::default();
        let mut table = self.context.space.lock();
        for token in table.larger_than(size_max) {
            let LaneState { queue, chain, .. } = state;
            let (pool, mut settling) = table.split();
            // One that waits for another lane stays.
            let Some(effects) = queue.withdraw(pool, token, now) else { continue };
            for effect in effects {
                settling.settle(effect, chain, &mut settled);
            }
            settling.refuse(token, WaitEnd::TooLarge, &mut settled);
        }
        settled
    }
}
