//! Two nodes, the connections between them, and everything that is on its way. All that they decide
//! comes from `zcore`; what they do about it is what a shard does.

use std::collections::VecDeque;

use zcore::{
    Acquaintance, Claims, Given, Order, Ruling, Run, Standing, Statement, rule_on_dial,
    wire::Refusal,
};

/// One of the two nodes. The first has the smaller id.
pub(crate) type Side = usize;

/// A connection of a pair, by the number of the pair.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Line {
    pub(crate) pair: u8,
    pub(crate) lane: Lane,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Lane {
    Application,
    Completion,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Words {
    Dial {
        run: u64,
        generation: u32,
        stated: Statement,
    },
    Accept {
        run: u64,
        generation: u32,
        stated: Statement,
    },
    Refuse {
        heard: u32,
        refusal: Refusal,
    },
    /// The end of the connection.
    End,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    Silent,
    Asking,
    Agreed,
    Up,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) number: u8,
    pub(crate) is_dialer: bool,
    pub(crate) generation: u32,
    pub(crate) phase: Phase,
    run: u64,
    /// The generation that the other side said, as dialer or as acceptor.
    dialed: u32,
    /// What this side says of the pair before.
    said: Statement,
    /// What the other side says of it.
    heard: Statement,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) run: u64,
    pub(crate) pair: Option<Pair>,
    /// A pair of another run of the other's process that has still to prove that it lives.
    challenger: Option<Pair>,
    other: Acquaintance,
    claims: Claims,
    given: Given,
    /// The pair that was up last, and the other's run, until its end is settled.
    unsettled: Option<(u32, u64)>,
    /// The highest generation of a pair that was up.
    highest: u32,
}

impl Node {
    fn new(run: u64) -> Self {
        Self {
            run,
            pair: None,
            challenger: None,
            other: Acquaintance::default(),
            claims: Claims::default(),
            given: Given::default(),
            unsettled: None,
            highest: 0,
        }
    }

    fn standing(&self) -> Standing {
        match self.pair.map(|pair| pair.phase) {
            None => Standing::Apart,
            Some(Phase::Silent) => Standing::Silent,
            Some(Phase::Asking) => Standing::Asking,
            Some(Phase::Agreed | Phase::Up) => Standing::Agreed,
        }
    }

    /// The run that the agreed pair is with.
    fn holder(&self) -> Option<Run> {
        let agreed = self.pair.filter(|pair| matches!(pair.phase, Phase::Agreed | Phase::Up));
        agreed.map(|pair| Run { incarnation: pair.run, heard: pair.dialed })
    }

    /// A run says what it took of a pair.
    fn settle(&mut self, run: u64, stated: Statement) {
        if self.given.is_told(run, stated) {
            self.unsettled = None;
            self.given.settle(run, stated);
        }
    }

    fn up(&mut self) {
        let Some(pair) = &mut self.pair else { return };
        pair.phase = Phase::Up;
        assert!(pair.generation > self.highest, "generation {} again", pair.generation);
        if let Some((generation, last)) = self.unsettled {
            assert_ne!(last, pair.run, "pair {generation} with this run was not settled");
            self.given.settle(pair.run, pair.heard);
        }
        self.highest = pair.generation;
        self.unsettled = Some((pair.generation, pair.run));
        self.given.begin(pair.run, pair.generation);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) nodes: [Node; 2],
    /// What is on its way to each side, in the order of its connection.
    pub(crate) lines: [Vec<(Line, VecDeque<Words>)>; 2],
    pairs: u8,
    runs: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            nodes: [Node::new(1), Node::new(2)],
            lines: [Vec::new(), Vec::new()],
            pairs: 0,
            runs: 2,
        }
    }

    /// Whether both sides hold the same pair, and hold it for up.
    pub(crate) fn is_met(&self) -> bool {
        match [self.nodes[0].pair, self.nodes[1].pair] {
            [Some(left), Some(right)] => {
                let is_up = left.phase == Phase::Up && right.phase == Phase::Up;
                is_up && (left.number, left.generation) == (right.number, right.generation)
            }
            [None, _] | [_, None] => false,
        }
    }

    pub(crate) fn dial(&mut self, side: Side) {
        self.pairs += 1;
        let number = self.pairs;
        let (said, heard) = (Statement::default(), Statement::default());
        let phase = Phase::Silent;
        let (generation, dialed, run) = (0, 0, 0);
        let pair = Pair { number, is_dialer: true, generation, phase, run, dialed, said, heard };
        self.nodes[side].pair = Some(pair);
    }

    pub(crate) fn say(&mut self, side: Side) {
        let node = &mut self.nodes[side];
        let Some(pair) = &mut node.pair else { return };
        pair.generation = node.other.dial();
        pair.phase = Phase::Asking;
        pair.said = node.claims.statement();
        let words = Words::Dial { run: node.run, generation: pair.generation, stated: pair.said };
        let line = Line { pair: pair.number, lane: Lane::Application };
        self.send(side, line, words);
    }

    /// Ends what a side holds: by its own decision, or because a connection broke.
    pub(crate) fn give_up(&mut self, side: Side) {
        let node = &mut self.nodes[side];
        let pair = core::mem::replace(&mut node.pair, node.challenger.take());
        self.hang_up(side, pair);
    }

    fn hang_up(&mut self, side: Side, pair: Option<Pair>) {
        let Some(pair) = pair else { return };
        for lane in [Lane::Application, Lane::Completion] {
            self.send(side, Line { pair: pair.number, lane }, Words::End);
        }
    }

    /// A process ends and another one takes its place. What was on its way to it is gone, what it
    /// has sent is not.
    pub(crate) fn restart(&mut self, side: Side) {
        self.give_up(side);
        self.give_up(side);
        self.lines[side].clear();
        self.runs += 1;
        self.nodes[side] = Node::new(self.runs);
    }

    /// Delivers what comes first on a line.
    pub(crate) fn deliver(&mut self, side: Side, index: usize) {
        let (line, words) = {
            let (line, queue) = &mut self.lines[side][index];
            let words = queue.pop_front();
            (*line, words)
        };
        self.lines[side].retain(|(_, queue)| !queue.is_empty());
        match (words, line.lane) {
            (Some(Words::Dial { run, generation, stated }), Lane::Application) => {
                self.take_dial(side, line, (run, generation, stated));
            }
            (Some(Words::Dial { run, generation, .. }), Lane::Completion) => {
                self.take_second_dial(side, line, (run, generation));
            }
            (Some(Words::Accept { run, generation, stated }), Lane::Application) => {
                self.take_answer(side, line, (run, generation, stated));
            }
            (Some(Words::Accept { .. }), Lane::Completion) if self.holds(side, line.pair) => {
                self.nodes[side].up();
            }
            (Some(Words::Refuse { heard, refusal }), _) if self.holds(side, line.pair) => {
                if refusal == Refusal::StaleGeneration {
                    self.nodes[side].other.outdated(heard);
                }
                self.give_up(side);
            }
            (Some(Words::End), _) if self.holds(side, line.pair) => self.give_up(side),
            (Some(Words::End), _) if self.is_challenged_by(side, line.pair) => {
                let challenger = self.nodes[side].challenger.take();
                self.hang_up(side, challenger);
            }
            (None | Some(Words::Accept { .. } | Words::Refuse { .. } | Words::End), _) => {}
        }
    }

    fn take_dial(&mut self, side: Side, line: Line, said: (u64, u32, Statement)) {
        let (run, generation, stated) = said;
        let node = &self.nodes[side];
        let order = if side == 0 { Order::Smaller } else { Order::Larger };
        let speaker =
            node.other.speaker(Run { incarnation: run, heard: generation }, node.holder());
        let ruling = rule_on_dial(order, node.standing(), speaker);
        match ruling {
            Ruling::Join | Ruling::Challenge => {}
            Ruling::Replace => {
                self.assert_given_up(side);
                self.give_up(side);
                // It would take the place of what there was; now there is something better.
                self.give_up(side);
            }
            Ruling::Refuse(refusal) => {
                let heard = node.other.heard(run).unwrap_or(0);
                self.send(side, line, Words::Refuse { heard, refusal });
                return;
            }
        }
        let node = &mut self.nodes[side];
        node.settle(run, stated);
        let dialed = generation;
        let generation = node.other.accept(run, generation);
        let (number, said) = (line.pair, node.claims.statement());
        let (phase, heard) = (Phase::Agreed, stated);
        let pair = Pair { number, is_dialer: false, generation, phase, run, dialed, said, heard };
        let words = Words::Accept { run: node.run, generation, stated: said };
        if ruling == Ruling::Challenge {
            let before = node.challenger.replace(pair);
            self.hang_up(side, before);
        } else {
            node.pair = Some(pair);
        }
        self.send(side, line, words);
    }

    fn take_second_dial(&mut self, side: Side, line: Line, (run, generation): (u64, u32)) {
        if self.is_challenged_by(side, line.pair) {
            self.assert_given_up(side);
            self.give_up(side);
        }
        let node = &mut self.nodes[side];
        let is_half = node.pair.is_some_and(|pair| {
            let is_named = (pair.number, pair.generation, pair.run) == (line.pair, generation, run);
            is_named && !pair.is_dialer && pair.phase == Phase::Agreed
        });
        if !is_half {
            let refusal = Refusal::UnknownPair;
            self.send(side, line, Words::Refuse { heard: 0, refusal });
            return;
        }
        node.other.agree(run, generation);
        node.claims.begin(generation);
        let said = node.pair.map_or_else(Statement::default, |pair| pair.said);
        let words = Words::Accept { run: node.run, generation, stated: said };
        node.up();
        self.send(side, line, words);
    }

    fn take_answer(&mut self, side: Side, line: Line, said: (u64, u32, Statement)) {
        let (run, generation, stated) = said;
        if !self.holds(side, line.pair) {
            return;
        }
        let node = &mut self.nodes[side];
        node.other.agree(run, generation);
        node.settle(run, stated);
        let Some(pair) = &mut node.pair else { return };
        assert!(generation >= pair.generation, "an acceptor lowers the generation");
        pair.generation = generation;
        pair.dialed = generation;
        pair.run = run;
        pair.heard = stated;
        pair.phase = Phase::Agreed;
        let words = Words::Dial { run: node.run, generation, stated: pair.said };
        node.claims.begin(generation);
        self.send(side, Line { lane: Lane::Completion, ..line }, words);
    }

    /// A pair that is agreed on ends for a hello only if the other side does not hold it any more.
    fn assert_given_up(&self, side: Side) {
        let Some(pair) = self.nodes[side].pair else { return };
        let is_agreed = matches!(pair.phase, Phase::Agreed | Phase::Up);
        let is_held = self.holds(1 - side, pair.number);
        assert!(!is_agreed || !is_held, "a hello ends a pair that its peer holds: {self:?}");
    }

    fn is_challenged_by(&self, side: Side, pair: u8) -> bool {
        self.nodes[side].challenger.is_some_and(|challenger| challenger.number == pair)
    }

    fn holds(&self, side: Side, pair: u8) -> bool {
        self.nodes[side].pair.is_some_and(|held| held.number == pair)
    }

    fn send(&mut self, from: Side, line: Line, words: Words) {
        let lines = &mut self.lines[1 - from];
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, queue)) => queue.push_back(words),
            None => lines.push((line, VecDeque::from([words]))),
        }
        lines.sort_by_key(|(line, _)| *line);
    }
}
