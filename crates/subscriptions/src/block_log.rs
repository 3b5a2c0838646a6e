//! The log of blocks: from blocks and their commitments to the steps that are published.
//!
//! In: blocks with their parents, and "this block is processed, confirmed, finalized now". Out: for
//! each commitment numbered steps from block to block: every block of the chain is applied once and in
//! order, however many a commitment jumps over, and the blocks of an abandoned fork are reverted first,
//! the newest first.
//! Bounds: the last `steps_max` steps of each cursor are retained for listeners that resume, fewer of a commitment that
//! no listener resumes at, and of all cursors together `bytes_max` bytes of blocks, each block counted once. Beyond
//! that the oldest step of any cursor is evicted, so that all cursors reach back as far. If no listener that could
//! resume existed for `steps_max` steps, only [`STEPS_IDLE`] are retained: steps own all that their blocks wrote. At
//! most `unrooted_max` blocks wait for a root. A root drops the blocks that do not descend from it,
//! [`BlockLog::drop_fork`] those that the ledger has dropped.
//! Cost: a step each for the blocks that a cursor passes, and for the blocks that a root or a dropped fork removes. It
//! does not grow with the blocks above the root.
//! Invariant: after a step of a commitment its cursor is on the block of the step, or, if the step reverted it, on that
//! block's parent.

use std::collections::{BTreeSet, VecDeque, vec_deque};
use std::sync::Arc;

use foldhash::HashMap;
use ledger::{BlockId, Commitment};

/// Steps of each cursor that are retained although no listener could resume: a new subscription's view may be that far
/// behind its cursor.
const STEPS_IDLE: usize = 8;

/// The bounds of all blocks, in their order.
const FIRST_BLOCK: BlockId = BlockId { slot: 0, version: 0 };
const LAST_BLOCK: BlockId = BlockId { slot: u64::MAX, version: u64::MAX };

/// One step of a commitment's cursor.
pub struct BlockStep<B> {
    /// Counts the steps of all cursors; greater is later.
    pub number: u64,
    /// The commitment of the cursor.
    pub commitment: Commitment,
    /// Whether the block was applied or reverted.
    pub direction: Direction,
    /// Id of the applied or reverted block.
    pub block: BlockId,
    /// Body of the block, shared by all steps.
    pub body: Arc<B>,
}

/// The effect of a step on its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It is the newest of the chain now.
    Applied,
    /// The block is no longer on the chain.
    Reverted,
}

/// The chain of blocks has a gap: a block was never added, or is too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("block {block:?} does not lead back to the published chain")]
pub struct MissingParent {
    /// The block that cannot be reached.
    pub block: BlockId,
}

/// A block cannot be dropped, because a commitment is on it or on a descendant of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("block {block:?} is on the published chain at {commitment:?}")]
pub struct BlockInUse {
    /// The block that was to be dropped.
    pub block: BlockId,
    /// The highest commitment that is on it.
    pub commitment: Commitment,
}

/// The position of a cursor at a block, for a listener that resumes from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResumePoint {
    /// After the step of this number.
    After(u64),
    /// It has not reached the block yet.
    Ahead,
    /// The steps after the block have been evicted.
    Expired,
}

/// The blocks, and the cursors of the commitments.
pub(crate) struct BlockLog<B> {
    blocks: HashMap<BlockId, Node<B>>,
    /// Each block behind its parent, which may be absent: the root, or a gap.
    children: BTreeSet<(BlockId, BlockId)>,
    cursors: [CommitmentCursor<B>; 3],
    next_number: u64,
    retention: Retention,
    /// By commitment: the most steps that are retained.
    steps_max: [usize; 3],
    /// The blocks of all retained steps.
    retained: HashMap<BlockId, RetainedBlock>,
    retained_bytes: usize,
    unrooted_max: usize,
    /// Confirmed steps since a listener existed that could resume.
    idle_steps: usize,
}

/// Limits of the steps retained for listeners that resume.
#[derive(Clone, Copy)]
pub(crate) struct Retention {
    /// Maximum number of steps of each cursor.
    pub(crate) steps_max: usize,
    /// Bytes of the blocks of all cursors.
    pub(crate) bytes_max: usize,
}

struct Node<B> {
    parent: BlockId,
    body: Arc<B>,
    bytes: usize,
    /// By commitment: whether its cursor has applied the block, and not reverted it. A cursor may also be above a block
    /// without having applied it.
    is_applied: [bool; 3],
}

struct RetainedBlock {
    steps: usize,
    bytes: usize,
    /// By commitment: the number of the newest step that applied the block, 0 if there was none.
    applied_by: [u64; 3],
}

struct CommitmentCursor<B> {
    tip: Option<BlockId>,
    /// The step before the first retained one. After it the cursor was on `base_block`.
    base_step: u64,
    base_block: Option<BlockId>,
    steps: VecDeque<BlockStep<B>>,
}

impl<B> Clone for BlockStep<B> {
    fn clone(&self) -> Self {
        Self { body: Arc::clone(&self.body), ..*self }
    }
}

impl<B> BlockLog<B> {
    pub(crate) fn new(retention: Retention, unrooted_max: usize) -> Self {
        let cursor = || CommitmentCursor {
            tip: None,
            base_step: 0,
            base_block: None,
            steps: VecDeque::new(),
        };
        Self {
            blocks: HashMap::default(),
            children: BTreeSet::new(),
            cursors: [cursor(), cursor(), cursor()],
            next_number: 1,
            steps_max: [retention.steps_max; 3],
            retention,
            retained: HashMap::default(),
            retained_bytes: 0,
            unrooted_max,
            idle_steps: usize::MAX,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.children.clear();
    }

    /// Sets one cursor to a block; the blocks after it must be added.
    pub(crate) fn start_at(&mut self, commitment: Commitment, at: BlockId) {
        while self.evict_oldest(commitment as usize) {}
        let cursor = &mut self.cursors[commitment as usize];
        cursor.tip = Some(at);
        cursor.base_block = Some(at);
        cursor.base_step = self.next_number - 1;
    }

    /// Adds a block, in a later slot than its parent, and the bytes that it counts. No cursor moves.
    pub(crate) fn add(
        &mut self,
        block: BlockId,
        parent: BlockId,
        body: Arc<B>,
        bytes: usize,
    ) -> Result<(), MissingParent> {
        if self.blocks.len() >= self.unrooted_max {
            return Err(MissingParent { block });
        }
        let node = Node { parent, body, bytes, is_applied: [false; 3] };
        if let Some(replaced) = self.blocks.insert(block, node) {
            self.children.remove(&(replaced.parent, block));
        }
        self.children.insert((parent, block));
        Ok(())
    }

    /// Whether a block was added and is not below the root.
    pub(crate) fn contains(&self, block: BlockId) -> bool {
        self.blocks.contains_key(&block)
    }

    /// Retains at most this many steps of a commitment: no listener resumes from its older ones.
    pub(crate) fn limit_steps(&mut self, commitment: Commitment, steps_max: usize) {
        let limit = &mut self.steps_max[commitment as usize];
        *limit = steps_max.min(*limit);
    }

    /// Records that there is a listener that could disconnect and resume.
    pub(crate) fn mark_in_use(&mut self) {
        self.idle_steps = 0;
    }

    /// The bytes of the retained blocks, each counted once.
    pub(crate) fn retained_bytes(&self) -> usize {
        self.retained_bytes
    }

    /// The number of the newest step.
    pub(crate) fn number(&self) -> u64 {
        self.next_number - 1
    }

    /// The block that a cursor is on.
    pub(crate) fn tip(&self, commitment: Commitment) -> Option<BlockId> {
        self.cursors[commitment as usize].tip
    }

    /// Moves a commitment to a block. It may be an ancestor of the block before, if the blocks between are gone. A
    /// finalized block is also confirmed, and a confirmed block processed: those cursors move too if they have not
    /// reached it.
    pub(crate) fn advance(
        &mut self,
        commitment: Commitment,
        to: BlockId,
    ) -> Result<Vec<BlockStep<B>>, MissingParent> {
        let mut steps = Vec::new();
        // A listener that existed before the first of these steps may have got only some of them.
        let is_in_use = self.idle_steps <= self.retention.steps_max;
        for level in Commitment::ALL.into_iter().take_while(|level| *level <= commitment) {
            let is_reached = if level == commitment {
                self.tip(level) == Some(to)
            } else {
                self.is_on_chain(level, to)
            };
            if !is_reached {
                self.advance_cursor(level, to, &mut steps)?;
            }
        }
        self.evict_over_steps(if is_in_use { usize::MAX } else { STEPS_IDLE });
        self.evict_over_bytes();
        if commitment == Commitment::Finalized {
            self.set_root(to);
        }
        Ok(steps)
    }

    /// Drops a block and its descendants. Steps that are retained for listeners keep their bodies.
    pub(crate) fn drop_fork(&mut self, block: BlockId) -> Result<(), BlockInUse> {
        let mut commitments = Commitment::ALL.into_iter().rev();
        if let Some(commitment) = commitments.find(|level| self.is_on_chain(*level, block)) {
            return Err(BlockInUse { block, commitment });
        }
        self.remove_fork(block);
        Ok(())
    }

    /// Returns the position of a cursor at a block. Cost: O(1).
    pub(crate) fn resume_point(&self, commitment: Commitment, block: BlockId) -> ResumePoint {
        let cursor = &self.cursors[commitment as usize];
        let retained = self.retained.get(&block);
        let applied_by = retained.map_or(0, |retained| retained.applied_by[commitment as usize]);
        if applied_by > cursor.base_step {
            return ResumePoint::After(applied_by);
        }
        if cursor.base_block == Some(block) && self.reaches(cursor, cursor.base_step) {
            return ResumePoint::After(cursor.base_step);
        }
        if cursor.tip.is_none_or(|tip| block.slot > tip.slot) {
            ResumePoint::Ahead
        } else {
            ResumePoint::Expired
        }
    }

    /// The steps of a cursor after a number. `None` if not all of them are retained.
    pub(crate) fn steps_since(
        &self,
        commitment: Commitment,
        number: u64,
    ) -> Option<vec_deque::Iter<'_, BlockStep<B>>> {
        let cursor = &self.cursors[commitment as usize];
        if !self.reaches(cursor, number) {
            return None;
        }
        let first = cursor.steps.partition_point(|step| step.number <= number);
        Some(cursor.steps.range(first..))
    }

    /// Whether every step of a cursor after a number is retained.
    fn reaches(&self, cursor: &CommitmentCursor<B>, number: u64) -> bool {
        number >= cursor.base_step
    }

    /// Whether a cursor is on a block or on a descendant of it. Cost: O(1) if it has applied the block, and otherwise
    /// O(blocks between them).
    fn is_on_chain(&self, commitment: Commitment, block: BlockId) -> bool {
        let is_applied = |node: &Node<B>| node.is_applied[commitment as usize];
        self.blocks.get(&block).is_some_and(is_applied)
            || self.tip(commitment).is_some_and(|tip| self.leads_to(tip, block))
    }

    /// Whether `from` is `to` or a descendant of it.
    fn leads_to(&self, from: BlockId, to: BlockId) -> bool {
        let mut at = from;
        loop {
            if at == to {
                return true;
            }
            match self.blocks.get(&at) {
                Some(node) if at.slot > to.slot => at = node.parent,
                _ => return false,
            }
        }
    }

    fn advance_cursor(
        &mut self,
        commitment: Commitment,
        to: BlockId,
        out: &mut Vec<BlockStep<B>>,
    ) -> Result<(), MissingParent> {
        let gap = MissingParent { block: to };
        let Some(tip) = self.tip(commitment) else {
            self.start_at(commitment, to);
            return Ok(());
        };
        let mut reverted = Vec::new();
        let mut applied = Vec::new();
        let mut left = tip;
        let mut right = to;
        while left != right {
            // Go back from the block in the later slot; in the same slot from either.
            let at = if left.slot > right.slot { left } else { right };
            let node = self.blocks.get(&at).ok_or(gap)?;
            if left.slot > right.slot {
                reverted.push((left, node.bytes, Arc::clone(&node.body)));
                left = node.parent;
            } else {
                applied.push((right, node.bytes, Arc::clone(&node.body)));
                right = node.parent;
            }
        }
        let reverted = reverted.into_iter().map(|block| (Direction::Reverted, block));
        let applied = applied.into_iter().rev().map(|block| (Direction::Applied, block));
        for (direction, (block, bytes, body)) in reverted.chain(applied) {
            if let Some(node) = self.blocks.get_mut(&block) {
                node.is_applied[commitment as usize] = direction == Direction::Applied;
            }
            let number = self.next_number;
            let step = BlockStep { number, commitment, direction, block, body };
            self.next_number += 1;
            out.push(step.clone());
            self.retain_step(step, bytes);
        }
        self.cursors[commitment as usize].tip = Some(to);
        Ok(())
    }

    fn retain_step(&mut self, step: BlockStep<B>, bytes: usize) {
        let new = RetainedBlock { steps: 0, bytes, applied_by: [0; 3] };
        let block = self.retained.entry(step.block).or_insert(new);
        if block.steps == 0 {
            self.retained_bytes += block.bytes;
        }
        block.steps += 1;
        if step.direction == Direction::Applied {
            block.applied_by[step.commitment as usize] = step.number;
        }
        // The processed cursor may make many steps for each block that stays.
        if step.commitment == Commitment::Confirmed {
            self.idle_steps = self.idle_steps.saturating_add(1);
        }
        self.cursors[step.commitment as usize].steps.push_back(step);
    }

    /// Evicts the oldest steps of each cursor until it has at most `steps_max`, and at most those of its own limit.
    fn evict_over_steps(&mut self, steps_max: usize) {
        for commitment in Commitment::ALL {
            let steps_max = steps_max.min(self.steps_max[commitment as usize]);
            while self.cursors[commitment as usize].steps.len() > steps_max {
                self.evict_oldest(commitment as usize);
            }
        }
    }

    /// Evicts the oldest steps until the retained blocks are within the limit of bytes.
    fn evict_over_bytes(&mut self) {
        while self.retained_bytes > self.retention.bytes_max {
            let oldest = |index: &usize| self.cursors[*index].steps.front().map(|step| step.number);
            let cursors = (0..self.cursors.len()).filter(|index| oldest(index).is_some());
            let Some(index) = cursors.min_by_key(oldest) else { return };
            self.evict_oldest(index);
        }
    }

    /// Evicts the oldest step of a cursor. False if it has none.
    fn evict_oldest(&mut self, index: usize) -> bool {
        let cursor = &mut self.cursors[index];
        let Some(evicted) = cursor.steps.pop_front() else { return false };
        cursor.base_step = evicted.number;
        cursor.base_block = (evicted.direction == Direction::Applied).then_some(evicted.block);
        if let Some(block) = self.retained.get_mut(&evicted.block) {
            block.steps -= 1;
            if block.steps == 0 {
                self.retained_bytes -= block.bytes;
                self.retained.remove(&evicted.block);
            }
        }
        true
    }

    /// Drops the blocks that do not descend from the root. Blocks behind a gap stay until a root passes the gap's slot.
    ///
    /// Cost: O(dropped blocks).
    fn set_root(&mut self, root: BlockId) {
        let last = BlockId { slot: root.slot, version: u64::MAX };
        let up_to_root = self.children.range(..=(last, LAST_BLOCK));
        let dropped: Vec<BlockId> =
            up_to_root.filter(|(parent, _)| *parent != root).map(|(_, block)| *block).collect();
        for block in dropped {
            if block.slot <= root.slot {
                // Its children are in the list, unless it is the root.
                self.remove_block(block);
            } else {
                self.remove_fork(block);
            }
        }
    }

    /// Removes a block and its descendants.
    fn remove_fork(&mut self, block: BlockId) {
        let mut fork = vec![block];
        while let Some(block) = fork.pop() {
            self.remove_block(block);
            let children = self.children.range((block, FIRST_BLOCK)..=(block, LAST_BLOCK));
            fork.extend(children.map(|(_, child)| *child));
        }
    }

    fn remove_block(&mut self, block: BlockId) {
        if let Some(node) = self.blocks.remove(&block) {
            self.children.remove(&(node.parent, block));
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn id(slot: u64, version: u64) -> BlockId {
        BlockId { slot, version }
    }

    fn block_log(steps_max: usize) -> BlockLog<()> {
        let mut log = BlockLog::new(Retention { steps_max, bytes_max: 1_000 }, 100);
        log.mark_in_use();
        Commitment::ALL.into_iter().for_each(|commitment| log.start_at(commitment, id(0, 0)));
        log
    }

    fn summary(steps: &[BlockStep<()>]) -> Vec<(Commitment, Direction, u64)> {
        steps.iter().map(|step| (step.commitment, step.direction, step.block.slot)).collect()
    }

    use Commitment::{Confirmed, Finalized, Processed};
    use Direction::{Applied, Reverted};

    #[test]
    fn a_commitment_that_jumps_ten_slots_steps_through_all_ten() -> Result<(), MissingParent> {
        let mut log = block_log(100);
        for slot in 1..=10 {
            log.add(id(slot, 0), id(slot - 1, 0), Arc::new(()), 1)?;
        }
        let steps = log.advance(Finalized, id(10, 0))?;
        assert_eq!(steps.len(), 30, "ten at each commitment");
        let finalized: Vec<u64> = steps[20..].iter().map(|step| step.block.slot).collect();
        assert_eq!(finalized, (1..=10).collect::<Vec<_>>());
        assert!(steps.is_sorted_by_key(|step| step.number));
        assert!(log.blocks.is_empty());
        Ok(())
    }

    #[test]
    fn a_fork_is_left_before_the_other_is_entered() -> Result<(), MissingParent> {
        let mut log = block_log(100);
        log.add(id(1, 0), id(0, 0), Arc::new(()), 1)?;
        log.add(id(2, 0), id(1, 0), Arc::new(()), 1)?;
        log.add(id(3, 0), id(2, 0), Arc::new(()), 1)?;
        log.add(id(4, 0), id(1, 0), Arc::new(()), 1)?;
        log.advance(Processed, id(3, 0))?;
        let steps = log.advance(Processed, id(4, 0))?;
        let expected =
            [(Processed, Reverted, 3), (Processed, Reverted, 2), (Processed, Applied, 4)];
        assert_eq!(summary(&steps), expected);
        let steps = log.advance(Finalized, id(4, 0))?;
        let expected = [(Confirmed, Applied, 1), (Confirmed, Applied, 4)];
        assert_eq!(summary(&steps)[..2], expected);
        assert!(log.blocks.is_empty(), "the dead fork is dropped");
        Ok(())
    }

    #[test]
    fn a_commitment_falls_back_to_an_ancestor_and_the_lower_ones_stay() -> Result<(), MissingParent>
    {
        let mut log = block_log(100);
        for slot in 1..=3 {
            log.add(id(slot, 0), id(slot - 1, 0), Arc::new(()), 1)?;
        }
        log.advance(Processed, id(3, 0))?;
        let steps = log.advance(Processed, id(1, 0))?;
        assert_eq!(summary(&steps), [(Processed, Reverted, 3), (Processed, Reverted, 2)]);
        log.advance(Processed, id(3, 0))?;
        assert_eq!(summary(&log.advance(Confirmed, id(1, 0))?), [(Confirmed, Applied, 1)]);
        assert_eq!(log.tip(Processed), Some(id(3, 0)));
        Ok(())
    }

    #[test]
    fn two_versions_of_one_slot_are_two_blocks() -> Result<(), MissingParent> {
        let mut log = block_log(100);
        log.add(id(1, 0), id(0, 0), Arc::new(()), 1)?;
        log.add(id(1, 1), id(0, 0), Arc::new(()), 1)?;
        log.advance(Processed, id(1, 0))?;
        let steps = log.advance(Processed, id(1, 1))?;
        assert_eq!(summary(&steps), [(Processed, Reverted, 1), (Processed, Applied, 1)]);
        Ok(())
    }

    #[test]
    fn a_cursor_resumes_from_a_retained_block_and_says_when_it_cannot() -> Result<(), MissingParent>
    {
        let mut log = block_log(3);
        for slot in 1..=5 {
            log.add(id(slot, 0), id(slot - 1, 0), Arc::new(()), 1)?;
            log.advance(Processed, id(slot, 0))?;
        }
        assert_eq!(log.resume_point(Processed, id(1, 0)), ResumePoint::Expired);
        let ResumePoint::After(number) = log.resume_point(Processed, id(2, 0)) else {
            panic!("three steps are retained after it")
        };
        let steps = log.steps_since(Processed, number).expect("retained");
        assert_eq!(steps.len(), 3);
        assert!(log.steps_since(Processed, number - 1).is_none());
        assert_eq!(log.resume_point(Processed, id(9, 0)), ResumePoint::Ahead);
        Ok(())
    }

    #[test]
    fn a_commitment_that_nobody_resumes_at_leaves_its_memory_to_the_others()
    -> Result<(), MissingParent> {
        let mut log = BlockLog::new(Retention { steps_max: 50, bytes_max: 1_000 }, 1_000);
        Commitment::ALL.into_iter().for_each(|commitment| log.start_at(commitment, id(0, 0)));
        log.limit_steps(Processed, 2);
        log.limit_steps(Finalized, 60);
        // A tip that is replaced at each step, and a chain.
        for slot in 1..=60 {
            log.mark_in_use();
            for version in 0..3 {
                log.add(id(slot, version), id(slot - 1, 0), Arc::new(()), 15)?;
                log.advance(Processed, id(slot, version))?;
            }
            log.advance(Confirmed, id(slot, 0))?;
        }
        let steps = log.cursors.each_ref().map(|cursor| cursor.steps.len());
        assert_eq!(steps, [2, 50, 0]);
        assert!(log.retained_bytes() <= 52 * 15, "{}", log.retained_bytes());
        assert_eq!(log.resume_point(Confirmed, id(9, 0)), ResumePoint::Expired);
        let ResumePoint::After(number) = log.resume_point(Confirmed, id(10, 0)) else {
            panic!("50 steps are retained after it")
        };
        assert_eq!(log.steps_since(Confirmed, number).map(|steps| steps.len()), Some(50));
        log.advance(Finalized, id(60, 0))?;
        assert_eq!(log.cursors[Finalized as usize].steps.len(), 50, "a limit is not raised");
        Ok(())
    }

    #[test]
    fn retention_is_bounded_in_bytes_and_all_cursors_reach_back_as_far() -> Result<(), MissingParent>
    {
        let mut log = block_log(100);
        for slot in 1..=50 {
            log.add(id(slot, 0), id(slot - 1, 0), Arc::new(()), 100)?;
            log.advance(Confirmed, id(slot, 0))?;
            if slot > 5 {
                log.advance(Finalized, id(slot - 5, 0))?;
            }
            assert!(log.retained_bytes() <= 1_000);
        }
        // Ten blocks: the last five of all cursors, and five older ones that were finalized since.
        assert_eq!(log.retained_bytes(), 1_000);
        for (commitment, first) in [(Processed, 46), (Confirmed, 46), (Finalized, 41)] {
            let steps = &log.cursors[commitment as usize].steps;
            assert_eq!(steps.front().map(|step| step.block.slot), Some(first), "{commitment:?}");
            assert_eq!(log.resume_point(commitment, id(first - 2, 0)), ResumePoint::Expired);
            let ResumePoint::After(number) = log.resume_point(commitment, id(first - 1, 0)) else {
                panic!("all steps after it are retained")
            };
            assert_eq!(log.steps_since(commitment, number).map(|steps| steps.len()), Some(5));
        }
        // One block over the limit of bytes is published, and not retained.
        log.add(id(51, 0), id(50, 0), Arc::new(()), 1_001)?;
        assert_eq!(summary(&log.advance(Processed, id(51, 0))?), [(Processed, Applied, 51)]);
        assert_eq!((log.retained_bytes(), log.retained.len()), (0, 0));
        let now = log.number();
        assert_eq!(log.resume_point(Processed, id(51, 0)), ResumePoint::After(now));
        assert!(log.steps_since(Processed, now).is_some_and(|steps| steps.len() == 0));
        assert!(log.steps_since(Processed, now - 1).is_none());
        Ok(())
    }

    #[test]
    fn steps_are_retained_while_a_listener_could_resume_and_for_a_window_after_it_left()
    -> Result<(), MissingParent> {
        let retention = Retention { steps_max: 20, bytes_max: 1_000_000 };
        let mut log: BlockLog<()> = BlockLog::new(retention, 1_000);
        Commitment::ALL.into_iter().for_each(|commitment| log.start_at(commitment, id(0, 0)));
        let mut slots = 1..;
        let mut advance = |log: &mut BlockLog<()>, steps: usize, is_in_use: bool| {
            for slot in slots.by_ref().take(steps) {
                log.add(id(slot, 0), id(slot - 1, 0), Arc::new(()), 100)?;
                if is_in_use {
                    log.mark_in_use();
                }
                log.advance(Finalized, id(slot, 0))?;
            }
            assert_eq!(log.retained_bytes(), 100 * log.cursors[0].steps.len());
            Ok::<_, MissingParent>(log.cursors.each_ref().map(|cursor| cursor.steps.len()))
        };
        assert_eq!(advance(&mut log, 50, false)?, [STEPS_IDLE; 3]);
        assert_eq!(advance(&mut log, 5, true)?, [STEPS_IDLE + 5; 3]);
        assert_eq!(advance(&mut log, 50, true)?, [20; 3]);
        // The listener has disconnected, and may resume within the retention.
        assert_eq!(advance(&mut log, 20, false)?, [20; 3]);
        assert_eq!(advance(&mut log, 1, false)?, [STEPS_IDLE; 3]);
        Ok(())
    }

    #[test]
    fn a_block_without_a_way_back_has_a_missing_parent() {
        let mut log = block_log(3);
        assert_eq!(log.add(id(7, 0), id(6, 0), Arc::new(()), 1), Ok(()));
        let gap = log.advance(Processed, id(7, 0)).err();
        assert_eq!(gap, Some(MissingParent { block: id(7, 0) }));
    }

    #[test]
    fn a_dropped_fork_leaves_the_log_with_its_bodies_at_once() -> Result<(), MissingParent> {
        let mut log: BlockLog<u64> =
            BlockLog::new(Retention { steps_max: 0, bytes_max: 1_000 }, 100);
        Commitment::ALL.into_iter().for_each(|commitment| log.start_at(commitment, id(0, 0)));
        log.add(id(1, 0), id(0, 0), Arc::new(1), 1)?;
        log.advance(Confirmed, id(1, 0))?;
        // The tip is replaced by a sibling at each step, now and then by one with a descendant.
        let mut replaced = id(1, 0);
        let mut body = std::sync::Weak::new();
        for version in 1..1_000 {
            let first = id(2 + version % 2, version);
            let tip = if version % 10 == 0 { id(4, version) } else { first };
            let new_body = Arc::new(version);
            let weak = Arc::downgrade(&new_body);
            log.add(first, id(1, 0), new_body, 1)?;
            if tip != first {
                log.add(tip, first, Arc::new(version), 1)?;
            }
            log.advance(Processed, tip)?;
            if replaced != id(1, 0) {
                log.drop_fork(replaced).expect("no commitment is on it");
            }
            assert_eq!(body.strong_count(), 0, "step {version}");
            assert_eq!(log.blocks.len(), if tip == first { 2 } else { 3 });
            assert_eq!(log.blocks.len(), log.children.len());
            (replaced, body) = (first, weak);
        }
        assert_eq!(body.strong_count(), 1);
        Ok(())
    }

    #[test]
    fn a_block_that_a_commitment_is_on_is_not_dropped() -> Result<(), MissingParent> {
        let mut log = block_log(100);
        for slot in 1..=3 {
            log.add(id(slot, 0), id(slot - 1, 0), Arc::new(()), 1)?;
        }
        log.add(id(3, 1), id(2, 0), Arc::new(()), 1)?;
        log.advance(Processed, id(3, 0))?;
        log.advance(Confirmed, id(1, 0))?;
        let in_use = |slot, commitment| Err(BlockInUse { block: id(slot, 0), commitment });
        assert_eq!(log.drop_fork(id(0, 0)), in_use(0, Finalized));
        assert_eq!(log.drop_fork(id(1, 0)), in_use(1, Confirmed));
        assert_eq!(log.drop_fork(id(2, 0)), in_use(2, Processed));
        assert_eq!(log.drop_fork(id(3, 0)), in_use(3, Processed));
        assert_eq!(log.blocks.len(), 4);
        // The sibling has not been applied, and the tip moves to it.
        assert_eq!(
            summary(&log.advance(Processed, id(3, 1))?),
            [(Processed, Reverted, 3), (Processed, Applied, 3)]
        );
        assert_eq!(log.drop_fork(id(3, 0)), Ok(()));
        assert_eq!(log.drop_fork(id(3, 0)), Ok(()), "it has left the log");
        assert_eq!(log.advance(Processed, id(3, 0)).err(), Some(MissingParent { block: id(3, 0) }));
        // A restored block has no cursor that applied it, and all of them are on it.
        log.advance(Finalized, id(3, 1))?;
        log.add(id(3, 1), id(2, 0), Arc::new(()), 1)?;
        let finalized = Err(BlockInUse { block: id(3, 1), commitment: Finalized });
        assert_eq!(log.drop_fork(id(3, 1)), finalized);
        log.add(id(3, 2), id(2, 0), Arc::new(()), 1)?;
        let steps = log.advance(Finalized, id(3, 2))?;
        assert_eq!(summary(&steps)[..2], [(Processed, Reverted, 3), (Processed, Applied, 3)]);
        assert!(log.blocks.is_empty() && log.children.is_empty());
        Ok(())
    }

    /// Random chains with forks, jumps, dropped forks and restored blocks, compared with a log that walks back from
    /// every block at each root.
    #[test]
    fn a_root_leaves_its_descendants_only() -> Result<(), MissingParent> {
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut log = block_log(100);
            let mut parents: HashMap<BlockId, BlockId> = HashMap::default();
            let mut tips = [id(0, 0); 3];
            let leads_to = |parents: &HashMap<BlockId, BlockId>, from: BlockId, to: BlockId| {
                std::iter::successors(Some(from), |at| parents.get(at).copied()).any(|at| at == to)
            };
            for version in 1..300 {
                let known = |parents: &HashMap<BlockId, BlockId>, root: BlockId| {
                    let mut known: Vec<BlockId> = parents.keys().copied().collect();
                    known.push(root);
                    known.sort_unstable();
                    known
                };
                let any = known(&parents, tips[2]);
                let block = any[rng.random_range(..any.len())];
                match rng.random_range(0..10) {
                    0..5 if parents.len() < 90 => {
                        let new = id(block.slot + 1 + rng.random_range(0..3), version);
                        log.add(new, block, Arc::new(()), 1)?;
                        parents.insert(new, block);
                    }
                    5..8 => {
                        // Each commitment stays on the chain of the more certain ones.
                        let level = rng.random_range(0..3);
                        let safer = tips[(level + 1).min(2)];
                        if !leads_to(&parents, block, safer) {
                            continue;
                        }
                        log.advance(Commitment::ALL[level], block)?;
                        for lower in tips.iter_mut().take(level) {
                            if !leads_to(&parents, *lower, block) {
                                *lower = block;
                            }
                        }
                        tips[level] = block;
                        if level == 2 {
                            let above =
                                |from: &BlockId| *from != block && leads_to(&parents, *from, block);
                            let above: Vec<BlockId> =
                                parents.keys().copied().filter(above).collect();
                            parents.retain(|from, _| above.contains(from));
                        }
                    }
                    8 => {
                        let is_in_use = tips.iter().any(|tip| leads_to(&parents, *tip, block));
                        assert_eq!(log.drop_fork(block).is_err(), is_in_use, "seed {seed}");
                        if !is_in_use {
                            let fork = |from: &BlockId| leads_to(&parents, *from, block);
                            let fork: Vec<BlockId> = parents.keys().copied().filter(fork).collect();
                            parents.retain(|from, _| !fork.contains(from));
                        }
                    }
                    _ => {}
                }
                assert_eq!(log.cursors.each_ref().map(|cursor| cursor.tip), tips.map(Some));
                let mut left: Vec<BlockId> = log.blocks.keys().copied().collect();
                let mut expected: Vec<BlockId> = parents.keys().copied().collect();
                left.sort_unstable();
                expected.sort_unstable();
                assert_eq!(left, expected, "seed {seed} step {version}");
                assert_eq!(log.children.len(), left.len());
            }
        }
        Ok(())
    }
}
