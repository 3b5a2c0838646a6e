//! The verification of a replica: it computes the hash of each bank, and takes everything else from the log.
//!
//! A replica checks that the accounts of a block give the sum and the bank hash that its record states. Which blocks are
//! confirmed or final, and the results of transactions, are the word of the ingester.
//! Not here: the checks themselves (the crate `replica`).

use chain_solana::{BankProof, ComputedVerification, Verification, VerificationSummary};
use ledger::{BlockId, Slot};
use solana::VerificationLevel;

/// The verification of a replica.
pub(crate) struct ReplicaVerification(ComputedVerification);

impl ReplicaVerification {
    pub(crate) fn new(computed: ComputedVerification) -> Self {
        Self(computed)
    }
}

impl Verification for ReplicaVerification {
    fn summary(&self) -> VerificationSummary {
        let trust_root = "the snapshot and the records of the log, as its ingester wrote them";
        VerificationSummary { trust_root: Some(trust_root.to_owned()), ..self.0.summary() }
    }

    fn verified_slot(&self) -> Option<Slot> {
        self.0.verified_slot()
    }

    fn required_level(&self) -> Option<VerificationLevel> {
        self.0.required_level()
    }

    fn proof(&self, bank: BlockId) -> Option<BankProof> {
        self.0.proof(bank)
    }

    // The default of `content` is right: a replica executes no transaction, and compares no result.
}
