//! A lane between those who submit and the shard that seals.

use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use loom::thread::{self, JoinHandle};
use zcore::wire::{Kind, RouteHash};
use zcore::{ByteCount, Family, HighWaterMark, Instant, QueueId, SendQueue};

use super::{Sleeper, context, doorbell, explore};
use crate::batch::Batch;
use crate::clock::{Clock, VirtualClock};
use crate::doorbell::{Doorbell, Errand};
use crate::lane::{Lane, Limit, Submitted};
use crate::record::Outgoing;
use crate::wait_space::{WaitEnd, WaitSpace, Waiting};

const PEER: u32 = 3;
/// What a record without a payload is charged.
const LEAST_CHARGE: u64 = 32 + 64;
/// A payload that fits only into an empty lane.
const LARGE: &[u8] = &[0; 200];
const WITHOUT_LIMIT: Limit = Limit::At(Instant::FAR_FUTURE);

/// A clock that takes time to read: whoever reads it under a lock is overtaken by everybody else.
#[derive(Debug)]
struct SlowClock;

impl Clock for SlowClock {
    fn now(&self) -> Instant {
        thread::yield_now();
        Instant::EPOCH
    }

    fn sleep_for(&self, _now: Instant, _deadline: Instant) -> Option<Duration> {
        None
    }

    fn attach(&self, _waker: Arc<dyn Fn() + Send + Sync>) {}
}

/// A lane without a link, which has room for so many small records, and the space where calls wait
/// for it.
pub(super) fn lane(bell: &Arc<Doorbell>, room: u64) -> (Arc<Lane>, Arc<WaitSpace>) {
    lane_with(bell, room, Arc::new(VirtualClock::new()))
}

fn lane_with(
    bell: &Arc<Doorbell>,
    room: u64,
    clock: Arc<dyn Clock>,
) -> (Arc<Lane>, Arc<WaitSpace>) {
    let context = context(bell, clock);
    let space = Arc::clone(&context.space);
    let mark = HighWaterMark::Limit(ByteCount::new(room * LEAST_CHARGE));
    let queue = SendQueue::new(QueueId::new(2 * PEER), mark, ByteCount::kib(1));
    (Arc::new(Lane::new(PEER, Errand::SendApplication, context, queue)), space)
}

/// Submits a record with a payload of so many bytes.
pub(super) fn submit(lane: &Arc<Lane>, payload: &'static [u8], limit: Limit) -> Submitted {
    let payload = Bytes::from_static(payload);
    let record = Outgoing::new(Kind::Send, 0, RouteHash::default(), payload);
    lane.submit(record, Family::Send, limit)
}

/// Submits a record for which there is no room.
pub(super) fn wait(lane: &Arc<Lane>, payload: &'static [u8], limit: Limit) -> Waiting {
    match submit(lane, payload, limit) {
        Submitted::Waiting(waiting) => waiting,
        Submitted::Admitted(ordinal) => panic!("there is no room, and yet it is {ordinal:?}"),
        Submitted::Refused(refusal) => panic!("it may wait, and yet {refusal:?}"),
    }
}

fn caller(lane: &Arc<Lane>, payload: &'static [u8]) -> JoinHandle<Submitted> {
    let lane = Arc::clone(lane);
    thread::spawn(move || submit(&lane, payload, WITHOUT_LIMIT))
}

/// What a shard does for one lane. The kernel takes a batch whole, in the turn after it was cut.
struct Sending {
    lane: Arc<Lane>,
    in_flight: Option<Batch>,
    after_a_batch: AfterABatch,
    /// Records that were sealed.
    sealed: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum AfterABatch {
    SealAgain,
    WaitForARing,
}

impl Sending {
    fn new(lane: &Arc<Lane>, after_a_batch: AfterABatch) -> Self {
        Self { lane: Arc::clone(lane), in_flight: None, after_a_batch, sealed: 0 }
    }

    fn seal(&mut self) {
        match self.lane.seal() {
            Some(batch) => {
                self.sealed += batch.unsent_records().len();
                self.in_flight = Some(batch);
            }
            // A shard turns until whoever holds the lane goes on; a model has to let him.
            None => thread::yield_now(),
        }
    }

    /// Runs turns until no batch is in flight: the end of one would end a sleep, too.
    fn run(&mut self, bell: &Doorbell) {
        loop {
            if let Some(mut batch) = self.in_flight.take() {
                let bytes = batch.unsent();
                self.lane.sent(&mut batch, bytes);
                match self.after_a_batch {
                    AfterABatch::SealAgain => self.seal(),
                    AfterABatch::WaitForARing => {}
                }
            }
            bell.take(|_, _| self.seal());
            if self.in_flight.is_none() {
                break;
            }
        }
    }
}

/// Two calls submit while the lane's link comes up and its batches leave.
fn two_submitters(after_a_batch: AfterABatch) {
    let bell = doorbell();
    let (lane, _) = lane(&bell, 2);
    let sleeper = Sleeper::connect(&bell);
    let others = vec![caller(&lane, &[]), caller(&lane, &[])];
    let mut sending = Sending::new(&lane, after_a_batch);
    lane.link_up();
    let submitted = sleeper.run(others, || sending.run(&bell));
    let is_admitted = |submitted: &Submitted| matches!(submitted, Submitted::Admitted(_));
    assert!(submitted.iter().all(is_admitted), "there is room: {submitted:?}");
    assert_eq!(sending.sealed, 2, "what was admitted is sealed before the shard sleeps for ever");
    assert!(lane.is_flushed(), "no batch is in flight");
}

#[test]
fn no_admitted_record_is_slept_through() {
    explore(|| two_submitters(AfterABatch::SealAgain));
}

/// Nobody rings for a lane with a batch in flight.
#[test]
#[should_panic(expected = "what was admitted is sealed before the shard sleeps for ever")]
fn a_shard_that_does_not_seal_after_a_batch_sleeps_through_a_record() {
    explore(|| two_submitters(AfterABatch::WaitForARing));
}

/// Whoever finds no room holds the lane's lock, and does not ring.
#[test]
fn a_lane_that_is_busy_when_the_shard_would_seal_is_sealed_later() {
    explore(|| {
        let bell = doorbell();
        let (lane, _) = lane_with(&bell, 2, Arc::new(SlowClock));
        let sleeper = Sleeper::connect(&bell);
        let others = vec![caller(&lane, &[]), caller(&lane, LARGE)];
        let mut sending = Sending::new(&lane, AfterABatch::SealAgain);
        lane.link_up();
        let submitted = sleeper.run(others, || sending.run(&bell));
        assert_eq!(sending.sealed, 2, "both are sealed before the shard sleeps for ever");
        drop(submitted);
    });
}

#[test]
fn a_call_gets_the_room_of_a_batch_that_leaves_meanwhile() {
    explore(|| {
        let bell = doorbell();
        let (lane, _) = lane(&bell, 1);
        let sleeper = Sleeper::connect(&bell);
        drop(submit(&lane, &[], WITHOUT_LIMIT));
        let others = vec![caller(&lane, &[])];
        let mut sending = Sending::new(&lane, AfterABatch::SealAgain);
        lane.link_up();
        let submitted = sleeper.run(others, || sending.run(&bell));
        assert_eq!(sending.sealed, 2, "both records are sealed before the shard sleeps for ever");
        drop(submitted);
    });
}

/// The large call is at the head of the line, and the small one behind it would fit.
#[test]
fn a_record_that_a_withdrawal_lets_in_is_not_slept_through() {
    explore(|| {
        let bell = doorbell();
        let (lane, _) = lane(&bell, 2);
        let sleeper = Sleeper::connect(&bell);
        drop(submit(&lane, &[], WITHOUT_LIMIT));
        let large = wait(&lane, LARGE, WITHOUT_LIMIT);
        let mut small = Box::pin(wait(&lane, &[], WITHOUT_LIMIT));
        let gives_up = thread::spawn(move || drop(large));
        let mut sending = Sending::new(&lane, AfterABatch::SealAgain);
        lane.link_up();
        sleeper.run(vec![gives_up], || sending.run(&bell));
        let end = small.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(end, Poll::Ready(WaitEnd::Admitted(_))), "there is room: {end:?}");
        // The large one was sealed, too, if the first record left before it was withdrawn.
        assert!(sending.sealed >= 2, "{} records are sealed", sending.sealed);
        assert!(lane.is_flushed(), "the shard sleeps for ever");
    });
}
