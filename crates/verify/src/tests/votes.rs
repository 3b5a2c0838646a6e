//! Signed votes and independent sources.

use std::time::Duration;

use ledger::{BlockId, Slot};
use solana::{EpochVoter, HashReporter, VerificationLevel};
use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_message::{Message, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;
use solana_vote_interface::instruction::{tower_sync, withdraw};
use solana_vote_interface::state::TowerSync;

use super::chain::{Chain, Follower, SentBank, random_hash};
use crate::{
    SignedVote, SourceId, StakedVoters, Verdict, VerifierConfig, VerifierError, VoteError,
};

const NOW: Duration = Duration::ZERO;
const VOTED: Verdict = Verdict::Matched(VerificationLevel::Voted);

/// A validator: its vote account is the address with this number.
fn vote_account(n: u8) -> Pubkey {
    Pubkey::new_from_array([200 + n; 32])
}

fn transaction(voter: &Keypair, n: u8, slot: Slot, hash: Hash) -> VersionedTransaction {
    let mut sync = TowerSync::from(vec![(slot - 1, 2), (slot, 1)]);
    sync.hash = hash;
    let instruction = tower_sync(&vote_account(n), &voter.pubkey(), sync);
    let message = Message::new(&[instruction], Some(&voter.pubkey()));
    VersionedTransaction::try_new(VersionedMessage::Legacy(message), &[voter])
        .expect("the voter signs")
}

fn vote(voter: &Keypair, n: u8, slot: Slot, hash: Hash) -> SignedVote {
    SignedVote::verify(&transaction(voter, n, slot, hash)).expect("a signed vote")
}

/// Three validators with a third of the stake each.
fn validators(follower: &mut Follower) -> [Keypair; 3] {
    let keys = std::array::from_fn(|_| Keypair::new());
    let voters = (0..).zip(&keys).map(|(n, key): (u8, &Keypair)| EpochVoter {
        vote_account: vote_account(n),
        node: key.pubkey(),
        authorized_voter: Some(key.pubkey()),
        stake: 100,
    });
    follower.verifier.set_epoch_stakes(StakedVoters::new(0..=1_000, voters.collect()));
    keys
}

/// A chain of banks, all of them frozen.
fn frozen(banks: usize) -> (Follower, Vec<SentBank>, [Keypair; 3]) {
    let (mut chain, mut follower) = Chain::start(1, VerifierConfig::default());
    let keys = validators(&mut follower);
    let banks: Vec<SentBank> = (0..banks).map(|_| chain.next()).collect();
    for bank in &banks {
        follower.freeze(bank).expect("it follows its parent");
    }
    (follower, banks, keys)
}

#[test]
fn more_than_two_thirds_of_the_stake_verify_a_bank_and_its_ancestors() {
    let (mut follower, banks, keys) = frozen(3);
    let slot = banks[1].block.slot;
    let hash = banks[1].hash;
    for n in [0, 1, 1, 0] {
        let vote = vote(&keys[usize::from(n)], n, slot, hash);
        assert_eq!(follower.verifier.vote(&vote, NOW), [], "two thirds, each counted once");
    }
    let changed = follower.verifier.vote(&vote(&keys[2], 2, slot, hash), NOW);
    let changed: Vec<_> =
        changed.into_iter().map(|change| (change.block, change.verdict)).collect();
    assert_eq!(changed, [(banks[0].block, VOTED), (banks[1].block, VOTED)]);
    assert_eq!(follower.verifier.verdict(banks[2].block), Some(&Verdict::Pending));
}

#[test]
fn votes_may_come_before_their_bank() {
    let (mut chain, mut follower) = Chain::start(2, VerifierConfig::default());
    let keys = validators(&mut follower);
    let bank = chain.next();
    for n in 0..3 {
        let vote = vote(&keys[usize::from(n)], n, bank.block.slot, bank.hash);
        assert_eq!(follower.verifier.vote(&vote, NOW), []);
    }
    let changed = follower.freeze(&bank).expect("it follows the root");
    assert_eq!(changed.first().map(|change| &change.verdict), Some(&VOTED));
}

#[test]
fn votes_for_another_hash_are_a_mismatch_unless_another_bank_of_the_slot_has_it() {
    let (mut chain, mut follower) = Chain::start(3, VerifierConfig::default());
    let keys = validators(&mut follower);
    let mut other = chain.clone();
    other.random = fastrand::Rng::with_seed(77);
    let bank = chain.next();
    let other = other.next_at(BlockId { slot: bank.block.slot, version: 1 });
    assert_eq!(follower.follow(&bank), Verdict::Matched(VerificationLevel::Sequence));
    for n in 0..3 {
        let vote = vote(&keys[usize::from(n)], n, bank.block.slot, other.hash);
        follower.verifier.vote(&vote, NOW);
    }
    let Some(Verdict::Mismatch { mismatch, .. }) = follower.verifier.verdict(bank.block) else {
        panic!("the votes are for another bank");
    };
    assert_eq!((mismatch.reported, mismatch.reporter), (other.hash, HashReporter::Votes));
    follower.freeze(&other).expect("it follows the root");
    assert_eq!(follower.verifier.verdict(other.block), Some(&VOTED));
    let verdict = follower.verifier.verdict(bank.block);
    assert_eq!(
        verdict,
        Some(&Verdict::Matched(VerificationLevel::Sequence)),
        "a bank of another fork"
    );
}

#[test]
fn only_the_authorized_voter_of_an_account_with_stake_counts() {
    let (mut follower, banks, keys) = frozen(1);
    let slot = banks[0].block.slot;
    let hash = banks[0].hash;
    // The wrong key, an account without stake, and slots outside of the window.
    for (key, n, slot) in [(1, 0, slot), (0, 9, slot), (0, 0, 100), (0, 0, 999)] {
        assert_eq!(follower.verifier.vote(&vote(&keys[key], n, slot, hash), NOW), []);
    }
    follower.verifier.vote(&vote(&keys[0], 0, slot, hash), NOW);
    follower.verifier.vote(&vote(&keys[1], 1, slot, hash), NOW);
    assert_eq!(follower.verifier.verdict(banks[0].block), Some(&Verdict::Pending));
    follower.verifier.vote(&vote(&keys[2], 2, slot, hash), NOW);
    assert_eq!(follower.verifier.verdict(banks[0].block), Some(&VOTED));
}

#[test]
fn a_forged_signature_and_another_instruction_are_no_vote() {
    let key = Keypair::new();
    let mut forged = transaction(&key, 0, 101, Hash::default());
    forged.signatures[0] = key.sign_message(b"another message");
    assert_eq!(SignedVote::verify(&forged), Err(VoteError::Signature));
    let instruction = withdraw(&vote_account(0), &key.pubkey(), 1, &key.pubkey());
    let message = Message::new(&[instruction], Some(&key.pubkey()));
    let message = VersionedMessage::Legacy(message);
    let other = VersionedTransaction::try_new(message, &[&key]).expect("the key signs");
    assert_eq!(SignedVote::verify(&other), Err(VoteError::NoVote));
}

#[test]
fn as_many_sources_as_configured_agree_or_contradict() {
    let config = VerifierConfig { sources_required: 2, ..VerifierConfig::default() };
    let (mut chain, mut follower) = Chain::start(4, config);
    let bank = chain.next();
    let slot = bank.block.slot;
    assert_eq!(follower.follow(&bank), Verdict::Matched(VerificationLevel::Sequence));
    let other = random_hash(&mut chain.random);
    let mut report = |source, hash| {
        let changed = follower.verifier.source_reports(SourceId(source), (slot, hash), NOW);
        changed.map(|changed| changed.into_iter().next().map(|change| change.verdict))
    };
    assert_eq!(report(0, bank.hash), Ok(None));
    assert_eq!(report(0, bank.hash), Ok(None), "the same source again");
    assert_eq!(report(1, other), Ok(None), "one source may be wrong");
    assert_eq!(report(2, bank.hash), Ok(Some(Verdict::Matched(VerificationLevel::Agreed))));
    let Ok(Some(Verdict::Mismatch { mismatch, .. })) = report(0, other) else {
        panic!("two sources have another hash");
    };
    assert_eq!((mismatch.reported, mismatch.reporter), (other, HashReporter::Sources));
    let unknown = VerifierError::UnknownSource { source_id: 16, max: 16 };
    assert_eq!(report(16, other), Err(unknown));
}
