//! Single lines of the contract about permits.

use zcore::limits::{GRANT_TTL, PERMITS_AT_ONCE};
use zcore::{
    Instant, JobQueue, NoSourceSlots, PermitLimit, Request, SourceId, SourceSlot, SourcesFull,
    Thresholds,
};

const T0: Instant = Instant::EPOCH;

type Jobs = JobQueue<[SourceSlot; 4]>;

/// A queue of `limit` permits and its four sources.
fn jobs(limit: u32) -> (Jobs, [SourceId; 4]) {
    let limit = PermitLimit::new(limit).unwrap();
    let mut jobs = JobQueue::new([SourceSlot::EMPTY; 4], limit, Thresholds::DEFAULT).unwrap();
    let sources = core::array::from_fn(|_| jobs.register().unwrap());
    (jobs, sources)
}

/// A queue whose permits are all held by queued jobs of its first source.
fn full(limit: u32) -> (Jobs, [SourceId; 4]) {
    let (mut jobs, sources) = jobs(limit);
    assert_eq!(jobs.request(sources[0], limit, T0), Request::Taken(limit), "all are free");
    for _ in 0..limit {
        assert!(jobs.claim(sources[0]), "it took {limit}");
    }
    (jobs, sources)
}

#[test]
fn b_010_without_a_permit_no_record_leaves_its_queue() {
    let (mut jobs, [_, second, ..]) = full(2);
    assert!(!jobs.claim(second));
    assert_eq!(jobs.request(second, 1, T0), Request::Waiting);
    assert!(!jobs.claim(second), "to wait is not to hold");
    assert_eq!(jobs.counts().queued, 2);
}

#[test]
fn b_039_a_returned_permit_goes_to_the_source_that_has_waited_longest() {
    let (mut jobs, [first, second, third, fourth]) = full(1);
    for source in [third, second, fourth] {
        assert_eq!(jobs.request(source, 1, T0), Request::Waiting);
    }
    for source in [third, second, fourth] {
        assert_eq!(jobs.start(T0), Some(source));
        assert!(jobs.has_grant(source));
        assert!(jobs.claim(source));
    }
    assert_eq!(jobs.start(T0), None);
    assert!(!jobs.has_grant(first));
}

#[test]
fn b_040_a_request_at_the_moment_of_return_does_not_pass_a_waiter() {
    let (mut jobs, [_, waiter, newcomer, _]) = full(1);
    assert_eq!(jobs.request(waiter, 1, T0), Request::Waiting);
    // A dropped iterator leaves the permit free for a moment.
    drop(jobs.start_many(1, T0));
    assert_eq!(jobs.counts().in_use, 0);
    assert_eq!(jobs.next_deadline(), Some(T0), "the rest is due at once");
    assert_eq!(jobs.request(newcomer, 1, T0), Request::Waiting);
    assert!(jobs.expire_grants(T0).eq([waiter]));
}

#[test]
fn b_041_a_cancelled_waiter_is_skipped_and_its_permits_go_on() {
    let (mut jobs, [_, second, third, fourth]) = full(1);
    for source in [second, third, fourth] {
        assert_eq!(jobs.request(source, 1, T0), Request::Waiting);
    }
    assert_eq!(jobs.cancel(third, T0).next(), None);
    assert_eq!(jobs.start(T0), Some(second));
    assert!(jobs.cancel(second, T0).eq([fourth]));
    assert_eq!(jobs.cancel(fourth, T0).next(), None);
    let counts = jobs.counts();
    assert_eq!((counts.in_use, counts.waiting, counts.limit), (0, 0, 1));
}

#[test]
fn b_041_every_unclaimed_permit_of_a_dead_source_goes_to_the_next_waiter() {
    let (mut jobs, [dead, second, third, fourth]) = jobs(3);
    assert_eq!(jobs.request(dead, 3, T0), Request::Taken(3));
    assert!(jobs.claim(dead));
    for source in [second, third, fourth] {
        assert_eq!(jobs.request(source, 9, T0), Request::Waiting);
    }
    assert!(jobs.unregister(dead, T0).eq([second, third]));
    assert_eq!(jobs.start(T0), Some(fourth), "a job outlives its source");
}

#[test]
fn b_041_the_name_of_a_dead_source_does_nothing() {
    let (mut jobs, [old, ..]) = jobs(2);
    assert_eq!(jobs.unregister(old, T0).next(), None);
    assert_eq!(jobs.request(old, 1, T0), Request::Ignored, "not even while its slot is free");
    let new = jobs.register().unwrap();
    assert_eq!(new.slot(), old.slot());
    assert_eq!(jobs.request(new, 1, T0), Request::Taken(1));
    assert_eq!(jobs.request(old, 1, T0), Request::Ignored);
    assert!(!jobs.claim(old));
    assert!(!jobs.has_grant(old) && !jobs.is_waiting(old));
    assert_eq!(jobs.cancel(old, T0).next(), None);
    assert_eq!(jobs.unregister(old, T0).next(), None);
    assert!(jobs.claim(new), "the heir kept its permit");
    assert_eq!(jobs.register(), Err(SourcesFull), "and its slot");
}

#[test]
fn b_045_a_control_record_returns_its_permit_to_the_next_waiter_when_classified() {
    let (mut jobs, [_, second, ..]) = full(1);
    assert_eq!(jobs.request(second, 1, T0), Request::Waiting);
    assert_eq!(jobs.classify_as_control(T0), Some(second));
    assert_eq!((jobs.counts().queued, jobs.counts().reserved), (0, 1));
}

#[test]
fn b_046_a_million_malformed_records_leave_no_permit_in_use() {
    let (mut jobs, [source, ..]) = jobs(3);
    for _ in 0..1_000_000 {
        assert_eq!(jobs.request(source, 1, T0), Request::Taken(1));
        assert!(jobs.claim(source));
        assert_eq!(jobs.classify_as_control(T0), None);
    }
    assert_eq!((jobs.counts().in_use, jobs.counts().peak_in_use), (0, 1));
}

#[test]
fn b_122_reserved_permits_count_against_the_limit_as_queued_ones_do() {
    let (mut jobs, [first, second, ..]) = jobs(3);
    assert_eq!(jobs.request(first, 2, T0), Request::Taken(2));
    assert_eq!(jobs.request(second, 9, T0), Request::Taken(1));
    assert!(jobs.claim(first));
    let counts = jobs.counts();
    assert_eq!((counts.reserved, counts.queued, counts.in_use, counts.limit), (2, 1, 3, 3));
}

#[test]
fn b_122_a_source_takes_at_most_what_is_free_ready_and_allowed_at_once() {
    let (mut jobs, [first, second, third, _]) = jobs(100);
    assert_eq!(jobs.request(first, 0, T0), Request::Ignored);
    assert_eq!(jobs.request(first, 5, T0), Request::Taken(5));
    assert_eq!(jobs.request(first, 5, T0), Request::Ignored, "permits do not accumulate");
    assert_eq!(jobs.request(second, u32::MAX, T0), Request::Taken(PERMITS_AT_ONCE));
    assert_eq!(jobs.request(third, u32::MAX, T0), Request::Taken(100 - 5 - PERMITS_AT_ONCE));
}

#[test]
fn b_131_a_source_that_asks_again_keeps_its_place() {
    let (mut jobs, [_, second, third, _]) = full(1);
    assert_eq!(jobs.request(second, 1, T0), Request::Waiting);
    assert_eq!(jobs.request(third, 1, T0), Request::Waiting);
    assert_eq!(jobs.request(second, 7, T0), Request::Waiting);
    assert_eq!(jobs.request(second, 0, T0), Request::Waiting);
    assert_eq!(jobs.counts().waiting, 2);
    assert_eq!(jobs.start(T0), Some(second));
    assert_eq!(jobs.request(second, 7, T0), Request::Ignored, "it holds its permit");
    assert!(jobs.claim(second));
    assert!(!jobs.claim(second), "exactly one was handed");
    assert_eq!(jobs.request(second, 7, T0), Request::Waiting);
    assert_eq!(jobs.start(T0), Some(third), "and it asks again behind the others");
}

#[test]
fn bo_009_a_source_with_many_records_gets_no_more_turns_than_one_with_few() {
    let (mut jobs, [many, few, ..]) = full(1);
    assert_eq!(jobs.request(many, 1_000, T0), Request::Waiting);
    assert_eq!(jobs.request(few, 1, T0), Request::Waiting);
    let mut turns = Vec::new();
    for _ in 0..10 {
        let source = jobs.start(T0).unwrap();
        assert!(jobs.claim(source));
        let ready = if source == many { 1_000 } else { 1 };
        assert_eq!(jobs.request(source, ready, T0), Request::Waiting);
        turns.push(source);
    }
    assert_eq!(turns, [many, few].repeat(5));
}

#[test]
fn a_grant_that_nobody_claims_passes_on_after_ten_milliseconds() {
    let (mut jobs, [_, sleepy, next, _]) = full(1);
    assert_eq!(jobs.request(sleepy, 1, T0), Request::Waiting);
    assert_eq!(jobs.request(next, 1, T0), Request::Waiting);
    assert_eq!(jobs.next_deadline(), None);
    let given = Instant::from_nanos(7);
    assert_eq!(jobs.start(given), Some(sleepy));
    let due = given.saturating_add(GRANT_TTL);
    assert_eq!(jobs.next_deadline(), Some(due));
    assert_eq!(jobs.expire_grants(Instant::from_nanos(due.as_nanos() - 1)).next(), None);
    assert!(jobs.expire_grants(due).eq([next]));
    assert!(!jobs.claim(sleepy) && jobs.is_waiting(sleepy), "it waits again, behind the others");
    assert!(jobs.claim(next));
    assert_eq!(jobs.next_deadline(), None);
    assert_eq!(jobs.start(due), Some(sleepy));
}

#[test]
fn a_grant_that_nobody_else_wants_is_told_again() {
    let (mut jobs, [_, sleepy, ..]) = full(1);
    assert_eq!(jobs.request(sleepy, 1, T0), Request::Waiting);
    assert_eq!(jobs.start(T0), Some(sleepy));
    let due = T0.saturating_add(GRANT_TTL);
    assert!(jobs.expire_grants(due).eq([sleepy]));
    assert_eq!(jobs.next_deadline(), Some(due.saturating_add(GRANT_TTL)));
}

#[test]
fn time_that_goes_back_counts_as_the_latest_seen() {
    let (mut jobs, [_, second, third, _]) = full(2);
    assert_eq!(jobs.request(second, 1, Instant::from_nanos(50)), Request::Waiting);
    assert_eq!(jobs.request(third, 1, Instant::from_nanos(40)), Request::Waiting);
    assert!(jobs.start_many(2, Instant::from_nanos(30)).eq([second, third]));
    assert_eq!(jobs.next_deadline(), Some(Instant::from_nanos(50).saturating_add(GRANT_TTL)));
    assert_eq!(jobs.counts().waited.as_nanos(), 0);
}

#[test]
fn b_139_waits_and_their_duration_are_counted() {
    let (mut jobs, [_, second, third, _]) = full(1);
    assert_eq!(jobs.request(second, 1, Instant::from_nanos(10)), Request::Waiting);
    assert_eq!(jobs.request(third, 1, Instant::from_nanos(20)), Request::Waiting);
    assert_eq!(jobs.start(Instant::from_nanos(30)), Some(second));
    assert_eq!(jobs.cancel(third, Instant::from_nanos(50)).next(), None);
    let counts = jobs.counts();
    assert_eq!((counts.waits, counts.waited.as_nanos()), (2, 20 + 30));
}

#[test]
fn b_140_a_new_epoch_keeps_gauges_and_zeroes_counts() {
    let (mut jobs, [_, second, ..]) = full(3);
    assert_eq!(jobs.request(second, 1, T0), Request::Waiting);
    assert!(jobs.start_many(3, Instant::from_nanos(9)).eq([second]));
    let before = jobs.counts();
    assert_eq!((before.in_use, before.peak_in_use, before.waits), (1, 3, 1));
    jobs.begin_epoch();
    let after = jobs.counts();
    assert_eq!((after.in_use, after.peak_in_use, after.waits), (1, 1, 0));
    assert!(after.waited.is_zero());
}

#[test]
fn a_queue_without_storage_is_an_error() {
    let limit = PermitLimit::new(1).unwrap();
    let error = JobQueue::new([], limit, Thresholds::DEFAULT).err();
    assert_eq!(error, Some(NoSourceSlots));
    assert_eq!(NoSourceSlots.to_string(), "a job queue needs storage for at least 1 source");
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "1 permits returned of 0 queued")]
fn a_permit_returned_twice_is_found_by_an_assertion() {
    let (mut jobs, _) = jobs(1);
    let _ = jobs.start(T0);
}

#[cfg(not(debug_assertions))]
#[test]
fn b_041_a_permit_returned_twice_changes_nothing() {
    let (mut jobs, [_, second, ..]) = full(1);
    assert_eq!(jobs.start(T0), None);
    assert_eq!(jobs.start(T0), None);
    assert_eq!(jobs.start_many(7, T0).next(), None);
    assert_eq!(jobs.classify_as_control(T0), None);
    assert_eq!(jobs.counts().in_use, 0);
    assert_eq!(jobs.request(second, 9, T0), Request::Taken(1), "no permit was invented");
}
