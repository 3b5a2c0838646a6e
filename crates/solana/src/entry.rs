//! Entries: the links of Proof of History, which lead from the parent's blockhash to the block's own.
//!
//! Not here: how a hash is computed (`localnet` makes entries, `verify` verifies them), and which transactions an entry
//! has.

use solana_hash::Hash;

/// A link of Proof of History. Its transactions follow those of the entry before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Hashes since the entry before it.
    pub num_hashes: u64,
    /// The hash after them. That of a block's last entry is the blockhash.
    pub hash: Hash,
    /// Transactions in it; 0 in a tick.
    pub transaction_count: u64,
    /// The index of its first transaction in the block.
    pub starting_transaction_index: u64,
}

impl Entry {
    /// Whether these are all entries of a block: each one starts where the one before it ends, they have all
    /// transactions, and the last one has the blockhash.
    pub fn are_whole(entries: &[Self], transaction_count: u64, blockhash: &Hash) -> bool {
        let mut next = 0_u64;
        let is_in_order = entries.iter().all(|entry| {
            let is_next = entry.starting_transaction_index == next;
            next = next.saturating_add(entry.transaction_count);
            is_next
        });
        let has_blockhash = entries.last().is_some_and(|last| last.hash == *blockhash);
        is_in_order && has_blockhash && next == transaction_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: u8, starting_transaction_index: u64, transaction_count: u64) -> Entry {
        let hash = Hash::new_from_array([n; 32]);
        Entry { num_hashes: 1, hash, transaction_count, starting_transaction_index }
    }

    #[test]
    fn entries_are_whole_if_they_have_all_transactions_and_end_with_the_blockhash() {
        let blockhash = Hash::new_from_array([3; 32]);
        let whole = [entry(1, 0, 2), entry(2, 2, 1), entry(3, 3, 0)];
        let check = |entries: &[Entry], count| Entry::are_whole(entries, count, &blockhash);
        assert!(check(&whole, 3));
        assert!(!check(&whole, 4));
        assert!(!check(&whole[..2], 3));
        assert!(!check(&whole[1..], 1));
        assert!(!check(&[whole[0], entry(2, 1, 1), entry(3, 2, 0)], 3));
        assert!(!check(&[], 0));
    }
}
