//! The verification of a replica: it computes the hash of each bank, and takes everything else from the log.
//!
//! A replica checks that the accounts of a block give the sum and the bank hash that its record states. Which blocks
//! are confirmed or final, and the results of transactions, are the word of the ingester, which states in each record
//! the level that it requires of a confirmed bank. So a replica has that level, as the ingester's node has it. The bank
//! of a snapshot has none: it is the snapshot's word.
//! Not here: the checks themselves, and the levels by slot (the crate `replica`).

use std::sync::Arc;

use ::replica::{BankWord, ReplicaProof};
use chain_solana::{BankProof, History, Reader, Verification, VerificationSummary};
use ledger::{BlockId, Commitment, Slot};
use solana::VerificationLevel;

/// The verification of a replica.
pub(crate) struct ReplicaVerification {
    reader: Reader,
    history: Arc<History>,
    proof: Arc<ReplicaProof>,
}

impl ReplicaVerification {
    /// Creates the verification of a replica with this state and history.
    pub(crate) fn new(reader: Reader, history: Arc<History>, proof: Arc<ReplicaProof>) -> Self {
        Self { reader, history, proof }
    }
}

impl Verification for ReplicaVerification {
    fn summary(&self) -> VerificationSummary {
        let required = self.proof.level();
        VerificationSummary {
            required,
            verified_slot: self.verified_slot(),
            limitation: required
                .is_none()
                .then(|| "the ingester of the log verifies no bank (--verify off)".to_owned()),
            trust_root: Some(describe_trust_root(required)),
            ..VerificationSummary::default()
        }
    }

    fn verified_slot(&self) -> Option<Slot> {
        let required = self.proof.level()?;
        let (_, confirmed) = self.reader.version_and_block(Commitment::Confirmed);
        match self.proof.word(confirmed.slot)? {
            BankWord::Ingester(level) if level >= Some(required) => Some(confirmed.slot),
            BankWord::Ingester(_) | BankWord::Snapshot => None,
        }
    }

    fn required_level(&self) -> Option<VerificationLevel> {
        self.proof.level()
    }

    fn proof(&self, bank: BlockId) -> Option<BankProof> {
        let history = self.history.snapshot();
        let has_bank = |commitment| {
            let block = history.block(bank.slot, commitment);
            block.is_some_and(|block| block.id == bank && block.has_bank_hash())
        };
        let level = if has_bank(Commitment::Confirmed) {
            match self.proof.word(bank.slot)? {
                BankWord::Ingester(level) => level?,
                BankWord::Snapshot => return None,
            }
        } else if has_bank(Commitment::Processed) {
            VerificationLevel::Computed
        } else {
            return None;
        };
        // The votes were counted by the ingester.
        Some(BankProof { level, votes: None })
    }

    // The default of `content` is right: a replica executes no transaction, and compares no result.
}

/// Says whose word the banks are.
fn describe_trust_root(level: Option<VerificationLevel>) -> String {
    let word = match level {
        None => "verifies no bank".to_owned(),
        Some(VerificationLevel::Computed) => "makes the banks itself".to_owned(),
        Some(level) => format!("confirms a bank at the level {}", level.name()),
    };
    format!(
        "the snapshot, and the word of the ingester of the log, which {word}; this node computed the hash of each bank \
         after the snapshot from its accounts"
    )
}

#[cfg(test)]
mod tests {
    use solana_hash::Hash;
    use testkit::test_ledger::{TestLedger, TestLedgerConfig, block_info};

    use super::*;

    const SEQUENCE: Option<VerificationLevel> = Some(VerificationLevel::Sequence);
    const VOTED: Option<VerificationLevel> = Some(VerificationLevel::Voted);

    /// A replica that was loaded from a snapshot of slot 10, and that shows blocks 11 and 12.
    struct World {
        ledger: TestLedger,
        proof: Arc<ReplicaProof>,
        verification: ReplicaVerification,
    }

    impl World {
        fn new(level: Option<VerificationLevel>) -> Self {
            let ledger = TestLedger::new(block_info(10), Vec::new(), TestLedgerConfig::default());
            let proof = Arc::new(ReplicaProof::new(10, level));
            let reader = ledger.reader().clone();
            let history = Arc::clone(ledger.history());
            let verification = ReplicaVerification::new(reader, history, Arc::clone(&proof));
            let mut world = Self { ledger, proof, verification };
            world.add_block(11);
            world.add_block(12);
            world
        }

        fn add_block(&mut self, slot: Slot) {
            self.ledger.open(slot);
            self.ledger.complete_with(|block| block.bank_hash = Hash::new_from_array([9; 32]));
        }

        /// Confirms the newest block at a level.
        fn confirm(&mut self, level: Option<VerificationLevel>) {
            self.proof.confirm(self.ledger.tip().block.slot, level);
            self.ledger.confirm();
        }

        fn level(&self, slot: Slot) -> Option<VerificationLevel> {
            let bank = BlockId { slot, version: slot };
            self.verification.proof(bank).map(|proof| proof.level)
        }
    }

    #[test]
    fn a_confirmed_bank_has_the_level_of_the_ingester() {
        let mut world = World::new(VOTED);
        assert_eq!(world.verification.required_level(), VOTED);
        assert_eq!(world.verification.verified_slot(), None, "the snapshot is its own word");
        assert_eq!(world.level(12), Some(VerificationLevel::Computed), "it is not confirmed");
        world.confirm(VOTED);
        assert_eq!(world.level(12), VOTED);
        assert_eq!(world.verification.verified_slot(), Some(12));
        let other = BlockId { slot: 12, version: 99 };
        assert_eq!(world.verification.proof(other), None);
        let summary = world.verification.summary();
        assert_eq!((summary.required, summary.limitation), (VOTED, None));
        let trust_root = summary.trust_root.expect("a trust root");
        assert!(trust_root.contains("which confirms a bank at the level voted"), "{trust_root}");
    }

    #[test]
    fn a_bank_of_a_lower_level_is_no_verified_slot() {
        let mut world = World::new(VOTED);
        world.confirm(SEQUENCE);
        assert_eq!(world.verification.verified_slot(), None);
        world.proof.set_level(SEQUENCE);
        assert_eq!(world.verification.verified_slot(), Some(12));
        assert_eq!(world.level(12), SEQUENCE);
    }

    #[test]
    fn the_bank_of_a_snapshot_is_the_word_of_the_snapshot_only() {
        let mut world = World::new(VOTED);
        world.confirm(VOTED);
        // The history has the block of a snapshot with the bank hash that the snapshot states.
        world.add_block(20);
        world.ledger.confirm();
        world.proof.start_from_snapshot(20, VOTED);
        assert_eq!(world.level(20), None);
        assert_eq!(world.verification.verified_slot(), None);
        assert_eq!(world.level(12), VOTED, "a bank before the jump keeps its level");
        world.add_block(21);
        world.confirm(VOTED);
        assert_eq!(world.verification.verified_slot(), Some(21));
        assert_eq!(world.level(20), None);
    }

    #[test]
    fn an_ingester_that_verifies_nothing_proves_nothing() {
        let mut world = World::new(None);
        world.confirm(None);
        assert_eq!(world.level(12), None);
        assert_eq!(world.verification.verified_slot(), None);
        let summary = world.verification.summary();
        assert_eq!(summary.required, None);
        assert!(summary.limitation.is_some_and(|text| text.contains("--verify off")));
    }
}
