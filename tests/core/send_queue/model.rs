//! Several send queues over one wait space, so plain that it is right.
//!
//! A queue is the list of its records and the list of its waiters. Every number is recomputed from
//! those lists when it is asked for; there are no counters, no links, no tokens.

use std::collections::VecDeque;

use zcore::Ending;
use zcore::Family;

/// Two are enough to confuse.
pub(crate) const QUEUES: usize = 2;

/// A waiting operation, named by the number of its call.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) operation: usize,
    pub(crate) family: Family,
    pub(crate) charge: u64,
    pub(crate) deadline: u64,
}

/// What the queue says at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    Admitted,
    MustWait,
    TooLarge,
    Ended(Ending),
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    Admitted(usize),
    Expired(usize),
    Refused(usize, Ending),
}

/// One target's queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// What each queued record is charged, oldest first.
    pub(crate) records: VecDeque<u64>,
    pub(crate) waiters: VecDeque<Waiter>,
    /// `u64::MAX` stands for unlimited.
    pub(crate) mark: u64,
    pub(crate) charge_max: u64,
    pub(crate) ended: Option<Ending>,
}

impl Queue {
    pub(crate) fn accounted(&self) -> u64 {
        self.records.iter().sum()
    }

    fn fits(&self, charge: u64) -> bool {
        self.records.is_empty() || self.accounted() + charge <= self.mark
    }

    fn has_drained_to_half(&self) -> bool {
        self.mark == u64::MAX || self.accounted() * 2 <= self.mark + self.mark % 2
    }
}

/// What one family may keep waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) operations: usize,
    pub(crate) bytes: u64,
    pub(crate) for_one_queue: usize,
}

/// All queues of a host.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) queues: [Queue; QUEUES],
    pub(crate) limits: [Limits; Family::COUNT],
    /// Operations of all families that the storage has room for.
    pub(crate) slots: usize,
}

impl Model {
    pub(crate) fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        self.queues.iter().flat_map(|queue| &queue.waiters)
    }

    pub(crate) fn submit(&mut self, queue: usize, charge: u64) -> Answer {
        let queue = &mut self.queues[queue];
        if let Some(ending) = queue.ended {
            Answer::Ended(ending)
        } else if charge > queue.charge_max {
            Answer::TooLarge
        } else if queue.waiters.is_empty() && queue.fits(charge) {
            queue.records.push_back(charge);
            Answer::Admitted
        } else {
            Answer::MustWait
        }
    }

    pub(crate) fn submit_control(&mut self, queue: usize, charge: u64) -> Answer {
        let queue = &mut self.queues[queue];
        if queue.ended == Some(Ending::Detached) {
            return Answer::Ended(Ending::Detached);
        }
        queue.records.push_back(charge);
        Answer::Admitted
    }

    /// Whether the wait space took it.
    pub(crate) fn wait(&mut self, queue: usize, waiter: Waiter) -> bool {
        let limits = self.limits[family_index(waiter.family)];
        let of_family = |other: &&Waiter| other.family == waiter.family;
        let waiting = self.waiters().filter(of_family).count();
        let bytes: u64 = self.waiters().filter(of_family).map(|other| other.charge).sum();
        let in_queue = self.queues[queue].waiters.iter().filter(of_family).count();
        let has_space = self.waiters().count() < self.slots
            && waiting < limits.operations
            && in_queue < limits.for_one_queue
            && bytes + waiter.charge <= limits.bytes;
        if has_space {
            self.queues[queue].waiters.push_back(waiter);
        }
        has_space
    }

    /// The kernel took the oldest record; at most `taken` effects are carried out.
    pub(crate) fn sent(&mut self, queue: usize, now: u64, taken: usize) -> Vec<End> {
        self.queues[queue].records.pop_front();
        if self.queues[queue].has_drained_to_half() || self.queues[queue].ended.is_some() {
            self.settle(queue, now, taken)
        } else {
            Vec::new()
        }
    }

    pub(crate) fn withdraw(
        &mut self,
        queue: usize,
        operation: usize,
        now: u64,
        taken: usize,
    ) -> Vec<End> {
        self.queues[queue].waiters.retain(|waiter| waiter.operation != operation);
        self.settle(queue, now, taken)
    }

    pub(crate) fn expire(
        &mut self,
        queue: usize,
        operation: usize,
        now: u64,
        taken: usize,
    ) -> Vec<End> {
        if taken == 0 {
            return Vec::new();
        }
        self.queues[queue].waiters.retain(|waiter| waiter.operation != operation);
        let mut ends = vec![End::Expired(operation)];
        ends.extend(self.settle(queue, now, taken - 1));
        ends
    }

    pub(crate) fn set_mark(&mut self, queue: usize, mark: u64, now: u64, taken: usize) -> Vec<End> {
        self.queues[queue].mark = mark;
        self.settle(queue, now, taken)
    }

    pub(crate) fn end(&mut self, queue: usize, ending: Ending, now: u64, taken: usize) -> Vec<End> {
        let ended = &mut self.queues[queue];
        if ended.ended != Some(Ending::Detached) {
            ended.ended = Some(ending);
        }
        if ending == Ending::Detached {
            ended.records.clear();
        }
        self.settle(queue, now, taken)
    }

    /// Ends waiters from the front for as long as the front one can be ended.
    fn settle(&mut self, queue: usize, now: u64, taken: usize) -> Vec<End> {
        let queue = &mut self.queues[queue];
        let mut ends = Vec::new();
        while ends.len() < taken
            && let Some(front) = queue.waiters.front()
        {
            let end = if let Some(ending) = queue.ended {
                End::Refused(front.operation, ending)
            } else if front.deadline <= now {
                End::Expired(front.operation)
            } else if queue.fits(front.charge) {
                queue.records.push_back(front.charge);
                End::Admitted(front.operation)
            } else {
                break;
            };
            queue.waiters.pop_front();
            ends.push(end);
        }
        ends
    }
}

pub(crate) fn family_index(family: Family) -> usize {
    Family::ALL.iter().position(|other| *other == family).expect("ALL names each family")
}
