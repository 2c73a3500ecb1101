//! Deadlines that calls register while the timekeeper falls asleep.

use std::sync::Arc;

use loom::thread::{self, JoinHandle};
use zcore::Instant;

use super::{Sleeper, doorbell, explore, join, lanes};
use crate::lane::{Lane, Limit};
use crate::wait_space::Waiting;

/// When the timekeeper wakes if no call waits.
const LATEST: Instant = Instant::from_nanos(3_000_000_000);
const EARLY: Instant = Instant::from_nanos(1_500_000_000);
const EARLIER: Instant = Instant::from_nanos(1_400_000_000);
const LATE: Instant = Instant::from_nanos(4_000_000_000);

/// How often the timekeeper reads the deadlines.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reads {
    Once,
    /// Again, when it has published how long it sleeps.
    Twice,
}

fn caller(lane: &Arc<Lane>, deadline: Instant) -> JoinHandle<Waiting> {
    let lane = Arc::clone(lane);
    thread::spawn(move || lanes::wait(&lane, &[], Limit::At(deadline)))
}

/// Calls with these deadlines begin to wait while the timekeeper falls asleep. How many wakes were
/// written.
fn fall_asleep_over(deadlines: &[Instant], reads: Reads) -> u32 {
    let bell = doorbell();
    let (lane, space) = lanes::lane(&bell, 1);
    let sleeper = Sleeper::connect(&bell);
    drop(lanes::submit(&lane, &[], Limit::At(LATEST)));
    let callers: Vec<_> = deadlines.iter().map(|deadline| caller(&lane, *deadline)).collect();
    let first = deadlines.iter().copied().fold(LATEST, Instant::min);
    let next_deadline = || space.next_deadline().unwrap_or(LATEST).min(LATEST);
    let read_before = next_deadline();
    let read_again = || match reads {
        Reads::Once => read_before,
        Reads::Twice => next_deadline(),
    };
    let until = bell.fall_asleep(read_before, read_again).unwrap();
    let waiting = join(callers);
    assert!(until <= first || sleeper.eventfd.read(), "it sleeps until {until:?}");
    bell.wake_up();
    drop(waiting);
    sleeper.eventfd.writes()
}

#[test]
fn no_deadline_is_slept_through() {
    explore(|| {
        let writes = fall_asleep_over(&[EARLY, EARLIER], Reads::Twice);
        assert!(writes <= 1, "{writes} wakes for one sleep");
    });
}

/// Whoever registers a deadline between the reading and the sleep sees a shard that is awake.
#[test]
#[should_panic(expected = "it sleeps until")]
fn a_deadline_that_is_not_read_again_is_slept_through() {
    explore(|| {
        fall_asleep_over(&[EARLY], Reads::Once);
    });
}

#[test]
fn a_later_deadline_wakes_nobody() {
    explore(|| {
        let writes = fall_asleep_over(&[LATE], Reads::Twice);
        assert_eq!(writes, 0, "the shard wakes by itself before");
    });
}
