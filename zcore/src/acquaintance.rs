//! Which connection of two nodes becomes their pair, and which hello comes too late (D-17).
//!
//! Either node may dial, at any time and more than once, and a hello may arrive long after its
//! sender has given that dial up, or has ended. Three rules keep both sides on one pair, and none of
//! them ends a pair that the other side still holds:
//!
//! * *Generations rise.* Every dial of a node has a higher one than all that it has used, and a pair
//!   has a higher one than all that its acceptor has used: the acceptor's answer raises the
//!   dialer's number where that is needed. So whoever says hello with a generation above that of an
//!   agreed pair has agreed to that pair first, and given it up since. Such a hello is the proof
//!   that ends a pair; any other hello of the same run comes too late and is refused.
//! * *A new run of a process wins,* for with its predecessor everything is gone that was agreed.
//!   Which of two runs is the later one cannot be seen, so a run that was not heard before must
//!   prove that it lives: it is answered, and the old pair ends when its second connection comes. A
//!   run that was followed by another one has no such claim.
//! * *Of two dials under way the one of the smaller node id stays.* A node that has not said hello
//!   yet gives way whatever its id: the other one does not know of its dial and waits for nothing.

use crate::limits::FORMER_RUNS;
use crate::wire::Refusal;

/// How a node's id compares with the other's, byte by byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Order {
    /// This node's id is the smaller one.
    Smaller,
    /// This node's id is the larger one.
    Larger,
}

/// What there is of a pair with the other node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// Nothing.
    Apart,
    /// This node dials and has not said hello.
    Silent,
    /// This node has said hello and waits for the answer.
    Asking,
    /// A pair is agreed on: this node has accepted it, or was answered. It may be up.
    Agreed,
}

/// Who says hello, compared with what was heard before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Speaker {
    /// The run of the other's process that the agreed pair is with, with a generation above all that
    /// was heard from it.
    Holder,
    /// A run of which this generation was heard, or a higher one.
    Stale,
    /// A run that was followed by the one of the last pair.
    Former,
    /// Any other run, and that of the last pair once there is none.
    Other,
}

/// What to do about a hello that dials.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ruling {
    /// Accept it: there is nothing in its way.
    Join,
    /// End what there is, then accept it.
    Replace,
    /// Answer it, and end what there is once its second connection has come.
    Challenge,
    /// Say no; what there is stays as it is.
    Refuse(Refusal),
}

/// The rule, as a function of everything that it depends on.
///
/// ```
/// use zcore::{Order, Ruling, Speaker, Standing, rule_on_dial};
/// use zcore::wire::Refusal;
///
/// let late = rule_on_dial(Order::Larger, Standing::Agreed, Speaker::Stale);
/// assert_eq!(late, Ruling::Refuse(Refusal::StaleGeneration), "the pair stays");
/// let restarted = rule_on_dial(Order::Smaller, Standing::Agreed, Speaker::Other);
/// assert_eq!(restarted, Ruling::Challenge, "if it lives, the other end of the pair is gone");
/// ```
pub const fn rule_on_dial(order: Order, standing: Standing, speaker: Speaker) -> Ruling {
    match (speaker, standing, order) {
        (Speaker::Stale, _, _) | (Speaker::Former, Standing::Agreed, _) => {
            Ruling::Refuse(Refusal::StaleGeneration)
        }
        (Speaker::Holder | Speaker::Former | Speaker::Other, Standing::Apart, _) => Ruling::Join,
        (Speaker::Holder | Speaker::Former | Speaker::Other, Standing::Asking, Order::Smaller) => {
            Ruling::Refuse(Refusal::SimultaneousDial)
        }
        (Speaker::Holder | Speaker::Former | Speaker::Other, Standing::Silent, _)
        | (Speaker::Holder | Speaker::Former | Speaker::Other, Standing::Asking, Order::Larger)
        | (Speaker::Holder, Standing::Agreed, _) => Ruling::Replace,
        (Speaker::Other, Standing::Agreed, _) => Ruling::Challenge,
    }
}

/// A run of a node's process, and the highest generation that was heard from it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Run {
    /// Its random name.
    pub incarnation: u64,
    /// The generation, as the run said it: an acceptor's answer may have raised it since.
    pub heard: u32,
}

/// What a node remembers of another one from pair to pair.
#[derive(Clone, Debug, Default)]
pub struct Acquaintance {
    /// The highest generation that this node has used, in a dial or an agreed pair.
    used: u32,
    /// The run of the other's process with which a pair was agreed last.
    run: Option<Run>,
    /// A run whose dial was accepted and that has not shown yet that it lives.
    guest: Option<Run>,
    /// Those before the last one, the latest first.
    former: [Option<u64>; FORMER_RUNS],
}

impl Acquaintance {
    /// The generation of a dial that says hello now.
    pub const fn dial(&mut self) -> u32 {
        self.used = self.used.saturating_add(1);
        self.used
    }

    /// Who says a hello of this run and generation. `holder` is the run that the agreed pair is with,
    /// as that pair's hello said.
    pub fn speaker(&self, said: Run, holder: Option<Run>) -> Speaker {
        let Run { incarnation, heard: generation } = said;
        let holder = holder.filter(|holder| holder.incarnation == incarnation);
        let heard = self.heard(incarnation).max(holder.map(|holder| holder.heard));
        // At the end of the numbers nobody can go higher, and must not be locked out for that.
        if heard.is_some_and(|heard| generation <= heard && generation < u32::MAX) {
            Speaker::Stale
        } else if holder.is_some() {
            Speaker::Holder
        } else if self.former.contains(&Some(incarnation)) {
            Speaker::Former
        } else {
            Speaker::Other
        }
    }

    /// Accepts a dial: the generation of the pair, above all that this node has used.
    ///
    /// The other one has not heard it yet: [`Acquaintance::agree`] once it shows that it has. Until
    /// then its run is only a guest, as it may have ended long ago.
    pub fn accept(&mut self, incarnation: u64, generation: u32) -> u32 {
        let heard = self.heard(incarnation).map_or(generation, |heard| heard.max(generation));
        match &mut self.run {
            Some(run) if run.incarnation == incarnation => run.heard = heard,
            Some(_) | None => self.guest = Some(Run { incarnation, heard }),
        }
        self.used = generation.max(self.used.saturating_add(1));
        self.used
    }

    /// The other side names the generation of the pair: as an acceptor in its first answer, as a
    /// dialer in its second hello.
    pub fn agree(&mut self, incarnation: u64, generation: u32) {
        self.used = self.used.max(generation);
        let heard = self.heard(incarnation).map_or(generation, |heard| heard.max(generation));
        if let Some(last) = self.run.filter(|run| run.incarnation != incarnation) {
            self.retire(last.incarnation, incarnation);
        }
        self.run = Some(Run { incarnation, heard });
        self.guest = self.guest.filter(|guest| guest.incarnation != incarnation);
    }

    /// Takes in which generation a refusal of a stale dial was compared with, so that the next dial
    /// is above. It was stale if this node's memory of the other one is younger than the reverse.
    pub fn outdated(&mut self, generation: u32) {
        self.used = self.used.max(generation);
    }

    /// The highest generation that was heard from a run, if it is the last one or a guest.
    pub fn heard(&self, incarnation: u64) -> Option<u32> {
        let known = self.run.into_iter().chain(self.guest);
        known.filter(|run| run.incarnation == incarnation).map(|run| run.heard).max()
    }

    /// Puts the last run in front of those before it, among which the next one is no longer.
    fn retire(&mut self, last: u64, next: u64) {
        let mut rest = self.former.into_iter().flatten().filter(|run| *run != next && *run != last);
        let mut kept = [None; FORMER_RUNS];
        for (place, run) in kept.iter_mut().zip(core::iter::once(last).chain(&mut rest)) {
            *place = Some(run);
        }
        self.former = kept;
    }
}
