//! Bounds, roots and forks.

use std::time::Duration;

use ledger::BlockId;
use solana::VerificationLevel;
use solana_hash::Hash;

use super::chain::{Chain, random_hash};
use crate::{SourceId, Verdict, VerifierConfig, VerifierError};

const SEQUENCE: Verdict = Verdict::Matched(VerificationLevel::Sequence);

#[test]
fn banks_above_the_root_are_bounded_and_a_root_makes_space() {
    let config = VerifierConfig { banks_max: 3, ..VerifierConfig::default() };
    let (mut chain, mut follower) = Chain::start(1, config);
    let banks: Vec<_> = (0..3).map(|_| chain.next()).collect();
    banks.iter().for_each(|bank| drop(follower.follow(bank)));
    let next = chain.next();
    let full = Err(VerifierError::TooManyBanks { max: 3 });
    assert_eq!(follower.freeze(&next), full);
    let before = follower.verifier.usage();
    let rooted = follower.verifier.root(banks[1].block);
    assert_eq!(rooted, Ok(vec![(banks[0].block, SEQUENCE), (banks[1].block, SEQUENCE)]));
    assert_eq!(follower.verifier.root_bank().bank_hash, banks[1].hash);
    assert!(follower.verifier.usage().bytes < before.bytes);
    assert_eq!(follower.follow(&next), SEQUENCE);
    assert_eq!(follower.verifier.usage().banks, 2);
    assert_eq!(follower.verifier.root(banks[1].block), Ok(Vec::new()), "it is the root");
}

#[test]
fn a_root_drops_the_banks_of_other_forks() {
    let (mut chain, mut follower) = Chain::start(2, VerifierConfig::default());
    let first = chain.next();
    follower.follow(&first);
    let mut fork = chain.clone();
    let left = chain.next();
    let right = fork.next_at(BlockId { slot: 900, version: 0 });
    let above = fork.next();
    for bank in [&left, &right, &above] {
        assert_eq!(follower.follow(bank), SEQUENCE);
    }
    follower.verifier.root(left.block).expect("it is known");
    assert_eq!(follower.verifier.usage().banks, 0);
    assert_eq!(follower.verifier.verdict(above.block), None);
    let unknown = Err(VerifierError::UnknownBank(right.block));
    assert_eq!(follower.verifier.root(right.block), unknown);
}

#[test]
fn banks_without_a_parent_and_repeated_ones_are_refused() {
    let (mut chain, mut follower) = Chain::start(3, VerifierConfig::default());
    let bank = chain.next();
    follower.follow(&bank);
    assert_eq!(follower.freeze(&bank), Err(VerifierError::KnownBank(bank.block)));
    follower.verifier.drop_fork(bank.block);
    let mut child = chain.next();
    assert_eq!(follower.freeze(&child), Err(VerifierError::UnknownBank(bank.block)));
    child.block = child.parent;
    let block = child.block;
    let parent = child.parent;
    assert_eq!(follower.freeze(&child), Err(VerifierError::NotAboveParent { block, parent }));
    let report = follower.verifier.child_reports(bank.block, bank.hash, Duration::ZERO);
    assert_eq!(report, Err(VerifierError::UnknownBank(bank.block)));
}

#[test]
fn reports_of_slots_far_ahead_occupy_nothing() {
    let (mut chain, mut follower) = Chain::start(4, VerifierConfig::default());
    let before = follower.verifier.usage();
    for slot in [0, 100, 613, u64::MAX] {
        let hash: Hash = random_hash(&mut chain.random);
        let changed = follower.verifier.source_reports(SourceId(1), (slot, hash), Duration::ZERO);
        assert_eq!(changed, Ok(Vec::new()));
    }
    assert_eq!(follower.verifier.usage(), before);
    for _ in 0..10 {
        for slot in 0..1_000 {
            let hash: Hash = random_hash(&mut chain.random);
            let report = (slot, hash);
            follower
                .verifier
                .source_reports(SourceId(1), report, Duration::ZERO)
                .expect("source 1 is configured");
        }
    }
    let reports = follower.verifier.usage().bytes - before.bytes;
    assert!(reports <= 512 * 256, "{reports} bytes");
    let bank = chain.next();
    follower.follow(&bank);
    follower.verifier.root(bank.block).expect("it is known");
    assert!(follower.verifier.usage().bytes < before.bytes + reports);
}
