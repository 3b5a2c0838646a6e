//! The chain of the model, and the events that a ledger sends which follows it.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use chain_solana::wire::{BlockKey, BlockSource, EncodedBlock};
use chain_solana::{Block, RevertReason};
use fastrand::Rng;
use ledger::{BlockId, Slot};
use solana_hash::Hash;
use testkit::test_ledger::{block_info, empty_block};

use crate::own_chain::{FrozenBlock, OwnEvent, OwnStart};

/// The last slot of the chain.
pub(super) const SLOTS: Slot = 40;
/// Slots from a block to its root.
const ROOT_DISTANCE: Slot = 4;

/// Returns the name of the block of a slot: on the chain, or on a fork of one block.
pub(crate) fn key(slot: Slot, is_fork: bool) -> BlockKey {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&slot.to_le_bytes());
    bytes[31] = u8::from(is_fork);
    BlockKey { slot, blockhash: Hash::new_from_array(bytes) }
}

/// Whether a block is on a fork.
pub(super) fn is_fork(blockhash: &Hash) -> bool {
    blockhash.as_bytes()[31] == 1
}

/// Whether some ledgers see another block at this slot.
fn has_fork(slot: Slot) -> bool {
    slot.is_multiple_of(3)
}

/// The content of each block, encoded once for all seeds.
pub(crate) fn content(slot: Slot, is_fork: bool) -> Arc<EncodedBlock> {
    static ALL: OnceLock<Vec<[Arc<EncodedBlock>; 2]>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        (0..=SLOTS).map(|slot| [false, true].map(|fork| Arc::new(encode(slot, fork)))).collect()
    });
    Arc::clone(&all[slot as usize][usize::from(is_fork)])
}

fn encode(slot: Slot, is_fork: bool) -> EncodedBlock {
    let parent = slot.saturating_sub(1);
    let id = |slot| BlockId { slot, version: 0 };
    let block = Block {
        blockhash: key(slot, is_fork).blockhash,
        previous_blockhash: key(parent, false).blockhash,
        ..empty_block(id(slot), id(parent))
    };
    let info = block_info(slot);
    EncodedBlock::new(&BlockSource::new(&block, &info, 1)).expect("an empty block has a record")
}

/// A ledger that follows the chain from a root on.
pub(super) struct Source {
    events: VecDeque<OwnEvent>,
    next_slot: Slot,
    next_version: u64,
    root: BlockId,
    /// Forks that were seen and not reverted.
    forks: Vec<BlockKey>,
    ids: Vec<BlockId>,
}

impl Source {
    /// A ledger whose root is the block of a slot. It has no block above it.
    pub(super) fn new(root: Slot) -> Self {
        let id = BlockId { slot: root, version: 1 };
        Self {
            events: VecDeque::new(),
            next_slot: root + 1,
            next_version: 2,
            root: id,
            forks: Vec::new(),
            ids: vec![id],
        }
    }

    pub(super) fn start(&self) -> OwnStart {
        OwnStart { root: self.root, root_key: key(self.root.slot, false), is_complete: true }
    }

    /// The root, as far as events were taken.
    pub(super) fn root(&self) -> BlockId {
        self.root
    }

    /// Returns the next event, or `None` at the end of the chain.
    pub(super) fn next(&mut self, rng: &mut Rng) -> Option<OwnEvent> {
        if self.events.is_empty() && self.next_slot <= SLOTS {
            self.make_slot(rng);
        }
        let event = self.events.pop_front()?;
        if let OwnEvent::Rooted { id, .. } = event {
            self.root = id;
        }
        Some(event)
    }

    fn make_slot(&mut self, rng: &mut Rng) {
        let slot = self.next_slot;
        self.next_slot += 1;
        let sees_fork = has_fork(slot) && rng.bool();
        let is_fork_first = rng.bool();
        if sees_fork && is_fork_first {
            self.freeze_fork(slot, rng);
        }
        let id = self.freeze(slot, false);
        self.ids.push(id);
        self.events.push_back(OwnEvent::TipMoved(id));
        if sees_fork && !is_fork_first {
            self.freeze_fork(slot, rng);
        }
        self.events.push_back(OwnEvent::Confirmed(key(slot, false)));
        if let Some(rooted) = slot.checked_sub(ROOT_DISTANCE) {
            self.set_root(rooted, rng.bool());
        }
    }

    fn freeze(&mut self, slot: Slot, is_fork: bool) -> BlockId {
        let id = BlockId { slot, version: self.next_version };
        self.next_version += 1;
        self.events.push_back(OwnEvent::Frozen(FrozenBlock {
            id,
            key: key(slot, is_fork),
            parent: key(slot - 1, false),
            is_jump: false,
            content: Ok(content(slot, is_fork)),
        }));
        id
    }

    fn freeze_fork(&mut self, slot: Slot, rng: &mut Rng) {
        let id = self.freeze(slot, true);
        self.forks.push(key(slot, true));
        // The chain's own block is not confirmed yet, or this ledger has not seen it.
        let is_first = !self.ids.iter().any(|id| id.slot == slot);
        if is_first && rng.bool() {
            self.events.push_back(OwnEvent::TipMoved(id));
        }
    }

    fn set_root(&mut self, slot: Slot, is_reverted_first: bool) {
        let Some(id) = self.ids.iter().copied().find(|id| id.slot == slot) else { return };
        if id.slot <= self.root.slot {
            return;
        }
        let root = OwnEvent::Rooted { id, key: key(slot, false) };
        if !is_reverted_first {
            self.events.push_back(root.clone());
        }
        for key in self.forks.extract_if(.., |key| key.slot <= slot) {
            let reason = RevertReason::Abandoned;
            self.events.push_back(OwnEvent::Reverted { key, reason });
        }
        if is_reverted_first {
            self.events.push_back(root);
        }
    }
}
