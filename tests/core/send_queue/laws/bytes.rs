//! What a queue holds against its mark.

use zcore::{Account, ByteCount, Effect, HighWaterMark, Submission};

use crate::world::charge_of;

use super::{LATE, T0, accounted, fill, limit, queue, roomy, sent, wait};

#[test]
fn b_005_each_origin_has_its_own_limit_of_accounted_bytes() {
    let (mut first, mut second) = (queue(0, 1_000), queue(1, 500));
    assert_eq!(fill(&mut first, 100), 10);
    assert_eq!(accounted(&second), 0, "a full queue takes nothing from another");
    assert_eq!(fill(&mut second, 100), 5);
    first.release(charge_of(100));
    assert_eq!(second.submit(charge_of(100)), Submission::MustWait);
    assert_eq!(first.submit(charge_of(100)), Submission::Admitted);
}

#[test]
fn b_018_sends_lock_when_the_bytes_not_yet_taken_reach_the_limit() {
    for (mark, charge, fits) in [(1_000, 100, 10), (999, 100, 9), (1_001, 100, 10), (64, 64, 1)] {
        let mut queue = queue(0, mark);
        assert_eq!(fill(&mut queue, charge), fits, "mark {mark}");
        assert_eq!(accounted(&queue), fits * charge, "mark {mark}");
        queue.release(charge_of(charge));
        assert_eq!(queue.submit(charge_of(charge)), Submission::Admitted, "mark {mark}");
    }
}

#[test]
fn b_026_bytes_pile_up_to_the_mark_and_not_past_it() {
    for mark in 64..600 {
        for charge in [64, 65, 100, 299, 300] {
            let mut account = Account::new(limit(mark));
            while account.admits(charge_of(charge)) {
                account.charge(charge_of(charge));
            }
            let held = account.accounted().get();
            assert!(held <= mark.max(charge), "{held} held, mark {mark}, charge {charge}");
            assert!(held + charge > mark, "{held} is not up to {mark}");
        }
    }
}

#[test]
fn b_026_bo_03_only_control_records_come_on_top_of_one_large_record() {
    let mut queue = queue(0, 100);
    assert_eq!(queue.submit(charge_of(5_000)), Submission::Admitted);
    assert_eq!(queue.submit(charge_of(64)), Submission::MustWait);
    let control = zcore::limits::CONTROL_RECORD_MAX + zcore::limits::RECORD_OVERHEAD.get();
    for _ in 0..zcore::limits::CONTROL_KINDS {
        assert_eq!(queue.submit_control(charge_of(control)), Submission::Admitted);
    }
    let worst = limit(100).worst_case(ByteCount::new(5_000));
    assert_eq!(accounted(&queue), worst.get(), "max(mark, largest record) and the control records");
    assert_eq!(queue.submit(charge_of(64)), Submission::MustWait);
}

#[test]
fn b_026_a_control_record_enters_a_full_queue_past_its_waiters_and_takes_their_room() {
    let (mut queue, mut space) = (queue(0, 200), roomy());
    fill(&mut queue, 100);
    let token = wait(&mut queue, &mut space, 100, LATE);
    assert_eq!(queue.submit_control(charge_of(100)), Submission::Admitted);
    assert_eq!(accounted(&queue), 300);
    assert_eq!(sent(&mut queue, &mut space, 100, T0), [], "200 of 200 are held");
    assert_eq!(sent(&mut queue, &mut space, 100, T0), [Effect::Admit(token)]);
}

#[test]
fn bu_01_a_flood_of_empty_messages_reaches_the_mark() {
    let empty = zcore::Charge::of_encoded(0);
    assert_eq!(empty.bytes(), zcore::limits::RECORD_OVERHEAD);
    let mut queue = queue(0, 64 * 1_000);
    assert_eq!(fill(&mut queue, empty.bytes().get()), 1_000);
}

#[test]
fn bu_02_a_locked_queue_unlocks_at_half_its_mark_rounded_up() {
    for (mark, low) in [(0, 0), (1, 1), (2, 1), (3, 2), (999, 500), (1_000, 500), (1_001, 501)] {
        assert_eq!(limit(mark).low_water(), ByteCount::new(low), "mark {mark}");
    }
    assert_eq!(limit(u64::MAX).low_water(), ByteCount::new((u64::MAX / 2) + 1));
    assert_eq!(HighWaterMark::Unlimited.low_water(), ByteCount::MAX);
    // The rest is one byte above, at and below half of the mark after the first record has left.
    for (mark, rest, unlocks) in
        [(1_000, 501, false), (1_000, 500, true), (1_001, 502, false), (1_001, 501, true)]
    {
        let (mut queue, mut space) = (queue(0, mark), roomy());
        assert_eq!(queue.submit(charge_of(mark - rest)), Submission::Admitted);
        assert_eq!(queue.submit(charge_of(rest)), Submission::Admitted);
        let token = wait(&mut queue, &mut space, 64, LATE);
        let expected = if unlocks { vec![Effect::Admit(token)] } else { vec![] };
        assert_eq!(sent(&mut queue, &mut space, mark - rest, T0), expected, "{mark}, {rest}");
    }
}

#[test]
fn bu_02_an_unlocked_queue_admits_as_many_as_fit_up_to_the_mark() {
    let (mut queue, mut space) = (queue(0, 400), roomy());
    fill(&mut queue, 100);
    let tokens = [(); 5].map(|()| wait(&mut queue, &mut space, 100, LATE));
    assert_eq!(sent(&mut queue, &mut space, 100, T0), [], "300 of 400");
    let admitted = [Effect::Admit(tokens[0]), Effect::Admit(tokens[1])];
    assert_eq!(sent(&mut queue, &mut space, 100, T0), admitted, "200 of 400, filled again");
    assert_eq!(accounted(&queue), 400);
    assert_eq!(sent(&mut queue, &mut space, 100, T0), [], "locked again");
}

#[test]
fn bu_03_an_empty_queue_admits_one_record_above_the_mark_and_counts_it() {
    let mut queue = queue(0, 100);
    assert_eq!(queue.submit(charge_of(64 * 1_024 + 1)), Submission::TooLarge);
    assert_eq!(accounted(&queue), 0);
    assert_eq!(queue.account().oversized(), 0);
    assert_eq!(queue.submit(charge_of(64 * 1_024)), Submission::Admitted);
    assert_eq!(queue.account().oversized(), 1);
    assert_eq!(queue.submit(charge_of(64)), Submission::MustWait, "one, not two");
    queue.release(charge_of(64 * 1_024));
    assert_eq!(queue.submit(charge_of(64)), Submission::Admitted);
    assert_eq!(queue.submit(charge_of(101)), Submission::MustWait, "the queue is not empty");
    assert_eq!(queue.account().oversized(), 1);
}

#[test]
fn bu_03_a_waiting_record_above_the_mark_enters_when_the_queue_is_empty() {
    let (mut queue, mut space) = (queue(0, 200), roomy());
    fill(&mut queue, 100);
    let large = wait(&mut queue, &mut space, 201, LATE);
    assert_eq!(sent(&mut queue, &mut space, 100, T0), [], "low, but not empty");
    assert_eq!(sent(&mut queue, &mut space, 100, T0), [Effect::Admit(large)]);
    assert_eq!(queue.account().oversized(), 1);
}

#[test]
fn bu_04_a_lower_mark_drops_nothing_and_applies_as_bytes_fall() {
    let (mut queue, mut space) = (queue(0, 400), roomy());
    fill(&mut queue, 100);
    assert_eq!(queue.set_mark(&mut space, limit(200), T0).count(), 0);
    assert_eq!(accounted(&queue), 400, "nothing is dropped");
    let token = wait(&mut queue, &mut space, 100, LATE);
    for held in [300, 200] {
        assert_eq!(sent(&mut queue, &mut space, 100, T0), []);
        assert_eq!(accounted(&queue), held);
    }
    assert_eq!(sent(&mut queue, &mut space, 100, T0), [Effect::Admit(token)], "half of 200");
    assert_eq!(queue.submit(charge_of(64)), Submission::MustWait, "200 of 200");
}

#[test]
fn bu_04_a_higher_mark_admits_at_once_oldest_first() {
    let (mut queue, mut space) = (queue(0, 200), roomy());
    fill(&mut queue, 100);
    let tokens = [(); 3].map(|()| wait(&mut queue, &mut space, 100, LATE));
    let raised = queue.set_mark(&mut space, limit(400), T0).collect::<Vec<_>>();
    assert_eq!(raised, [Effect::Admit(tokens[0]), Effect::Admit(tokens[1])]);
    let opened = queue.set_mark(&mut space, HighWaterMark::Unlimited, T0).collect::<Vec<_>>();
    assert_eq!(opened, [Effect::Admit(tokens[2])]);
}
