//! The SlotHashes sysvar: what a bank says of its parent and of older ancestors.

use ledger::Slot;
use solana_hash::Hash;

/// The slots in the sysvar's data with their bank hashes, the newest first.
///
/// Shape of the data: the number of entries, then slot and hash of each. It ends at the first entry that is cut off.
pub fn slot_hashes(data: &[u8]) -> impl Iterator<Item = (Slot, Hash)> {
    let (len, mut rest) = data.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    let len = usize::try_from(u64::from_le_bytes(*len)).unwrap_or(usize::MAX);
    let entries = std::iter::from_fn(move || {
        let (slot, after) = rest.split_first_chunk::<8>()?;
        let (hash, after) = after.split_first_chunk::<32>()?;
        rest = after;
        Some((Slot::from_le_bytes(*slot), Hash::new_from_array(*hash)))
    });
    entries.take(len)
}

/// The newest slot in the sysvar's data, and its bank hash. Every bank adds its parent when it is created.
pub fn newest_slot_hash(data: &[u8]) -> Option<(Slot, Hash)> {
    slot_hashes(data).next()
}

#[cfg(test)]
mod tests {
    use solana_slot_hashes::SlotHashes;

    use super::*;

    #[test]
    fn the_newest_entry_is_that_of_the_parent() {
        let hash = |n| Hash::new_from_array([n; 32]);
        let mut hashes = SlotHashes::new(&[]);
        let data = |hashes: &SlotHashes| bincode::serialize(hashes).expect("it has a wire form");
        assert_eq!(newest_slot_hash(&data(&hashes)), None);
        hashes.add(7, hash(7));
        hashes.add(9, hash(9));
        assert_eq!(newest_slot_hash(&data(&hashes)), Some((9, hash(9))));
        assert_eq!(newest_slot_hash(&data(&hashes)[..40]), None);
        assert_eq!(newest_slot_hash(&[]), None);
        let all = [(9, hash(9)), (7, hash(7))];
        assert_eq!(super::slot_hashes(&data(&hashes)).collect::<Vec<_>>(), all);
        assert_eq!(super::slot_hashes(&data(&hashes)[..87]).collect::<Vec<_>>(), all[..1]);
    }
}
