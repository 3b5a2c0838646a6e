//! Streams that are altered on the way: each change of the state is found, and no other change raises an alarm.

use std::sync::Arc;

use fastrand::Rng;
use solana::{Account, HashReporter, VerificationLevel};
use solana_account::{AccountSharedData, ReadableAccount, WritableAccount};
use solana_pubkey::Pubkey;

use super::chain::{Chain, SentBank, random_account, random_hash};
use crate::{Verdict, VerifierConfig};

const CORRUPTIONS: u64 = 1_000;
const HARMLESS: u64 = 300;

/// Alters a bank so that its state or its hash is another one.
fn corrupt(bank: &mut SentBank, kind: u64, random: &mut Rng) {
    match kind {
        0 => alter(bank, |account| {
            let index = random.usize(..account.data().len());
            account.data_as_mut_slice()[index] ^= 1 << random.u8(..8);
        }),
        1 => {
            alter(bank, |account| account.set_lamports(account.lamports() ^ 1 << random.u8(1..50)))
        }
        2 => alter(bank, |account| {
            let mut owner = account.owner().to_bytes();
            owner[random.usize(..32)] ^= 1 << random.u8(..8);
            account.set_owner(Pubkey::new_from_array(owner));
        }),
        3 => alter(bank, |account| account.set_executable(!account.executable())),
        4 => drop(bank.writes.remove(random.usize(..bank.writes.len()))),
        5 => {
            // An older write of the same account comes again, after the last one.
            let (key, _) = bank.writes[random.usize(..bank.writes.len())];
            bank.writes.push((key, Some(Arc::new(random_account(random)))));
        }
        6 => bank.blockhash = random_hash(random),
        _ => bank.signature_count = bank.signature_count.wrapping_add(random.u64(1..4)),
    }
}

/// Alters the account of the first write.
fn alter(bank: &mut SentBank, change: impl FnOnce(&mut AccountSharedData)) {
    let (_, account) = &mut bank.writes[0];
    let mut altered = account.as_ref().expect("the first write is no removal").0.clone();
    change(&mut altered);
    *account = Some(Arc::new(Account(altered)));
}

#[test]
fn each_corruption_that_changes_the_state_is_found_within_its_bank() {
    for seed in 0..CORRUPTIONS {
        let (mut chain, mut follower) = Chain::start(seed, VerifierConfig::default());
        let mut random = Rng::with_seed(!seed);
        for _ in 0..random.usize(..3) {
            assert_eq!(
                follower.follow(&chain.next()),
                Verdict::Matched(VerificationLevel::Sequence)
            );
        }
        let bank = chain.next();
        let mut sent = bank.clone();
        corrupt(&mut sent, seed % 8, &mut random);
        let Verdict::Mismatch { mismatch, is_first } = follower.follow(&sent) else {
            panic!("seed {seed}: not found");
        };
        assert!(is_first && mismatch.reporter == HashReporter::Child, "seed {seed}");
        assert_eq!((mismatch.reported, mismatch.accounts_written.len() > 4), (bank.hash, true));
        assert_ne!(mismatch.computed, bank.hash);
        // What is built on it does not match either, and is not the cause.
        let next = chain.next();
        let Verdict::Mismatch { is_first, .. } = follower.follow(&next) else {
            panic!("seed {seed}: the next bank matches");
        };
        assert!(!is_first, "seed {seed}");
        // The slot is requested again.
        follower.verifier.drop_fork(bank.block);
        assert_eq!(follower.verifier.verdict(next.block), None);
        assert_eq!(
            follower.follow(&bank),
            Verdict::Matched(VerificationLevel::Sequence),
            "seed {seed}"
        );
        assert_eq!(
            follower.follow(&next),
            Verdict::Matched(VerificationLevel::Sequence),
            "seed {seed}"
        );
    }
}

#[test]
fn reordered_and_repeated_writes_are_no_alarm() {
    for seed in 0..HARMLESS {
        let (mut chain, mut follower) = Chain::start(seed, VerifierConfig::default());
        let mut random = Rng::with_seed(!seed);
        for _ in 0..3 {
            let mut sent = chain.next();
            random.shuffle(&mut sent.writes);
            let repeated = sent.writes[random.usize(..sent.writes.len())].clone();
            sent.writes.push(repeated);
            // An account that ends as it began was not written, whatever happened in between.
            let (other, _) = sent.writes[0].clone();
            let last = sent.writes.iter().rfind(|(key, _)| *key == other).cloned();
            sent.writes.push((other, Some(Arc::new(random_account(&mut random)))));
            sent.writes.extend(last);
            assert_eq!(
                follower.follow(&sent),
                Verdict::Matched(VerificationLevel::Sequence),
                "seed {seed}"
            );
        }
    }
}
