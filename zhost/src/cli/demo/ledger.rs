//! Each process's own list of what it accepted or handled, and the comparison of two lists.
//!
//! A producer's numbers rise one by one, so a list is a few runs of consecutive numbers, however
//! many messages there are: the ledger does not disturb the memory it helps to watch.

use serde::{Deserialize, Serialize};

/// Numbers of one producer in the order in which they were recorded.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Ledger {
    /// First number and length of each run.
    runs: Vec<(u64, u64)>,
    /// Numbers that found no room among the runs.
    unrecorded: u64,
}

impl Ledger {
    /// An empty ledger with room for the usual handful of runs.
    pub(super) fn new() -> Self {
        Self { runs: Vec::with_capacity(RUNS_USUAL), unrecorded: 0 }
    }

    /// Appends `number`. O(1).
    pub(super) fn record(&mut self, number: u64) {
        let full = self.runs.len() == RUNS_MAX;
        match self.runs.last_mut() {
            Some((first, length)) if first.checked_add(*length) == Some(number) => *length += 1,
            _ if full => self.unrecorded += 1,
            _ => self.runs.push((number, 1)),
        }
    }

    /// Appends everything that `later` holds.
    pub(super) fn append(&mut self, later: &Self) {
        for &(first, length) in &later.runs {
            let full = self.runs.len() == RUNS_MAX;
            match self.runs.last_mut() {
                Some((start, held)) if start.checked_add(*held) == Some(first) => *held += length,
                _ if full => self.unrecorded += length,
                _ => self.runs.push((first, length)),
            }
        }
        self.unrecorded += later.unrecorded;
    }
}

/// What the comparison of two processes' ledgers found.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Comparison {
    /// Accepted, but never handled.
    pub(super) lost: u64,
    /// Handled again after it had been handled.
    pub(super) duplicated: u64,
    /// Handled after a later number of the same producer.
    pub(super) out_of_order: u64,
    /// Handled, but never accepted.
    pub(super) never_accepted: u64,
    /// Not comparable, because a ledger was too broken to be kept.
    pub(super) unrecorded: u64,
}

impl Comparison {
    /// Compares the ledgers producer by producer. A missing ledger counts as empty.
    pub(super) fn of(accepted: &[Ledger], handled: &[Ledger]) -> Self {
        let none = Ledger::default();
        let mut total = Self::default();
        for producer in 0..accepted.len().max(handled.len()) {
            let sent = accepted.get(producer).unwrap_or(&none);
            total.add(sent, handled.get(producer).unwrap_or(&none));
        }
        total
    }

    fn add(&mut self, accepted: &Ledger, handled: &Ledger) {
        let mut seen = Spans::default();
        for &(first, length) in &handled.runs {
            let run = Span { start: first, end: first.saturating_add(length) };
            let highest = seen.end();
            let fresh = run.length() - seen.overlap(run);
            self.duplicated += run.length() - fresh;
            let late = Span { start: run.start, end: run.end.min(highest) };
            self.out_of_order += late.length() - seen.overlap(late);
            seen.insert(run);
        }
        let mut sent = Spans::default();
        for &(first, length) in &accepted.runs {
            sent.insert(Span { start: first, end: first.saturating_add(length) });
        }
        let both = sent.spans.iter().map(|span| seen.overlap(*span)).sum::<u64>();
        self.lost += sent.length() - both;
        self.never_accepted += seen.length() - both;
        self.unrecorded += accepted.unrecorded + handled.unrecorded;
    }
}

/// Numbers `start..end`; empty if `end` is not above `start`.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u64,
    end: u64,
}

impl Span {
    const fn length(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// A set of numbers as disjoint spans in rising order.
#[derive(Debug, Default)]
struct Spans {
    spans: Vec<Span>,
}

impl Spans {
    /// Adds `span`, joined with every span that it touches.
    fn insert(&mut self, span: Span) {
        if span.length() == 0 {
            return;
        }
        let from = self.spans.partition_point(|old| old.end < span.start);
        let to = self.spans.partition_point(|old| old.start <= span.end);
        let mut joined = span;
        for old in self.spans.drain(from..to) {
            joined.start = joined.start.min(old.start);
            joined.end = joined.end.max(old.end);
        }
        self.spans.insert(from, joined);
    }

    /// How many numbers of `span` are in the set.
    fn overlap(&self, span: Span) -> u64 {
        let from = self.spans.partition_point(|old| old.end <= span.start);
        let touched = self.spans.iter().skip(from).take_while(|old| old.start < span.end);
        touched
            .map(|old| {
                Span { start: old.start.max(span.start), end: old.end.min(span.end) }.length()
            })
            .sum()
    }

    fn length(&self) -> u64 {
        self.spans.iter().map(|span| span.length()).sum()
    }

    fn end(&self) -> u64 {
        self.spans.last().map_or(0, |span| span.end)
    }
}

/// Sound ledgers have one run, plus one for each send that ended without being accepted.
const RUNS_USUAL: usize = 8;

/// A broken ledger is kept up to here, 16 KiB for each producer.
const RUNS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(numbers: &[u64]) -> Ledger {
        let mut ledger = Ledger::new();
        for number in numbers {
            ledger.record(*number);
        }
        ledger
    }

    fn compare(accepted: &[u64], handled: &[u64]) -> Comparison {
        Comparison::of(&[ledger(accepted)], &[ledger(handled)])
    }

    #[test]
    fn consecutive_numbers_are_one_run() {
        let numbers: Vec<u64> = (0..1_000).chain(1_001..2_000).collect();
        let ledger = ledger(&numbers);
        assert_eq!(ledger.runs, [(0, 1_000), (1_001, 999)]);
    }

    #[test]
    fn equal_ledgers_have_no_difference_whatever_their_gaps() {
        assert_eq!(compare(&[0, 1, 3, 7, 8], &[0, 1, 3, 7, 8]), Comparison::default());
        assert_eq!(compare(&[], &[]), Comparison::default());
    }

    #[test]
    fn appended_ledgers_are_one() {
        let mut whole = ledger(&[0, 1]);
        whole.append(&ledger(&[2, 5]));
        whole.append(&ledger(&[6]));
        assert_eq!(whole, ledger(&[0, 1, 2, 5, 6]));
    }

    #[test]
    fn each_difference_has_its_own_counter() {
        let none = Comparison::default();
        assert_eq!(compare(&[0, 1, 2], &[0, 2]), Comparison { lost: 1, ..none });
        assert_eq!(compare(&[0, 1, 2], &[0, 1, 1, 2]), Comparison { duplicated: 1, ..none });
        assert_eq!(compare(&[0, 1, 2], &[1, 0, 2]), Comparison { out_of_order: 1, ..none });
        assert_eq!(compare(&[0, 1], &[0, 1, 2]), Comparison { never_accepted: 1, ..none });
    }

    #[test]
    fn a_missing_ledger_is_an_empty_one() {
        let lost = Comparison::of(&[ledger(&[0, 1]), ledger(&[0])], &[ledger(&[0, 1])]);
        assert_eq!(lost, Comparison { lost: 1, ..Comparison::default() });
    }

    /// Every list of up to six numbers out of four, against counting one by one.
    #[test]
    fn every_short_history_agrees_with_counting_one_by_one() {
        let accepted = [0, 1, 3];
        for length in 0..=6_u32 {
            for code in 0..4_u64.pow(length) {
                let handled: Vec<u64> =
                    (0..length).map(|place| code / 4_u64.pow(place) % 4).collect();
                let mut plain = Comparison::default();
                for (place, number) in handled.iter().enumerate() {
                    let before = &handled[..place];
                    if before.contains(number) {
                        plain.duplicated += 1;
                    } else if before.iter().any(|earlier| earlier > number) {
                        plain.out_of_order += 1;
                    }
                }
                plain.lost = accepted.iter().map(|n| u64::from(!handled.contains(n))).sum();
                plain.never_accepted = u64::from(handled.contains(&2));
                assert_eq!(compare(&accepted, &handled), plain, "handled {handled:?}");
            }
        }
    }

    #[test]
    fn a_broken_ledger_stays_bounded_and_says_so() {
        let numbers: Vec<u64> = (0..5_000).map(|n| n * 2).collect();
        let ledger = ledger(&numbers);
        assert_eq!(ledger.runs.len(), RUNS_MAX);
        let found = Comparison::of(&[Ledger::new()], &[ledger]);
        assert_eq!(found.unrecorded, 5_000 - 1_024);
    }
}
