//! Blocks, transactions and signatures by address, for a limited number of recent slots.
//!
//! In: transactions as they are executed, blocks as they complete, in order, from the one writer. A
//! block is stored without its account writes.
//! Out: [`HistorySnapshot`], which readers may retain as long as they like without blocking
//! anything. It finds the open block's transactions by signature, and by address once their block
//! is complete. A published map is copied at the next write to it; so the lists by address, which
//! are the largest part, are copied once a block. A signature maps to a position, so that copies
//! need no reference counts.
//! Bounds: [`HistoryLimits`], enforced whenever a block completes: the oldest blocks are removed
//! with all their entries. The open block is additional.

use std::sync::Arc;

use arc_swap::ArcSwap;
use foldhash::quality::RandomState;
use imbl::shared_ptr::DefaultSharedPtr;
use imbl::{GenericHashMap, OrdMap, Vector};
use ledger::Slot;
use parking_lot::Mutex;
use solana_pubkey::Pubkey;
use solana_signature::Signature;

use crate::block::{Block, ExecutedTransaction, transaction_bytes};

/// Limits of the retained history.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Number of slots, from the newest down.
    pub slots_max: u64,
    /// Estimated bytes of transactions and blocks.
    pub bytes_max: u64,
}

/// A transaction that has an address among its accounts.
#[derive(Clone, Debug)]
pub struct AddressSignature(pub Arc<ExecutedTransaction>);

/// Position of a transaction.
#[derive(Clone, Copy, Debug)]
struct TransactionPosition {
    slot: Slot,
    /// Index in its block, in the order of execution.
    index: usize,
}

/// The maps that snapshots share.
type Map<K, V> = GenericHashMap<K, V, RandomState, DefaultSharedPtr>;

/// A snapshot of the history.
#[derive(Clone, Default)]
pub struct HistorySnapshot {
    blocks: OrdMap<Slot, Arc<Block>>,
    /// The transactions of the open block.
    open: Vector<Arc<ExecutedTransaction>>,
    /// Positions of all transactions, including those of the open block.
    positions: Map<Signature, TransactionPosition>,
    by_address: Map<Pubkey, Vector<AddressSignature>>,
    bytes: u64,
}

/// The writer's state.
#[derive(Default)]
struct WriterState {
    all: HistorySnapshot,
    /// As of the newest complete block.
    by_address: Map<Pubkey, Vector<AddressSignature>>,
}

/// The history of a ledger: one writer, any number of readers.
pub struct History {
    limits: HistoryLimits,
    writer: Mutex<WriterState>,
    published: ArcSwap<HistorySnapshot>,
}

impl History {
    /// An empty history.
    pub fn new(limits: HistoryLimits) -> Self {
        Self {
            limits,
            writer: Mutex::default(),
            published: ArcSwap::from_pointee(HistorySnapshot::default()),
        }
    }

    /// The published snapshot. Costs a reference count, whatever its size.
    pub fn snapshot(&self) -> Arc<HistorySnapshot> {
        self.published.load_full()
    }

    /// Adds transactions of the open block, in the order of execution. Readers find them by
    /// signature after [`Self::publish`], and by address after the publication of their block.
    pub fn record_transactions(&self, transactions: &[Arc<ExecutedTransaction>]) {
        let mut writer = self.writer.lock();
        for transaction in transactions {
            writer.all.add(transaction);
        }
    }

    /// Adds a complete block without its account writes, and removes the oldest blocks beyond the
    /// limits. All its transactions must have been added since the previous block, and no others.
    pub fn record_block(&self, block: &Block) {
        let mut writer = self.writer.lock();
        let WriterState { all, by_address } = &mut *writer;
        let newest = block.id.slot;
        let block = Block {
            transactions: block.transactions.clone(),
            rewards: block.rewards.clone(),
            writes: Vec::new(), // history has no old versions of accounts
            ..*block
        };
        all.bytes += block_bytes(&block);
        all.open.clear();
        all.blocks.insert(block.id.slot, Arc::new(block));
        let first_retained = newest.saturating_sub(self.limits.slots_max.saturating_sub(1));
        while all.blocks.len() > 1
            && (all.bytes > self.limits.bytes_max
                || all.first_slot().is_some_and(|first| first < first_retained))
        {
            all.drop_oldest();
        }
        by_address.clone_from(&all.by_address);
    }

    /// Publishes all that was added.
    pub fn publish(&self) {
        let writer = self.writer.lock();
        let by_address = writer.by_address.clone();
        let snapshot = HistorySnapshot { by_address, ..writer.all.clone() };
        drop(writer);
        self.published.store(Arc::new(snapshot));
    }
}

impl HistorySnapshot {
    /// The complete block of a slot, if it is retained.
    pub fn block(&self, slot: Slot) -> Option<&Arc<Block>> {
        self.blocks.get(&slot)
    }

    /// The complete blocks of a range of slots, in order.
    pub fn blocks(
        &self,
        slots: impl std::ops::RangeBounds<Slot>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Block>> {
        self.blocks.range(slots).map(|(_, block)| block)
    }

    /// The oldest slot with a retained block.
    pub fn first_slot(&self) -> Option<Slot> {
        self.blocks.get_min().map(|(slot, _)| *slot)
    }

    /// The transaction of a signature.
    pub fn transaction(&self, signature: &Signature) -> Option<&Arc<ExecutedTransaction>> {
        let TransactionPosition { slot, index } = *self.positions.get(signature)?;
        let in_block = self.blocks.get(&slot).and_then(|block| block.transactions.get(index));
        let found = in_block.into_iter().chain(self.open.get(index));
        found.into_iter().find(|transaction| transaction.signature() == *signature)
    }

    /// The transactions of complete blocks with this address, the oldest first.
    pub fn signatures_for_address(&self, address: &Pubkey) -> Option<&Vector<AddressSignature>> {
        self.by_address.get(address)
    }

    /// Estimated bytes of the history.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn add(&mut self, transaction: &Arc<ExecutedTransaction>) {
        self.bytes += transaction_bytes(transaction);
        let position = TransactionPosition { slot: transaction.slot, index: self.open.len() };
        self.positions.insert(transaction.signature(), position);
        self.open.push_back(Arc::clone(transaction));
        for key in &transaction.account_keys {
            let entry = AddressSignature(Arc::clone(transaction));
            self.by_address.entry(*key).or_default().push_back(entry);
        }
    }

    fn drop_oldest(&mut self) {
        let Some((_, block)) = self.blocks.get_min().cloned() else { return };
        self.blocks.remove(&block.id.slot);
        self.bytes = self.bytes.saturating_sub(block_bytes(&block));
        for transaction in &block.transactions {
            self.bytes = self.bytes.saturating_sub(transaction_bytes(transaction));
            self.positions.remove(&transaction.signature());
            for key in &transaction.account_keys {
                self.forget_oldest_of(key, block.id.slot);
            }
        }
    }

    fn forget_oldest_of(&mut self, key: &Pubkey, slot: Slot) {
        let Some(entries) = self.by_address.get_mut(key) else { return };
        while entries.front().is_some_and(|entry| entry.0.slot <= slot) {
            entries.pop_front();
        }
        if entries.is_empty() {
            self.by_address.remove(key);
        }
    }
}

/// Whether the block of `slot` in history, and every transaction in it, is rooted. `root` is the slot
/// of the root. At and below it, only the final chain has blocks.
pub fn is_rooted(slot: Slot, root: Slot) -> bool {
    slot <= root
}

/// A block's own share: its header and a pointer for each transaction.
fn block_bytes(block: &Block) -> u64 {
    (size_of::<Block>() + block.transactions.len() * 8) as u64 + block.rewards_bytes()
}

#[cfg(test)]
mod tests {
    use ledger::BlockId;
    use solana_hash::Hash;
    use solana_transaction::versioned::VersionedTransaction;
    use solana_transaction_status::TransactionStatusMeta;

    use super::*;
    use crate::block_info::BankHashComponents;

    const PER_BLOCK: usize = 100;

    fn signature(slot: Slot, index: usize) -> Signature {
        let mut bytes = [7; 64];
        bytes[..8].copy_from_slice(&slot.to_le_bytes());
        bytes[8..16].copy_from_slice(&index.to_le_bytes());
        bytes.into()
    }

    fn transaction(slot: Slot, index: usize) -> Arc<ExecutedTransaction> {
        Arc::new(ExecutedTransaction {
            slot,
            index: index as u32,
            block_time: 0,
            transaction: VersionedTransaction {
                signatures: vec![signature(slot, index)],
                ..VersionedTransaction::default()
            },
            meta: TransactionStatusMeta::default(),
            account_keys: Vec::new(),
            is_vote: false,
        })
    }

    fn block(slot: Slot, transactions: Vec<Arc<ExecutedTransaction>>) -> Block {
        Block {
            id: BlockId { slot, version: slot },
            parent: BlockId { slot: slot.saturating_sub(1), version: slot.saturating_sub(1) },
            block_height: slot,
            blockhash: Hash::default(),
            previous_blockhash: Hash::default(),
            bank_hash: Hash::default(),
            hash_components: BankHashComponents::default(),
            block_time: 0,
            transaction_count: 0,
            transactions,
            rewards: Vec::new(),
            reward_partitions: None,
            writes: Vec::new(),
        }
    }

    /// Counts the transactions of a slot that the snapshot finds by signature, and checks their
    /// positions.
    fn known(history: &HistorySnapshot, slot: Slot) -> usize {
        let found = (0..PER_BLOCK).filter_map(|index| {
            let transaction = history.transaction(&signature(slot, index))?;
            assert_eq!((transaction.slot, transaction.index), (slot, index as u32));
            Some(transaction)
        });
        found.count()
    }

    #[test]
    fn a_transaction_is_found_by_signature_from_its_publication_until_its_block_is_removed() {
        let history = History::new(HistoryLimits { slots_max: 2, bytes_max: u64::MAX });
        let mut old = Vec::new();
        for slot in 1..=4 {
            let all: Vec<_> = (0..PER_BLOCK).map(|index| transaction(slot, index)).collect();
            let (first, second) = all.split_at(PER_BLOCK / 3);
            for (part, len) in [(first, first.len()), (second, PER_BLOCK)] {
                let before = history.snapshot();
                history.record_transactions(part);
                assert_eq!(known(&before, slot), len - part.len());
                history.publish();
                assert_eq!(known(&history.snapshot(), slot), len);
                assert_eq!(known(&before, slot), len - part.len(), "a snapshot stays as it was");
            }
            history.record_block(&block(slot, all));
            history.publish();
            old.push(history.snapshot());
        }
        for (newest, snapshot) in (1..).zip(&old) {
            for slot in 1..=4 {
                let is_retained = slot <= newest && slot + 2 > newest;
                assert_eq!(known(snapshot, slot), if is_retained { PER_BLOCK } else { 0 });
            }
        }
    }
}
