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

/// A follower at its first bank, and an archive far above it.
fn with_archive(seed: u64) -> (Chain, Follower, SentBank, SentBank, [Keypair; 3]) {
    let (mut chain, mut follower) = Chain::start(seed, VerifierConfig::default());
    let keys = validators(&mut follower);
    let known = chain.next();
    follower.follow(&known);
    let archived = chain.next_at(BlockId { slot: 900, version: 0 });
    for n in 0..3 {
        let vote = vote(&keys[usize::from(n)], n, 900, archived.hash);
        assert_eq!(follower.verifier.vote(&vote, NOW), [], "it is too far ahead to be counted");
    }
    (chain, follower, known, archived, keys)
}

#[test]
fn an_archive_is_verified_by_its_child_and_by_votes() {
    let (mut chain, mut follower, known, archived, keys) = with_archive(5);
    let block = follower.jump(known.block, &chain, archived.hash);
    let child = chain.next();
    follower.freeze(&child).expect("it is on the archive");
    let changed = follower.verifier.child_reports(block, archived.hash, NOW).expect("it is known");
    assert_eq!(changed[0].verdict, Verdict::Matched(VerificationLevel::Sequence));
    let slot = child.block.slot;
    let votes = (0..3).map(|n| vote(&keys[usize::from(n)], n, slot, child.hash));
    let changed: Vec<_> = votes.flat_map(|vote| follower.verifier.vote(&vote, NOW)).collect();
    assert!(changed.iter().any(|change| change.block == block && change.verdict == VOTED));
    let rooted = follower.verifier.root(block).expect("it is known");
    assert_eq!(rooted.last().map(|(rooted, _)| *rooted), Some(block));
}

#[test]
fn an_archive_with_another_hash_is_contradicted_and_leaves_nothing() {
    let (chain, mut follower, known, archived, keys) = with_archive(6);
    let before = follower.verifier.usage().banks;
    let block = follower.jump(known.block, &chain, random_hash(&mut fastrand::Rng::with_seed(9)));
    let changed = (0..3).flat_map(|n| {
        follower.verifier.vote(&vote(&keys[usize::from(n)], n, 900, archived.hash), NOW)
    });
    let changed: Vec<_> = changed.collect();
    let [change] = &changed[..] else { panic!("one verdict: {changed:?}") };
    let Verdict::Mismatch { mismatch, .. } = &change.verdict else { panic!("{change:?}") };
    assert_eq!((mismatch.reporter, mismatch.reported), (HashReporter::Votes, archived.hash));
    follower.verifier.drop_fork(block);
    assert_eq!(follower.verifier.usage().banks, before);
    // Votes count above the root again.
    let slot = known.block.slot;
    let votes = (0..3).map(|n| vote(&keys[usize::from(n)], n, slot, known.hash));
    assert_eq!(votes.flat_map(|vote| follower.verifier.vote(&vote, NOW)).count(), 1);
}
