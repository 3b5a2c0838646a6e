//! The blocks of this ingester's own ledger that the log may lack, and the marks that follow them, in the order of
//! events.
//!
//! Input: own events. Output: the queue of items that the log has to get, and the content of the blocks above the own
//! root, which a new generation needs again.
//! Bounds: the bytes of encoded blocks. Above them final blocks are dropped, and then everything: the log then has a
//! gap, which only a new generation closes.
//! Not here: the content of the log (`log_chain`), the choice of items to append (`fill_batch`).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use chain_solana::RevertReason;
use chain_solana::wire::BlockKey;
use ledger::{BlockId, Slot};

#[cfg(test)]
pub(crate) use self::own_block::BlockContent;
pub(crate) use self::own_block::{
    FrozenBlock, Item, ItemKind, ItemNumber, OwnBlock, OwnEvent, OwnStart,
};

mod own_block;

/// Number of roots whose revert is detected. A localnet can go back to fewer blocks.
const ROOTED_MAX: usize = 1_024;

/// Number of items of blocks and marks, which are about four for a block. Above it blocks are dropped.
const ITEMS_MAX: usize = 400_000;

/// The own blocks, their marks, and the queue of those that the log has to get.
pub(crate) struct OwnChain {
    /// By the number of their items.
    blocks: BTreeMap<ItemNumber, OwnBlock>,
    /// The newest block of each name.
    by_key: HashMap<BlockKey, ItemNumber>,
    /// The blocks in the order of slots.
    by_slot: BTreeSet<(Slot, ItemNumber)>,
    /// Blocks up to this slot are retained only while they are queued.
    pruned_slot: Slot,
    /// Names of the blocks above, and of the root.
    keys: HashMap<BlockId, BlockKey>,
    items: VecDeque<Item>,
    /// Whether some of them may be removals of blocks.
    has_reverts: bool,
    next_number: ItemNumber,
    root_key: BlockKey,
    /// The newest roots, the oldest first.
    rooted: VecDeque<BlockKey>,
    confirmed: Option<BlockKey>,
    tip: Option<BlockKey>,
    /// Whether all blocks above the root are known.
    is_complete: bool,
    /// Whether a block was reverted that was the root before. The log cannot take it back.
    has_left_root: bool,
    /// Blocks above this slot are retained, because a snapshot of its block is being written.
    pinned: Option<Slot>,
    bytes: usize,
    bytes_max: usize,
    dropped_blocks: u64,
}

impl OwnChain {
    /// Creates the chain of a ledger that has not sent an event. It holds at most `bytes_max` bytes of encoded blocks,
    /// or one block.
    pub(crate) fn new(start: OwnStart, bytes_max: usize) -> Self {
        let OwnStart { root, root_key, is_complete } = start;
        // The process before this one may have ended before the log had its last root.
        let root_item =
            Item { number: 1, key: root_key, kind: ItemKind::Rooted, received: Duration::ZERO };
        Self {
            blocks: BTreeMap::new(),
            by_key: HashMap::new(),
            by_slot: BTreeSet::new(),
            pruned_slot: root_key.slot,
            keys: HashMap::from([(root, root_key)]),
            items: VecDeque::from([root_item]),
            has_reverts: false,
            next_number: 2,
            root_key,
            rooted: VecDeque::from([root_key]),
            confirmed: None,
            tip: None,
            is_complete,
            has_left_root: false,
            pinned: None,
            bytes: 0,
            bytes_max,
            dropped_blocks: 0,
        }
    }

    pub(crate) fn items(&self) -> impl DoubleEndedIterator<Item = &Item> {
        self.items.iter()
    }

    pub(crate) fn block(&self, number: ItemNumber) -> Option<&OwnBlock> {
        self.blocks.get(&number)
    }

    /// Returns the newest own block of this name that is not reverted.
    pub(crate) fn find(&self, key: &BlockKey) -> Option<&OwnBlock> {
        let block = self.blocks.get(self.by_key.get(key)?)?;
        (!block.is_reverted).then_some(block)
    }

    /// Returns the processed tip, if it is known.
    pub(crate) fn tip(&self) -> Option<BlockKey> {
        self.tip
    }

    pub(crate) fn root_key(&self) -> BlockKey {
        self.root_key
    }

    /// Whether a snapshot of the root and the known blocks are the whole chain.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub(crate) fn has_left_root(&self) -> bool {
        self.has_left_root
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of blocks that were dropped before the log had them.
    pub(crate) fn dropped_blocks(&self) -> u64 {
        self.dropped_blocks
    }

    /// Takes an event. Moves of the tip are queued for a leader only; a follower needs the newest one.
    pub(crate) fn handle(&mut self, event: OwnEvent, is_leader: bool, now: Duration) {
        match event {
            OwnEvent::Frozen(block) => self.add_block(block, now),
            OwnEvent::TipMoved(id) => {
                self.tip = self.keys.get(&id).copied();
                if let Some(key) = self.tip.filter(|_| is_leader) {
                    self.push(key, ItemKind::TipMoved, now);
                }
            }
            OwnEvent::Confirmed(key) => {
                self.confirmed = Some(key);
                self.push(key, ItemKind::Confirmed, now);
            }
            OwnEvent::Rooted { id, key } => self.set_root(id, key, now),
            OwnEvent::Reverted { key, reason } => self.revert(key, reason, now),
            OwnEvent::Lost => self.reset(),
        }
        self.enforce_bound();
    }

    pub(crate) fn item_count(&self) -> usize {
        self.items.len()
    }

    /// Removes items that the log has or does not need, and then the blocks that are no longer needed. Cost: all items.
    pub(crate) fn remove_items(&mut self, is_obsolete: impl Fn(&Item, &Self) -> bool) {
        let items = std::mem::take(&mut self.items);
        let mut remaining = VecDeque::with_capacity(items.len());
        let mut ended = Vec::new();
        for item in items {
            match is_obsolete(&item, self) {
                true if item.kind == ItemKind::Block => ended.push(item.number),
                true => {}
                false => remaining.push_back(item),
            }
        }
        self.items = remaining;
        ended.into_iter().for_each(|number| self.end_queued_block(number));
    }

    pub(crate) fn remove_newest_item(&mut self, is_obsolete: impl Fn(&Item, &Self) -> bool) {
        let Some(item) = self.items.back().filter(|item| is_obsolete(item, self)) else { return };
        let ended = (item.kind == ItemKind::Block).then_some(item.number);
        self.items.pop_back();
        if let Some(number) = ended {
            self.end_queued_block(number);
        }
    }

    /// Removes the queued moves of the tip, because some may be in the log. The newest tip is appended after the other
    /// items.
    pub(crate) fn remove_tips(&mut self) {
        self.items.retain(|item| item.kind != ItemKind::TipMoved);
    }

    /// Marks the content of a block as not loggable: the log refused it.
    pub(crate) fn refuse_content(&mut self, number: ItemNumber, reason: Arc<str>) {
        if let Some(block) = self.blocks.get_mut(&number) {
            self.bytes -= block.bytes();
            block.content = Err(reason);
        }
    }

    /// Ends [`Self::has_left_root`]: the new generation starts from the root that the ledger went back to.
    pub(crate) fn forget_left_root(&mut self) {
        self.has_left_root = false;
    }

    /// Retains all blocks above a slot until [`Self::unpin`]. The slot is that of the root or of a later one.
    pub(crate) fn pin(&mut self, slot: Slot) {
        self.pinned = Some(slot);
    }

    /// Whether the blocks above the pinned slot are still retained.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned.is_some()
    }

    /// Ends the retention of [`Self::pin`].
    pub(crate) fn unpin(&mut self) {
        self.pinned = None;
        self.prune();
    }

    /// Rebuilds the queue from the retained blocks, for a generation that may lack all of them. Queued items stay in
    /// their order. The marks that an earlier generation already has follow them.
    pub(crate) fn requeue(&mut self) {
        let is_mark = |item: &&Item| !matches!(item.kind, ItemKind::Block | ItemKind::TipMoved);
        let alive = self.blocks.iter().filter(|(_, block)| !block.is_reverted);
        let blocks = alive.clone().map(|(number, block)| block.item(*number, ItemKind::Block));
        let marks = self.items.iter().filter(is_mark).cloned();
        let mut items: Vec<Item> = blocks.chain(marks).collect();
        items.sort_by_key(|item| item.number);
        let has_item = |key, kind| items.iter().any(|item| item.key == key && item.kind == kind);
        let mut logged: Vec<Item> = Vec::new();
        for (number, block) in alive {
            if block.is_rooted && !has_item(block.key, ItemKind::Rooted) {
                logged.push(block.item(*number, ItemKind::Rooted));
            }
        }
        if let Some(block) = self.confirmed.and_then(|key| self.find(&key))
            && !has_item(block.key, ItemKind::Confirmed)
        {
            logged.push(block.item(0, ItemKind::Confirmed));
        }
        for item in logged {
            let number = self.take_number();
            items.push(Item { number, ..item });
        }
        self.items = items.into();
        for block in self.blocks.values_mut() {
            block.is_queued = !block.is_reverted;
        }
        self.remove_ended_blocks();
    }

    fn take_number(&mut self) -> ItemNumber {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    fn push(&mut self, key: BlockKey, kind: ItemKind, received: Duration) {
        let number = self.take_number();
        self.items.push_back(Item { number, key, kind, received });
    }

    fn add_block(&mut self, frozen: FrozenBlock, received: Duration) {
        let FrozenBlock { id, key, parent, is_jump, content } = frozen;
        let block = OwnBlock {
            key,
            parent,
            is_jump,
            content,
            is_reverted: false,
            is_rooted: false,
            is_queued: true,
            received,
        };
        self.bytes += block.bytes();
        self.keys.insert(id, key);
        // If the ledger makes the same block again before its removal is logged, the block stays in the log.
        if self.has_reverts {
            let is_revert = |item: &Item| matches!(item.kind, ItemKind::Reverted(_));
            self.items.retain(|item| item.key != key || !is_revert(item));
            self.has_reverts = self.items.iter().any(is_revert);
        }
        self.by_key.insert(key, self.next_number);
        self.by_slot.insert((key.slot, self.next_number));
        self.blocks.insert(self.next_number, block);
        self.push(key, ItemKind::Block, received);
    }

    fn set_root(&mut self, id: BlockId, key: BlockKey, now: Duration) {
        let number = self.by_key.get(&key);
        let root = number.and_then(|number| self.blocks.get_mut(number));
        self.is_complete |= root.is_some();
        if let Some(block) = root {
            block.is_rooted = true;
        }
        self.root_key = key;
        self.rooted.push_back(key);
        let excess = self.rooted.len().saturating_sub(ROOTED_MAX);
        self.rooted.drain(..excess);
        self.keys.retain(|id, _| id.slot >= key.slot);
        self.keys.insert(id, key);
        self.push(key, ItemKind::Rooted, now);
        self.prune();
    }

    fn revert(&mut self, key: BlockKey, reason: RevertReason, now: Duration) {
        if self.rooted.contains(&key) {
            // A localnet does so on request only.
            self.reset();
            self.has_left_root = true;
            return;
        }
        let number = self.by_key.get(&key).copied();
        if let Some(block) = number.and_then(|number| self.blocks.get_mut(&number)) {
            block.is_reverted = true;
        }
        for tip in [&mut self.tip, &mut self.confirmed] {
            if *tip == Some(key) {
                *tip = None;
            }
        }
        self.has_reverts = true;
        self.push(key, ItemKind::Reverted(reason), now);
        if let Some(number) = number {
            self.remove_if_ended(number);
        }
    }

    /// Drops everything. The chain is complete again with the next root among the blocks that follow.
    fn reset(&mut self) {
        let blocks = std::mem::take(&mut self.blocks);
        self.dropped_blocks += blocks.len() as u64;
        self.by_key.clear();
        self.by_slot.clear();
        self.items.clear();
        self.bytes = 0;
        self.is_complete = false;
        self.pinned = None;
    }

    fn is_above_bound(&self) -> bool {
        let is_above = self.bytes > self.bytes_max || self.items.len() > ITEMS_MAX;
        is_above && self.blocks.len() > 1
    }

    fn enforce_bound(&mut self) {
        if !self.is_above_bound() {
            return;
        }
        let root = self.root_key.slot;
        let before = self.blocks.len();
        self.pinned = None;
        self.remove_items(|item, _| item.key.slot <= root);
        self.prune();
        self.dropped_blocks += (before - self.blocks.len()) as u64;
        if self.is_above_bound() {
            self.reset();
        }
    }

    /// Removes the blocks that the root has passed and that are not queued. Cost: the blocks that it has passed since
    /// the last call.
    fn prune(&mut self) {
        let root = self.root_key.slot;
        let retained_above = self.pinned.map_or(root, |slot| slot.min(root));
        let passed = self.pruned_slot.min(retained_above)..=retained_above;
        self.pruned_slot = retained_above;
        let range = (*passed.start(), ItemNumber::MIN)..=(*passed.end(), ItemNumber::MAX);
        let ended: Vec<ItemNumber> = self.by_slot.range(range).map(|(_, number)| *number).collect();
        ended.into_iter().for_each(|number| self.remove_if_ended(number));
    }

    /// Removes all blocks that have ended. Cost: all blocks.
    fn remove_ended_blocks(&mut self) {
        let numbers: Vec<ItemNumber> = self.blocks.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.remove_if_ended(number));
    }

    /// Notes that the queue no longer has a block.
    fn end_queued_block(&mut self, number: ItemNumber) {
        if let Some(block) = self.blocks.get_mut(&number) {
            block.is_queued = false;
        }
        self.remove_if_ended(number);
    }

    fn remove_if_ended(&mut self, number: ItemNumber) {
        let Some(block) = self.blocks.get(&number) else { return };
        let is_passed = block.key.slot <= self.pruned_slot || block.is_reverted;
        if block.is_queued || !is_passed {
            return;
        }
        let key = block.key;
        self.bytes -= block.bytes();
        self.blocks.remove(&number);
        self.by_slot.remove(&(key.slot, number));
        if self.by_key.get(&key) == Some(&number) {
            self.by_key.remove(&key);
        }
    }
}
