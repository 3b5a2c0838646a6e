//! Entries against Agave's rule, written once more, and against changes of it.

use std::sync::atomic::AtomicBool;

use solana::Entry;
use solana_hash::Hash;
use solana_sha256_hasher::{hash, hashv};
use solana_signature::Signature;

use crate::{EntryError, verify_entries};

const START: Hash = Hash::new_from_array([9; 32]);

fn signature(n: u8) -> Signature {
    Signature::from([n; 64])
}

/// The hash of an entry with three signatures, by the definition of the tree.
fn with_three(before: Hash, signatures: [u8; 3]) -> Hash {
    let [a, b, c] = signatures.map(|n| hashv(&[&[0], signature(n).as_ref()]));
    let left = hashv(&[&[1], a.as_ref(), b.as_ref()]);
    let right = hashv(&[&[1], c.as_ref(), c.as_ref()]);
    let root = hashv(&[&[1], left.as_ref(), right.as_ref()]);
    hashv(&[before.as_ref(), root.as_ref()])
}

/// Two hashes and an entry with the signatures 1, 2 and 3, then a tick of four hashes.
fn entries() -> [Entry; 2] {
    let before = hash(hash(START.as_ref()).as_ref());
    let first = with_three(before, [1, 2, 3]);
    let tick = (0..4).fold(first, |last, _| hash(last.as_ref()));
    [
        Entry { num_hashes: 3, hash: first, transaction_count: 3, starting_transaction_index: 0 },
        Entry { num_hashes: 4, hash: tick, transaction_count: 0, starting_transaction_index: 3 },
    ]
}

fn verify(entries: &[Entry], transactions: &[Signature]) -> Result<(), EntryError> {
    let signatures = |entry: &Entry| {
        let first = entry.starting_transaction_index as usize;
        transactions.iter().skip(first).take(entry.transaction_count as usize).collect()
    };
    verify_entries(START, entries, signatures, &AtomicBool::new(false))
}

#[test]
fn entries_prove_their_signatures_and_the_order() {
    let right = [1, 2, 3].map(signature);
    assert_eq!(verify(&entries(), &right), Ok(()));
    let wrong = EntryError::Hash { index: 0 };
    for other in [[2, 1, 3], [1, 3, 2], [1, 2, 4], [4, 2, 3]] {
        assert_eq!(verify(&entries(), &other.map(signature)), Err(wrong), "{other:?}");
    }
    assert_eq!(verify(&entries(), &right[..2]), Err(wrong));
}

#[test]
fn an_entry_with_another_number_of_hashes_proves_nothing() {
    let right = [1, 2, 3].map(signature);
    for index in 0..2 {
        for num_hashes in [0, 1, 2, 5] {
            let mut entries = entries();
            entries[index].num_hashes = num_hashes;
            assert_eq!(verify(&entries, &right), Err(EntryError::Hash { index }), "{num_hashes}");
        }
    }
    let repeated = Entry { num_hashes: 0, ..entries()[1] };
    let repeated = [entries()[0], Entry { hash: entries()[0].hash, ..repeated }];
    assert_eq!(verify(&repeated, &right), Ok(()), "a tick without hashes repeats the hash");
}

#[test]
fn entries_that_are_no_longer_needed_are_left() {
    let cancelled = AtomicBool::new(true);
    let endless = Entry { num_hashes: u64::MAX, ..entries()[1] };
    let verified = verify_entries(START, &[endless], |_| Vec::new(), &cancelled);
    assert_eq!(verified, Err(EntryError::Cancelled));
}
