//! The rule on a hello that dials, over everything that it depends on.

use zcore::wire::Refusal;
use zcore::{Acquaintance, Order, Ruling, Run, Speaker, Standing, rule_on_dial};

const ORDERS: [Order; 2] = [Order::Smaller, Order::Larger];

const STANDINGS: [Standing; 4] =
    [Standing::Apart, Standing::Silent, Standing::Asking, Standing::Agreed];

const SPEAKERS: [Speaker; 4] = [Speaker::Holder, Speaker::Stale, Speaker::Former, Speaker::Other];

const STALE: Ruling = Ruling::Refuse(Refusal::StaleGeneration);

const BOTH_DIAL: Ruling = Ruling::Refuse(Refusal::SimultaneousDial);

fn every_case() -> impl Iterator<Item = (Order, Standing, Speaker, Ruling)> {
    ORDERS.into_iter().flat_map(|order| {
        STANDINGS.into_iter().flat_map(move |standing| {
            SPEAKERS.into_iter().map(move |speaker| {
                (order, standing, speaker, rule_on_dial(order, standing, speaker))
            })
        })
    })
}

#[test]
fn a_stale_hello_changes_nothing() {
    for (order, standing, speaker, ruling) in every_case() {
        if speaker == Speaker::Stale {
            assert_eq!(ruling, STALE, "{order:?} {standing:?}");
        }
    }
}

#[test]
fn an_agreed_pair_ends_for_its_own_peer_or_a_run_that_proves_to_live_and_for_nothing_else() {
    for (order, standing, speaker, ruling) in every_case() {
        if standing == Standing::Agreed {
            let expected = match speaker {
                Speaker::Holder => Ruling::Replace,
                Speaker::Other => Ruling::Challenge,
                Speaker::Stale | Speaker::Former => STALE,
            };
            assert_eq!(ruling, expected, "{order:?} {speaker:?}");
        } else {
            assert_ne!(ruling, Ruling::Challenge, "{order:?} {standing:?}: nothing is at stake");
        }
    }
}

#[test]
fn of_two_dials_under_way_exactly_one_gives_way() {
    for (_, standing, speaker, ruling) in every_case() {
        if standing == Standing::Asking && speaker != Speaker::Stale {
            assert!(matches!(ruling, Ruling::Replace | BOTH_DIAL), "{speaker:?}: {ruling:?}");
        }
    }
    for speaker in [Speaker::Holder, Speaker::Former, Speaker::Other] {
        let smaller = rule_on_dial(Order::Smaller, Standing::Asking, speaker);
        let larger = rule_on_dial(Order::Larger, Standing::Asking, speaker);
        assert_eq!((smaller, larger), (BOTH_DIAL, Ruling::Replace), "{speaker:?}");
    }
}

#[test]
fn a_hello_that_is_not_late_gets_in_where_nobody_waits_for_an_answer() {
    for (order, standing, speaker, ruling) in every_case() {
        let expected = match standing {
            Standing::Apart => Ruling::Join,
            Standing::Silent => Ruling::Replace,
            Standing::Asking | Standing::Agreed => continue,
        };
        if speaker != Speaker::Stale {
            assert_eq!(ruling, expected, "{order:?} {standing:?} {speaker:?}");
        }
    }
}

/// Who says a hello, while a pair is held by a run of which nothing is known but that.
fn who(node: &Acquaintance, (incarnation, heard): (u64, u32), holder: Option<u64>) -> Speaker {
    let holder = holder.map(|incarnation| Run { incarnation, heard: 0 });
    node.speaker(Run { incarnation, heard }, holder)
}

#[test]
fn a_run_is_unknown_then_a_guest_then_the_last_one_then_a_former_one() {
    let mut other = Acquaintance::default();
    assert_eq!(who(&other, (7, 0), None), Speaker::Other, "nothing was heard");
    assert_eq!(other.accept(7, 3), 3, "nothing was used here");
    for holder in [None, Some(7), Some(8)] {
        assert_eq!(who(&other, (7, 2), holder), Speaker::Stale, "a guest has said more");
        assert_eq!(who(&other, (7, 3), holder), Speaker::Stale, "or that");
    }
    assert_eq!(who(&other, (7, 4), Some(7)), Speaker::Holder, "it has given the pair up");
    assert_eq!(who(&other, (7, 4), Some(8)), Speaker::Other, "the pair is another's");
    other.agree(7, 3);
    assert_eq!(who(&other, (7, 3), None), Speaker::Stale, "as before");
    assert_eq!(who(&other, (7, 4), None), Speaker::Other, "it comes back");
    other.accept(8, 1);
    assert_eq!(who(&other, (7, 4), Some(8)), Speaker::Other, "a guest has not replaced it yet");
    other.agree(8, 2);
    assert_eq!(who(&other, (7, 100), Some(8)), Speaker::Former, "whatever its generation");
    assert_eq!(who(&other, (8, 2), Some(8)), Speaker::Stale, "the last one");
    assert_eq!((other.heard(8), other.heard(7)), (Some(2), None), "only of the last run");
    other.agree(7, 4);
    assert_eq!(who(&other, (8, 9), Some(7)), Speaker::Former, "they have changed places");
    assert_eq!(who(&other, (7, 4), Some(7)), Speaker::Stale, "and what it says now counts");
    assert_eq!(who(&other, (7, 5), Some(7)), Speaker::Holder, "as for any last run");
}

#[test]
fn the_holder_of_a_pair_is_held_to_what_it_said_whoever_spoke_since() {
    let mut other = Acquaintance::default();
    other.accept(7, 5);
    other.accept(8, 1);
    let holder = Some(Run { incarnation: 7, heard: 5 });
    for (heard, speaker) in [(4, Speaker::Stale), (5, Speaker::Stale), (6, Speaker::Holder)] {
        let said = Run { incarnation: 7, heard };
        assert_eq!(other.speaker(said, holder), speaker, "generation {heard}");
    }
    assert_eq!(who(&other, (8, 1), Some(7)), Speaker::Stale, "nor may the guest repeat itself");
}

#[test]
fn former_runs_are_remembered_up_to_their_number_the_last_ones_of_them() {
    let mut other = Acquaintance::default();
    let count = zcore::limits::FORMER_RUNS as u64;
    for run in 0..=count + 1 {
        other.agree(run, 1);
    }
    assert_eq!(who(&other, (0, 1), None), Speaker::Other, "forgotten");
    for run in 1..=count {
        assert_eq!(who(&other, (run, 9), None), Speaker::Former, "run {run}");
    }
}

#[test]
fn a_pair_has_a_higher_generation_than_its_acceptor_has_used() {
    let mut node = Acquaintance::default();
    assert_eq!([node.dial(), node.dial(), node.dial()], [1, 2, 3], "each dial one more");
    assert_eq!(node.accept(7, 1), 4, "raised above its own dials");
    assert_eq!(node.accept(7, 9), 9, "the dialer's where that is higher");
    assert_eq!(node.dial(), 10, "above both");
    assert_eq!(node.accept(8, 2), 11, "whoever dials");
    node.agree(7, 20);
    node.outdated(15);
    assert_eq!(node.dial(), 21, "above what was agreed");
    node.outdated(30);
    assert_eq!(node.dial(), 31, "and above what the other one compares with");
}

#[test]
fn the_end_of_the_numbers_locks_nobody_out() {
    let mut node = Acquaintance::default();
    assert_eq!(node.accept(7, u32::MAX), u32::MAX, "a peer may say anything");
    assert_eq!(node.dial(), u32::MAX, "there is none above");
    node.agree(7, u32::MAX);
    assert_eq!(who(&node, (7, u32::MAX), Some(7)), Speaker::Holder, "the best that it can say");
    assert_eq!(who(&node, (7, 5), Some(7)), Speaker::Stale, "and not the best");
}
