//! The published state of the history: the chain of the processed block, with the transactions of the open one.
//!
//! In: blocks at the newer end of the chain, from the writer. Out: blocks by slot, transactions by signature and by
//! address, each at a commitment.
//! Invariant: the blocks are those from the oldest retained one to the tip, without a gap, and every entry belongs to
//! one of them or to the open block. So a slot has one block here, and the slots of the tips determine which blocks are
//! confirmed and final.
//! Shape: a published map is copied at the next write to it. Signatures and addresses map to positions, so that copies
//! need no reference counts.
//! Not here: the blocks of other forks, limits (`writer_state`).

use std::ops::RangeBounds;
use std::sync::Arc;

use foldhash::quality::RandomState;
use imbl::shared_ptr::DefaultSharedPtr;
use imbl::{GenericHashMap, OrdMap, Vector};
use ledger::{BlockId, Commitment, Slot};
use solana_pubkey::Pubkey;
use solana_signature::Signature;

use crate::block::{Block, ExecutedTransaction, transaction_bytes};

/// Position of a transaction on the chain of the tip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionPosition {
    /// The slot of the block that contains it.
    pub slot: Slot,
    /// Index in its block, in the order of execution.
    pub index: u32,
}

/// The maps that snapshots share.
type Map<K, V> = GenericHashMap<K, V, RandomState, DefaultSharedPtr>;
/// The transactions of each address, the oldest first.
pub(super) type ByAddress = Map<Pubkey, Vector<TransactionPosition>>;
/// The position of each transaction.
pub(super) type Positions = Map<Signature, TransactionPosition>;

/// A retained block, without its account writes.
#[derive(Clone)]
pub(super) struct StoredBlock {
    pub(super) block: Arc<Block>,
    /// Estimated bytes of the block and its transactions.
    pub(super) bytes: u64,
    /// Whether the ledger jumped to the block, so that its transactions are not known.
    pub(super) is_jump: bool,
}

/// The newest block of each commitment. They are on one chain.
#[derive(Clone, Copy)]
pub(super) struct Tips {
    /// The newest frozen block that is processed.
    pub(super) processed: BlockId,
    pub(super) confirmed: BlockId,
    pub(super) root: BlockId,
}

/// The block after the tip, while its transactions are executed.
#[derive(Clone, Default)]
struct OpenBlock {
    id: Option<BlockId>,
    transactions: Vector<Arc<ExecutedTransaction>>,
    bytes: u64,
}

/// An immutable version of the history, at one publish.
#[derive(Clone)]
pub struct HistorySnapshot {
    pub(super) tips: Tips,
    /// The frozen blocks up to the tip, by slot.
    chain: OrdMap<Slot, StoredBlock>,
    open: OpenBlock,
    /// Positions of all transactions, including those of the open block.
    pub(super) positions: Positions,
    pub(super) by_address: ByAddress,
    /// Bytes of all retained blocks, including those of other forks.
    pub(super) blocks_bytes: u64,
}

impl HistorySnapshot {
    /// Creates a history without blocks. The ledger starts after `root`.
    pub(super) fn new(root: BlockId) -> Self {
        Self {
            tips: Tips { processed: root, confirmed: root, root },
            chain: OrdMap::new(),
            open: OpenBlock::default(),
            positions: Map::default(),
            by_address: Map::default(),
            blocks_bytes: 0,
        }
    }

    /// Returns a copy with other lists by address.
    pub(super) fn with_by_address(&self, by_address: &ByAddress) -> Self {
        Self { by_address: by_address.clone(), ..self.clone() }
    }

    /// Returns the snapshot without the open block.
    pub(super) fn without_open(self, positions: &Positions) -> Self {
        Self { open: OpenBlock::default(), positions: positions.clone(), ..self }
    }

    /// Returns the slot of the newest block at a commitment. At processed it may be the open block.
    pub fn newest_slot(&self, commitment: Commitment) -> Slot {
        match commitment {
            Commitment::Processed => {
                let open = self.open.transactions.front().and(self.open.id);
                open.unwrap_or(self.tips.processed).slot
            }
            Commitment::Confirmed => self.tips.confirmed.slot,
            Commitment::Finalized => self.tips.root.slot,
        }
    }

    /// Returns the commitment of the block of a slot, and of every transaction in it.
    pub fn commitment(&self, slot: Slot) -> Commitment {
        if is_rooted(slot, self.tips.root.slot) {
            Commitment::Finalized
        } else if slot <= self.tips.confirmed.slot {
            Commitment::Confirmed
        } else {
            Commitment::Processed
        }
    }

    /// Returns the frozen block of a slot, if it is retained and has the commitment.
    pub fn block(&self, slot: Slot, commitment: Commitment) -> Option<&Arc<Block>> {
        let stored = self.chain.get(&slot).filter(|stored| !stored.is_jump)?;
        (self.commitment(slot) >= commitment).then_some(&stored.block)
    }

    /// Returns the frozen blocks of a range of slots that have the commitment, in order.
    pub fn blocks(
        &self,
        slots: impl RangeBounds<Slot>,
        commitment: Commitment,
    ) -> impl DoubleEndedIterator<Item = &Arc<Block>> {
        let newest = self.newest_slot(commitment);
        let stored = self.chain.range(slots).map(|(_, stored)| stored);
        let found = stored.filter(|stored| !stored.is_jump).map(|stored| &stored.block);
        found.filter(move |block| block.id.slot <= newest)
    }

    /// Returns how many blocks `lower` is below `upper`. `None` if one of the two slots has no retained block.
    pub fn height_difference(&self, lower: Slot, upper: Slot) -> Option<u64> {
        let height = |slot| Some(self.chain.get(&slot)?.block.block_height);
        height(upper)?.checked_sub(height(lower)?)
    }

    /// Returns the oldest slot with a retained block.
    pub fn first_slot(&self) -> Option<Slot> {
        self.chain.iter().find(|(_, stored)| !stored.is_jump).map(|(slot, _)| *slot)
    }

    /// Returns the transaction of a signature, if its block has the commitment.
    pub fn transaction(
        &self,
        signature: &Signature,
        commitment: Commitment,
    ) -> Option<&Arc<ExecutedTransaction>> {
        let position = *self.positions.get(signature)?;
        let open = self.open.transactions.get(position.index as usize);
        let mut found = self.transaction_at(position).into_iter().chain(open);
        let found = found.find(|transaction| transaction.signature() == *signature);
        found.filter(|_| self.commitment(position.slot) >= commitment)
    }

    /// Returns the transactions of the open block, in order.
    pub fn open_transactions(&self) -> impl DoubleEndedIterator<Item = &Arc<ExecutedTransaction>> {
        self.open.transactions.iter()
    }

    /// Returns the transaction at a position, of a frozen block.
    pub fn transaction_at(
        &self,
        position: TransactionPosition,
    ) -> Option<&Arc<ExecutedTransaction>> {
        self.chain.get(&position.slot)?.block.transactions.get(position.index as usize)
    }

    /// Returns the positions of the transactions of frozen blocks with this address, the oldest first, at processed.
    /// [`Self::newest_slot`] is where those of a higher commitment end.
    pub fn signatures_for_address(&self, address: &Pubkey) -> Option<&Vector<TransactionPosition>> {
        self.by_address.get(address)
    }

    /// Estimates the bytes of the history, including the blocks of other forks.
    pub fn bytes(&self) -> u64 {
        self.blocks_bytes + self.open.bytes
    }

    /// Whether a retained block is on the chain of the tip.
    pub(super) fn contains(&self, id: BlockId) -> bool {
        self.chain.get(&id.slot).is_some_and(|stored| stored.block.id == id)
    }

    /// Returns the number of frozen blocks on the chain.
    pub(super) fn len(&self) -> usize {
        self.chain.len()
    }

    pub(super) fn oldest(&self) -> Option<BlockId> {
        self.chain.get_min().map(|(_, stored)| stored.block.id)
    }

    pub(super) fn newest(&self) -> Option<BlockId> {
        self.chain.get_max().map(|(_, stored)| stored.block.id)
    }

    pub(super) fn find_stored(&self, id: BlockId) -> Option<&StoredBlock> {
        self.chain.get(&id.slot).filter(|stored| stored.block.id == id)
    }

    /// Returns the bytes of the transactions of a block, which are already measured if it was the open block.
    pub(super) fn transactions_bytes(&self, block: &Block) -> u64 {
        if self.open.id == Some(block.id)
            && self.open.transactions.len() == block.transactions.len()
        {
            return self.open.bytes;
        }
        block.transactions.iter().map(|transaction| transaction_bytes(transaction)).sum()
    }

    pub(super) fn is_open(&self, id: BlockId) -> bool {
        self.open.id == Some(id)
    }

    pub(super) fn open_len(&self) -> usize {
        self.open.transactions.len()
    }

    pub(super) fn has_open_block(&self) -> bool {
        self.open.id.is_some()
    }

    /// Adds a transaction of the open block `id`.
    pub(super) fn add_to_open(&mut self, id: BlockId, transaction: &Arc<ExecutedTransaction>) {
        self.open.id = Some(id);
        self.add(transaction, self.open.transactions.len());
        self.open.bytes += transaction_bytes(transaction);
        self.open.transactions.push_back(Arc::clone(transaction));
    }

    /// Removes the open block with its transactions.
    pub(super) fn remove_open(&mut self) {
        let OpenBlock { id, transactions, .. } = std::mem::take(&mut self.open);
        let Some(id) = id else { return };
        self.remove_newest(id.slot, transactions.iter());
    }

    /// Appends a frozen block to the chain. Transactions that it had while it was open already have entries.
    pub(super) fn push(&mut self, stored: StoredBlock) {
        let block = &stored.block;
        let known = if self.is_open(block.id) {
            std::mem::take(&mut self.open).transactions.len()
        } else {
            0
        };
        for (index, transaction) in block.transactions.iter().enumerate().skip(known) {
            self.add(transaction, index);
        }
        self.chain.insert(block.id.slot, stored);
    }

    /// Removes the newest block of the chain, with its transactions. There must be no open block.
    pub(super) fn pop(&mut self) -> Option<StoredBlock> {
        let (slot, _) = self.chain.get_max()?;
        let slot = *slot;
        let stored = self.chain.remove(&slot)?;
        self.remove_newest(slot, stored.block.transactions.iter());
        Some(stored)
    }

    /// Removes the oldest block of the chain, with its transactions, and returns it.
    pub(super) fn remove_oldest(&mut self) -> Option<StoredBlock> {
        let (slot, _) = self.chain.get_min()?;
        let slot = *slot;
        let stored = self.chain.remove(&slot)?;
        self.blocks_bytes -= stored.bytes;
        stored.remove_from(&mut self.by_address, &mut self.positions);
        Some(stored)
    }

    fn add(&mut self, transaction: &Arc<ExecutedTransaction>, index: usize) {
        // A block has fewer than 2^32 transactions.
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let position = TransactionPosition { slot: transaction.slot, index };
        self.positions.insert(transaction.signature(), position);
        for key in &transaction.account_keys {
            self.by_address.entry(*key).or_default().push_back(position);
        }
    }

    /// Removes the entries of transactions that are the newest.
    fn remove_newest<'a>(
        &mut self,
        slot: Slot,
        transactions: impl Iterator<Item = &'a Arc<ExecutedTransaction>>,
    ) {
        for transaction in transactions {
            self.positions.remove(&transaction.signature());
            for key in &transaction.account_keys {
                trim(&mut self.by_address, key, |entries| match entries.back() {
                    Some(entry) if entry.slot >= slot => entries.pop_back().is_some(),
                    _ => false,
                });
            }
        }
    }
}

impl StoredBlock {
    /// Removes the block's transactions, which must be the oldest, from the lists of their addresses and from the positions.
    pub(super) fn remove_from(&self, by_address: &mut ByAddress, positions: &mut Positions) {
        let slot = self.block.id.slot;
        for transaction in &self.block.transactions {
            positions.remove(&transaction.signature());
        }
        for key in self.block.transactions.iter().flat_map(|one| &one.account_keys) {
            trim(by_address, key, |entries| match entries.front() {
                Some(entry) if entry.slot <= slot => entries.pop_front().is_some(),
                _ => false,
            });
        }
    }
}

/// Removes entries of an address until `remove_one` removes none.
fn trim(
    by_address: &mut ByAddress,
    key: &Pubkey,
    remove_one: impl Fn(&mut Vector<TransactionPosition>) -> bool,
) {
    let Some(entries) = by_address.get_mut(key) else { return };
    while remove_one(entries) {}
    if entries.is_empty() {
        by_address.remove(key);
    }
}

/// Whether the block of `slot` in history, and every transaction in it, is rooted. `root` is the slot
/// of the root. At and below it, only the final chain has blocks.
pub fn is_rooted(slot: Slot, root: Slot) -> bool {
    slot <= root
}
