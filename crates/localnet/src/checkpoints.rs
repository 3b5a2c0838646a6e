//! The complete blocks that the ledger can go back to, and the snapshots among them.
//!
//! Shape: one [`Checkpoint`] for the state's root and for each complete block above it, the oldest first. A number says
//! which of them is the newest final one. Final is what clients see; the root follows it, but stays at the block
//! of the oldest snapshot.
//! Bounds: [`SNAPSHOTS_MAX`] snapshots. A snapshot is dropped when more than [`BLOCKS_MAX`] blocks or [`BYTES_MAX`]
//! bytes of them are above it. Without a snapshot: the blocks that are not final. 3 KB for each block, and what it
//! wrote, which is 160 KB for an empty one, because every block writes the sysvars.
//! Not here: what going back does (`forks`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chain_solana::{Block, BlockInfo, ForkUsage};
use lattice::LtHash;
use ledger::{BlockId, Slot};

use crate::chain_clock::ClockState;
use crate::epoch::Voters;
use crate::vote::Tower;

/// Snapshots that exist at the same time.
pub(crate) const SNAPSHOTS_MAX: usize = 1_024;
/// Blocks above the oldest snapshot: 13 minutes of 400 ms slots. The state has room for twice as many.
pub(crate) const BLOCKS_MAX: usize = 2_048;
/// Estimated bytes of the blocks above the oldest snapshot.
pub(crate) const BYTES_MAX: u64 = 512 << 20;
/// Blocks that are rooted at the end of one block, at most: after a snapshot is gone, many wait for it.
const ROOTED_AT_ONCE_MAX: usize = 64;

/// The executing thread's state after a complete block, besides accounts.
pub(crate) struct Checkpoint {
    pub(crate) block: Arc<Block>,
    pub(crate) bank: BlockInfo,
    /// Over all accounts.
    pub(crate) lt_hash: LtHash,
    pub(crate) tower: Tower,
    pub(crate) voters: Arc<Voters>,
}

/// A snapshot: the number of a block, and the clock.
struct Snapshot {
    id: u64,
    block: BlockId,
    clock: ClockState,
}

/// The checkpoints and the snapshots.
pub(crate) struct Checkpoints {
    /// The first one is that of the root. Never empty. Each with the bytes of all blocks up to it, from which those
    /// between two follow.
    all: VecDeque<(Checkpoint, u64)>,
    /// The index of the newest final block.
    finalized: usize,
    /// In the order of their ids, and of their blocks.
    snapshots: VecDeque<Snapshot>,
    next_snapshot: u64,
    counters: Arc<ForkCounters>,
}

/// The usage of snapshots. The executing thread counts, and metrics read.
#[derive(Debug, Default)]
pub(crate) struct ForkCounters {
    snapshots: AtomicU64,
    blocks: AtomicU64,
    bytes: AtomicU64,
    expired: AtomicU64,
}

impl ForkCounters {
    pub(crate) fn usage(&self) -> ForkUsage {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ForkUsage {
            snapshots: load(&self.snapshots),
            snapshots_max: SNAPSHOTS_MAX as u64,
            blocks: load(&self.blocks),
            bytes: load(&self.bytes),
            expired: load(&self.expired),
        }
    }
}

impl Checkpoints {
    /// Only the root.
    pub(crate) fn new(root: Checkpoint, counters: Arc<ForkCounters>) -> Self {
        Self {
            all: VecDeque::from([(root, 0)]),
            finalized: 0,
            snapshots: VecDeque::new(),
            next_snapshot: 1,
            counters,
        }
    }

    /// Appends the newest complete block, and drops the snapshots that are too far below it.
    pub(crate) fn push(&mut self, checkpoint: Checkpoint) {
        let bytes = checkpoint.block.bytes();
        self.push_with_bytes(checkpoint, bytes);
    }

    fn push_with_bytes(&mut self, checkpoint: Checkpoint, bytes: u64) {
        let before = self.all.back().map_or(0, |(_, bytes)| *bytes);
        self.all.push_back((checkpoint, before.wrapping_add(bytes)));
        while let Some((blocks, bytes)) = self.above_oldest_snapshot()
            && (blocks > BLOCKS_MAX || bytes > BYTES_MAX)
        {
            self.expire_oldest();
        }
        self.count();
    }

    /// The newest complete block.
    pub(crate) fn newest(&self) -> &Checkpoint {
        self.at(self.all.len() - 1)
    }

    pub(crate) fn at(&self, index: usize) -> &Checkpoint {
        &self.all[index].0 // an index of this is only passed on while nothing is removed
    }

    /// Number of blocks that are not final.
    pub(crate) fn unfinalized(&self) -> usize {
        self.all.len() - 1 - self.finalized
    }

    /// Number of blocks above the root.
    pub(crate) fn above_root(&self) -> usize {
        self.all.len() - 1
    }

    /// The index of the block `depth` blocks below the newest. `None` if it is below the newest final one.
    pub(crate) fn index_below(&self, depth: u64) -> Option<usize> {
        let depth = usize::try_from(depth).ok().filter(|depth| *depth <= self.unfinalized())?;
        Some(self.all.len() - 1 - depth)
    }

    /// Whether a block is the newest complete one.
    pub(crate) fn is_newest(&self, index: usize) -> bool {
        index + 1 == self.all.len()
    }

    /// The newest final block.
    pub(crate) fn finalized_slot(&self) -> Slot {
        self.at(self.finalized).block.id.slot
    }

    /// Makes the next block final, and returns it. There must be one.
    pub(crate) fn finalize_next(&mut self) -> Arc<Block> {
        self.finalized = (self.finalized + 1).min(self.all.len() - 1);
        Arc::clone(&self.at(self.finalized).block)
    }

    /// Removes the checkpoints below the next root, and returns its block. `None` if the root stays.
    pub(crate) fn advance_root(&mut self) -> Option<BlockId> {
        let pinned = self.snapshots.front().map(|oldest| self.find_index(oldest.block));
        let root = pinned.unwrap_or(self.finalized).min(self.finalized).min(ROOTED_AT_ONCE_MAX);
        if root == 0 {
            return None;
        }
        self.all.drain(..root);
        self.finalized -= root;
        Some(self.at(0).block.id)
    }

    /// Makes a snapshot of the newest block, and returns its id.
    pub(crate) fn add_snapshot(&mut self, clock: ClockState) -> u64 {
        if self.snapshots.len() >= SNAPSHOTS_MAX {
            self.expire_oldest();
        }
        let id = self.next_snapshot;
        self.next_snapshot += 1;
        self.snapshots.push_back(Snapshot { id, block: self.newest().block.id, clock });
        self.count();
        id
    }

    /// Removes a snapshot and those made after it. Returns the index of its block and its clock, or `None` if there is
    /// no such snapshot.
    pub(crate) fn take_snapshot(&mut self, id: u64) -> Option<(usize, ClockState)> {
        let at = self.snapshots.binary_search_by_key(&id, |snapshot| snapshot.id).ok()?;
        let Snapshot { block, clock, .. } = *self.snapshots.get(at)?;
        self.snapshots.truncate(at);
        self.count();
        Some((self.find_index(block), clock))
    }

    /// Removes the blocks above an index, with their snapshots, and returns them, the oldest first. If they were final,
    /// the block of the index is the newest final one.
    pub(crate) fn take_above(&mut self, index: usize) -> Vec<Arc<Block>> {
        let left = self.all.split_off(index + 1);
        self.finalized = self.finalized.min(index);
        let newest = self.newest().block.id;
        while self.snapshots.pop_back_if(|snapshot| snapshot.block.slot > newest.slot).is_some() {}
        self.count();
        left.into_iter().map(|(checkpoint, _)| checkpoint.block).collect()
    }

    fn find_index(&self, block: BlockId) -> usize {
        self.all.partition_point(|(checkpoint, _)| checkpoint.block.id.slot < block.slot)
    }

    /// Blocks above the oldest snapshot, and their bytes.
    fn above_oldest_snapshot(&self) -> Option<(usize, u64)> {
        let at = self.find_index(self.snapshots.front()?.block);
        let (_, newest) = self.all.back()?;
        let (_, oldest) = self.all.get(at)?;
        Some((self.all.len() - 1 - at, newest.wrapping_sub(*oldest)))
    }

    fn expire_oldest(&mut self) {
        let Some(Snapshot { id, .. }) = self.snapshots.pop_front() else { return };
        self.counters.expired.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            id,
            snapshots_max = SNAPSHOTS_MAX,
            blocks_max = BLOCKS_MAX,
            bytes_max = BYTES_MAX,
            "the oldest snapshot is dropped: a limit is reached"
        );
    }

    fn count(&self) {
        let (blocks, bytes) = self.above_oldest_snapshot().unwrap_or_default();
        let ForkCounters { snapshots, blocks: of_blocks, bytes: of_bytes, .. } = &*self.counters;
        snapshots.store(self.snapshots.len() as u64, Ordering::Relaxed);
        of_blocks.store(blocks as u64, Ordering::Relaxed);
        of_bytes.store(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use chain_solana::{BankHashComponents, BlockhashQueue};
    use solana_hash::Hash;

    use super::*;

    fn checkpoint(slot: Slot) -> Checkpoint {
        let id = BlockId { slot, version: slot };
        let block = Block {
            id,
            parent: id,
            block_height: slot,
            blockhash: Hash::default(),
            previous_blockhash: Hash::default(),
            bank_hash: Hash::default(),
            hash_components: BankHashComponents::default(),
            block_time: 0,
            transaction_count: 0,
            transactions: Vec::new(),
            rewards: Vec::new(),
            reward_partitions: None,
            entries: Vec::new(),
            writes: Vec::new(),
        };
        let bank = BlockInfo {
            block: id,
            parent: id,
            block_height: slot,
            blockhashes: Arc::new(BlockhashQueue::new(Hash::default())),
            transaction_count: 0,
            unix_timestamp: 0,
            capitalization: 0,
            bank_hash: Hash::default(),
            hash_components: BankHashComponents::default(),
            complete: true,
        };
        Checkpoint {
            block: Arc::new(block),
            bank,
            lt_hash: LtHash::EMPTY,
            tower: Tower::default(),
            voters: Arc::default(),
        }
    }

    fn checkpoints() -> (Checkpoints, Arc<ForkCounters>) {
        let counters = Arc::<ForkCounters>::default();
        (Checkpoints::new(checkpoint(0), Arc::clone(&counters)), counters)
    }

    fn add_snapshot(all: &mut Checkpoints) -> u64 {
        all.add_snapshot(ClockState::default())
    }

    fn take_snapshot(all: &mut Checkpoints, id: u64) -> Option<usize> {
        all.take_snapshot(id).map(|(index, _)| index)
    }

    /// Appends a block, makes it final, and moves the root as far as it may go.
    fn add(all: &mut Checkpoints, slot: Slot) {
        all.push(checkpoint(slot));
        all.finalize_next();
        while all.advance_root().is_some() {}
    }

    #[test]
    fn the_root_stays_at_the_oldest_snapshot_and_final_goes_on() {
        let (mut all, counters) = checkpoints();
        add(&mut all, 1);
        assert_eq!((all.above_root(), all.finalized_slot()), (0, 1));
        let [one, two] = [add_snapshot(&mut all), add_snapshot(&mut all)];
        (2..10).for_each(|slot| add(&mut all, slot));
        assert_eq!((all.above_root(), all.finalized_slot(), all.unfinalized()), (8, 9, 0));
        assert_eq!(take_snapshot(&mut all, two), Some(0));
        assert_eq!(counters.usage().snapshots, 1);
        assert_eq!(all.take_above(0).len(), 8);
        assert_eq!((all.finalized_slot(), all.newest().block.id.slot), (1, 1));
        assert_eq!(take_snapshot(&mut all, two), None, "a revert removes the snapshot");
        (20..30).for_each(|slot| add(&mut all, slot));
        assert_eq!(take_snapshot(&mut all, one), Some(0));
        add(&mut all, 30);
        assert_eq!((all.above_root(), all.finalized_slot()), (0, 30));
    }

    #[test]
    fn a_backlog_is_rooted_in_parts() {
        let (mut all, _) = checkpoints();
        let id = add_snapshot(&mut all);
        (1..=100).for_each(|slot| add(&mut all, slot));
        assert_eq!(take_snapshot(&mut all, id), Some(0));
        assert_eq!(all.advance_root().map(|root| root.slot), Some(ROOTED_AT_ONCE_MAX as u64));
        assert_eq!(all.advance_root().map(|root| root.slot), Some(100));
        assert_eq!(all.advance_root(), None);
    }

    #[test]
    fn the_oldest_snapshots_are_dropped_beyond_each_limit() {
        let (mut all, counters) = checkpoints();
        let first = add_snapshot(&mut all);
        for _ in 0..SNAPSHOTS_MAX {
            add_snapshot(&mut all);
        }
        assert_eq!((counters.usage().snapshots, counters.usage().expired), (1_024, 1));
        assert_eq!(take_snapshot(&mut all, first), None);
        (1..=BLOCKS_MAX as u64).for_each(|slot| add(&mut all, slot));
        assert_eq!((counters.usage().snapshots, counters.usage().blocks), (1_024, 2_048));
        let last = add_snapshot(&mut all);
        add(&mut all, 3_000);
        assert_eq!((counters.usage().snapshots, counters.usage().blocks), (1, 1));
        for slot in 4_000..4_002 {
            assert_eq!(counters.usage().snapshots, 1);
            all.push_with_bytes(checkpoint(slot), BYTES_MAX / 2);
            all.finalize_next();
        }
        assert_eq!((counters.usage().snapshots, counters.usage().bytes), (0, 0));
        assert_eq!(take_snapshot(&mut all, last), None);
        assert_eq!(take_snapshot(&mut all, u64::MAX), None);
    }

    #[test]
    fn a_reorganization_removes_the_snapshots_of_the_blocks_that_it_leaves() {
        let (mut all, _) = checkpoints();
        for slot in 1..=5 {
            all.push(checkpoint(slot));
        }
        let below = add_snapshot(&mut all);
        all.push(checkpoint(6));
        let above = add_snapshot(&mut all);
        assert_eq!(all.index_below(7), None);
        assert_eq!(all.index_below(u64::MAX), None);
        let at = all.index_below(1).expect("it is not final");
        assert_eq!(all.take_above(at).len(), 1);
        assert_eq!(take_snapshot(&mut all, above), None);
        assert_eq!(take_snapshot(&mut all, below), Some(at));
    }
}
