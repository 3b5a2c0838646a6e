//! The proof of a block's transactions and of their order: Agave's rule for entries (`next_hash` of `solana-entry`).
//!
//! An entry's hash follows from the hash before it by `num_hashes` hashes, the last of which covers the Merkle root of all
//! signatures of its transactions. A bank hash covers the blockhash, which is the hash of the last entry. So entries from
//! the parent's blockhash to the bank's own prove which signatures the bank has, and in which order.
//! Shape: each entry states its hash, so parts of a block are verified on their own, on several threads.
//! Bounds: a caller limits the hashes of a block ([`ENTRY_HASHES_MAX`]) and may stop a part at any time.
//! Not here: the signatures themselves (`chain_solana`), and whether a block has as many ticks as its cluster demands: the
//! hashes prove the content without it.

use std::sync::atomic::{AtomicBool, Ordering};

use solana::Entry;
use solana_hash::Hash;
use solana_merkle_tree::MerkleTree;
use solana_sha256_hasher::{hash, hashv};
use solana_signature::Signature;

/// Hashes of a block at most: 1,000 slots of mainnet, which is four minutes of one core. A block with more is wrong.
pub const ENTRY_HASHES_MAX: u64 = 1 << 32;

/// Hashes between two looks at whether the result is still needed: some milliseconds.
const HASHES_UNTIL_CHECK: u64 = 1 << 16;

/// Why entries prove nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// An entry's hash does not follow from the one before it and from its transactions.
    #[error("the hash of entry {index} is not the one that follows from its transactions")]
    Hash {
        /// Index of the entry in the part.
        index: usize,
    },
    /// The result is no longer needed.
    #[error("the entries are no longer needed")]
    Cancelled,
}

/// Verifies consecutive entries. `start` is the hash before the first one; `signatures` returns those of the transactions
/// of an entry, in order.
///
/// Cost: about 50 ns a hash with SHA extensions, and 0.2 us for each signature.
pub fn verify_entries<'a>(
    start: Hash,
    entries: &[Entry],
    signatures: impl Fn(&Entry) -> Vec<&'a Signature>,
    is_cancelled: &AtomicBool,
) -> Result<(), EntryError> {
    let mut last = start;
    for (index, entry) in entries.iter().enumerate() {
        let is_tick = entry.transaction_count == 0;
        let signatures = if is_tick { None } else { Some(signatures(entry)) };
        last = next_hash(last, entry.num_hashes, signatures.as_deref(), is_cancelled)?;
        if last != entry.hash {
            return Err(EntryError::Hash { index });
        }
    }
    Ok(())
}

/// Returns the hash of an entry after the entry with the hash `last`. `signatures` are those of its transactions; `None`
/// is a tick.
///
/// Cost: that of [`verify_entries`].
pub fn next_entry_hash(last: Hash, num_hashes: u64, signatures: Option<&[&Signature]>) -> Hash {
    let never = AtomicBool::new(false);
    next_hash(last, num_hashes, signatures, &never).unwrap_or_default()
}

fn next_hash(
    last: Hash,
    num_hashes: u64,
    signatures: Option<&[&Signature]>,
    is_cancelled: &AtomicBool,
) -> Result<Hash, EntryError> {
    let Some(signatures) = signatures else {
        // A tick without hashes repeats the hash before it.
        return repeat_hash(last, num_hashes, is_cancelled);
    };
    let last = repeat_hash(last, num_hashes.saturating_sub(1), is_cancelled)?;
    Ok(hashv(&[last.as_ref(), signatures_root(signatures).as_ref()]))
}

/// Returns the root of the Merkle tree of the signatures of an entry.
fn signatures_root(signatures: &[&Signature]) -> Hash {
    MerkleTree::new(signatures).get_root().copied().unwrap_or_default()
}

fn repeat_hash(start: Hash, count: u64, is_cancelled: &AtomicBool) -> Result<Hash, EntryError> {
    let mut last = start;
    let mut left = count;
    while left > 0 {
        if is_cancelled.load(Ordering::Relaxed) {
            return Err(EntryError::Cancelled);
        }
        let next = left.min(HASHES_UNTIL_CHECK);
        last = (0..next).fold(last, |last, _| hash(last.as_ref()));
        left -= next;
    }
    Ok(last)
}
