//! Every history of a small set of deadlines, against a map that is sorted when it is asked.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::ProptestConfig;
use proptest::prelude::any;
use proptest::proptest;
use zcore::DeadlineSlot;
use zcore::Deadlines;
use zcore::Instant;

#[derive(Clone, Copy, Debug)]
enum Change {
    Insert(u32, u64),
    Remove(u32),
}

#[derive(Clone, Debug)]
struct Pair<const SLOTS: usize> {
    real: Deadlines<[DeadlineSlot; SLOTS]>,
    model: BTreeMap<u32, u64>,
}

impl<const SLOTS: usize> Pair<SLOTS> {
    fn new() -> Self {
        Self { real: Deadlines::new([DeadlineSlot::EMPTY; SLOTS]), model: BTreeMap::new() }
    }

    #[track_caller]
    fn step(&mut self, change: Change) {
        let has_slot = |key: u32| usize::try_from(key).unwrap() < SLOTS;
        match change {
            Change::Insert(key, due) => {
                let is_new = has_slot(key) && !self.model.contains_key(&key);
                let inserted = self.real.insert(key, Instant::from_nanos(due));
                assert_eq!(inserted, is_new, "insert {key}");
                if is_new {
                    self.model.insert(key, due);
                }
            }
            Change::Remove(key) => {
                let removed = self.model.remove(&key).is_some();
                assert_eq!(self.real.remove(key), removed, "remove {key}");
            }
        }
        assert_eq!(usize::try_from(self.real.len()), Ok(self.model.len()), "length");
        assert_eq!(self.real.is_empty(), self.model.is_empty(), "emptiness");
        let earliest = self.real.earliest();
        let expected = self.model.values().min().copied();
        assert_eq!(earliest.map(|(_, due)| due.as_nanos()), expected, "earliest");
        if let Some((key, due)) = earliest {
            assert_eq!(self.model.get(&key), Some(&due.as_nanos()), "the key that is due first");
        }
        for key in (0..=u32::try_from(SLOTS).unwrap()).chain([u32::MAX]) {
            let expected = self.model.get(&key).map(|due| Instant::from_nanos(*due));
            assert_eq!(self.real.get(key), expected, "deadline of {key}");
        }
    }

    /// Takes the earliest out until none is left: they come sorted.
    #[track_caller]
    fn drain(mut self) {
        let mut sorted: Vec<u64> = self.model.values().copied().collect();
        sorted.sort_unstable();
        for expected in sorted {
            let (key, due) = self.real.earliest().unwrap();
            assert_eq!(due.as_nanos(), expected, "the next in order");
            self.step(Change::Remove(key));
        }
        assert!(self.real.is_empty(), "nothing is left");
    }
}

const CHANGES: &[Change] = &[
    Change::Insert(0, 1),
    Change::Insert(0, 3),
    Change::Insert(1, 2),
    Change::Insert(1, 1),
    Change::Insert(2, 3),
    Change::Insert(2, 0),
    Change::Insert(3, 2),
    Change::Remove(0),
    Change::Remove(1),
    Change::Remove(2),
    Change::Remove(3),
];

fn walk(pair: &Pair<3>, depth: u32) {
    if depth == 0 {
        return pair.clone().drain();
    }
    for change in CHANGES {
        let mut next = pair.clone();
        next.step(*change);
        walk(&next, depth - 1);
    }
}

#[test]
fn every_history_of_5_changes_agrees_with_a_sorted_map() {
    walk(&Pair::new(), 5);
}

#[test]
fn every_order_of_six_deadlines_comes_out_sorted_with_any_one_removed() {
    fn orders(rest: &[u64], order: &mut Vec<u64>) {
        for (index, due) in rest.iter().enumerate() {
            let mut others = rest.to_vec();
            others.remove(index);
            order.push(*due);
            orders(&others, order);
            order.pop();
        }
        if rest.is_empty() {
            for removed in 0..6 {
                let mut pair = Pair::<6>::new();
                for (key, due) in (0..).zip(order.iter()) {
                    pair.step(Change::Insert(key, *due));
                }
                pair.step(Change::Remove(removed));
                pair.drain();
            }
        }
    }
    orders(&[1, 2, 3, 4, 5, 6], &mut Vec::new());
}

#[test]
fn a_set_without_storage_takes_nothing() {
    let mut pair = Pair::<0>::new();
    pair.step(Change::Insert(0, 1));
    pair.step(Change::Remove(0));
    pair.drain();
}

#[test]
fn lent_storage_keeps_nothing_of_an_earlier_use() {
    let mut slots = [DeadlineSlot::EMPTY; 2];
    let mut first = Deadlines::new(&mut slots[..]);
    assert!(first.insert(1, Instant::from_nanos(1)));
    let mut second = Deadlines::new(&mut slots[..]);
    assert_eq!(second.earliest(), None);
    assert!(second.insert(1, Instant::from_nanos(2)));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(0xD1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn long_histories_of_many_deadlines_agree_with_a_sorted_map(
        changes in vec((0_u32..34, 0_u64..20, any::<bool>()), 0..200)
    ) {
        let mut pair = Pair::<33>::new();
        for (key, due, inserts) in changes {
            pair.step(if inserts { Change::Insert(key, due) } else { Change::Remove(key) });
        }
        pair.drain();
    }
}
