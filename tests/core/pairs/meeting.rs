//! Two nodes meet in every way that a few dials, losses and restarts allow: no pair that both hold
//! ends, and from wherever they are they get to one pair.

use core::hash::{BuildHasher, BuildHasherDefault};
use std::collections::BTreeSet;
use std::hash::DefaultHasher;

use crate::nodes::{Phase, Side, World};

/// How much may happen in one history, besides that what is said arrives.
#[derive(Clone, Copy, Debug)]
struct Budget {
    dials: u8,
    losses: u8,
    restarts: u8,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Dial(Side),
    Say(Side),
    Lose(Side),
    Restart(Side),
    Deliver(Side, usize),
}

fn steps(world: &World, budget: Budget) -> Vec<Step> {
    let mut steps = Vec::new();
    for side in [0, 1] {
        match world.nodes[side].pair {
            None if budget.dials > 0 => steps.push(Step::Dial(side)),
            Some(pair) => {
                if pair.phase == Phase::Silent {
                    steps.push(Step::Say(side));
                }
                if budget.losses > 0 {
                    steps.push(Step::Lose(side));
                }
            }
            None => {}
        }
        if budget.restarts > 0 {
            steps.push(Step::Restart(side));
        }
        steps.extend((0..world.lines[side].len()).map(|index| Step::Deliver(side, index)));
    }
    steps
}

fn take(world: &mut World, budget: &mut Budget, step: Step) {
    match step {
        Step::Dial(side) => {
            budget.dials -= 1;
            world.dial(side);
        }
        Step::Say(side) => world.say(side),
        Step::Lose(side) => {
            budget.losses -= 1;
            world.give_up(side);
        }
        Step::Restart(side) => {
            budget.restarts -= 1;
            world.restart(side);
        }
        Step::Deliver(side, index) => world.deliver(side, index),
    }
}

/// Who dials when nothing goes wrong any more.
const DIALERS: [&[Side]; 3] = [&[0, 1], &[0], &[1]];

/// Rounds of quiet after which both must have met: what is on its way may cost two of them, a dial
/// that is refused for its generation one more.
const ROUNDS: usize = 5;

/// Lets everything arrive that is on its way; `first` is served before the other side.
fn settle(world: &mut World, first: Side) {
    loop {
        let waiting = [first, 1 - first].into_iter().find(|side| !world.lines[*side].is_empty());
        match waiting {
            Some(side) => world.deliver(side, 0),
            None => return,
        }
    }
}

fn assert_they_meet(world: &World) {
    for dialers in DIALERS {
        for first in [0, 1] {
            let mut world = world.clone();
            for _ in 0..ROUNDS {
                settle(&mut world, first);
                if world.is_met() {
                    break;
                }
                for side in [0, 1] {
                    match world.nodes[side].pair.map(|pair| pair.phase) {
                        None if dialers.contains(&side) => world.dial(side),
                        // Its time is over: nothing is on its way that could change this.
                        Some(Phase::Asking | Phase::Agreed) => world.give_up(side),
                        None | Some(Phase::Silent | Phase::Up) => {}
                    }
                }
                for side in [0, 1] {
                    if world.nodes[side].pair.is_some_and(|pair| pair.phase == Phase::Silent) {
                        world.say(side);
                    }
                }
            }
            settle(&mut world, first);
            assert!(world.is_met(), "{dialers:?} dial, {first} first: {world:#?}");
        }
    }
}

/// Every world that can be reached, each once.
fn walk(budget: Budget) -> usize {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut seen = BTreeSet::new();
    let mut open = vec![(World::new(), budget)];
    while let Some((world, budget)) = open.pop() {
        if !seen.insert(hasher.hash_one(format!("{world:?} {budget:?}"))) {
            continue;
        }
        assert_they_meet(&world);
        for step in steps(&world, budget) {
            let (mut next, mut rest) = (world.clone(), budget);
            take(&mut next, &mut rest, step);
            open.push((next, rest));
        }
    }
    seen.len()
}

#[test]
fn two_nodes_that_lose_connections_get_to_one_pair() {
    let worlds = walk(Budget { dials: 3, losses: 1, restarts: 0 });
    assert!(worlds > 1_000, "{worlds} worlds are too few to show anything");
}

#[test]
fn two_nodes_of_which_one_restarts_get_to_one_pair() {
    let worlds = walk(Budget { dials: 3, losses: 0, restarts: 1 });
    assert!(worlds > 1_000, "{worlds} worlds are too few to show anything");
}
