//! Who waits, where, and for how long.

use zcore::{
    ByteCount, Effect, Ending, Family, Instant, QueueId, Quota, SendQueue, Submission,
    WaitSpaceFull,
};

use crate::world::charge_of;

use super::{End, LATE, Space, T0, accounted, after, fill, limit, queue, roomy, sent, space, wait};

#[test]
fn b_034_b_071_b_074_a_waiter_stays_with_its_queue_even_if_another_has_room() {
    let (mut chosen, mut other, mut space) = (queue(0, 100), queue(1, 100), roomy());
    fill(&mut chosen, 100);
    fill(&mut other, 100);
    let token = wait(&mut chosen, &mut space, 100, after(1));
    assert_eq!(sent(&mut other, &mut space, 100, T0), [], "room elsewhere admits nobody");
    assert_eq!(other.set_mark(&mut space, limit(900), T0).count(), 0);
    assert_eq!(other.end(&mut space, Ending::Closed, T0).count(), 0);
    assert_eq!((chosen.waiting(), other.waiting()), (1, 0));
    assert_eq!(space.first_due(after(1)), Some((QueueId::new(0), token)), "its route is the same");
    assert_eq!(sent(&mut chosen, &mut space, 100, T0), [Effect::Admit(token)]);
}

#[test]
fn b_034_a_token_means_nothing_to_another_queue() {
    let (mut chosen, mut other, mut space) = (queue(0, 100), queue(1, 100), roomy());
    fill(&mut chosen, 100);
    fill(&mut other, 100);
    let token = wait(&mut chosen, &mut space, 100, after(1));
    let others = wait(&mut other, &mut space, 100, LATE);
    assert!(other.withdraw(&mut space, token, T0).is_none());
    assert_eq!(other.expire(&mut space, token, after(2)).count(), 0);
    assert_eq!((chosen.waiting(), other.waiting()), (1, 1));
    assert_eq!(sent(&mut other, &mut space, 100, T0), [Effect::Admit(others)]);
    assert_eq!(sent(&mut chosen, &mut space, 100, T0), [Effect::Admit(token)]);
}

#[test]
fn b_092_room_after_the_deadline_expires_even_before_any_timer_ran() {
    let deadline = after(1);
    let just_before = Instant::from_nanos(deadline.as_nanos() - 1);
    let just_after = Instant::from_nanos(deadline.as_nanos() + 1);
    let cases: [(Instant, End); 3] =
        [(just_before, Effect::Admit), (deadline, Effect::Expire), (just_after, Effect::Expire)];
    for (now, effect) in cases {
        let (mut queue, mut space) = (queue(0, 100), roomy());
        fill(&mut queue, 100);
        let token = wait(&mut queue, &mut space, 100, deadline);
        assert_eq!(sent(&mut queue, &mut space, 100, now), [effect(token)], "{now:?}");
        let charged = if effect(token) == Effect::Admit(token) { 100 } else { 0 };
        assert_eq!(accounted(&queue), charged, "{now:?}");
        assert_eq!(queue.set_mark(&mut space, limit(999), now).count(), 0, "no replay at {now:?}");
    }
}

#[test]
fn b_092_a_late_waiter_gives_its_place_to_the_next_in_the_same_call() {
    let (mut queue, mut space) = (queue(0, 100), roomy());
    fill(&mut queue, 100);
    let late = wait(&mut queue, &mut space, 100, after(1));
    let next = wait(&mut queue, &mut space, 100, after(2));
    let effects = sent(&mut queue, &mut space, 100, after(1));
    assert_eq!(effects, [Effect::Expire(late), Effect::Admit(next)]);
}

#[test]
fn bo_05_one_target_holds_all_of_a_small_pool_and_three_quarters_of_a_large_one() {
    for (operations, share) in [(1, 1), (64, 64), (65, 48), (66, 49), (100, 75), (4_096, 3_072)] {
        let quota = Quota::with_default_share(operations, ByteCount::MAX);
        let slots = usize::try_from(operations).unwrap();
        let mut space = space(slots, [quota; Family::COUNT]);
        let (mut greedy, mut modest) = (queue(0, 100), queue(1, 100));
        fill(&mut greedy, 100);
        fill(&mut modest, 100);
        for place in 0..share {
            // Going up and down, so that the oldest is not always the first due.
            wait(&mut greedy, &mut space, 64, after(u64::from(place ^ 1)));
        }
        let refused = greedy.wait(&mut space, Family::Send, charge_of(64), LATE);
        assert_eq!(refused, Err(WaitSpaceFull), "{operations}");
        let rest = operations - share;
        for _ in 0..rest {
            wait(&mut modest, &mut space, 64, LATE);
        }
        let refused = modest.wait(&mut space, Family::Send, charge_of(64), LATE);
        assert_eq!(refused, Err(WaitSpaceFull), "{operations}");
    }
}

#[test]
fn bo_05_no_family_takes_the_share_of_another() {
    let quota = Quota::with_default_share(2, ByteCount::kib(64));
    let mut space = space(2 * Family::COUNT, [quota; Family::COUNT]);
    let mut queue = queue(0, 100);
    fill(&mut queue, 100);
    for family in Family::ALL {
        for _ in 0..2 {
            assert!(queue.wait(&mut space, family, charge_of(64), LATE).is_ok(), "{family:?}");
        }
        let third = queue.wait(&mut space, family, charge_of(64), LATE);
        assert_eq!(third, Err(WaitSpaceFull), "{family:?}");
    }
    for family in Family::ALL {
        assert_eq!(space.waiting(family), 2, "{family:?}");
        assert_eq!(space.waiting_bytes(family).get(), 128, "{family:?}");
    }
}

#[test]
fn bo_05_a_share_is_some_part_of_the_whole() {
    let quota = Quota::with_default_share(10, ByteCount::MAX);
    assert!(quota.per_queue(1).is_ok());
    assert!(quota.per_queue(10).is_ok());
    let error = quota.per_queue(11).unwrap_err();
    assert_eq!(error.to_string(), "11 waiting operations for one target; valid is 1..=10");
    assert!(quota.per_queue(0).is_err());
    assert!(Quota::NONE.per_queue(0).is_ok());
}

/// Fires the timer for whatever is due; which operations ended.
fn fire(queue: &mut SendQueue, space: &mut Space, now: Instant) -> Vec<Effect> {
    let mut effects = Vec::new();
    while let Some((_, token)) = space.first_due(now) {
        let before = effects.len();
        effects.extend(queue.expire(space, token, now));
        assert!(effects.len() > before, "the timer fires for {token:?} and nothing happens");
    }
    effects
}

#[test]
fn a_short_deadline_never_waits_for_a_long_one_before_it() {
    let (mut queue, mut space) = (queue(0, 100), roomy());
    fill(&mut queue, 100);
    let patient = wait(&mut queue, &mut space, 100, after(10_000));
    for round in 0..200 {
        let start = 100 + round * 40;
        let short = wait(&mut queue, &mut space, 100, after(start + 23));
        let shorter = wait(&mut queue, &mut space, 100, after(start));
        let early = Instant::from_nanos(after(start).as_nanos() - 1);
        assert_eq!(fire(&mut queue, &mut space, early), [], "never early");
        assert_eq!(space.next_deadline(), Some(after(start)));
        assert_eq!(fire(&mut queue, &mut space, after(start)), [Effect::Expire(shorter)]);
        assert_eq!(fire(&mut queue, &mut space, after(start + 23)), [Effect::Expire(short)]);
    }
    assert_eq!(sent(&mut queue, &mut space, 100, after(9_999)), [Effect::Admit(patient)]);
}

#[test]
fn a_new_waiter_never_moves_the_deadline_of_an_old_one() {
    let (mut queue, mut space) = (queue(0, 100), roomy());
    fill(&mut queue, 100);
    let first = wait(&mut queue, &mut space, 100, after(300));
    let second = wait(&mut queue, &mut space, 100, after(550));
    let third = wait(&mut queue, &mut space, 100, after(590));
    for (due, token) in [(300, first), (550, second), (590, third)] {
        assert_eq!(fire(&mut queue, &mut space, after(due - 1)), []);
        assert_eq!(fire(&mut queue, &mut space, after(due)), [Effect::Expire(token)]);
    }
}

#[test]
fn a_cancelled_waiter_leaves_no_timer_no_slot_and_no_bytes() {
    let (mut queue, mut space) = (queue(0, 100), space(1, [Quota::DEFAULT; Family::COUNT]));
    fill(&mut queue, 100);
    let dropped = wait(&mut queue, &mut space, 100, after(500));
    drop(queue.withdraw(&mut space, dropped, T0).unwrap());
    assert_eq!(space.next_deadline(), None);
    assert_eq!((queue.waiting(), space.waiting(Family::Send)), (0, 0));
    assert_eq!(space.waiting_bytes(Family::Send), ByteCount::ZERO);
    let second = wait(&mut queue, &mut space, 100, after(1_200));
    assert_eq!(fire(&mut queue, &mut space, after(700)), [], "the first call's timer is gone");
    assert_eq!(queue.expire(&mut space, dropped, after(700)).count(), 0);
    assert_eq!(sent(&mut queue, &mut space, 100, after(900)), [Effect::Admit(second)]);
}

#[test]
fn a_large_waiter_that_gives_up_lets_the_small_ones_behind_it_in_at_once() {
    let (mut queue, mut space) = (queue(0, 200), roomy());
    assert_eq!(queue.submit(charge_of(136)), Submission::Admitted);
    let large = wait(&mut queue, &mut space, 300, after(1));
    let small = wait(&mut queue, &mut space, 64, LATE);
    let effects = queue.withdraw(&mut space, large, T0).unwrap().collect::<Vec<_>>();
    assert_eq!(effects, [Effect::Admit(small)]);
}

#[test]
fn an_outage_leaves_exactly_nothing_behind() {
    let (mut queue, mut space) = (queue(0, 1_048_576), roomy());
    let charge = 65_536;
    for round in 0..3 {
        let admitted = fill(&mut queue, charge);
        assert_eq!(admitted, 16, "round {round}");
        for place in 0..64 {
            wait(&mut queue, &mut space, charge, after(round * 100 + place % 5));
        }
        assert_eq!(fire(&mut queue, &mut space, after(round * 100 + 5)).len(), 64);
        assert_eq!((queue.waiting(), space.waiting(Family::Send)), (0, 0), "round {round}");
        for _ in 0..admitted {
            assert_eq!(sent(&mut queue, &mut space, charge, after(round * 100 + 6)), []);
        }
        assert_eq!(accounted(&queue), 0, "round {round}");
        assert_eq!(space.waiting_bytes(Family::Send), ByteCount::ZERO, "round {round}");
    }
    assert_eq!(queue.account().peak().get(), 1_048_576);
}

#[test]
fn small_ones_never_overtake_a_large_waiter_and_another_target_does_not_care() {
    let (mut busy, mut free, mut space) = (queue(0, 1_000), queue(1, 1_000), roomy());
    assert_eq!(busy.submit(charge_of(500)), Submission::Admitted);
    let large = wait(&mut busy, &mut space, 3_000, LATE);
    let small = [(); 10].map(|()| wait(&mut busy, &mut space, 64, LATE));
    for _ in 0..10 {
        assert_eq!(free.submit(charge_of(64)), Submission::Admitted, "another target");
    }
    assert_eq!(sent(&mut busy, &mut space, 500, T0), [Effect::Admit(large)]);
    assert_eq!(sent(&mut busy, &mut space, 3_000, T0), small.map(Effect::Admit));
}
