//! Two parties, the network between them, and the weather in it.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use zcore::wire::TopologyKind;

use crate::Turn;
use crate::clock::{Clock, VirtualClock};
use crate::random::Random;
use crate::sim::tests::lab::address;
use crate::sim::{SimFaults, SimNetwork, Way};

use super::party::{Party, Setup, Size};
use super::recorder::{Ledger, is_request};

/// Records that a party sends.
pub(super) const RECORDS: u64 = 120;

/// Two parties and what they share.
pub(super) struct Pair {
    seed: u64,
    pub(super) network: SimNetwork,
    pub(super) clock: Arc<VirtualClock>,
    pub(super) random: Random,
    pub(super) parties: [Party; 2],
    pub(super) weather: Weather,
}

/// Who dials whom.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Dialing {
    /// The first party dials the second.
    One,
    /// Each dials the other.
    Both,
    /// The first party is a client of the second, which sends nothing but replies.
    Client,
}

/// Whether a script does its worst to the connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Weather {
    Calm,
    Storm,
}

impl Pair {
    pub(super) fn new(seed: u64, faults: SimFaults, dialing: Dialing) -> Self {
        let network = SimNetwork::new(seed, faults);
        let clock = Arc::new(VirtualClock::new());
        let mut random = Random::new(!seed);
        let size = Size::draw(&mut random);
        let (kind, of_server) = match dialing {
            Dialing::One | Dialing::Both => (TopologyKind::RouteMesh, RECORDS),
            Dialing::Client => (TopologyKind::ClientServer, 0),
        };
        let party = |name, other, listens, dials, records| {
            let (network, clock) = (&network, &clock);
            Party::new(Setup { network, clock, name, other, listens, dials, size, kind, records })
        };
        let (alpha, beta) = (Some(address(1)), Some(address(2)));
        let (to_alpha, at_alpha) = match dialing {
            Dialing::One | Dialing::Client => (None, None),
            Dialing::Both => (alpha.clone(), alpha),
        };
        let parties = [
            party("alpha", "beta", at_alpha, beta.clone(), RECORDS),
            party("beta", "alpha", beta, to_alpha, of_server),
        ];
        Self { seed, network, clock, random, parties, weather: Weather::Calm }
    }

    /// Gives each party a turn, in any order and now and then several. Whether any did something.
    pub(super) fn round(&mut self) -> bool {
        if self.weather == Weather::Storm && self.random.below(32) == 0 {
            self.strike();
        }
        let first = usize::from(self.random.below(2) == 0);
        let mut is_busy = false;
        for index in [first, 1 - first] {
            for _ in 0..=self.random.below(3) {
                is_busy |= self.parties[index].turn() == Turn::Busy;
            }
        }
        is_busy
    }

    /// Does something to a connection, or to all of them.
    fn strike(&mut self) {
        let Self { network, random, .. } = self;
        let connections = network.connections();
        let index = usize::try_from(random.below(4)).unwrap();
        let Some(connection) = connections.get(index) else { return };
        let ways = [Way::ToAcceptor, Way::ToDialer, Way::Both];
        let way = ways[usize::try_from(random.below(3)).unwrap()];
        match random.below(8) {
            0 => network.reset(connection.id),
            1 => network.cut(connection.dialer, &connection.address, way),
            2 | 3 => network.hold(connection.id, way),
            4 | 5 => network.resume(connection.id),
            _ => network.mend(connection.dialer, &connection.address),
        }
    }

    /// Ends the storm, and whatever else goes wrong.
    pub(super) fn clear_up(&mut self) {
        self.weather = Weather::Calm;
        self.network.set_faults(SimFaults::none());
        for dialer in self.parties.each_ref().map(Party::driver) {
            for port in 1..=2 {
                self.network.mend(dialer, &address(port));
            }
        }
    }

    /// Sends records and turns until nothing happens any more, unless time passes.
    pub(super) fn run_to_rest(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let has_sent = self.parties.each_mut().map(Party::send).contains(&true);
            // Twice: what the second party does concerns the first one.
            let is_at_rest = !self.round() && !self.round() && self.network.is_quiet();
            if is_at_rest && !has_sent {
                return;
            }
        }
        panic!("this goes nowhere: {self}");
    }

    /// Lets time pass in small steps until `condition` holds.
    #[track_caller]
    pub(super) fn run_until(&mut self, condition: impl Fn(&Self) -> bool) {
        let start = self.clock.now();
        self.run_to_rest();
        while !condition(self) {
            assert!(self.clock.now().since(start) < TIME_MAX, "never: {self}");
            self.clock.advance(TICK);
            self.run_to_rest();
        }
    }

    /// Whether both have sent everything, and every request has ended.
    pub(super) fn is_done(&self) -> bool {
        self.parties
            .iter()
            .all(|party| party.has_sent() && party.ledger.borrow().pending.is_empty())
    }

    /// Whether both know of a pair.
    pub(super) fn is_up(&self) -> bool {
        self.parties.iter().all(|party| {
            let ledger = party.ledger.borrow();
            ledger.links_up == ledger.links_down.len() as u64 + 1
        })
    }

    /// Everything was handled and answered, in order, once.
    #[track_caller]
    pub(super) fn assert_complete(&self) {
        let [dialer, server] = &self.parties;
        for (sender, receiver) in [(dialer, server), (server, dialer)] {
            let handled = &receiver.ledger.borrow().handled;
            assert!(handled.iter().copied().eq(0..sender.records()), "handled: {self}");
            let ledger = sender.ledger.borrow();
            let requests = (0..sender.records()).filter(|number| is_request(*number));
            assert!(ledger.answered.iter().copied().eq(requests), "answered: {self}");
            assert_eq!(ledger.dropped, 0, "nothing is given up: {self}");
        }
    }

    /// What arrived is in order and came once, and every request that was admitted has ended once or
    /// waits. As many messages as did not arrive are counted, once both sides have told each other.
    #[track_caller]
    pub(super) fn assert_accounted(&self) {
        let [dialer, server] = &self.parties;
        for (sender, receiver) in [(dialer, server), (server, dialer)] {
            let may_be_unsettled = sender.is_over() || receiver.is_over() || !self.is_up();
            let (sender, receiver) = (sender.ledger.borrow(), receiver.ledger.borrow());
            let is_rising = |list: &[u64]| list.is_sorted_by(|one, next| one < next);
            assert!(is_rising(&receiver.handled), "each once, in order: {self}");
            assert!(is_rising(&sender.answered), "each once, in order: {self}");
            let mut ended = [&sender.answered[..], &sender.lost].concat();
            ended.extend(sender.stranded.iter().chain(sender.pending.keys()));
            ended.sort_unstable();
            let is_sorted_once = ended.is_sorted_by(|one, next| one < next);
            assert!(is_sorted_once, "each request ended once: {self}");
            let sent = sender.ordinals.keys().filter(|number| is_request(**number));
            assert!(sent.eq(ended.iter().filter(|id| sender.ordinals.contains_key(id))), "{self}");
            let missing = missing(&sender, &receiver);
            // Replies that had no pair to go back over are counted as well.
            let is_counted = missing <= sender.dropped || sender.untold > 0;
            assert!(may_be_unsettled || is_counted, "{missing} messages are missing: {self}");
        }
    }
}

/// How many messages were admitted and did not arrive.
fn missing(sender: &Ledger, receiver: &Ledger) -> u64 {
    let has_come = |number: &u64| receiver.handled.binary_search(number).is_ok();
    let is_missing = |number: &&u64| !is_request(**number) && !has_come(number);
    sender.ordinals.keys().filter(is_missing).count() as u64
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, network, clock, parties, .. } = self;
        write!(f, "seed {seed} at {:?} ({}): ", clock.now(), network.injected())?;
        write!(f, "{:?}", network.connections())?;
        parties.iter().try_for_each(|party| write!(f, "\n{:?}", party.ledger.borrow()))
    }
}

/// How many rounds a pair may need until it is at rest. The longest needs some thousands.
pub(super) const ROUNDS_MAX: u32 = 100_000;

/// How much time passes at once: about the shortest delay of a shard.
pub(super) const TICK: Duration = Duration::from_millis(90);

/// How much time may pass in one test: several times as long as the longest delay of a shard.
pub(super) const TIME_MAX: Duration = Duration::from_mins(5);
