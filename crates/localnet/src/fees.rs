//! Fees: what a block's transactions paid, and what of it the leader gets.

/// The part of the fees for signatures that is burnt, in percent.
const BURNT_PERCENT: u64 = 50;

/// What transactions paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fees {
    /// For their signatures.
    pub(crate) signatures: u64,
    /// To be preferred.
    pub(crate) priority: u64,
}

impl Fees {
    /// Counts a transaction that paid `fee`, of which at most `signatures` is for its signatures.
    pub(crate) fn add(&mut self, fee: u64, signatures: u64) {
        let signatures = signatures.min(fee);
        self.signatures += signatures;
        self.priority += fee - signatures;
    }

    /// What the leader gets: what was paid to be preferred, and half of the rest.
    pub(crate) fn leader_share(&self) -> u64 {
        self.priority + self.signatures - self.signatures * BURNT_PERCENT / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_signatures_cost_is_burnt_and_what_was_paid_to_be_preferred_is_not() {
        let mut fees = Fees::default();
        fees.add(5_000, 5_000);
        fees.add(10_007, 5_000);
        assert_eq!(fees, Fees { signatures: 10_000, priority: 5_007 });
        assert_eq!(fees.leader_share(), 10_007);
        // Of an odd lamport the leader has the larger half.
        fees.add(1, 1);
        assert_eq!(fees.leader_share(), 10_008);
    }
}
