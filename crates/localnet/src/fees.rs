//! Fees: what a block's transactions paid, and the leader's share.

/// Percentage of the signature fees that is burnt.
const BURNT_PERCENT: u64 = 50;

/// Fees of transactions, in lamports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fees {
    pub(crate) signatures: u64,
    pub(crate) priority: u64,
}

impl Fees {
    /// Counts a transaction that paid `fee`. At most `signatures` of it is its signature fee.
    pub(crate) fn add(&mut self, fee: u64, signatures: u64) {
        let signatures = signatures.min(fee);
        self.signatures += signatures;
        self.priority += fee - signatures;
    }

    /// The leader's share: the priority fees, and half of the signature fees.
    pub(crate) fn leader_share(&self) -> u64 {
        self.priority + self.signatures - self.signatures * BURNT_PERCENT / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_signature_fees_is_burnt_and_no_priority_fee() {
        let mut fees = Fees::default();
        fees.add(5_000, 5_000);
        fees.add(10_007, 5_000);
        assert_eq!(fees, Fees { signatures: 10_000, priority: 5_007 });
        assert_eq!(fees.leader_share(), 10_007);
        // An odd lamport goes to the leader.
        fees.add(1, 1);
        assert_eq!(fees.leader_share(), 10_008);
    }
}
