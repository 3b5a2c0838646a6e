//! The status cache of a ledger as an archive has it: the transactions of the last blocks by blockhash, with their
//! results.
//!
//! Bounds: [`RECENT_BLOCKHASHES_MAX`] blocks of history.

use std::collections::BTreeMap;

use chain_solana::{HistorySnapshot, RECENT_BLOCKHASHES_MAX};
use ledger::{Commitment, Slot};
use snapshot_solana::{STATUS_KEY_BYTES, StatusKey};
use solana_transaction_error::TransactionError;

type Statuses = (u64, Vec<(StatusKey, Result<(), TransactionError>)>);
type SlotStatuses = (Slot, bool, Vec<([u8; 32], Statuses)>);

/// Returns the transactions up to a slot in bincode. The key of one is the start of its signature.
pub(crate) fn encode(history: &HistorySnapshot, newest: Slot) -> Vec<u8> {
    let mut slots: Vec<SlotStatuses> = Vec::new();
    let newest_first = history.blocks(..=newest, Commitment::Finalized).rev();
    for block in newest_first.take(RECENT_BLOCKHASHES_MAX) {
        let mut by_blockhash: BTreeMap<[u8; 32], Statuses> = BTreeMap::new();
        for executed in &block.transactions {
            let signature = executed.signature();
            let mut key = StatusKey::default();
            key.copy_from_slice(&signature.as_ref()[..STATUS_KEY_BYTES]);
            let blockhash = executed.transaction.message.recent_blockhash().to_bytes();
            let (_, statuses) = by_blockhash.entry(blockhash).or_default();
            statuses.push((key, executed.meta.status.clone()));
        }
        slots.push((block.id.slot, true, by_blockhash.into_iter().collect()));
    }
    slots.reverse();
    // Plain data in memory: it always has a form.
    bincode::serialize(&slots).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use chain_solana::{BankHashComponents, Block, History, HistoryLimits};
    use ledger::BlockId;

    use super::*;

    fn block(id: BlockId, parent: BlockId) -> Block {
        Block {
            id,
            parent,
            block_height: id.version,
            blockhash: Default::default(),
            previous_blockhash: Default::default(),
            bank_hash: Default::default(),
            hash_components: BankHashComponents::default(),
            block_time: 0,
            transaction_count: 0,
            transactions: Vec::new(),
            rewards: Vec::new(),
            reward_partitions: None,
            entries: Vec::new(),
            writes: Vec::new(),
        }
    }

    #[test]
    fn a_slot_jump_leaves_300_blocks_in_the_status_cache() {
        let limits = HistoryLimits { blocks_max: u64::MAX, bytes_max: u64::MAX };
        let mut parent = BlockId { slot: 0, version: 0 };
        let history = History::new(limits, parent);
        for version in 1..=400 {
            let id = BlockId { slot: version * 432_000, version };
            history.record_block(&block(id, parent));
            history.set_tip(id);
            history.finalize(id);
            parent = id;
        }
        history.publish();
        let encoded = encode(&history.snapshot(), parent.slot);
        let slots: Vec<SlotStatuses> = bincode::deserialize(&encoded).expect("its form");
        let slots: Vec<Slot> = slots.into_iter().map(|(slot, ..)| slot).collect();
        assert_eq!(slots, (101..=400).map(|n| n * 432_000).collect::<Vec<_>>());
    }
}
