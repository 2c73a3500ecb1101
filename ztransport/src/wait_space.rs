//! The space that holds waiting calls: what they want to send, and how to wake them.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, PoisonError};

use zcore::{
    ByteCount, DeadlineSlot, Effect, Ending, Family, Instant, QueueId, Quota, WaiterSlot,
    WaiterToken, Waiters,
};

use crate::chain::{Chain, Ordinal};
use crate::lane::Lane;
use crate::record::Outgoing;
use crate::sync::{Mutex, MutexGuard};

/// The core's pool on boxed storage, sized once.
pub(crate) type Pool = Waiters<Box<[WaiterSlot]>, Box<[DeadlineSlot]>>;

/// How a waiting call ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WaitEnd {
    /// The record is queued.
    Admitted(Ordinal),
    /// There was no room until the deadline.
    Expired,
    /// The lane ended.
    Ended(Ending),
    /// The peer came back and takes no message of this size (D-06).
    TooLarge,
}

/// One waiting call, seen from its future and from whoever ends it.
#[derive(Debug, Default)]
pub(crate) struct Call {
    state: Mutex<CallState>,
}

#[derive(Debug, Default)]
struct CallState {
    end: Option<WaitEnd>,
    waker: Option<Waker>,
}

impl Call {
    /// The end, or `Pending` with the waker stored. A waker is cloned and dropped outside the lock:
    /// both may run code of an executor.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<WaitEnd> {
        let waker = context.waker().clone();
        let mut state = self.lock();
        if let Some(end) = state.end {
            return Poll::Ready(end);
        }
        let replaced = state.waker.replace(waker);
        drop(state);
        drop(replaced);
        Poll::Pending
    }

    fn end(&self, end: WaitEnd) -> Option<Waker> {
        let mut state = self.lock();
        debug_assert!(state.end.is_none(), "a call ended as {:?} and {end:?}", state.end);
        state.end = Some(end);
        state.waker.take()
    }

    fn lock(&self) -> MutexGuard<'_, CallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that waits for room in a lane.
///
/// Ends once. Dropped before its end, it is withdrawn: it will not be admitted later, and its place
/// and its bytes are free at once (D-07).
#[must_use = "a dropped wait is withdrawn"]
#[derive(Debug)]
pub struct Waiting {
    lane: Arc<Lane>,
    token: WaiterToken,
    call: Arc<Call>,
    since: Instant,
    has_ended: bool,
}

impl Waiting {
    pub(crate) const fn new(
        lane: Arc<Lane>,
        token: WaiterToken,
        call: Arc<Call>,
        since: Instant,
    ) -> Self {
        Self { lane, token, call, since, has_ended: false }
    }

    /// When the wait began.
    pub const fn since(&self) -> Instant {
        self.since
    }
}

impl Future for Waiting {
    type Output = WaitEnd;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<WaitEnd> {
        let end = self.call.poll(cx);
        self.has_ended |= end.is_ready();
        end
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.has_ended {
            self.lane.withdraw(self.token);
        }
    }
}

#[derive(Debug)]
struct WaitingCall {
    token: WaiterToken,
    record: Outgoing,
    call: Arc<Call>,
}

/// The wait space of a host (D-05).
#[derive(Debug)]
pub struct WaitSpace {
    table: Mutex<WaitTable>,
}

#[derive(Debug)]
pub(crate) struct WaitTable {
    pub(crate) pool: Pool,
    /// What waits, by the slot of its token.
    calls: Box<[Option<WaitingCall>]>,
}

impl WaitSpace {
    /// A wait space with the given quotas, in the order of [`Family::ALL`].
    pub fn new(quotas: [Quota; Family::COUNT]) -> Self {
        let slots = quotas.iter().map(|quota| quota.operations() as usize).sum();
        let pool = Waiters::new(
            vec![WaiterSlot::EMPTY; slots].into_boxed_slice(),
            vec![DeadlineSlot::EMPTY; slots].into_boxed_slice(),
            quotas,
        );
        let calls = (0..slots).map(|_| None).collect();
        Self { table: Mutex::new(WaitTable { pool, calls }) }
    }

    /// When the first waiting call is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.lock().pool.next_deadline()
    }

    /// How many calls of a family wait.
    pub fn waiting(&self, family: Family) -> u32 {
        self.lock().pool.waiting(family)
    }

    /// The call that is due first, if it is due by `now`.
    pub(crate) fn first_due(&self, now: Instant) -> Option<(QueueId, WaiterToken)> {
        self.lock().pool.first_due(now)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, WaitTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitTable {
    /// Keeps what belongs to a new waiter.
    pub(crate) fn keep(&mut self, token: WaiterToken, record: Outgoing) -> Arc<Call> {
        let call = Arc::new(Call::default());
        let entry = WaitingCall { token, record, call: Arc::clone(&call) };
        let place = usize::try_from(token.slot()).ok().and_then(|slot| self.calls.get_mut(slot));
        debug_assert!(place.is_some(), "slot {} is outside the wait space", token.slot());
        if let Some(place) = place {
            debug_assert!(place.is_none(), "slot {} was not cleared", token.slot());
            *place = Some(entry);
        }
        call
    }

    /// Lets a withdrawn waiter's record go, to be dropped by the caller outside the locks.
    pub(crate) fn forget(&mut self, token: WaiterToken) -> Option<Outgoing> {
        self.take(token).map(|waiting| waiting.record)
    }

    fn take(&mut self, token: WaiterToken) -> Option<WaitingCall> {
        take_call(&mut self.calls, token)
    }

    /// The waiters of all lanes whose messages are above a limit. O(slots).
    pub(crate) fn larger_than(&self, size_max: ByteCount) -> Vec<WaiterToken> {
        let waiting = self.calls.iter().flatten();
        let larger = waiting.filter(|waiting| waiting.record.message_size() > size_max);
        larger.map(|waiting| waiting.token).collect()
    }

    /// The pool and what it takes to carry its effects out, borrowed apart.
    pub(crate) fn split(&mut self) -> (&mut Pool, Settling<'_>) {
        (&mut self.pool, Settling { calls: &mut self.calls })
    }
}

/// The slot may have another waiter by now: a token names one of them only.
fn take_call(calls: &mut [Option<WaitingCall>], token: WaiterToken) -> Option<WaitingCall> {
    let place = usize::try_from(token.slot()).ok().and_then(|slot| calls.get_mut(slot))?;
    place.take_if(|waiting| waiting.token == token)
}

/// Carries out the effects of a queue.
pub(crate) struct Settling<'table> {
    calls: &'table mut [Option<WaitingCall>],
}

impl Settling<'_> {
    pub(crate) fn settle(&mut self, effect: Effect, chain: &mut Chain, settled: &mut Settled) {
        let (token, refusal) = match effect {
            Effect::Admit(token) => (token, None),
            Effect::Expire(token) => (token, Some(WaitEnd::Expired)),
            Effect::Refuse(token, ending) => (token, Some(WaitEnd::Ended(ending))),
        };
        let Some(WaitingCall { mut record, call, .. }) = take_call(self.calls, token) else {
            debug_assert!(false, "slot {} waits without a call", token.slot());
            return;
        };
        let end = refusal.unwrap_or_else(|| WaitEnd::Admitted(chain.push(&mut record)));
        settled.records.push(record);
        settled.admitted += u32::from(refusal.is_none());
        settled.wakers.extend(call.end(end));
    }

    /// Ends a call that was withdrawn from its queue.
    pub(crate) fn refuse(&mut self, token: WaiterToken, end: WaitEnd, settled: &mut Settled) {
        if let Some(WaitingCall { record, call, .. }) = take_call(self.calls, token) {
            settled.records.push(record);
            settled.wakers.extend(call.end(end));
        }
    }
}

/// What is left to do once the locks are gone: wake callers, drop payloads. Both may run foreign
/// code, which must not find our locks held.
#[must_use = "calls that ended are woken outside the lock"]
#[derive(Debug, Default)]
pub(crate) struct Settled {
    wakers: Vec<Waker>,
    records: Vec<Outgoing>,
    pub(crate) admitted: u32,
}

impl Settled {
    pub(crate) fn finish(self) {
        drop(self.records);
        for waker in self.wakers {
            waker.wake();
        }
    }
}
