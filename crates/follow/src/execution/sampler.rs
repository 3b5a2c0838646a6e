//! Selects banks so that a number of transactions is executed in a second.
//!
//! Shape: credit in transactions, which rises with time. A bank is selected while there is credit, and takes as much as
//! it has transactions. So a bank that is larger than the credit is selected, too, and then none for some time.
//! Bounds: the credit of one second.

use std::time::Duration;

const NANOS_PER_S: i128 = 1_000_000_000;

pub(super) struct Sampler {
    per_s: i128,
    /// Transactions times nanoseconds of a second.
    credit: i128,
    as_of: Duration,
}

impl Sampler {
    pub(super) fn new(per_s: u64) -> Self {
        let per_s = i128::from(per_s);
        Self { per_s, credit: per_s * NANOS_PER_S, as_of: Duration::ZERO }
    }

    /// Whether a bank with this number of transactions is selected.
    pub(super) fn admits(&mut self, transactions: usize, now: Duration) -> bool {
        let passed = now.saturating_sub(self.as_of);
        self.as_of = self.as_of.max(now);
        let earned = i128::try_from(passed.as_nanos()).unwrap_or(i128::MAX);
        let earned = earned.saturating_mul(self.per_s);
        self.credit = self.credit.saturating_add(earned).min(self.per_s * NANOS_PER_S);
        if self.credit <= 0 {
            return false;
        }
        self.credit -= transactions as i128 * NANOS_PER_S;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banks_are_selected_so_that_the_limit_holds_in_the_long_run() {
        let mut sampler = Sampler::new(100);
        let mut executed = 0;
        let slots = 2_500;
        for slot in 0..slots {
            let now = Duration::from_millis(400 * slot);
            let transactions = if slot % 2 == 0 { 400 } else { 50 };
            if sampler.admits(transactions, now) {
                executed += transactions;
            }
        }
        // 1,000 seconds.
        assert!((95_000..=101_000).contains(&executed), "{executed}");
    }
}
