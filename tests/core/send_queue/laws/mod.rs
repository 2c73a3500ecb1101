//! Each promise of the contract that a send queue keeps by itself, under its id.

mod bytes;
mod ends;
mod waiting;

use core::time::Duration;

use zcore::{
    ByteCount, DeadlineSlot, Effect, Family, HighWaterMark, Instant, QueueId, Quota, SendQueue,
    Submission, WaiterSlot, WaiterToken, Waiters,
};

use crate::world::charge_of;

pub(super) const T0: Instant = Instant::from_nanos(1_000);
pub(super) const LATE: Instant = Instant::FAR_FUTURE;

/// How a waiting operation ends.
pub(super) type End = fn(WaiterToken) -> Effect;

pub(super) type Space = Waiters<Vec<WaiterSlot>, Vec<DeadlineSlot>>;

pub(super) fn space(slots: usize, quotas: [Quota; Family::COUNT]) -> Space {
    Waiters::new(vec![WaiterSlot::EMPTY; slots], vec![DeadlineSlot::EMPTY; slots], quotas)
}

pub(super) fn roomy() -> Space {
    space(64, [Quota::DEFAULT; Family::COUNT])
}

pub(super) const fn limit(mark: u64) -> HighWaterMark {
    HighWaterMark::Limit(ByteCount::new(mark))
}

pub(super) const fn queue(id: u32, mark: u64) -> SendQueue {
    SendQueue::new(QueueId::new(id), limit(mark), ByteCount::kib(64))
}

pub(super) fn after(millis: u64) -> Instant {
    T0.saturating_add(Duration::from_millis(millis))
}

pub(super) const fn accounted(queue: &SendQueue) -> u64 {
    queue.account().accounted().get()
}

/// Submits until one must wait; how many were admitted.
pub(super) fn fill(queue: &mut SendQueue, charge: u64) -> u64 {
    let mut admitted = 0;
    while queue.submit(charge_of(charge)) == Submission::Admitted {
        admitted += 1;
        assert!(admitted < 1_000_000, "the queue never locks");
    }
    admitted
}

/// Submits one that must wait, and lets it.
#[track_caller]
pub(super) fn wait(
    queue: &mut SendQueue,
    space: &mut Space,
    charge: u64,
    deadline: Instant,
) -> WaiterToken {
    assert_eq!(queue.submit(charge_of(charge)), Submission::MustWait, "there is room");
    queue.wait(space, Family::Send, charge_of(charge), deadline).expect("there is wait space")
}

#[track_caller]
pub(super) fn sent(
    queue: &mut SendQueue,
    space: &mut Space,
    charge: u64,
    now: Instant,
) -> Vec<Effect> {
    queue.sent(space, charge_of(charge), now).collect()
}
