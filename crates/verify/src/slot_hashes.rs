//! The newest entry of the SlotHashes sysvar: what a bank says of its parent.

use ledger::Slot;
use solana_hash::Hash;

/// The newest slot in the sysvar's data, and its bank hash. Every bank adds its parent when it is created.
///
/// Shape of the data: the number of entries, then slot and hash of each, the newest first.
pub fn newest_slot_hash(data: &[u8]) -> Option<(Slot, Hash)> {
    let (len, rest) = data.split_first_chunk::<8>()?;
    let (slot, rest) = rest.split_first_chunk::<8>()?;
    let (hash, _) = rest.split_first_chunk::<32>()?;
    let is_empty = u64::from_le_bytes(*len) == 0;
    (!is_empty).then(|| (Slot::from_le_bytes(*slot), Hash::new_from_array(*hash)))
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
    }
}
