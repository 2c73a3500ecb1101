//! What is kept of clients that are gone and have given their places back.

use std::collections::VecDeque;

use zcore::Instant;
use zcore::wire::Label;

use crate::limits::{DEPARTED_MAX, RETURN_MAX};
use crate::pair::Memory;

/// The memories of departed clients, the one that left longest ago first.
///
/// A client whose connection broke may come back and ask what of its last pair was taken. It asks
/// within [`RETURN_MAX`], or not at all.
#[derive(Debug, Default)]
pub(super) struct Departed {
    memories: VecDeque<Departure>,
}

#[derive(Debug)]
struct Departure {
    at: Instant,
    topology: u16,
    node: Label,
    memory: Memory,
}

impl Departed {
    /// Keeps what is known of a node. If there are too many, the oldest goes.
    pub(super) fn keep(&mut self, (topology, node): (u16, Label), memory: Memory, now: Instant) {
        self.expire(now);
        if self.memories.len() >= DEPARTED_MAX {
            self.memories.pop_front();
        }
        self.memories.push_back(Departure { at: now, topology, node, memory });
    }

    /// What was known of a node that is back.
    pub(super) fn take(&mut self, topology: u16, node: &Label, now: Instant) -> Option<Memory> {
        self.expire(now);
        let is_meant = |left: &Departure| left.topology == topology && left.node == *node;
        let index = self.memories.iter().position(is_meant)?;
        self.memories.remove(index).map(|left| left.memory)
    }

    fn expire(&mut self, now: Instant) {
        while self.memories.front().is_some_and(|oldest| now.since(oldest.at) > RETURN_MAX) {
            self.memories.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DEPARTED_MAX, Departed, RETURN_MAX};
    use crate::pair::Memory;
    use core::time::Duration;
    use zcore::Instant;
    use zcore::wire::Label;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn node(number: usize) -> Label {
        Label::new(&format!("node-{number}")).unwrap()
    }

    #[test]
    fn a_node_finds_its_own_memory_once_and_in_time() {
        let mut departed = Departed::default();
        for number in 0..3 {
            let mut memory = Memory::default();
            memory.claims.begin(u32::try_from(number).unwrap());
            departed.keep((7, node(number)), memory, NOW);
        }
        let found = departed.take(7, &node(1), NOW).unwrap();
        assert_eq!(found.claims.statement().generation, 1, "its own");
        assert!(departed.take(7, &node(1), NOW).is_none(), "it is back");
        assert!(departed.take(8, &node(2), NOW).is_none(), "another topology's");
        let last = NOW.saturating_add(RETURN_MAX);
        assert!(departed.take(7, &node(2), last).is_some(), "still in time");
        let late = last.saturating_add(Duration::from_nanos(1));
        assert!(departed.take(7, &node(0), late).is_none(), "too late");
    }

    #[test]
    fn only_so_many_are_kept_the_last_ones_of_them() {
        let mut departed = Departed::default();
        for number in 0..=DEPARTED_MAX {
            departed.keep((7, node(number)), Memory::default(), NOW);
        }
        assert!(departed.take(7, &node(0), NOW).is_none(), "the oldest had to go");
        assert!(departed.take(7, &node(1), NOW).is_some(), "and no other");
    }
}
