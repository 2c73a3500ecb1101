//! Two hosts, what runs them, and a loop that looks at them until something is true.

use core::time::Duration;
use std::sync::Arc;

use zcore::Instant;
use ztransport::PeerState;
use ztransport::clock::{Clock, VirtualClock};

use super::ground::{Ground, Progress, Which};
use super::side::{Gate, Limits, Side};
use super::tale::Tale;

/// A dialer, an acceptor, and a clock that stands still unless the script moves it.
pub(super) struct Scene<G> {
    ground: G,
    clock: Arc<VirtualClock>,
    sides: Option<Sides>,
}

/// What is between the two.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Line {
    Direct,
    Breakable,
}

struct Sides {
    dialer: Side,
    acceptor: Side,
}

impl<G: Ground> Scene<G> {
    pub(super) fn new(seed: u64) -> Self {
        Self { ground: G::new(seed), clock: Arc::new(VirtualClock::new()), sides: None }
    }

    fn start(&mut self, limits: Limits, line: Line) {
        let dialer = Side::new("alpha", "beta", limits, &self.clock);
        let acceptor = Side::new("beta", "alpha", limits, &self.clock);
        let (plan, host) = acceptor.plan(None);
        let mut address = self.ground.start_acceptor(plan, host);
        if line == Line::Breakable {
            address = self.ground.breakable(address);
        }
        let (plan, host) = dialer.plan(Some(address));
        self.ground.start_dialer(plan, host);
        self.sides = Some(Sides { dialer, acceptor });
    }

    /// Starts a dialer that nobody answers.
    pub(super) fn start_nowhere(&mut self, limits: Limits) {
        let dialer = Side::new("alpha", "beta", limits, &self.clock);
        let acceptor = Side::new("beta", "alpha", limits, &self.clock);
        let address = self.ground.nowhere();
        let (plan, host) = dialer.plan(Some(address));
        self.ground.start_dialer(plan, host);
        self.sides = Some(Sides { dialer, acceptor });
    }

    /// Starts both, and waits for their pair.
    #[track_caller]
    pub(super) fn connect(&mut self, limits: Limits) {
        self.start(limits, Line::Direct);
        self.until_pairs(1);
    }

    /// The same, over a line that can break.
    #[track_caller]
    pub(super) fn connect_breakable(&mut self, limits: Limits) {
        self.start(limits, Line::Breakable);
        self.until_pairs(1);
    }

    pub(super) const fn dialer(&mut self) -> &mut Side {
        &mut self.sides.as_mut().unwrap().dialer
    }

    pub(super) const fn acceptor(&mut self) -> &mut Side {
        &mut self.sides.as_mut().unwrap().acceptor
    }

    const fn both(&mut self) -> [&mut Side; 2] {
        let Sides { dialer, acceptor } = self.sides.as_mut().unwrap();
        [dialer, acceptor]
    }

    /// Runs the shards until something holds.
    #[track_caller]
    pub(super) fn until(&mut self, what: &str, holds: impl Fn(&mut Self) -> bool) {
        self.run(what, holds, Duration::ZERO);
    }

    /// The same for what takes time, like another attempt to connect. Time passes only while
    /// nothing else happens, or with each look at what cannot be known to be still.
    #[track_caller]
    pub(super) fn until_in_time(&mut self, what: &str, holds: impl Fn(&mut Self) -> bool) {
        self.run(what, holds, TICK);
    }

    #[track_caller]
    fn run(&mut self, what: &str, holds: impl Fn(&mut Self) -> bool, tick: Duration) {
        let start = self.clock.now();
        let (mut looks, mut still) = (0, 0);
        loop {
            for side in self.both() {
                side.pump();
            }
            if holds(self) {
                return;
            }
            looks += 1;
            match self.ground.run_a_while() {
                Progress::Some => {
                    still = 0;
                    continue;
                }
                Progress::None => still += 1,
                Progress::Unknown => {}
            }
            let passed = self.clock.now().since(start);
            let goes_on = looks < LOOKS_MAX && (still < STILL_MAX || !tick.is_zero());
            assert!(goes_on && passed < TIME_MAX, "never: {what}\n{}", self.describe());
            if !tick.is_zero() {
                self.clock.advance(tick);
            }
        }
    }

    /// Waits until both sides know of so many pairs, the last of which is up.
    #[track_caller]
    pub(super) fn until_pairs(&mut self, pairs: u64) {
        self.until_in_time("the pair is up", |scene| {
            scene.both().into_iter().all(|side| {
                side.peer().is_some_and(|peer| {
                    peer.pairs() == pairs && peer.state() == PeerState::Connected
                })
            })
        });
    }

    /// Waits until a side has been given so many messages and requests.
    #[track_caller]
    pub(super) fn until_delivered(&mut self, which: Which, records: usize) {
        self.until("all is delivered", |scene| {
            scene.side(which).ledger().delivered.len() >= records
        });
        assert_eq!(self.side(which).ledger().delivered.len(), records, "and no more");
    }

    /// Waits until no request of a side is unanswered.
    #[track_caller]
    pub(super) fn until_answered(&mut self, which: Which) {
        self.until("all is answered", |scene| {
            let side = scene.side(which);
            side.is_admitted() && side.ledger().pending.is_empty()
        });
    }

    pub(super) const fn side(&mut self, which: Which) -> &mut Side {
        match which {
            Which::Dialer => self.dialer(),
            Which::Acceptor => self.acceptor(),
        }
    }

    /// As [`Ground::is_exact`].
    pub(super) fn is_exact(&self) -> bool {
        self.ground.is_exact()
    }

    /// Breaks the Application connection; the other one is younger.
    pub(super) fn break_application(&mut self) {
        self.ground.break_oldest();
    }

    /// Whether a shard has run to its end.
    pub(super) fn is_over(&mut self, which: Which) -> bool {
        self.ground.is_over(which)
    }

    /// Ends both shards, whatever they are at, and tells what they have seen up to here.
    pub(super) fn end(mut self) -> Tale {
        let tale = {
            let Sides { dialer, acceptor } = self.sides.as_ref().unwrap();
            Tale::new(&dialer.ledger(), &acceptor.ledger())
        };
        for side in self.both() {
            side.set_gate(Gate::Open);
            side.end_at_once();
        }
        for _ in 0..LOOKS_MAX {
            if self.is_over(Which::Dialer) && self.is_over(Which::Acceptor) {
                return tale;
            }
            self.ground.run_a_while();
        }
        panic!("a shard does not end\n{}", self.describe());
    }

    fn describe(&mut self) -> String {
        let describe = |side: &mut Side| {
            let ledger = side.ledger();
            format!(
                "{:?}, {} delivered, {} completed, {} pending, {:?}, {:?}\n",
                ledger.links,
                ledger.delivered.len(),
                ledger.completed.len(),
                ledger.pending.len(),
                ledger.dropped,
                ledger.rejected
            )
        };
        self.both().into_iter().map(describe).collect()
    }

    /// The time on the hosts' clock.
    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }
}

/// How much time passes at once: less than what a shard waits for.
const TICK: Duration = Duration::from_millis(50);

/// How much time may pass until something holds: several times the longest delay of a shard.
const TIME_MAX: Duration = Duration::from_mins(5);

/// How often nothing may happen in a row where that can be known.
const STILL_MAX: u32 = 3;

/// How many looks there may be. Only a test that fails ever takes as many.
const LOOKS_MAX: u32 = 120_000;
