//! The status cache of a ledger as an archive has it: the transactions of the last blocks by blockhash, with their
//! results.
//!
//! Bounds: [`RECENT_BLOCKHASHES_MAX`] slots of history.

use std::collections::BTreeMap;

use chain_solana::{HistorySnapshot, RECENT_BLOCKHASHES_MAX};
use ledger::{Commitment, Slot};
use snapshot_solana::{STATUS_KEY_BYTES, StatusKey};
use solana_transaction_error::TransactionError;

type Statuses = (u64, Vec<(StatusKey, Result<(), TransactionError>)>);
type SlotStatuses = (Slot, bool, Vec<([u8; 32], Statuses)>);

/// The transactions up to a slot in bincode. The key of one is the start of its signature.
pub(crate) fn encode(history: &HistorySnapshot, newest: Slot) -> Vec<u8> {
    let oldest = newest.saturating_sub(RECENT_BLOCKHASHES_MAX as u64 - 1);
    let mut slots: Vec<SlotStatuses> = Vec::new();
    for block in history.blocks(oldest..=newest, Commitment::Finalized) {
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
    // Plain data in memory: it always has a form.
    bincode::serialize(&slots).unwrap_or_default()
}
