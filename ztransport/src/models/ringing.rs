//! Errands and the sleep of the shard that runs them.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use loom::sync::atomic::AtomicBool;
use loom::thread::{self, JoinHandle};

use super::{Sleeper, doorbell, explore, explore_with, join};
use crate::doorbell::{Doorbell, Errand};
use crate::sync::Fences;

/// Peers whose bits are in different words, the second word first.
const FAR_PEERS: [u32; 2] = [16, 0];

fn ringer(bell: &Arc<Doorbell>, peers: &'static [u32]) -> JoinHandle<()> {
    let bell = Arc::clone(bell);
    thread::spawn(move || {
        for peer in peers {
            bell.ring(*peer, Errand::SendApplication);
        }
    })
}

/// Two ringers, and a shard that takes their errands until it sleeps for ever.
fn two_ringers() {
    let bell = doorbell();
    let sleeper = Sleeper::connect(&bell);
    let others = vec![ringer(&bell, &[3]), ringer(&bell, &[4])];
    let mut taken = Vec::new();
    sleeper.run(others, || bell.take(|peer, _| taken.push(peer)));
    taken.sort_unstable();
    assert_eq!(taken, [3, 4], "each errand is taken once before the shard sleeps for ever");
}

#[test]
fn no_errand_is_slept_through() {
    explore(two_ringers);
}

/// Store, fence, load on both sides. Without the fences both may miss each other.
#[test]
#[should_panic(expected = "each errand is taken once before the shard sleeps for ever")]
fn without_its_fences_an_errand_is_slept_through() {
    explore_with(Fences::Removed, two_ringers);
}

#[test]
fn a_sleep_is_ended_by_one_wake_however_many_ring() {
    explore(|| {
        let bell = doorbell();
        let sleeper = Sleeper::connect(&bell);
        let mut others: Vec<_> = [&[3], &[4]].map(|peer| ringer(&bell, peer)).into();
        let slept = sleeper.sleep(|| drop(join(others.drain(..))));
        join(others);
        let writes = sleeper.eventfd.writes();
        match slept {
            Some(()) => assert_eq!(writes, 1, "one of them wakes the shard"),
            None => assert!(writes <= 1, "{writes} wakes, and the shard has seen a ring itself"),
        }
    });
}

/// It has been asleep before: once because of nothing, and once almost.
#[test]
fn an_awake_shard_is_not_woken() {
    explore(|| {
        let bell = doorbell();
        let sleeper = Sleeper::connect(&bell);
        assert!(sleeper.sleep(|| {}).is_some(), "there is nothing to do");
        bell.ring(1, Errand::SendApplication);
        assert!(sleeper.sleep(|| {}).is_none(), "there is an errand");
        let other = ringer(&bell, &[3, 20]);
        let mut taken = 0;
        bell.take(|_, _| taken += 1);
        bell.take(|_, _| taken += 1);
        join([other]);
        bell.take(|_, _| taken += 1);
        assert_eq!(taken, 3, "it takes all there is");
        assert_eq!(sleeper.eventfd.writes(), 0, "it looks before it sleeps");
    });
}

#[test]
fn an_errand_that_comes_while_others_are_taken_leads_to_another_turn() {
    explore(|| {
        let bell = doorbell();
        bell.ring(1, Errand::SendApplication);
        let sleeper = Sleeper::connect(&bell);
        let others = vec![ringer(&bell, &FAR_PEERS)];
        let mut taken = Vec::new();
        sleeper.run(others, || bell.take(|peer, _| taken.push(peer)));
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 16], "each errand is taken once");
    });
}

/// Runs two threads that each publish a state and then tell the shard. It must have seen both
/// states when it sleeps for ever.
fn publish_twice(tell: fn(&Doorbell)) {
    let bell = doorbell();
    let sleeper = Sleeper::connect(&bell);
    let states = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let publisher = |index: usize| {
        let (bell, states) = (Arc::clone(&bell), Arc::clone(&states));
        thread::spawn(move || {
            states[index].store(true, Ordering::Relaxed);
            tell(&bell);
        })
    };
    let others = vec![publisher(0), publisher(1)];
    let mut seen = [false; 2];
    sleeper.run(others, || {
        bell.take(|_, _| {});
        seen = [0, 1].map(|index| states[index].load(Ordering::Relaxed));
    });
    assert_eq!(seen, [true; 2], "the last turn sees what was done before the last ring");
}

#[test]
fn a_ring_for_an_errand_that_is_left_already_loses_no_change() {
    explore(|| publish_twice(|bell| bell.ring(3, Errand::SendApplication)));
}

#[test]
fn a_knock_at_a_door_that_was_knocked_at_loses_no_change() {
    explore(|| publish_twice(Doorbell::knock));
}

/// A ringer may knock before the shard connects, come late, and end a sleep that has nothing to do
/// with its ring. It must know by then how to wake the shard.
#[test]
fn a_ring_at_a_door_without_a_shard_is_heard_when_one_comes() {
    explore(|| {
        let bell = doorbell();
        let others = vec![ringer(&bell, &[3]), ringer(&bell, &[20])];
        let sleeper = Sleeper::connect(&bell);
        let mut taken = Vec::new();
        sleeper.run(others, || bell.take(|peer, _| taken.push(peer)));
        taken.sort_unstable();
        assert_eq!(taken, [3, 20], "each errand is taken once");
    });
}
