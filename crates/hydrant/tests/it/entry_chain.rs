//! Agave's rule for entries, written once more: each hash follows from the one before it and from the transactions.

use anyhow::{Context, Result, ensure};
use solana_hash::Hash;
use solana_sha256_hasher::{hash, hashv};
use yellowstone_grpc_proto::geyser::{SubscribeUpdateBlockMeta, SubscribeUpdateEntry};

/// Hashes of an entry, at most: a test does not compute a real cluster's.
const NUM_HASHES_MAX: u64 = 1_000;

/// Checks that the entries lead from the parent's blockhash to the block's, through all transactions. `transactions`
/// are the signatures of each, in order.
pub(crate) fn check(
    meta: &SubscribeUpdateBlockMeta,
    entries: &[SubscribeUpdateEntry],
    transactions: &[Vec<Vec<u8>>],
) -> Result<()> {
    let count = meta.entries_count;
    let sent = entries.len() as u64;
    ensure!(count == sent && sent > 0, "{sent} entries, and the metadata says {count}");
    let mut last: Hash = meta.parent_blockhash.parse().context("the parent's blockhash")?;
    let mut next_transaction = 0;
    for (entry, index) in entries.iter().zip(0..) {
        ensure!(entry.index == index, "entry {} instead of {index}", entry.index);
        ensure!(entry.starting_transaction_index == next_transaction as u64, "entry {index}");
        let end = next_transaction + usize::try_from(entry.executed_transaction_count)?;
        let own = transactions.get(next_transaction..end);
        let own = own.with_context(|| format!("entry {index} ends after the transactions"))?;
        next_transaction = end;
        let expected = next_hash(last, entry.num_hashes, own)?;
        ensure!(entry.hash == expected.as_ref(), "the hash of entry {index}");
        last = expected;
    }
    ensure!(next_transaction == transactions.len(), "transactions without an entry");
    ensure!(last.to_string() == meta.blockhash, "the last entry's hash is not the blockhash");
    Ok(())
}

/// The hash of an entry: hashes without content, then one with the root of the transactions' signatures if there are any.
fn next_hash(start: Hash, num_hashes: u64, transactions: &[Vec<Vec<u8>>]) -> Result<Hash> {
    ensure!((1..=NUM_HASHES_MAX).contains(&num_hashes), "an entry of {num_hashes} hashes");
    let before_last = (1..num_hashes).fold(start, |last, _| hash(last.as_ref()));
    let signatures: Vec<&[u8]> = transactions.iter().flatten().map(Vec::as_slice).collect();
    Ok(match transactions.is_empty() {
        true => hash(before_last.as_ref()),
        false => hashv(&[before_last.as_ref(), merkle_root(&signatures).as_ref()]),
    })
}

/// Leaves have the prefix 0 and inner nodes 1; a node without a sibling is its own.
fn merkle_root(items: &[&[u8]]) -> Hash {
    let mut level: Vec<Hash> = items.iter().map(|item| hashv(&[&[0], item])).collect();
    while level.len() > 1 {
        level = level
            .chunks(2)
            .map(|pair| {
                let left = pair[0];
                let right = pair[pair.len() - 1];
                hashv(&[&[1], left.as_ref(), right.as_ref()])
            })
            .collect();
    }
    level.first().copied().unwrap_or_default()
}
