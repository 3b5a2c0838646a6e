//! The history compared with its model: random forks by seed, and after each publish every read of every commitment.

use std::collections::HashMap;
use std::sync::Arc;

use fastrand::Rng;
use ledger::{BlockId, Commitment, Slot};
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::TransactionStatusMeta;

use super::model::Model;
use super::*;
use crate::block::{Block, ExecutedTransaction, transaction_bytes};
use crate::block_info::BankHashComponents;

const ROOT: BlockId = BlockId { slot: 0, version: 0 };
const NO_LIMITS: HistoryLimits = HistoryLimits { blocks_max: u64::MAX, bytes_max: u64::MAX };
/// Blocks above the root in the random test; they are fewer than `blocks_max`.
const UNROOTED_MAX: usize = 10;
const ADDRESSES: u8 = 4;
const SIGNATURES: usize = 40;

fn signature(slot: Slot, index: usize) -> Signature {
    let mut bytes = [7; 64];
    bytes[..8].copy_from_slice(&slot.to_le_bytes());
    bytes[8..16].copy_from_slice(&index.to_le_bytes());
    bytes.into()
}

fn address(n: u8) -> Pubkey {
    Pubkey::new_from_array([n; 32])
}

fn transaction(
    slot: Slot,
    index: usize,
    signature: Signature,
    account_keys: Vec<Pubkey>,
) -> Arc<ExecutedTransaction> {
    Arc::new(ExecutedTransaction {
        slot,
        index: index as u32,
        block_time: 0,
        transaction: VersionedTransaction {
            signatures: vec![signature],
            ..VersionedTransaction::default()
        },
        meta: TransactionStatusMeta::default(),
        account_keys,
        is_vote: false,
        visibility: Default::default(),
    })
}

fn block(id: BlockId, parent: BlockId, transactions: Vec<Arc<ExecutedTransaction>>) -> Block {
    Block {
        id,
        parent,
        block_height: id.slot,
        blockhash: Hash::default(),
        previous_blockhash: Hash::default(),
        bank_hash: Hash::default(),
        hash_components: BankHashComponents::default(),
        block_time: 0,
        transaction_count: 0,
        transactions,
        rewards: Vec::new(),
        reward_partitions: None,
        entries: Vec::new(),
        writes: Vec::new(),
    }
}

/// A history under random forks, and its model.
struct Harness {
    history: History,
    model: Model,
    rng: Rng,
    versions: u64,
}

impl Harness {
    fn new(limits: HistoryLimits, seed: u64) -> Self {
        let rng = Rng::with_seed(seed);
        Self { history: History::new(limits, ROOT), model: Model::new(ROOT), rng, versions: 0 }
    }

    fn list_unrooted(&self) -> Vec<BlockId> {
        self.model.blocks.keys().filter(|id| id.slot > self.model.root.slot).copied().collect()
    }

    /// Makes transactions that are not on the chain of `parent`. A transaction may be on several forks.
    fn new_transactions(&mut self, id: BlockId, parent: BlockId) -> Vec<Arc<ExecutedTransaction>> {
        let chain = self.model.chain(parent);
        let mut known: Vec<Signature> = chain
            .iter()
            .flat_map(|block| block.transactions.iter().map(|transaction| transaction.signature()))
            .collect();
        let mut all = Vec::new();
        for _ in 0..self.rng.usize(..5) {
            let signature = signature(id.slot / 8, self.rng.usize(..SIGNATURES));
            if !known.contains(&signature) {
                known.push(signature);
                let keys = (0..ADDRESSES).filter(|_| self.rng.bool()).map(address).collect();
                all.push(transaction(id.slot, all.len(), signature, keys));
            }
        }
        all
    }

    /// Opens a block on the tip and sometimes never completes it, or adds a frozen block on any block.
    fn add_block(&mut self) {
        let mut parents = self.list_unrooted();
        parents.push(self.model.root);
        let opens = self.rng.bool();
        let parent =
            if opens { self.model.processed } else { parents[self.rng.usize(..parents.len())] };
        self.versions += 1;
        let slot = parent.slot + 1 + self.rng.u64(..2);
        let id = BlockId { slot, version: self.versions };
        let transactions = self.new_transactions(id, parent);
        let is_hidden = opens
            && self.model.open.is_none()
            && self.rng.bool()
            && self.history.prepared_len(id, parent).is_some();
        if is_hidden {
            if self.prepare(id, parent, &transactions) {
                return;
            }
        } else if opens {
            let (first, second) = transactions.split_at(transactions.len() / 2);
            self.history.record_transactions(id, first);
            self.history.record_transactions(id, second);
            self.model.open = (!transactions.is_empty()).then(|| (id, transactions.clone()));
            self.publish();
            if self.rng.u8(..4) == 0 {
                return;
            }
        }
        let block = block(id, parent, transactions);
        self.history.record_block(&block);
        self.model.blocks.insert(id, block);
        if opens || self.rng.bool() {
            self.set_tip(id);
        }
    }

    /// Prepares a block in parts, while the tips may move. Readers find nothing of it. Returns true if it is never
    /// completed.
    fn prepare(
        &mut self,
        id: BlockId,
        parent: BlockId,
        transactions: &[Arc<ExecutedTransaction>],
    ) -> bool {
        let len = self.rng.usize(..=transactions.len());
        self.history.prepare(id, transactions[..len / 2].iter());
        self.publish();
        if let Some(known) = self.history.prepared_len(id, parent) {
            self.history.prepare(id, transactions[known..len].iter());
        }
        self.publish();
        match self.rng.u8(..6) {
            0 => self.history.discard_prepared(id),
            // It remains prepared until a tip moves or another block is opened.
            1 => {}
            _ => return false,
        }
        true
    }

    fn set_tip(&mut self, id: BlockId) {
        if self.rng.bool() {
            self.history.set_tip(id);
        } else {
            self.history.enter_tip(id);
            self.history.enforce_limits();
        }
        self.model.set_tip(id);
    }

    fn step(&mut self) {
        let unrooted = self.list_unrooted();
        let any = unrooted.get(self.rng.usize(..unrooted.len().max(1))).copied();
        match (any, self.rng.u8(..12)) {
            (Some(block), 0..=1) => self.set_tip(block),
            (Some(block), 2..=3) => {
                self.history.confirm(block);
                self.model.confirmed = block;
            }
            (Some(block), 4) => {
                self.history.finalize(block);
                self.model.finalize(block);
            }
            (Some(block), 5) => {
                self.history.drop_fork(block);
                self.model.drop_fork(block);
            }
            (Some(block), _) if unrooted.len() >= UNROOTED_MAX => {
                self.history.finalize(block);
                self.model.finalize(block);
            }
            (_, 6..=7) => self.publish(),
            _ => self.add_block(),
        }
    }

    /// Publishes, with the tips on one chain, and compares every read.
    fn publish(&mut self) {
        if !self.model.descends(self.model.processed, self.model.confirmed) {
            self.set_tip(self.model.confirmed);
        }
        let before = self.history.snapshot();
        let blocks_before = before.blocks(.., Commitment::Processed).cloned().collect::<Vec<_>>();
        self.history.publish();
        self.check(&self.history.snapshot());
        let now = before.blocks(.., Commitment::Processed);
        assert!(now.map(Arc::as_ptr).eq(blocks_before.iter().map(Arc::as_ptr)));
    }

    fn check(&self, found: &HistorySnapshot) {
        let model = &self.model;
        let first = found.first_slot().unwrap_or(Slot::MAX);
        for commitment in Commitment::ALL {
            let blocks = model.blocks(commitment, first);
            let ids: Vec<_> = found.blocks(.., commitment).map(|block| block.id).collect();
            assert_eq!(ids, blocks, "{commitment:?}");
            for slot in 0..model.processed.slot + 3 {
                let expected = blocks.iter().find(|id| id.slot == slot);
                let block = found.block(slot, commitment);
                assert_eq!(block.map(|block| &block.id), expected, "{commitment:?} {slot}");
            }
            let transactions = model.transactions(commitment, first).into_iter();
            let by_signature: HashMap<Signature, _> =
                transactions.map(|one| (one.signature(), Arc::as_ptr(&one))).collect();
            for group in 0..=model.processed.slot / 8 + 1 {
                for signature in (0..SIGNATURES).map(|index| signature(group, index)) {
                    let transaction = found.transaction(&signature, commitment).map(Arc::as_ptr);
                    let expected = by_signature.get(&signature).copied();
                    assert_eq!(transaction, expected, "{commitment:?}");
                }
            }
            for address in (0..ADDRESSES).map(address) {
                let newest = found.newest_slot(commitment);
                let all = found.signatures_for_address(&address);
                let all = all.into_iter().flatten().filter(|entry| entry.slot <= newest);
                let found_at = |entry| found.transaction_at(entry).expect("it is retained");
                let signatures: Vec<_> = all.map(|entry| found_at(*entry).signature()).collect();
                assert_eq!(signatures, model.signatures(&address, commitment, first));
            }
            for id in &blocks {
                assert!(found.commitment(id.slot) >= commitment);
                assert_eq!(is_rooted(id.slot, model.root.slot), id.slot <= model.root.slot);
            }
        }
    }
}

#[test]
fn a_forked_history_reads_like_its_model() {
    for seed in 0..40 {
        let mut harness = Harness::new(NO_LIMITS, seed);
        (0..400).for_each(|_| harness.step());
        harness.publish();
        let snapshot = harness.history.snapshot();
        let oldest = harness.model.chain(harness.model.root).last().map(|block| block.id.slot);
        assert!(oldest.is_none() || snapshot.first_slot() == oldest, "nothing was removed");
    }
}

#[test]
fn a_forked_history_with_limits_reads_like_its_model() {
    for seed in 0..40 {
        let blocks_max = 2 * UNROOTED_MAX as u64 + 3;
        let limits = HistoryLimits { blocks_max, bytes_max: u64::MAX };
        let mut harness = Harness::new(limits, seed);
        (0..400).for_each(|_| harness.step());
        harness.publish();
        let snapshot = harness.history.snapshot();
        let first = snapshot.first_slot().expect("blocks were added");
        let retained = snapshot.blocks(.., Commitment::Processed).count() as u64;
        assert!(first > 0 && retained <= blocks_max);
    }
}

#[test]
fn a_jump_retains_the_blocks_before_it() {
    let id = |slot| BlockId { slot, version: slot };
    let history = History::new(HistoryLimits { blocks_max: 4, bytes_max: u64::MAX }, ROOT);
    let slots = [1, 2, 432_000, 864_000, 1_000_000_000];
    for (index, slot) in slots.into_iter().enumerate() {
        let parent = index.checked_sub(1).map_or(0, |before| slots[before]);
        let one = transaction(slot, 0, signature(slot, 0), vec![address(1)]);
        history.record_block(&block(id(slot), id(parent), vec![one]));
        history.set_tip(id(slot));
        history.confirm(id(slot));
        history.finalize(id(parent));
        history.publish();
    }
    let snapshot = history.snapshot();
    let found: Vec<Slot> =
        snapshot.blocks(.., Commitment::Processed).map(|block| block.id.slot).collect();
    assert_eq!((found, snapshot.first_slot()), (slots[1..].to_vec(), Some(2)));
    let root = snapshot.newest_slot(Commitment::Finalized);
    assert!(snapshot.block(root, Commitment::Finalized).is_some(), "the root is served");
    assert!(snapshot.transaction(&signature(2, 0), Commitment::Finalized).is_some());
    assert!(snapshot.transaction(&signature(1, 0), Commitment::Processed).is_none());
}

#[test]
fn reverted_blocks_leave_no_bytes() {
    let mut harness = Harness::new(NO_LIMITS, 7);
    for _ in 0..20 {
        (0..50).for_each(|_| harness.step());
        for id in harness.list_unrooted() {
            if harness.model.blocks.contains_key(&id) {
                harness.history.drop_fork(id);
                harness.model.drop_fork(id);
            }
        }
        harness.set_tip(harness.model.root);
        harness.publish();
        let rooted = harness.model.blocks.values();
        let block_bytes = |block: &Block| {
            let transactions = block.transactions.iter().map(|one| transaction_bytes(one) + 8);
            size_of::<Block>() as u64 + transactions.sum::<u64>()
        };
        assert_eq!(harness.history.snapshot().bytes(), rooted.map(block_bytes).sum::<u64>());
    }
}

#[test]
fn frozen_blocks_that_never_become_the_tip_are_bounded() {
    let history = History::new(HistoryLimits { blocks_max: 1_000, bytes_max: 20_000 }, ROOT);
    let new_block = |id, parent: BlockId| {
        let one = transaction(id, 0, signature(id, 0), vec![address(1)]);
        block(BlockId { slot: id, version: id }, parent, vec![one])
    };
    let first = new_block(1, ROOT);
    history.record_block(&first);
    history.set_tip(first.id);
    for slot in 2..500 {
        history.record_block(&new_block(slot, first.id));
        history.publish();
        assert!(history.snapshot().bytes() <= 20_000, "{}", history.snapshot().bytes());
    }
    let snapshot = history.snapshot();
    assert_eq!(snapshot.newest_slot(Commitment::Processed), 1);
    assert!(snapshot.block(1, Commitment::Processed).is_some(), "the tip is retained");
    assert!(snapshot.transaction(&signature(499, 0), Commitment::Processed).is_none());
    // The newest block is still retained when the tip moves to it.
    history.set_tip(BlockId { slot: 499, version: 499 });
    history.publish();
    let snapshot = history.snapshot();
    assert!(snapshot.transaction(&signature(499, 0), Commitment::Processed).is_some());
    assert!(snapshot.block(499, Commitment::Confirmed).is_none());
}

/// Counts the transactions of a slot that the snapshot finds by signature, and checks their
/// positions.
fn count_found(history: &HistorySnapshot, slot: Slot) -> usize {
    let found = (0..PER_BLOCK).filter_map(|index| {
        let transaction = history.transaction(&signature(slot, index), Commitment::Processed)?;
        assert_eq!((transaction.slot, transaction.index), (slot, index as u32));
        Some(transaction)
    });
    found.count()
}

const PER_BLOCK: usize = 100;

#[test]
fn a_transaction_is_found_by_signature_from_its_publication_until_its_block_is_removed() {
    let id = |slot| BlockId { slot, version: slot };
    let history = History::new(HistoryLimits { blocks_max: 2, bytes_max: u64::MAX }, ROOT);
    let mut old = Vec::new();
    for slot in 1..=4 {
        let new = |index| transaction(slot, index, signature(slot, index), Vec::new());
        let all: Vec<_> = (0..PER_BLOCK).map(new).collect();
        let (first, second) = all.split_at(PER_BLOCK / 3);
        for (part, len) in [(first, first.len()), (second, PER_BLOCK)] {
            let before = history.snapshot();
            history.record_transactions(id(slot), part);
            assert_eq!(count_found(&before, slot), len - part.len());
            history.publish();
            assert_eq!(count_found(&history.snapshot(), slot), len);
            assert_eq!(count_found(&before, slot), len - part.len(), "a snapshot stays as it was");
        }
        history.record_block(&block(id(slot), id(slot - 1), all));
        history.set_tip(id(slot));
        history.publish();
        old.push(history.snapshot());
    }
    for (newest, snapshot) in (1..).zip(&old) {
        for slot in 1..=4 {
            let is_retained = slot <= newest && slot + 2 > newest;
            assert_eq!(count_found(snapshot, slot), if is_retained { PER_BLOCK } else { 0 });
        }
    }
}

#[test]
fn a_history_goes_back_below_its_root_and_to_a_block_that_it_has_no_more() {
    let id = |slot| BlockId { slot, version: slot };
    let history = History::new(HistoryLimits { blocks_max: 5, bytes_max: u64::MAX }, ROOT);
    let add = |slot: Slot, parent: Slot| {
        let keys = vec![address(1)];
        let one = transaction(slot, 0, signature(slot, 0), keys);
        history.record_transactions(id(slot), std::slice::from_ref(&one));
        history.record_block(&block(id(slot), id(parent), vec![one]));
        history.set_tip(id(slot));
        history.confirm(id(slot));
        history.finalize(id(slot));
        history.publish();
    };
    let tips = || Commitment::ALL.map(|level| history.snapshot().newest_slot(level));
    let slots = || {
        let snapshot = history.snapshot();
        let listed = snapshot.signatures_for_address(&address(1)).into_iter().flatten();
        let listed: Vec<Slot> = listed.map(|position| position.slot).collect();
        let blocks = snapshot.blocks(.., Commitment::Processed);
        assert_eq!(blocks.map(|block| block.id.slot).collect::<Vec<_>>(), listed);
        listed
    };
    (1..=6).for_each(|slot| add(slot, slot - 1));
    let open = transaction(7, 0, signature(7, 0), vec![address(1)]);
    history.record_transactions(id(7), &[open]);
    history.publish();
    let before = history.snapshot();
    history.revert_to(id(4));
    history.publish();
    assert_eq!((tips(), slots()), ([4; 3], vec![2, 3, 4]));
    assert_eq!(count_found(&history.snapshot(), 7), 0, "the open block is gone as well");
    assert_eq!(count_found(&before, 7), 1);
    add(8, 4);
    assert_eq!((tips(), slots()), ([8; 3], vec![2, 3, 4, 8]));
    history.revert_to(id(1));
    history.publish();
    assert_eq!((tips(), slots(), history.snapshot().bytes()), ([1; 3], vec![], 0));
    add(9, 1);
    assert_eq!((tips(), slots()), ([9; 3], vec![9]));
}
