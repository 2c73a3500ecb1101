//! How a waiting operation ends, and that it ends once.

use zcore::{
    ByteCount, Effect, Ending, Family, HighWaterMark, Quota, SendQueue, Submission, WaitSpaceFull,
    WaiterToken,
};

use crate::world::charge_of;

use super::{End, LATE, Space, T0, accounted, after, fill, limit, queue, roomy, sent, space, wait};

/// Lets one waiting operation end in each way; the effects, and the token.
fn end_in_each_way() -> Vec<(&'static str, SendQueue, Space, WaiterToken, Vec<Effect>)> {
    type Way = (&'static str, fn(&mut SendQueue, &mut Space, WaiterToken) -> Vec<Effect>);
    let ways: [Way; 6] = [
        ("sent", |queue, space, _| sent(queue, space, 100, T0)),
        ("mark", |queue, space, _| queue.set_mark(space, limit(900), T0).collect()),
        ("expire", |queue, space, token| queue.expire(space, token, after(1)).collect()),
        ("late room", |queue, space, _| sent(queue, space, 100, after(1))),
        ("closed", |queue, space, _| queue.end(space, Ending::Closed, T0).collect()),
        ("detached", |queue, space, _| queue.end(space, Ending::Detached, T0).collect()),
    ];
    let endings = ways.map(|(name, way)| {
        let (mut queue, mut space) = (queue(0, 100), roomy());
        fill(&mut queue, 100);
        let token = wait(&mut queue, &mut space, 100, after(1));
        let effects = way(&mut queue, &mut space, token);
        (name, queue, space, token, effects)
    });
    endings.into()
}

#[test]
fn b_031_b_058_an_operation_is_seen_once_and_its_name_is_never_used_again() {
    let (mut queue, mut space) = (queue(0, 100), space(1, [Quota::DEFAULT; Family::COUNT]));
    fill(&mut queue, 100);
    let mut names = Vec::new();
    for _ in 0..100 {
        let token = wait(&mut queue, &mut space, 100, LATE);
        assert!(!names.contains(&token), "{token:?} named an earlier operation");
        assert_eq!(space.waiting(Family::Send), 1, "one call makes one operation");
        names.push(token);
        assert_eq!(sent(&mut queue, &mut space, 100, T0), [Effect::Admit(token)]);
        for old in &names {
            assert!(queue.withdraw(&mut space, *old, T0).is_none(), "{old:?} is over");
        }
    }
}

#[test]
fn b_032_the_queue_alone_ends_the_wait_with_one_terminal_effect() {
    let expected: [(&str, End); 6] = [
        ("sent", Effect::Admit),
        ("mark", Effect::Admit),
        ("expire", Effect::Expire),
        ("late room", Effect::Expire),
        ("closed", |token| Effect::Refuse(token, Ending::Closed)),
        ("detached", |token| Effect::Refuse(token, Ending::Detached)),
    ];
    for ((name, _, _, token, effects), (way, effect)) in end_in_each_way().into_iter().zip(expected)
    {
        assert_eq!(name, way);
        assert_eq!(effects, [effect(token)], "{name}");
    }
}

#[test]
fn b_035_b_061_a_waiting_operation_ends_exactly_once_whatever_comes_later() {
    for (name, mut queue, mut space, token, _) in end_in_each_way() {
        assert!(!queue.is_waited_for(), "{name}");
        assert!(queue.withdraw(&mut space, token, after(9)).is_none(), "{name}");
        let later = [
            queue.expire(&mut space, token, after(9)).collect::<Vec<_>>(),
            queue.set_mark(&mut space, HighWaterMark::Unlimited, after(9)).collect(),
            queue.end(&mut space, Ending::Closed, after(9)).collect(),
            queue.end(&mut space, Ending::Detached, after(9)).collect(),
        ];
        assert_eq!(later, [const { Vec::new() }; 4], "{name}");
        assert_eq!(space.next_deadline(), None, "{name}");
        assert_eq!(space.waiting_bytes(Family::Send), ByteCount::ZERO, "{name}");
    }
}

#[test]
fn b_035_a_detached_target_ends_all_its_waiters_oldest_first_and_holds_nothing() {
    let (mut queue, mut space) = (queue(0, 100), roomy());
    fill(&mut queue, 100);
    let tokens = [64, 900, 70].map(|charge| wait(&mut queue, &mut space, charge, LATE));
    let refused = tokens.map(|token| Effect::Refuse(token, Ending::Detached));
    assert_eq!(queue.end(&mut space, Ending::Detached, T0).collect::<Vec<_>>(), refused);
    assert_eq!(accounted(&queue), 0);
    queue.release(charge_of(100));
    assert_eq!(accounted(&queue), 0, "what left the queue before it was gone counts no more");
    assert_eq!(queue.submit(charge_of(64)), Submission::Ended(Ending::Detached));
    assert_eq!(queue.submit_control(charge_of(64)), Submission::Ended(Ending::Detached));
}

#[test]
fn b_035_a_host_that_closes_after_the_target_was_detached_changes_nothing() {
    let (mut queue, mut space) = (queue(0, 100), roomy());
    fill(&mut queue, 100);
    assert_eq!(queue.end(&mut space, Ending::Detached, T0).count(), 0);
    assert_eq!(queue.end(&mut space, Ending::Closed, T0).count(), 0);
    assert_eq!(sent(&mut queue, &mut space, 100, T0), [], "a late completion is harmless");
    assert_eq!(queue.submit(charge_of(64)), Submission::Ended(Ending::Detached));
}

#[test]
fn bo_08_closing_refuses_the_waiters_keeps_the_admitted_and_admits_nobody_later() {
    let (mut queue, mut space) = (queue(0, 100), roomy());
    fill(&mut queue, 100);
    let token = wait(&mut queue, &mut space, 100, LATE);
    let refused = [Effect::Refuse(token, Ending::Closed)];
    assert_eq!(queue.end(&mut space, Ending::Closed, T0).collect::<Vec<_>>(), refused);
    assert_eq!(accounted(&queue), 100, "admitted records are still sent");
    assert_eq!(sent(&mut queue, &mut space, 100, T0), []);
    assert_eq!(queue.submit(charge_of(64)), Submission::Ended(Ending::Closed));
}

#[test]
fn bo_08_the_goodbye_of_a_closed_queue_follows_the_last_message() {
    let (mut queue, mut space) = (queue(0, 100), roomy());
    fill(&mut queue, 100);
    assert_eq!(queue.end(&mut space, Ending::Closed, T0).count(), 0);
    assert_eq!(queue.submit_control(charge_of(88)), Submission::Admitted);
    assert_eq!(sent(&mut queue, &mut space, 100, T0), []);
    assert_eq!(accounted(&queue), 88, "charged like any record");
    assert_eq!(sent(&mut queue, &mut space, 88, T0), []);
    assert_eq!(accounted(&queue), 0);
}

#[test]
fn bo_08_refusals_that_nobody_read_are_no_admissions_at_the_next_call() {
    for ending in [Ending::Closed, Ending::Detached] {
        let (mut queue, mut space) = (queue(0, 100), roomy());
        fill(&mut queue, 100);
        let token = wait(&mut queue, &mut space, 100, LATE);
        drop(queue.end(&mut space, ending, T0));
        assert_eq!(sent(&mut queue, &mut space, 100, T0), [Effect::Refuse(token, ending)]);
        assert_eq!(accounted(&queue), 0);
    }
}

#[test]
fn b_061_one_submission_is_admitted_at_most_once() {
    let (mut queue, mut space) = (queue(0, 300), roomy());
    let (mut calls, mut admitted, mut expired) = (0_u32, 0_u32, 0_u32);
    for round in 0..500_u64 {
        calls += 1;
        if queue.submit(charge_of(100)) == Submission::Admitted {
            admitted += 1;
        } else {
            let deadline = after(round + round % 7);
            queue.wait(&mut space, Family::Send, charge_of(100), deadline).unwrap();
        }
        if round % 2 == 0 && accounted(&queue) > 0 {
            for effect in sent(&mut queue, &mut space, 100, after(round)) {
                match effect {
                    Effect::Admit(_) => admitted += 1,
                    Effect::Expire(_) => expired += 1,
                    Effect::Refuse(..) => panic!("nothing ended"),
                }
            }
        }
        assert_eq!(admitted + expired + queue.waiting(), calls, "round {round}");
    }
    assert!(admitted > 0 && expired > 0, "both happened: {admitted}, {expired}");
}

#[test]
fn b_068_a_full_wait_space_ends_the_call_at_once_and_keeps_nothing() {
    let by_bytes = Quota::with_default_share(9, ByteCount::new(250));
    let by_count = Quota::with_default_share(2, ByteCount::kib(64));
    let by_share = Quota::with_default_share(9, ByteCount::kib(64)).per_queue(2).unwrap();
    for (name, slots, quota) in [
        ("operations", 9, by_count),
        ("bytes", 9, by_bytes),
        ("share", 9, by_share),
        ("slots", 2, Quota::DEFAULT),
    ] {
        let (mut queue, mut space) = (queue(0, 100), space(slots, [quota; Family::COUNT]));
        fill(&mut queue, 100);
        wait(&mut queue, &mut space, 100, after(5));
        let last = wait(&mut queue, &mut space, 100, after(6));
        for _ in 0..3 {
            assert_eq!(queue.submit(charge_of(100)), Submission::MustWait, "{name}");
            let refused = queue.wait(&mut space, Family::Send, charge_of(100), after(1));
            assert_eq!(refused, Err(WaitSpaceFull), "{name}");
            assert_eq!(queue.waiting(), 2, "{name}");
            assert_eq!(accounted(&queue), 100, "{name}");
            assert_eq!(space.waiting(Family::Send), 2, "{name}");
            assert_eq!(space.waiting_bytes(Family::Send).get(), 200, "{name}");
            assert_eq!(space.next_deadline(), Some(after(5)), "{name}");
        }
        assert!(queue.withdraw(&mut space, last, T0).is_some(), "{name}");
        wait(&mut queue, &mut space, 100, after(1));
    }
}

#[test]
fn b_068_a_quota_of_none_keeps_nobody_waiting() {
    let (mut queue, mut space) = (queue(0, 100), space(9, [Quota::NONE; Family::COUNT]));
    fill(&mut queue, 100);
    let refused = queue.wait(&mut space, Family::Send, charge_of(64), LATE);
    assert_eq!(refused, Err(WaitSpaceFull));
}

#[test]
fn a_renewed_queue_is_empty_and_open_and_remembers_its_peak() {
    let (mut queue, mut space) = (queue(0, 300), roomy());
    fill(&mut queue, 100);
    assert_eq!(queue.end(&mut space, Ending::Detached, T0).count(), 0, "nobody waits");
    let mut renewed = queue.renewed();
    assert_eq!(accounted(&renewed), 0, "nothing is held");
    assert_eq!(renewed.account().peak(), ByteCount::new(300), "what was reached stays known");
    assert_eq!(renewed.submit(charge_of(100)), Submission::Admitted, "and it takes records again");
}
