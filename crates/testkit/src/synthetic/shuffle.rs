//! Seeded permutations: a number's position, and back, without a table.

/// SplitMix64's finish: a number's position in a random order of all numbers.
pub(super) fn mixed(seed: u64, n: u64) -> u64 {
    let mut mixed = (n ^ seed.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A permutation of the numbers below a bound: a Feistel network, walked until it is below.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shuffle {
    seed: u64,
    bound: u64,
    half_bits: u32,
}

const ROUNDS: u64 = 4;

impl Shuffle {
    pub(super) fn new(seed: u64, bound: u64) -> Self {
        let bits = u64::BITS - bound.saturating_sub(1).leading_zeros();
        Self { seed, bound, half_bits: bits.div_ceil(2).max(1) }
    }

    /// The position of `n`.
    pub(super) fn position(&self, n: u64) -> u64 {
        self.walk(n, |round| round)
    }

    /// The number at `position`.
    pub(super) fn at_position(&self, position: u64) -> u64 {
        self.walk(position, |round| ROUNDS - 1 - round)
    }

    /// At most four times the bound are in the network, so that four steps are usual at most.
    fn walk(&self, mut n: u64, order: impl Fn(u64) -> u64) -> u64 {
        debug_assert!(n < self.bound, "{n} of {}", self.bound);
        let is_back = order(0) != 0;
        loop {
            n = if is_back { self.swapped(n) } else { n };
            for round in 0..ROUNDS {
                n = self.round(n, order(round));
            }
            n = if is_back { self.swapped(n) } else { n };
            if n < self.bound {
                return n;
            }
        }
    }

    fn round(&self, n: u64, round: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let high = n >> self.half_bits;
        let low = n & mask;
        low << self.half_bits | (high ^ mixed(self.seed ^ round << 56, low)) & mask
    }

    fn swapped(&self, n: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        (n & mask) << self.half_bits | n >> self.half_bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_position_of_its_own_and_is_found_there() {
        for bound in [1, 2, 3, 1_000, 4_096, 4_097] {
            let shuffle = Shuffle::new(7, bound);
            let mut positions: Vec<u64> = (0..bound).map(|n| shuffle.position(n)).collect();
            assert!(
                (0..bound).all(|n| shuffle.at_position(positions[n as usize]) == n),
                "of {bound}"
            );
            positions.sort_unstable();
            assert!(positions.iter().copied().eq(0..bound), "of {bound}");
        }
    }
}
