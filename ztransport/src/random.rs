//! Random numbers that repeat: the same seed draws the same ones.

/// A splitmix64 generator. Any seed will do, and neighbouring seeds have nothing in common.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number, any of 64 bits.
    pub(crate) const fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number below `bound`; zero if there is none.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        // The first numbers come up more often by one part in 2^64 / bound, which nobody sees.
        match self.draw().checked_rem(bound) {
            Some(number) => number,
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn numbers_are_those_of_splitmix64() {
        let mut random = Random::new(0);
        assert_eq!(random.draw(), 0xe220_a839_7b1d_cdaf, "the first of its published sequence");
        assert_eq!(random.draw(), 0x6e78_9e6a_a1b9_65f4, "the second");
    }

    #[test]
    fn numbers_spread_over_their_range() {
        let mut random = Random::new(1);
        let mut seen = [0_u32; 8];
        for _ in 0..8_000 {
            seen[usize::try_from(random.below(8)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
        assert_eq!(random.below(0), 0, "no number is below zero");
    }
}
