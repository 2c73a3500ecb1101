//! Long random histories against the model: what short ones cannot reach, such as many waiters,
//! slots used again and again, and marks that wander.

use proptest::collection::vec;
use proptest::prelude::Just;
use proptest::prelude::ProptestConfig;
use proptest::prelude::Strategy;
use proptest::prop_oneof;
use proptest::proptest;
use proptest::sample::select;
use proptest::test_runner::RngSeed;
use zcore::Ending;
use zcore::Family;

use crate::model::Limits;
use crate::world::ALL;
use crate::world::CHARGE_MAX;
use crate::world::Event;
use crate::world::Place;
use crate::world::Trace;
use crate::world::World;
use crate::world::limits;

/// Fewer than all families may hold together.
const SLOTS: usize = 12;

fn queues() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(0), 1 => Just(1)]
}

/// Mostly everything is carried out, sometimes only the beginning.
fn taken() -> impl Strategy<Value = usize> {
    prop_oneof![9 => Just(ALL), 1 => 0_usize..3]
}

fn events() -> impl Strategy<Value = Event> {
    let families = select(&[Family::Send, Family::Request, Family::Stream]);
    let marks = prop_oneof![64_u64..700, Just(0), Just(u64::MAX)];
    prop_oneof![
        40 => (queues(), families, 64..=CHARGE_MAX + 4, 0_u64..40).prop_map(
            |(queue, family, charge, patience)| Event::Send { queue, family, charge, patience }
        ),
        2 => (queues(), 64_u64..400).prop_map(|(queue, charge)| Event::Control { queue, charge }),
        25 => (queues(), taken()).prop_map(|(queue, taken)| Event::Sent { queue, taken }),
        6 => (queues(), select(&[Place::Oldest, Place::Newest]), taken())
            .prop_map(|(queue, place, taken)| Event::Withdraw { queue, place, taken }),
        4 => (queues(), marks, taken())
            .prop_map(|(queue, mark, taken)| Event::Mark { queue, mark, taken }),
        8 => (0_u64..12).prop_map(|nanos| Event::Advance { nanos }),
        8 => taken().prop_map(|taken| Event::Expire { taken }),
        2 => queues().prop_map(|queue| Event::Misuse { queue }),
    ]
}

fn endings() -> impl Strategy<Value = Vec<Event>> {
    let ending = select(&[Ending::Closed, Ending::Detached]);
    let end = (queues(), ending, taken()).prop_map(|(queue, ending, taken)| Event::End {
        queue,
        ending,
        taken,
    });
    vec(prop_oneof![1 => end, 5 => events()], 0..24)
}

fn run(mark: u64, history: &[Event]) {
    let sends = Limits { operations: 7, bytes: 1_000, for_one_queue: 5 };
    let requests = Limits { operations: 4, bytes: 700, for_one_queue: 4 };
    let streams = Limits { operations: 3, bytes: 10_000, for_one_queue: 1 };
    let families = [(Family::Send, sends), (Family::Request, requests), (Family::Stream, streams)];
    let mut world = World::<SLOTS>::new([mark, 300], limits(&families));
    for (index, event) in history.iter().enumerate() {
        let _trace = Trace(&history[..=index], "a mark and what follows it");
        if world.can(*event) {
            world.step(*event);
        }
    }
    world.drain();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x5E4D),
        ..ProptestConfig::default()
    })]

    #[test]
    fn long_histories_agree_with_the_model_and_drain_to_nothing(
        mark in 64_u64..700,
        mut history in vec(events(), 0..300),
        ending in endings(),
    ) {
        history.extend(ending);
        run(mark, &history);
    }
}
