//! Every history of a small job queue, and random long ones, against the model.

use crate::model::{Event, World};

/// One deeper without assertions, which walk the whole queue at each step.
const DEPTH: usize = if cfg!(debug_assertions) { 6 } else { 7 };
const SOURCES: usize = 3;

/// Every history of requests for one and two records, claims, cancels, starts and half grant times
/// on three sources, to [`DEPTH`] events, for limits of one to three permits.
///
/// Sources are alike, so a source is named first after those before it, and in a request. After
/// each step the answer, all counts, the deadline, the pressure and the place of each source are
/// compared: a permit that is lost, invented, handed to a dead source or out of order shows at once.
#[test]
fn b_039_b_040_b_041_b_122_b_123_b_131_bo_009_every_short_history_agrees_with_the_model() {
    std::thread::scope(|threads| {
        for limit in 1..=3 {
            threads.spawn(move || {
                let walked = walk(&World::<SOURCES>::new(limit), 0, &mut Vec::new());
                assert!(walked > 140_000, "only {walked} histories with limit {limit}");
            });
        }
    });
}

fn walk(world: &World<SOURCES>, named: u32, history: &mut Vec<Event>) -> u64 {
    if history.len() == DEPTH {
        return 1;
    }
    let mut walked = 0;
    let mut step = |event, named| {
        let mut next = world.clone();
        history.push(event);
        let result = next.handle(event);
        assert!(result.is_ok(), "{} after {history:?}", result.unwrap_err());
        walked += walk(&next, named, history);
        history.pop();
    };
    for source in 0..(named + 1).min(u32::try_from(SOURCES).unwrap()) {
        let named = named.max(source + 1);
        for ready in 1..=2 {
            step(Event::Request(source, ready), named);
        }
    }
    for source in 0..named {
        step(Event::Claim(source), named);
        step(Event::Cancel(source), named);
    }
    if world.queued() > 0 {
        step(Event::Start, named);
    }
    step(Event::Tick, named);
    walked
}

/// Eight sources that also end and begin anew, batches of returns and records without handlers.
#[test]
fn b_039_b_040_b_041_b_122_b_131_long_random_histories_agree_with_the_model() {
    for limit in [1, 2, 3, 5, 7, 100] {
        for seed in 0..4 {
            let mut random = Random(seed);
            let mut world = World::<8>::new(limit);
            for step in 0..10_000 {
                let event = random.event(world.queued());
                let result = world.handle(event);
                assert!(
                    result.is_ok(),
                    "limit {limit}, seed {seed}, step {step}: {event:?}: {}",
                    result.unwrap_err()
                );
            }
        }
    }
}

/// `SplitMix64`: every seed is a good one, and a run repeats on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((mixed ^ (mixed >> 31)) % u64::from(end)).unwrap()
    }

    fn event(&mut self, queued: u32) -> Event {
        let source = self.below(8);
        match self.below(16) {
            0..=5 => {
                let ready = self.below(100);
                Event::Request(source, ready)
            }
            6..=9 => Event::Claim(source),
            10 | 11 if queued > 0 => Event::Start,
            12 if queued > 0 => Event::Classify,
            13 => Event::StartMany(self.below(queued + 1)),
            14 if self.below(2) == 0 => Event::Replace(source),
            14 => Event::Cancel(source),
            _ => Event::Tick,
        }
    }
}
