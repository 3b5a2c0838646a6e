//! The published history: the retained chain blocks, and the positions of their transactions.
//!
//! Invariant: the blocks are those from the oldest retained one to the sink, without a gap, and every entry of the two
//! indices belongs to one of them.
//! Shape: a script's entries have a fingerprint of it, which is shorter than its address. Two scripts may share one, so
//! a read compares the scripts of the transaction. The key of the fingerprints is random, so that scripts
//! that share one cannot be chosen.
//! Not here: limits, reorganizations (`writer`).

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use imbl::{OrdMap, OrdSet, Vector};
use kaspa::{AcceptedTransaction, Hash, Header};
use ledger::Address;

/// Estimated bytes of an entry in an index, with its share of the tree's nodes.
const ID_ENTRY_BYTES: usize = 80;
const SCRIPT_ENTRY_BYTES: usize = 48;

/// The position of a transaction on the selected chain. Later ones are greater. It stays valid across restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionPosition {
    /// The DAA score of the chain block that accepts it. Each chain block has a higher one than the block before.
    pub daa_score: u64,
    /// The index among the transactions that the chain block accepts.
    pub index: u32,
}

/// A chain block with the transactions that it accepts.
pub(crate) struct HistoryBlock {
    hash: Hash,
    /// Shared with the ledger while the block is not final.
    header: Arc<Header>,
    transactions: Vec<AcceptedTransaction>,
    /// Estimated bytes, with those of the index entries.
    bytes: usize,
}

/// A transaction in the history.
#[derive(Clone, Copy, Debug)]
pub struct HistoryTransaction<'a> {
    /// The position on the chain.
    pub position: TransactionPosition,
    /// The transaction, with the outputs that it spends.
    pub accepted: &'a AcceptedTransaction,
    /// The hash of the chain block that accepted it.
    pub accepting_block: Hash,
    /// The DAA score of that block.
    pub accepting_daa_score: u64,
    /// The blue score of that block.
    pub accepting_blue_score: u64,
    /// The time of that block, in Unix milliseconds.
    pub accepting_time_ms: u64,
    /// The blue score of the sink, less that of the accepting block.
    pub confirmations: u64,
}

/// A part of a script's transactions.
#[derive(Debug)]
pub struct HistoryPage<'a> {
    /// The transactions, the newest first.
    pub transactions: Vec<HistoryTransaction<'a>>,
    /// The position before which the next page starts. `None` if no retained transaction is older.
    pub next_before: Option<TransactionPosition>,
}

/// The newest block of a history.
#[derive(Clone, Copy, Debug)]
pub struct NewestBlock<'a> {
    /// The hash of the chain block.
    pub hash: Hash,
    /// The header of the chain block.
    pub header: &'a Header,
}

/// An immutable version of the history.
#[derive(Clone)]
pub struct HistorySnapshot {
    blocks: Vector<Arc<HistoryBlock>>,
    by_id: OrdMap<Hash, TransactionPosition>,
    by_script: OrdSet<ScriptEntry>,
    fingerprints: Arc<RandomState>,
    sink_blue_score: u64,
    bytes: usize,
}

/// One transaction of a script, by the script's fingerprint.
type ScriptEntry = (u64, TransactionPosition);

impl HistoryBlock {
    pub(crate) fn new(
        hash: Hash,
        header: Arc<Header>,
        transactions: Vec<AcceptedTransaction>,
    ) -> Self {
        let bytes = size_of::<Self>()
            + header_bytes(&header)
            + transactions.iter().map(transaction_bytes).sum::<usize>();
        Self { hash, header, transactions, bytes }
    }

    fn position(&self, index: usize) -> TransactionPosition {
        // The transactions of a block come from a message, which has less than 2^32 bytes.
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        TransactionPosition { daa_score: self.header.daa_score, index }
    }
}

/// The addresses of the scripts that a transaction pays to or spends from, each once.
fn transaction_scripts(accepted: &AcceptedTransaction) -> BTreeSet<Address> {
    let created = accepted.transaction.outputs.iter().map(|output| &output.script_public_key);
    let spent = accepted.spent.iter().map(|entry| &entry.script_public_key);
    created.chain(spent).map(kaspa::ScriptPublicKey::ledger_address).collect()
}

/// Whether a transaction pays to a script or spends from it.
fn has_script(accepted: &AcceptedTransaction, script: &Address) -> bool {
    let created = accepted.transaction.outputs.iter().map(|output| &output.script_public_key);
    let spent = accepted.spent.iter().map(|entry| &entry.script_public_key);
    created.chain(spent).any(|found| found.ledger_address() == *script)
}

/// Returns the bytes of a header in memory.
pub(crate) fn header_bytes(header: &Header) -> usize {
    let runs = header.parents.runs();
    let run_bytes = runs.iter().map(|run| size_of_val(run) + size_of_val(run.parents.as_slice()));
    size_of_val(header) + run_bytes.sum::<usize>()
}

fn transaction_bytes(accepted: &AcceptedTransaction) -> usize {
    let transaction = &accepted.transaction;
    let inputs = transaction.inputs.iter();
    let outputs = transaction.outputs.iter();
    let scripts = accepted.spent.iter().map(|entry| &entry.script_public_key);
    let scripts = scripts.chain(outputs.clone().map(|output| &output.script_public_key));
    size_of_val(accepted)
        + inputs.map(|input| size_of_val(input) + input.signature_script.len()).sum::<usize>()
        + outputs.map(size_of_val).sum::<usize>()
        + accepted.spent.iter().map(size_of_val).sum::<usize>()
        + scripts.map(|script| script.script.len()).sum::<usize>()
        + transaction.payload.len()
        + ID_ENTRY_BYTES
        + transaction_scripts(accepted).len() * SCRIPT_ENTRY_BYTES
}

impl HistorySnapshot {
    pub(super) fn new() -> Self {
        Self {
            blocks: Vector::new(),
            by_id: OrdMap::new(),
            by_script: OrdSet::new(),
            fingerprints: Arc::new(RandomState::new()),
            sink_blue_score: 0,
            bytes: 0,
        }
    }

    /// Returns the transaction of an id.
    pub fn transaction(&self, id: &Hash) -> Option<HistoryTransaction<'_>> {
        self.transaction_at(*self.by_id.get(id)?)
    }

    /// Returns the transaction at a position. Cost: O(log blocks).
    pub fn transaction_at(&self, position: TransactionPosition) -> Option<HistoryTransaction<'_>> {
        let daa_score = |block: &Arc<HistoryBlock>| block.header.daa_score;
        let at = self.blocks.binary_search_by_key(&position.daa_score, daa_score).ok()?;
        let HistoryBlock { hash, header, transactions, .. } = self.blocks.get(at)?.as_ref();
        Some(HistoryTransaction {
            position,
            accepted: transactions.get(usize::try_from(position.index).ok()?)?,
            accepting_block: *hash,
            accepting_daa_score: header.daa_score,
            accepting_blue_score: header.blue_score,
            accepting_time_ms: header.timestamp_ms,
            confirmations: self.sink_blue_score.saturating_sub(header.blue_score),
        })
    }

    /// Returns the transactions that pay to a script or spend from it, the newest first, before a position.
    ///
    /// Cost: O(log entries) for the first, and O(log blocks) for each of at most `transactions_max`, at least one.
    pub fn script_transactions(
        &self,
        script: &Address,
        before: Option<TransactionPosition>,
        transactions_max: usize,
    ) -> HistoryPage<'_> {
        let mut entries = self.script_positions(script, before);
        let mut transactions = Vec::new();
        let mut next_before = None;
        // A page without an entry could not say where the next one starts.
        for position in entries.by_ref().take(transactions_max.max(1)) {
            next_before = Some(position);
            let found = self.transaction_at(position);
            transactions.extend(found.filter(|found| has_script(found.accepted, script)));
        }
        if entries.next().is_none() {
            next_before = None;
        }
        HistoryPage { transactions, next_before }
    }

    /// Iterates over the transactions that pay to a script or spend from it, the newest first, before a position.
    ///
    /// Cost: O(log entries) for the first, and for each O(log blocks) and the number of its inputs and outputs.
    pub fn iter_script_transactions<'a>(
        &'a self,
        script: &'a Address,
        before: Option<TransactionPosition>,
    ) -> impl Iterator<Item = HistoryTransaction<'a>> {
        let found = self.script_positions(script, before);
        let found = found.filter_map(move |position| self.transaction_at(position));
        found.filter(move |found| has_script(found.accepted, script))
    }

    /// The positions of the entries that have the fingerprint of a script, the newest first.
    fn script_positions(
        &self,
        script: &Address,
        before: Option<TransactionPosition>,
    ) -> impl Iterator<Item = TransactionPosition> {
        let fingerprint = self.fingerprint(script);
        let first = TransactionPosition { daa_score: 0, index: 0 };
        let end = TransactionPosition { daa_score: u64::MAX, index: u32::MAX };
        let range = (fingerprint, first)..(fingerprint, before.unwrap_or(end));
        self.by_script.range(range).rev().map(|(_, position)| *position)
    }

    /// Returns the newest block, up to which the history reaches.
    pub fn newest_block(&self) -> Option<NewestBlock<'_>> {
        let HistoryBlock { hash, header, .. } = self.blocks.back()?.as_ref();
        Some(NewestBlock { hash: *hash, header })
    }

    /// Returns the number of retained blocks.
    pub fn blocks_len(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the number of retained transactions.
    pub fn transactions_len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns the DAA score of the oldest retained block. Older transactions are not known.
    pub fn first_daa_score(&self) -> Option<u64> {
        self.blocks.front().map(|block| block.header.daa_score)
    }

    /// Estimates the bytes of the retained blocks and of their entries.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Estimates whether the history exceeds limits.
    pub(super) fn exceeds(&self, blocks_max: usize, bytes_max: usize) -> bool {
        self.blocks.len() > blocks_max || self.bytes > bytes_max
    }

    pub(super) fn set_sink_blue_score(&mut self, sink_blue_score: u64) {
        self.sink_blue_score = sink_blue_score;
    }

    /// Returns the DAA score of the newest block.
    pub(super) fn newest_daa_score(&self) -> Option<u64> {
        self.blocks.back().map(|block| block.header.daa_score)
    }

    pub(super) fn push(&mut self, block: HistoryBlock) {
        for (at, accepted) in block.transactions.iter().enumerate() {
            let position = block.position(at);
            self.by_id.insert(accepted.id, position);
            for script in transaction_scripts(accepted) {
                self.by_script.insert((self.fingerprint(&script), position));
            }
        }
        self.bytes += block.bytes;
        self.blocks.push_back(Arc::new(block));
    }

    pub(super) fn pop_newest(&mut self) {
        let block = self.blocks.pop_back();
        self.remove_entries(block);
    }

    pub(super) fn pop_oldest(&mut self) {
        let block = self.blocks.pop_front();
        self.remove_entries(block);
    }

    fn remove_entries(&mut self, block: Option<Arc<HistoryBlock>>) {
        let Some(block) = block else { return };
        for (at, accepted) in block.transactions.iter().enumerate() {
            let position = block.position(at);
            if self.by_id.get(&accepted.id) == Some(&position) {
                self.by_id.remove(&accepted.id);
            }
            for script in transaction_scripts(accepted) {
                self.by_script.remove(&(self.fingerprint(&script), position));
            }
        }
        self.bytes -= block.bytes;
    }

    fn fingerprint(&self, script: &Address) -> u64 {
        self.fingerprints.hash_one(script)
    }
}
