//! Two whole shards over one simulated network, stepped in one thread.

mod party;

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use crate::clock::{Clock, VirtualClock};
use crate::random::Random;
use crate::sim::{Fault, SimFaults, SimNetwork, Way};
use crate::socket::SocketAddress;
use crate::{Ordinal, Turn};

use super::lab::address;
use party::{Party, Place, Setup, is_request};

/// Records that each party sends.
const RECORDS: u64 = 120;

/// Seeds of each kind of network.
const SEEDS: u64 = 100;

/// Two parties and what they share.
struct Pair {
    seed: u64,
    network: SimNetwork,
    clock: Arc<VirtualClock>,
    random: Random,
    parties: [Party; 2],
    weather: Weather,
}

fn place() -> SocketAddress {
    address(7_400)
}

/// Whether a script does its worst to the connections.
#[derive(Clone, Copy, PartialEq)]
enum Weather {
    Calm,
    Storm,
}

impl Pair {
    fn new(seed: u64, faults: SimFaults) -> Self {
        let network = SimNetwork::new(seed, faults);
        let clock = Arc::new(VirtualClock::new());
        let place = place();
        let party = |name, other, place| {
            Party::new(Setup { network: &network, clock: &clock, name, other, place })
        };
        let server = party("beta", "alpha", Place::Listens(&place));
        let dialer = party("alpha", "beta", Place::Dials(&place));
        let random = Random::new(!seed);
        let parties = [dialer, server];
        Self { seed, network, clock, random, parties, weather: Weather::Calm }
    }

    /// Gives each party a turn, in any order and now and then several. Whether any did something.
    fn round(&mut self) -> bool {
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
    fn clear_up(&mut self) {
        self.weather = Weather::Calm;
        self.network.set_faults(SimFaults::none());
        for dialer in self.parties.each_ref().map(Party::driver) {
            self.network.mend(dialer, &place());
        }
    }

    /// Sends records and turns until nothing happens any more, unless time passes.
    fn run_to_rest(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let before = self.parties.each_ref().map(Party::progress);
            for party in &mut self.parties {
                party.send_up_to(RECORDS);
            }
            let has_sent = self.parties.each_ref().map(Party::progress) != before;
            // Twice: what the second party does concerns the first one.
            let is_at_rest = !self.round() && !self.round() && self.network.is_quiet();
            if is_at_rest && !has_sent {
                return;
            }
        }
        panic!("this goes nowhere: {self}");
    }

    /// Lets time pass in small steps until `condition` holds.
    fn run_until(&mut self, condition: impl Fn(&Self) -> bool) {
        let start = self.clock.now();
        self.run_to_rest();
        while !condition(self) {
            assert!(self.clock.now().since(start) < TIME_MAX, "never: {self}");
            self.clock.advance(TICK);
            self.run_to_rest();
        }
    }

    /// Whether both have sent everything, and every request has ended.
    fn is_done(&self) -> bool {
        self.parties.iter().all(|party| {
            party.progress() == (RECORDS, false) && party.ledger.borrow().pending.is_empty()
        })
    }

    /// Whether both know of a pair.
    fn is_up(&self) -> bool {
        self.parties.iter().all(|party| {
            let ledger = party.ledger.borrow();
            ledger.links_up == ledger.links_down.len() as u64 + 1
        })
    }

    /// Everything was handled and answered, in order, once.
    fn assert_complete(&self) {
        for party in &self.parties {
            let ledger = party.ledger.borrow();
            assert!(ledger.handled.iter().copied().eq(0..RECORDS), "handled: {self}");
            let requests = (0..RECORDS).filter(|number| is_request(*number));
            assert!(ledger.answered.iter().copied().eq(requests), "answered: {self}");
            assert_eq!(ledger.dropped, 0, "nothing is given up: {self}");
        }
    }

    /// What arrived is in order and came once; what did not had been handed over last when a link
    /// broke.
    fn assert_accounted(&self) {
        let [dialer, server] = self.parties.each_ref().map(|party| party.ledger.borrow());
        for (sender, receiver) in [(&dialer, &server), (&server, &dialer)] {
            let is_rising = |list: &[u64]| list.is_sorted_by(|one, next| one < next);
            assert!(is_rising(&receiver.handled), "each once, in order: {self}");
            assert!(is_rising(&sender.answered), "each once, in order: {self}");
            let requests = (0..RECORDS).filter(|number| is_request(*number)).count();
            let ended = sender.answered.len() + sender.lost.len();
            assert_eq!(ended, requests, "each request ended once: {self}");
            for number in 0..RECORDS {
                let next = number + 1;
                let has_come = |number| receiver.handled.binary_search(number).is_ok();
                if has_come(&number) || (next < RECORDS && !has_come(&next)) {
                    continue;
                }
                let [last, first] = [number, next].map(|number| sender.ordinals.get(&number));
                let ends_here =
                    |end: &Ordinal| last < Some(end) && first.is_none_or(|it| it >= end);
                assert!(sender.handed_over.iter().any(ends_here), "{number} vanished: {self}");
            }
        }
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, network, clock, parties, .. } = self;
        write!(f, "seed {seed} at {:?} ({}): ", clock.now(), network.injected())?;
        write!(f, "{:?}", network.connections())?;
        parties.iter().try_for_each(|party| write!(f, "\n{:?}", party.ledger.borrow()))
    }
}

#[test]
fn two_shards_deliver_everything_once_in_order_over_a_benign_network() {
    let mut struck = [0; Fault::COUNT];
    for seed in 0..SEEDS {
        let mut pair = Pair::new(seed, SimFaults::benign());
        // Time stands still: nothing here may need a timer.
        pair.run_to_rest();
        assert!(pair.is_done(), "stuck: {pair}");
        pair.assert_complete();
        assert!(pair.is_up() && pair.network.connections().len() == 2, "one pair: {pair}");
        for (struck, fault) in struck.iter_mut().zip(Fault::ALL) {
            *struck += pair.network.injected().of(fault);
        }
    }
    for (fault, struck) in Fault::ALL.into_iter().zip(struck) {
        assert_eq!(struck > SEEDS, fault < Fault::Reset, "{fault:?}: {struck}");
    }
}

#[test]
fn the_same_seed_moves_two_shards_in_the_same_way() {
    for seed in 0..10 {
        let [first, second] = [(); 2].map(|()| {
            let mut pair = Pair::new(seed, SimFaults::hostile());
            pair.run_until(Pair::is_done);
            pair.to_string()
        });
        assert_eq!(first, second, "the same end, after the same faults at the same time");
    }
}

#[test]
fn a_shard_that_drains_says_what_it_has_to_say_and_takes_what_was_said_to_it() {
    let mut unsaid = 0;
    for seed in 0..SEEDS {
        let mut pair = Pair::new(seed, SimFaults::benign());
        let (leaving, staying) = if seed % 2 == 0 { (0, 1) } else { (1, 0) };
        while pair.parties[leaving].progress() != (RECORDS, false) {
            pair.parties[leaving].send_up_to(RECORDS);
            pair.parties[staying].send_up_to(RECORDS);
            pair.round();
        }
        let deadline = pair.clock.now().saturating_add(TIME_MAX);
        pair.parties[leaving].drain(deadline);
        let mut rounds = 0;
        while pair.parties[leaving].turn() != Turn::Over {
            pair.round();
            rounds += 1;
            assert!(rounds < ROUNDS_MAX, "it never ends: {pair}");
        }
        let [left, stayed] = [leaving, staying].map(|index| pair.parties[index].ledger.borrow());
        let requests = |most| (0..most).filter(|number| is_request(*number));
        assert!(stayed.handled.iter().copied().eq(0..RECORDS), "all was said: {pair}");
        assert!(left.answered.iter().copied().eq(requests(RECORDS)), "and answered: {pair}");
        let heard = left.handled.len() as u64;
        assert!(left.handled.iter().copied().eq(0..heard), "in order: {pair}");
        assert!(stayed.answered.iter().copied().eq(requests(heard)), "and answered: {pair}");
        assert_eq!(left.dropped + stayed.dropped, 0, "nothing is given up: {pair}");
        assert!(stayed.lost.is_empty(), "what was not heard was not said: {pair}");
        unsaid += RECORDS - heard;
    }
    assert!(unsaid > SEEDS, "only {unsaid} records were left for another time");
}

#[test]
fn two_shards_account_for_everything_in_a_storm() {
    let mut broken = 0;
    for seed in 0..SEEDS {
        let mut pair = Pair::new(seed, SimFaults::hostile());
        pair.weather = Weather::Storm;
        let end = pair.clock.now().saturating_add(STORM);
        pair.run_until(|pair| pair.clock.now() >= end);
        pair.clear_up();
        pair.run_until(|pair| pair.is_done() && pair.is_up());
        pair.assert_accounted();
        broken += pair.parties[0].ledger.borrow().links_down.len();
    }
    assert!(broken > 100, "only {broken} pairs broke");
}

/// How long a storm lasts: longer than a silent peer is taken for alive.
const STORM: Duration = Duration::from_secs(20);

/// How many rounds a pair may need until it is at rest. The longest needs some thousands.
const ROUNDS_MAX: u32 = 100_000;

/// How much time passes at once: less than the shortest delay of a shard.
const TICK: Duration = Duration::from_millis(90);

/// How much time may pass in one test: several times as long as the longest delay of a shard.
const TIME_MAX: Duration = Duration::from_mins(5);
