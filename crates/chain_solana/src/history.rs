//! Blocks, transactions and signatures by address, for the last so many slots.
//!
//! In: transactions as they are executed, blocks as they complete, in order, from the one writer.
//! A block is kept without the accounts that it wrote.
//! Out: [`HistorySnapshot`], which readers keep as long as they like without holding anything up. It knows
//! the open block's transactions by signature; by address, once their block is complete: what is shown
//! is copied where it is written next, and so the lists, the most of it, are copied once a block. A
//! signature leads to a place, so that what is copied for it counts no references.
//! Bounds: [`HistoryLimits`], held whenever a block completes: the oldest blocks go, with all that
//! leads to them. The open block comes on top.

use std::sync::Arc;

use arc_swap::ArcSwap;
use foldhash::quality::RandomState;
use imbl::shared_ptr::DefaultSharedPtr;
use imbl::{GenericHashMap, OrdMap, Vector};
use ledger::Slot;
use parking_lot::Mutex;
use solana_pubkey::Pubkey;
use solana_signature::Signature;

use crate::{Block, ExecutedTransaction};

/// How much history is kept.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Slots below the newest.
    pub slots_max: u64,
    /// Bytes of transactions and blocks, estimated from their sizes.
    pub bytes_max: u64,
}

/// One transaction that names an address.
#[derive(Clone, Debug)]
pub struct AddressSignature(pub Arc<ExecutedTransaction>);

/// Where a transaction stands.
#[derive(Clone, Copy, Debug)]
struct TransactionPosition {
    slot: Slot,
    /// Among its block's, in the order of execution.
    index: usize,
}

/// The maps that snapshots share.
type Map<K, V> = GenericHashMap<K, V, RandomState, DefaultSharedPtr>;

/// History at one moment.
#[derive(Clone, Default)]
pub struct HistorySnapshot {
    blocks: OrdMap<Slot, Arc<Block>>,
    /// The transactions of the block that is not complete yet.
    open: Vector<Arc<ExecutedTransaction>>,
    /// Of every transaction, those of the open block too.
    positions: Map<Signature, TransactionPosition>,
    by_address: Map<Pubkey, Vector<AddressSignature>>,
    bytes: u64,
}

/// What the writer has of it.
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
    /// A history with nothing in it.
    pub fn new(limits: HistoryLimits) -> Self {
        Self {
            limits,
            writer: Mutex::default(),
            published: ArcSwap::from_pointee(HistorySnapshot::default()),
        }
    }

    /// What is known now. Costs a reference count, whatever is in it.
    pub fn snapshot(&self) -> Arc<HistorySnapshot> {
        self.published.load_full()
    }

    /// Adds transactions of the open block, in the order of execution. Readers see them after
    /// [`Self::publish`], and in the lists of addresses after that of their block.
    pub fn record_transactions(&self, executed: &[Arc<ExecutedTransaction>]) {
        let mut writing = self.writer.lock();
        for transaction in executed {
            writing.all.add(transaction);
        }
    }

    /// Adds a complete block whose transactions have been added, and no others since the block before,
    /// without the accounts that it wrote, and lets go of the oldest blocks past the limits.
    pub fn record_block(&self, block: &Block) {
        let mut writing = self.writer.lock();
        let WriterState { all, by_address } = &mut *writing;
        let newest = block.id.slot;
        let block = Block {
            transactions: block.transactions.clone(),
            rewards: block.rewards.clone(),
            writes: Vec::new(), // old versions of accounts are nobody's to keep
            ..*block
        };
        all.bytes += block_bytes(&block);
        all.open.clear();
        all.blocks.insert(block.id.slot, Arc::new(block));
        let first_kept = newest.saturating_sub(self.limits.slots_max.saturating_sub(1));
        while all.blocks.len() > 1
            && (all.bytes > self.limits.bytes_max
                || all.first_slot().is_some_and(|first| first < first_kept))
        {
            all.drop_oldest();
        }
        by_address.clone_from(&all.by_address);
    }

    /// Lets readers see all that was added.
    pub fn publish(&self) {
        let writing = self.writer.lock();
        let by_address = writing.by_address.clone();
        let snapshot = HistorySnapshot { by_address, ..writing.all.clone() };
        drop(writing);
        self.published.store(Arc::new(snapshot));
    }
}

impl HistorySnapshot {
    /// The block of a slot, if it has one that is complete and still kept.
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

    /// The oldest slot whose block is kept.
    pub fn first_slot(&self) -> Option<Slot> {
        self.blocks.get_min().map(|(slot, _)| *slot)
    }

    /// The transaction of a signature.
    pub fn transaction(&self, signature: &Signature) -> Option<&Arc<ExecutedTransaction>> {
        let TransactionPosition { slot, index } = *self.positions.get(signature)?;
        let in_block = self.blocks.get(&slot).and_then(|block| block.transactions.get(index));
        let found = in_block.into_iter().chain(self.open.get(index));
        found.into_iter().find(|executed| executed.signature() == *signature)
    }

    /// The transactions of complete blocks that name an address, the oldest first.
    pub fn signatures_for_address(&self, address: &Pubkey) -> Option<&Vector<AddressSignature>> {
        self.by_address.get(address)
    }

    /// Bytes of all that is kept, estimated from its sizes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn add(&mut self, executed: &Arc<ExecutedTransaction>) {
        self.bytes += transaction_bytes(executed);
        let place = TransactionPosition { slot: executed.slot, index: self.open.len() };
        self.positions.insert(executed.signature(), place);
        self.open.push_back(Arc::clone(executed));
        for key in &executed.account_keys {
            let entry = AddressSignature(Arc::clone(executed));
            self.by_address.entry(*key).or_default().push_back(entry);
        }
    }

    fn drop_oldest(&mut self) {
        let Some((_, block)) = self.blocks.get_min().cloned() else { return };
        self.blocks.remove(&block.id.slot);
        self.bytes = self.bytes.saturating_sub(block_bytes(&block));
        for executed in &block.transactions {
            self.bytes = self.bytes.saturating_sub(transaction_bytes(executed));
            self.positions.remove(&executed.signature());
            for key in &executed.account_keys {
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

/// A block's own share: its header and a pointer for each transaction.
fn block_bytes(block: &Block) -> u64 {
    (size_of::<Block>() + block.transactions.len() * 8) as u64 + block.rewards_bytes()
}

/// What one transaction costs us, maps included: measured sizes, not a guess at the allocator.
pub(crate) fn transaction_bytes(executed: &ExecutedTransaction) -> u64 {
    let meta = &executed.meta;
    let message = &executed.transaction.message;
    let instructions: usize = message
        .instructions()
        .iter()
        .map(|instruction| 48 + instruction.data.len() + instruction.accounts.len())
        .sum();
    let logs: usize = meta.log_messages.iter().flatten().map(|line| 24 + line.len()).sum();
    let inner: usize = meta
        .inner_instructions
        .iter()
        .flatten()
        .flat_map(|list| &list.instructions)
        .map(|inner| 64 + inner.instruction.data.len() + inner.instruction.accounts.len())
        .sum();
    let tokens = meta.pre_token_balances.iter().flatten().count()
        + meta.post_token_balances.iter().flatten().count();
    (size_of::<ExecutedTransaction>()
        + executed.transaction.signatures.len() * 64
        + message.static_account_keys().len() * 32
        + executed.account_keys.len() * (32 + 16 + 24)
        + meta.pre_balances.len() * 16
        + instructions
        + logs
        + inner
        + tokens * 300
        + 128) as u64
}

#[cfg(test)]
mod tests {
    use ledger::BlockId;
    use solana_hash::Hash;
    use solana_transaction::versioned::VersionedTransaction;
    use solana_transaction_status::TransactionStatusMeta;

    use super::*;

    const PER_BLOCK: usize = 100;

    fn signature(slot: Slot, index: usize) -> Signature {
        let mut bytes = [7; 64];
        bytes[..8].copy_from_slice(&slot.to_le_bytes());
        bytes[8..16].copy_from_slice(&index.to_le_bytes());
        bytes.into()
    }

    fn executed(slot: Slot, index: usize) -> Arc<ExecutedTransaction> {
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
            id: BlockId { slot, bank: slot },
            parent_slot: slot.saturating_sub(1),
            block_height: slot,
            blockhash: Hash::default(),
            previous_blockhash: Hash::default(),
            bank_hash: Hash::default(),
            block_time: 0,
            transaction_count: 0,
            transactions,
            rewards: Vec::new(),
            reward_partitions: None,
            writes: Vec::new(),
        }
    }

    /// Of which transactions of a block the snapshot knows, at their signatures, and no others there.
    fn known(history: &HistorySnapshot, slot: Slot) -> usize {
        let found = (0..PER_BLOCK).filter_map(|index| {
            let executed = history.transaction(&signature(slot, index))?;
            assert_eq!((executed.slot, executed.index), (slot, index as u32));
            Some(executed)
        });
        found.count()
    }

    #[test]
    fn a_signature_leads_to_its_transaction_from_its_publication_until_its_block_goes() {
        let history = History::new(HistoryLimits { slots_max: 2, bytes_max: u64::MAX });
        let mut old = Vec::new();
        for slot in 1..=4 {
            let all: Vec<_> = (0..PER_BLOCK).map(|index| executed(slot, index)).collect();
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
                let is_kept = slot <= newest && slot + 2 > newest;
                assert_eq!(known(snapshot, slot), if is_kept { PER_BLOCK } else { 0 });
            }
        }
    }
}
