//! Whatever is benign loses nothing; whatever is hostile loses an end, never the middle.

use super::lab::{Host, Lab, Note, assert_same, batch, pattern};
use crate::batch::Batch;
use crate::op::Op;
use crate::random::Random;
use crate::sim::{Fault, SimCounts, SimFaults, SimOptions};
use crate::token::SocketId;

/// Bytes that each end of each connection sends.
const BYTES: usize = 50_000;

/// Connections of one transfer, by number: reordering needs more than one.
const CONNECTIONS: [u32; 2] = [0, 1];

/// Seeds of each kind of network.
const SEEDS: u64 = 300;

/// One end: what it sends, and what of that is not taken yet.
struct End {
    socket: SocketId,
    sends: Vec<u8>,
    rest: Option<Batch>,
    is_over: bool,
}

impl End {
    fn new(socket: SocketId, first: u32) -> Self {
        let sends = pattern(BYTES, first);
        let rest = Some(batch(&sends));
        Self { socket, sends, rest, is_over: false }
    }

    /// Does the next thing that a peer would do, and now and then does not.
    fn step(&mut self, host: &mut Host, random: &mut Random) {
        let socket = self.socket;
        if let Some(mut back) = host.seen(socket).batch.take() {
            match host.seen(socket).notes.iter().rev().find(|note| matches!(note, Note::Sent(_))) {
                Some(Note::Sent(Ok(sent))) => {
                    back.advance(*sent as u64);
                    self.rest = Some(back);
                }
                _ => self.is_over = true,
            }
        }
        if self.is_over || random.below(4) == 0 {
            return;
        }
        match self.rest.take_if(|_| !host.seen(socket).is_sending()) {
            Some(rest) if rest.unsent() > 0 => host.push(Op::Send { socket, batch: rest }),
            Some(_) => host.push(Op::ShutdownWrite { socket }),
            None => {}
        }
        if !host.seen(socket).is_receiving() && !host.seen(socket).has_ended() {
            host.receive(socket);
        } else if random.below(8) == 0 {
            host.push(Op::PauseReceive { socket });
        }
    }
}

/// Everything that both hosts were told, and what they received.
type Trace = Vec<(SocketId, Note)>;

struct Outcome {
    traces: [Trace; 2],
    /// What one end sent and its peer received, of each direction of each connection.
    carried: Vec<(Vec<u8>, Vec<u8>)>,
    counts: SimCounts,
}

/// Connects, sends both ways, ends both streams and closes.
fn transfer(seed: u64, faults: SimFaults) -> Outcome {
    let mut random = Random::new(!seed);
    let buffers = 1 + u16::try_from(random.below(3)).unwrap();
    let mut lab =
        Lab::with(seed, faults, SimOptions { sockets_max: 16, buffers, ..SimOptions::default() });
    let mut pairs = Vec::new();
    for number in CONNECTIONS {
        if let Some((ours, theirs)) = connect(&mut lab) {
            let first = number << 24;
            pairs.push((End::new(ours, first), End::new(theirs, first | 1 << 20)));
        }
    }
    let mut turns = 0;
    while pairs.iter().any(|(ours, theirs)| {
        [(&mut lab.dialer, ours), (&mut lab.server, theirs)].into_iter().any(|(host, end)| {
            !end.is_over && (end.rest.is_some() || !host.seen(end.socket).has_ended())
        })
    }) {
        for (ours, theirs) in &mut pairs {
            ours.step(&mut lab.dialer, &mut random);
            theirs.step(&mut lab.server, &mut random);
        }
        match random.below(3) {
            0 => drop(lab.dialer.poll()),
            1 => drop(lab.server.poll()),
            _ => drop(lab.turn()),
        }
        turns += 1;
        assert!(turns < 100_000, "this goes nowhere: {:?}", lab.network);
    }
    let mut carried = Vec::new();
    for (ours, theirs) in pairs {
        lab.dialer.close(ours.socket);
        lab.server.close(theirs.socket);
        let at_theirs = lab.server.seen(theirs.socket).received.clone();
        carried.push((ours.sends, at_theirs));
        carried.push((theirs.sends, lab.dialer.seen(ours.socket).received.clone()));
    }
    lab.settle();
    assert_eq!(lab.network.connections(), [], "every end is closed");
    let counts = lab.network.injected();
    Outcome { traces: [lab.dialer.trace, lab.server.trace], carried, counts }
}

/// Dials until it works, or five times.
fn connect(lab: &mut Lab) -> Option<(SocketId, SocketId)> {
    let (listener, address) = (lab.listener, lab.address.clone());
    for _ in 0..5 {
        let ours = lab.dialer.dial(&address, super::lab::SMALL);
        lab.until(|lab| {
            if !lab.server.seen(listener).is_accepting() {
                lab.accept();
            }
            !lab.dialer.seen(ours).notes.is_empty()
        });
        if lab.dialer.seen(ours).has(&Note::Connected(Ok(()))) {
            lab.until(|lab| {
                if !lab.server.seen(listener).is_accepting() {
                    lab.accept();
                }
                !lab.server.seen(listener).accepted.is_empty()
            });
            return lab.server.seen(listener).accepted.pop().map(|theirs| (ours, theirs));
        }
        lab.dialer.close(ours);
    }
    None
}

#[test]
fn a_benign_network_carries_everything_in_order_once() {
    let mut total = [0; Fault::COUNT];
    for seed in 0..SEEDS {
        let outcome = transfer(seed, SimFaults::benign());
        assert_eq!(outcome.carried.len(), 2 * CONNECTIONS.len(), "seed {seed}: all connected");
        for (sent, received) in &outcome.carried {
            assert_same(received, sent, &format!("seed {seed} ({})", outcome.counts));
        }
        for (total, fault) in total.iter_mut().zip(Fault::ALL) {
            *total += outcome.counts.of(fault);
        }
    }
    for (fault, total) in Fault::ALL.into_iter().zip(total) {
        assert_eq!(total > SEEDS, fault < Fault::Reset, "{fault:?}: {total} in {SEEDS} transfers");
    }
}

#[test]
fn a_hostile_network_delivers_what_it_delivers_in_order_and_answers_every_operation() {
    let (mut whole, mut cut_short) = (0, 0);
    let mut total = [0; Fault::COUNT];
    for seed in 0..SEEDS {
        let outcome = transfer(seed, SimFaults::hostile());
        for (sent, received) in &outcome.carried {
            let arrived = sent.get(..received.len()).unwrap_or_default();
            assert_same(received, arrived, &format!("seed {seed} ({})", outcome.counts));
            whole += u32::from(received.len() == sent.len());
            cut_short += u32::from(received.len() < sent.len());
        }
        for (total, fault) in total.iter_mut().zip(Fault::ALL) {
            *total += outcome.counts.of(fault);
        }
    }
    assert!(whole > 100 && cut_short > 100, "{whole} whole, {cut_short} cut short");
    for (fault, total) in Fault::ALL.into_iter().zip(total) {
        assert!(total > 5, "{fault:?}: {total} in {SEEDS} transfers");
    }
}

#[test]
fn the_same_seed_gives_the_same_events_and_another_one_does_not() {
    for seed in 0..50 {
        let [first, second] = [(); 2].map(|()| transfer(seed, SimFaults::hostile()));
        assert!(first.traces == second.traces, "seed {seed}: the events differ");
        assert!(first.carried == second.carried, "seed {seed}: the bytes differ");
        assert_eq!(first.counts, second.counts, "seed {seed}");
        let other = transfer(seed + 1, SimFaults::hostile());
        assert!(first.traces != other.traces, "seed {seed} and the next are alike");
    }
}
