//! What is certain of the records of a broken pair, over every short history of it.

use zcore::wire::Kind;
use zcore::{Certainty, Claims, Given, Progress, Statement, Tally};

const RUN: u64 = 7;

const GENERATION: u32 = 3;

/// The longest history that is looked at.
const LENGTH_MAX: usize = 7;

const KINDS: [Kind; 3] = [Kind::Send, Kind::Request, Kind::Probe];

/// Every sequence of messages, requests and control up to that length.
fn histories() -> Vec<Vec<Kind>> {
    let mut all = vec![Vec::new()];
    let mut last = all.clone();
    for _ in 0..LENGTH_MAX {
        last = last
            .iter()
            .flat_map(|history| KINDS.map(|kind| [history.as_slice(), &[kind]].concat()))
            .collect();
        all.extend_from_slice(&last);
    }
    all
}

fn give(history: &[Kind]) -> (Given, Vec<u64>) {
    let mut given = Given::default();
    given.begin(RUN, GENERATION);
    let numbers = history.iter().map(|kind| given.give(*kind)).collect();
    (given, numbers)
}

fn claim(history: &[Kind]) -> Statement {
    let mut claims = Claims::default();
    claims.begin(GENERATION);
    for kind in history {
        claims.claim(*kind);
    }
    claims.statement()
}

fn one_way(history: &[Kind]) -> u64 {
    history.iter().filter(|kind| **kind == Kind::Send).count() as u64
}

fn requests<'a>(history: &'a [Kind], numbers: &'a [u64]) -> impl Iterator<Item = (usize, u64)> {
    let all = history.iter().zip(numbers).enumerate();
    all.filter(|(_, (kind, _))| **kind == Kind::Request).map(|(at, (_, number))| (at, *number))
}

#[test]
fn wherever_a_pair_breaks_what_arrived_is_ambiguous_and_the_rest_is_safe_and_lost() {
    for history in histories() {
        for arrived in 0..=history.len() {
            let (mut given, numbers) = give(&history);
            let (taken, lost) = history.split_at(arrived);
            let settlement = given.settle(RUN, claim(taken));
            for (at, number) in requests(&history, &numbers) {
                let progress = settlement.progress(number);
                let (expected, certainty) = if at < arrived {
                    (Progress::PeerClaimed, Certainty::AmbiguousFailure)
                } else {
                    (Progress::Disclaimed, Certainty::SafeToRetryFailure)
                };
                assert_eq!(progress, expected, "{at} of {history:?}, {arrived} arrived");
                assert_eq!(progress.certainty(), certainty, "{progress:?}");
            }
            assert_eq!(settlement.lost(), one_way(lost), "{history:?}, {arrived} arrived");
        }
    }
}

#[test]
fn each_lost_message_is_counted_once_whenever_its_loss_is_known() {
    for history in histories().into_iter().filter(|history| history.len() < LENGTH_MAX) {
        for arrived in 0..=history.len() {
            // What is not handed over whole cannot have arrived.
            for whole in arrived..=history.len() {
                let (taken, unsent) = (&history[..arrived], one_way(&history[whole..]));
                let expected = one_way(&history[arrived..]);
                let (mut given, _) = give(&history);
                let before = given.lose(GENERATION, unsent);
                let told = given.settle(RUN, claim(taken)).lost();
                assert_eq!(before + told, expected, "{history:?}: the batch comes back first");
                let (mut given, _) = give(&history);
                let told = given.settle(RUN, claim(taken)).lost();
                let late = given.lose(GENERATION, unsent);
                assert_eq!(told + late, expected, "{history:?}: the peer comes back first");
                given.begin(RUN, GENERATION + 1);
                assert_eq!(given.lose(GENERATION, unsent), 0, "{history:?}: told for good");
            }
        }
    }
}

#[test]
fn a_peer_that_states_nothing_leaves_everything_ambiguous_and_no_loss_but_the_certain_one() {
    let history = [Kind::Request, Kind::Send, Kind::Send, Kind::Request];
    let claimed = claim(&history).claimed;
    for (run, generation) in [(RUN + 1, GENERATION), (RUN, GENERATION + 1), (RUN, 0), (RUN, 2)] {
        let (mut given, numbers) = give(&history);
        let settlement = given.settle(run, Statement { generation, claimed });
        for number in numbers {
            let progress = settlement.progress(number);
            assert_eq!(progress, Progress::HandedToKernel, "run {run}, generation {generation}");
        }
        assert_eq!(settlement.lost(), 0, "run {run}, generation {generation}");
        given.begin(run, GENERATION + 2);
        assert_eq!(given.lose(GENERATION, 2), 2, "a batch that comes back tells it");
    }
}

#[test]
fn a_pair_is_settled_once() {
    let history = [Kind::Send, Kind::Send];
    let (mut given, _) = give(&history);
    assert_eq!(given.settle(RUN, claim(&[])).lost(), 2, "both");
    assert_eq!(given.settle(RUN, claim(&[])).lost(), 0, "told before");
    let mut nothing = Given::default();
    assert_eq!(nothing.settle(RUN, Statement::default()).lost(), 0, "there was no pair");
}

#[test]
fn whatever_a_peer_claims_no_more_is_lost_than_it_could_have_lost() {
    let edges = [0, 1, 2, 3, 4, 5, 6, u64::MAX - 1, u64::MAX];
    let all = edges.iter().flat_map(|one| edges.map(|other| (*one, other)));
    let tallies: Vec<_> = all.map(|(messages, requests)| Tally { messages, requests }).collect();
    for history in histories().into_iter().filter(|history| history.len() <= 5) {
        let (given, numbers) = give(&history);
        let count = history.iter().filter(|kind| !kind.is_control()).count() as u64;
        for claimed in &tallies {
            let mut given = given;
            let claimed = *claimed;
            let settlement = given.settle(RUN, Statement { generation: GENERATION, claimed });
            let unclaimed = count.saturating_sub(claimed.messages);
            let lost = settlement.lost();
            assert!(lost <= one_way(&history).min(unclaimed), "{claimed:?} of {history:?}: {lost}");
            for (_, number) in requests(&history, &numbers) {
                let is_claimed = settlement.progress(number) == Progress::PeerClaimed;
                assert_eq!(is_claimed, number <= claimed.messages, "{claimed:?} of {history:?}");
            }
        }
    }
}
