//! Zipf's law with exponent 1, as shares that add up: rank 0 has the most, rank r about 1/(r+1) of it.
//!
//! Shape: closed forms, so that there is no table however many ranks there are.

/// `total` items, shared out among ranks.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    total: u64,
    ranks: u64,
}

impl Zipf {
    /// At least one rank.
    pub fn new(total: u64, ranks: u64) -> Self {
        Self { total, ranks: ranks.max(1) }
    }

    /// Number of items of all ranks below `rank`.
    pub fn before(&self, rank: u64) -> u64 {
        if rank >= self.ranks {
            return self.total;
        }
        let share = (rank as f64 + 1.0).ln() / (self.ranks as f64 + 1.0).ln();
        ((self.total as f64 * share) as u64).min(self.total)
    }

    /// Number of items of a rank. The shares of all ranks add up to the total.
    pub fn share(&self, rank: u64) -> u64 {
        self.before(rank + 1) - self.before(rank)
    }

    /// The rank at a part from 0 to 1 of all items, about: at a uniform random number, a random rank.
    pub fn rank_at(&self, part: f64) -> u64 {
        let rank = ((self.ranks as f64 + 1.0).powf(part) - 1.0) as u64;
        rank.min(self.ranks - 1)
    }

    /// The rank that has the item with this number.
    pub fn rank(&self, number: u64) -> u64 {
        debug_assert!(number < self.total, "{number} of {}", self.total);
        let mut rank = self.rank_at((number as f64 + 0.5) / self.total as f64);
        while rank > 0 && self.before(rank) > number {
            rank -= 1;
        }
        while self.before(rank + 1) <= number {
            rank += 1;
        }
        rank
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_each_item_is_in_the_share_of_its_rank() {
        for (total, ranks) in [(10_000, 300), (100, 1_000), (5, 1), (1 << 40, 50)] {
            let zipf = Zipf::new(total, ranks);
            assert_eq!((0..ranks).map(|rank| zipf.share(rank)).sum::<u64>(), total);
            for number in [0, 1, total / 3, total / 2, total - 1] {
                let rank = zipf.rank(number);
                assert!(zipf.before(rank) <= number && number < zipf.before(rank + 1));
            }
        }
    }

    #[test]
    fn the_second_has_about_half_of_the_first() {
        let zipf = Zipf::new(1_000_000, 10_000);
        let first = zipf.share(0);
        let second = zipf.share(1);
        let tenth = zipf.share(9);
        assert!((0.55..0.62).contains(&(second as f64 / first as f64)), "{first} {second}");
        assert!((0.13..0.15).contains(&(tenth as f64 / first as f64)), "{first} {tenth}");
    }
}
