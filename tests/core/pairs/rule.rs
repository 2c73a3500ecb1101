//! The rule on a hello that dials, over everything that it depends on.

use zcore::wire::Refusal;
use zcore::{Acquaintance, Order, Ruling, Speaker, Standing, rule_on_dial};

const ORDERS: [Order; 2] = [Order::Smaller, Order::Larger];

const STANDINGS: [Standing; 4] =
    [Standing::Apart, Standing::Silent, Standing::Asking, Standing::Agreed];

const SPEAKERS: [Speaker; 4] =
    [Speaker::NewRun, Speaker::Newer, Speaker::Stale, Speaker::FormerRun];

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
fn an_agreed_pair_ends_for_a_newer_generation_or_a_new_run_that_lives_and_for_nothing_else() {
    for (order, standing, speaker, ruling) in every_case() {
        if standing == Standing::Agreed {
            let expected = match speaker {
                Speaker::Newer => Ruling::Replace,
                Speaker::NewRun => Ruling::Challenge,
                Speaker::Stale | Speaker::FormerRun => STALE,
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
    for speaker in [Speaker::NewRun, Speaker::Newer, Speaker::FormerRun] {
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

#[test]
fn a_run_is_new_then_known_by_its_generations_then_one_of_the_former() {
    let mut other = Acquaintance::default();
    assert_eq!(other.speaker(7, 0), Speaker::NewRun, "nothing was heard");
    assert_eq!(other.accept(7, 3), 3, "nothing was used here");
    assert_eq!(other.speaker(7, 3), Speaker::NewRun, "nothing is agreed yet");
    other.agree(7, 3);
    for (generation, speaker) in [(2, Speaker::Stale), (3, Speaker::Stale), (4, Speaker::Newer)] {
        assert_eq!(other.speaker(7, generation), speaker, "generation {generation}");
    }
    other.accept(7, 4);
    assert_eq!(other.speaker(7, 4), Speaker::Stale, "it was heard");
    other.agree(8, 1);
    assert_eq!(other.speaker(7, 100), Speaker::FormerRun, "whatever its generation");
    assert_eq!(other.speaker(8, 1), Speaker::Stale, "the last one");
    assert_eq!(other.speaker(9, 1), Speaker::NewRun, "and one more");
    assert_eq!((other.heard(8), other.heard(7)), (1, 0), "only of the last run");
    other.agree(7, 4);
    assert_eq!(other.speaker(8, 9), Speaker::FormerRun, "they have changed places");
    assert_eq!(other.speaker(7, 4), Speaker::Stale, "and what it says now counts");
    assert_eq!(other.speaker(7, 5), Speaker::Newer, "as for any last run");
}

#[test]
fn former_runs_are_remembered_up_to_their_number_the_last_ones_of_them() {
    let mut other = Acquaintance::default();
    let count = zcore::limits::FORMER_RUNS as u64;
    for run in 0..=count + 1 {
        other.agree(run, 1);
    }
    assert_eq!(other.speaker(0, 1), Speaker::NewRun, "forgotten");
    for run in 1..=count {
        assert_eq!(other.speaker(run, 9), Speaker::FormerRun, "run {run}");
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
    assert_eq!(node.speaker(7, u32::MAX), Speaker::Newer, "the best that it can say");
    assert_eq!(node.speaker(7, 5), Speaker::Stale, "and not the best");
}
