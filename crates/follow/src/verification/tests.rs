//! Banks above the block of an archive that is refused while the checks of their transactions are not done.

use chain_solana::ResultOrigin;
use verify::LatticeChange;

use super::*;
use crate::checked_bank::CheckedBank;

const ROOT: BlockId = BlockId { slot: 100, version: 1 };
const ARCHIVED: BlockId = BlockId { slot: 130, version: 2 };
const CHILD: BlockId = BlockId { slot: 131, version: 3 };

/// The root, the unproven block of an archive with a hard fork, and a child of it whose hash is right.
fn above_archive() -> Verification {
    let root_bank =
        |block: BlockId| RootBank { block, bank_hash: Hash::default(), lt_hash: LtHash::EMPTY };
    let mut verifier = Verifier::new(VerifierConfig::default(), root_bank(ROOT));
    let hard_forks = vec![HardFork { slot: 120, count: 1 }];
    let archived = ArchivedBank { bank: root_bank(ARCHIVED), parent: ROOT, hard_forks };
    verifier.jump(archived, Duration::ZERO).expect("it is above the root");
    let child = SummedBank {
        block: CHILD,
        parent: ARCHIVED,
        change: &LatticeChange::default(),
        written: &[],
        signature_count: 0,
        blockhash: Hash::default(),
    };
    verifier.freeze_summed(&child, Duration::ZERO).expect("its parent is known");
    let (messages, _) = tokio::sync::mpsc::channel(1);
    let checks = TransactionChecks::start(messages.downgrade(), false, None, Arc::default());
    let proof = ProofStatus::new(Some(VerificationLevel::Sequence), Vec::new());
    let mut verification = Verification::new(
        Some(verifier),
        Some(checks.expect("threads")),
        OnMismatch::Stop,
        TrustedBanks::default(),
        Arc::new(proof),
    );
    verification.jumped = Some(JumpedBank { id: ARCHIVED, hard_forks: Vec::new(), refusal: None });
    verification.unchecked.insert(CHILD);
    verification.handle_match(CHILD, VerificationLevel::Sequence);
    assert_eq!(verification.pop_decision(), None, "its transactions are not checked");
    verification
}

fn refuse(verification: &mut Verification) {
    let mismatch = BankMismatch {
        slot: ARCHIVED.slot,
        computed: Hash::default(),
        reported: Hash::new_from_array([1; 32]),
        reporter: HashReporter::Votes,
        accounts_written: Arc::default(),
        accounts_written_len: 0,
        fault: None,
    };
    verification.handle_mismatch(ARCHIVED, &mismatch, true);
    assert_eq!(verification.pop_decision(), Some(Decision::Retract(ARCHIVED)));
}

const CHECKED: CheckedBank =
    CheckedBank { bank: CHILD, fault: None, results: ResultOrigin::Source };

fn hard_forks(verification: &Verification) -> usize {
    verification.verifier.as_ref().map_or(0, |verifier| verifier.hard_forks().len())
}

#[test]
fn a_bank_above_a_refused_archive_is_not_approved_when_it_is_checked() {
    let mut verification = above_archive();
    refuse(&mut verification);
    verification.record_checked(&CHECKED);
    assert_eq!(verification.pop_decision(), None);
    assert_eq!(hard_forks(&verification), 1);
    let refusal = verification.end_jump();
    assert!(matches!(refusal, Some(JumpRefusal::Contradicted { archive: 130, .. })), "{refusal:?}");
    assert_eq!(hard_forks(&verification), 0, "those from before the jump");
}

#[test]
fn a_bank_above_a_refused_archive_is_not_approved_when_its_hash_is_right() {
    let mut verification = above_archive();
    refuse(&mut verification);
    verification.unchecked.remove(CHILD);
    verification.handle_match(CHILD, VerificationLevel::Sequence);
    assert_eq!(verification.pop_decision(), None);
    assert!(verification.end_jump().is_some());
}

#[test]
fn a_checked_bank_above_an_archive_proves_the_archive() {
    let mut verification = above_archive();
    assert!(verification.is_checking());
    verification.record_checked(&CHECKED);
    assert!(!verification.is_checking());
    assert_eq!(verification.pop_decision(), Some(Decision::Approve(CHILD)));
    assert_eq!((verification.end_jump(), hard_forks(&verification)), (None, 1));
}
