//! The ordinary receive queue of one origin.

use std::collections::VecDeque;

use zcore::{
    Arrival, ByteCount, Charge, Flow, HighWaterMark, Instant, JobQueue, PermitLimit, ReceiveQueue,
    Request, SourceSlot, Thresholds,
};

const fn mark(bytes: u64) -> HighWaterMark {
    HighWaterMark::Limit(ByteCount::new(bytes))
}

/// A record that is charged `bytes`.
fn record(bytes: u64) -> Charge {
    let charge = Charge::of_encoded(bytes - 64);
    assert_eq!(charge.bytes(), ByteCount::new(bytes), "64 bytes are charged beside the record");
    charge
}

#[test]
fn b_005_origins_are_limited_each_by_itself() {
    let mut saturated = ReceiveQueue::new(mark(100));
    let mut other = ReceiveQueue::new(mark(100));
    assert_eq!(saturated.arrive(record(100)), Arrival::Charged);
    assert_eq!(saturated.arrive(record(64)), Arrival::Full);
    assert_eq!(other.arrive(record(64)), Arrival::Charged);
    assert!(saturated.counts().blocked && !other.counts().blocked);
}

#[test]
fn b_007_neither_the_byte_mark_nor_the_permit_limit_changes_what_the_other_does() {
    let marks = [mark(64), mark(1_000), mark(1 << 40), HighWaterMark::Unlimited];
    let mut seen = [[(0, 0); 4]; 4];
    for (bytes, row) in marks.into_iter().zip(&mut seen) {
        for (limit, cell) in [1, 2, 100, 2_147_483_647].into_iter().zip(row) {
            let permits = PermitLimit::new(limit).unwrap();
            let slots = [SourceSlot::EMPTY];
            let mut jobs = JobQueue::new(slots, permits, Thresholds::DEFAULT).unwrap();
            let mut queue = ReceiveQueue::new(bytes);
            let source = jobs.register().unwrap();
            let admitted =
                (0..50).filter(|_| queue.arrive(record(100)) == Arrival::Charged).count();
            let Request::Taken(taken) = jobs.request(source, 50, Instant::EPOCH) else {
                panic!("a permit is free")
            };
            *cell = (admitted, taken);
        }
    }
    for row in seen {
        assert!(row.iter().map(|cell| cell.1).eq([1, 2, 50, 50]), "{row:?}");
    }
    for (row, admitted) in seen.into_iter().zip([1, 10, 50, 50]) {
        assert!(row.iter().all(|cell| cell.0 == admitted), "{row:?}");
    }
}

#[test]
fn b_008_the_charge_is_released_at_hand_over_while_the_job_still_holds_its_permit() {
    let limit = PermitLimit::new(1).unwrap();
    let mut jobs = JobQueue::new([SourceSlot::EMPTY], limit, Thresholds::DEFAULT).unwrap();
    let source = jobs.register().unwrap();
    let mut queue = ReceiveQueue::new(mark(100));
    assert_eq!(queue.arrive(record(100)), Arrival::Charged);
    assert_eq!(jobs.request(source, 1, Instant::EPOCH), Request::Taken(1));

    assert!(jobs.claim(source));
    assert_eq!(queue.hand_over(record(100)), Flow::Unchanged);
    assert_eq!(queue.counts().accounted, ByteCount::ZERO);
    assert_eq!(queue.counts().peak, ByteCount::new(100));
    assert_eq!((jobs.counts().queued, queue.counts().records), (1, 0));
}

/// Every sequence of eight arrivals of two sizes and hand-overs, for each mark.
#[test]
fn b_026_bytes_pile_up_to_the_mark_and_past_it_only_for_one_record_in_an_empty_queue() {
    for high in [64, 100, 128, 200, 300] {
        for history in 0..3_u32.pow(8) {
            let mut queue = ReceiveQueue::new(mark(high));
            let mut held = VecDeque::new();
            for step in 0..8 {
                match history / 3_u32.pow(step) % 3 {
                    0 => drain(&mut queue, &mut held),
                    size => arrive(&mut queue, &mut held, 64 + 86 * u64::from(size - 1)),
                }
                let counts = queue.counts();
                assert_eq!(counts.accounted.get(), held.iter().sum::<u64>());
                assert_eq!(counts.records, u64::try_from(held.len()).unwrap());
                assert!(
                    counts.accounted.get() <= high || held.len() == 1,
                    "{} with {held:?} at mark {high}",
                    counts.accounted
                );
            }
        }
    }
}

fn arrive(queue: &mut ReceiveQueue, held: &mut VecDeque<u64>, bytes: u64) {
    let was_blocked = queue.counts().blocked;
    let fits = held.is_empty()
        || match queue.account().mark() {
            HighWaterMark::Limit(high) => held.iter().sum::<u64>() + bytes <= high.get(),
            HighWaterMark::Unlimited => true,
        };
    let wanted = if fits && !was_blocked { Arrival::Charged } else { Arrival::Full };
    assert_eq!(queue.arrive(record(bytes)), wanted, "{bytes} beside {held:?}");
    match wanted {
        Arrival::Charged => held.push_back(bytes),
        Arrival::Full => assert!(queue.counts().blocked, "a refusal stops the lane"),
    }
}

fn drain(queue: &mut ReceiveQueue, held: &mut VecDeque<u64>) {
    let Some(bytes) = held.pop_front() else { return };
    let was_blocked = queue.counts().blocked;
    let flow = queue.hand_over(record(bytes));
    assert_eq!(flow == Flow::Resume, was_blocked && !queue.counts().blocked, "{held:?}");
    assert!(!(held.is_empty() && queue.counts().blocked), "an empty queue stops nothing");
}

#[test]
fn bu_002_a_stopped_lane_resumes_once_at_half_of_the_mark() {
    let mut queue = ReceiveQueue::new(mark(401));
    for _ in 0..4 {
        assert_eq!(queue.arrive(record(100)), Arrival::Charged);
    }
    assert_eq!(queue.arrive(record(100)), Arrival::Full);
    assert_eq!(queue.hand_over(record(100)), Flow::Unchanged, "300 of 401");
    assert_eq!(queue.arrive(record(64)), Arrival::Full, "a smaller record does not pass");
    assert_eq!(queue.hand_over(record(100)), Flow::Resume, "200 of 401, the half being 201");
    assert_eq!(queue.hand_over(record(100)), Flow::Unchanged, "said once");
    assert_eq!(queue.arrive(record(100)), Arrival::Charged);
}

#[test]
fn bu_002_a_low_queue_waits_on_until_the_refused_record_fits() {
    let mut queue = ReceiveQueue::new(mark(200));
    assert_eq!(queue.arrive(record(64)), Arrival::Charged);
    assert_eq!(queue.arrive(record(80)), Arrival::Charged);
    assert_eq!(queue.arrive(record(150)), Arrival::Full);
    assert_eq!(queue.hand_over(record(64)), Flow::Unchanged, "80 is low, but 80 + 150 > 200");
    assert_eq!(queue.hand_over(record(80)), Flow::Resume);
}

#[test]
fn bu_003_an_empty_queue_takes_one_record_above_the_mark() {
    let mut queue = ReceiveQueue::new(mark(100));
    assert_eq!(queue.arrive(record(5_000)), Arrival::Charged);
    assert_eq!(queue.arrive(record(64)), Arrival::Full);
    assert_eq!(queue.hand_over(record(5_000)), Flow::Resume);
    assert_eq!(queue.counts().peak, ByteCount::new(5_000));
}

#[test]
fn bu_004_a_lower_mark_drops_nothing_and_a_higher_one_resumes_at_once() {
    let mut queue = ReceiveQueue::new(mark(300));
    for _ in 0..3 {
        assert_eq!(queue.arrive(record(100)), Arrival::Charged);
    }
    assert_eq!(queue.arrive(record(100)), Arrival::Full);
    assert_eq!(queue.set_mark(mark(100)), Flow::Unchanged);
    assert_eq!(queue.counts().accounted, ByteCount::new(300));
    assert_eq!(queue.set_mark(mark(399)), Flow::Unchanged, "100 more do not fit");
    assert_eq!(queue.set_mark(mark(400)), Flow::Resume);
    assert_eq!(queue.set_mark(HighWaterMark::Unlimited), Flow::Unchanged, "said once");
    assert_eq!(queue.arrive(record(1 << 40)), Arrival::Charged);
}

#[test]
fn control_is_charged_and_never_refused() {
    let mut queue = ReceiveQueue::new(mark(100));
    assert_eq!(queue.arrive(record(100)), Arrival::Charged);
    assert_eq!(queue.arrive(record(100)), Arrival::Full);
    queue.arrive_control(record(80));
    assert_eq!(queue.counts().accounted, ByteCount::new(180));
    assert_eq!(queue.hand_over(record(100)), Flow::Unchanged, "80 is not low");
    assert_eq!(queue.hand_over(record(80)), Flow::Resume);
}

#[test]
fn a_closed_lane_takes_its_refused_record_along() {
    let mut queue = ReceiveQueue::new(mark(100));
    assert_eq!(queue.arrive(record(100)), Arrival::Charged);
    assert_eq!(queue.arrive(record(100)), Arrival::Full);
    queue.lane_closed();
    assert!(!queue.counts().blocked, "nobody waits to be resumed");
    assert_eq!(queue.counts().records, 1, "what was received stays");

    assert_eq!(queue.arrive(record(100)), Arrival::Full);
    queue.discard(record(100));
    let counts = queue.counts();
    assert_eq!((counts.accounted, counts.records, counts.blocked), (ByteCount::ZERO, 0, false));
}
