//! The log of blocks: from blocks and their commitments to the steps that are published.
//!
//! In: blocks with their parents, and "this block is processed, confirmed, finalized now". Out: for
//! each commitment numbered steps from block to block: every block of the chain is applied once and in
//! order, however many a commitment jumps over, and the blocks of an abandoned fork are reverted first,
//! the newest first.
//! Bounds: the last `steps_max` steps of each cursor are retained for listeners that resume, and of all cursors
//! together `bytes_max` bytes of blocks, each block counted once. Beyond that the oldest step of any cursor is
//! evicted, so that all cursors reach back as far. If no listener that could resume existed for `steps_max` steps,
//! only [`STEPS_IDLE`] are retained: steps own all that their blocks wrote. At most `unrooted_max` blocks wait for a
//! root.
//! Invariant: after a step of a commitment its cursor is on the block of the step, or, if the step reverted it, on that
//! block's parent.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use ledger::{BlockId, Commitment};

/// Steps of each cursor that are retained although no listener could resume: a new subscription's view may be that far
/// behind its cursor.
const STEPS_IDLE: usize = 8;

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
    cursors: [CommitmentCursor<B>; 3],
    next_number: u64,
    retention: Retention,
    /// The blocks of all retained steps.
    retained: HashMap<BlockId, RetainedBlock>,
    retained_bytes: usize,
    unrooted_max: usize,
    /// Processed steps since a listener existed that could resume.
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
}

struct RetainedBlock {
    steps: usize,
    bytes: usize,
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
            cursors: [cursor(), cursor(), cursor()],
            next_number: 1,
            retention,
            retained: HashMap::default(),
            retained_bytes: 0,
            unrooted_max,
            idle_steps: usize::MAX,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
    }

    /// Sets one cursor to a block; the blocks after it must be added.
    pub(crate) fn start_at(&mut self, commitment: Commitment, at: BlockId) {
        while self.evict_oldest(commitment as usize) {}
        let cursor = &mut self.cursors[commitment as usize];
        cursor.tip = Some(at);
        cursor.base_block = Some(at);
        cursor.base_step = self.next_number - 1;
    }

    /// Adds a block, and the bytes that it counts. No cursor moves.
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
        self.blocks.insert(block, Node { parent, body, bytes });
        Ok(())
    }

    /// Whether a block was added and is not below the root.
    pub(crate) fn contains(&self, block: BlockId) -> bool {
        self.blocks.contains_key(&block)
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
        for level in Commitment::ALL.into_iter().take_while(|level| *level <= commitment) {
            let is_reached = |tip| tip == to || (level != commitment && self.leads_to(tip, to));
            if !self.tip(level).is_some_and(is_reached) {
                self.advance_cursor(level, to, &mut steps)?;
            }
        }
        self.evict_over_bytes();
        if commitment == Commitment::Finalized {
            self.set_root(to);
        }
        Ok(steps)
    }

    /// Returns the position of a cursor at a block.
    pub(crate) fn resume_point(&self, commitment: Commitment, block: BlockId) -> ResumePoint {
        let cursor = &self.cursors[commitment as usize];
        let applied =
            |step: &&BlockStep<B>| step.direction == Direction::Applied && step.block == block;
        if let Some(step) = cursor.steps.iter().rev().find(applied) {
            return ResumePoint::After(step.number);
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
    ) -> Option<Vec<BlockStep<B>>> {
        let cursor = &self.cursors[commitment as usize];
        if !self.reaches(cursor, number) {
            return None;
        }
        let first = cursor.steps.partition_point(|step| step.number <= number);
        Some(cursor.steps.range(first..).cloned().collect())
    }

    /// Whether every step of a cursor after a number is retained.
    fn reaches(&self, cursor: &CommitmentCursor<B>, number: u64) -> bool {
        number >= cursor.base_step
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
        let block = self.retained.entry(step.block).or_insert(RetainedBlock { steps: 0, bytes });
        if block.steps == 0 {
            self.retained_bytes += block.bytes;
        }
        block.steps += 1;
        if step.commitment == Commitment::Processed {
            self.idle_steps = self.idle_steps.saturating_add(1);
        }
        let cursor = step.commitment as usize;
        self.cursors[cursor].steps.push_back(step);
        let steps_max = self.retention.steps_max;
        // A listener that existed at a step got it, and resumes after it.
        let is_in_use = self.idle_steps <= steps_max.saturating_add(1);
        let steps_max = if is_in_use { steps_max } else { steps_max.min(STEPS_IDLE) };
        while self.cursors[cursor].steps.len() > steps_max {
            self.evict_oldest(cursor);
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

    /// Drops the blocks that do not descend from the root.
    fn set_root(&mut self, root: BlockId) {
        let blocks = self.blocks.keys().copied();
        let descendants: HashSet<BlockId> =
            blocks.filter(|block| block.slot > root.slot && self.leads_to(*block, root)).collect();
        self.blocks.retain(|block, _| descendants.contains(block));
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(summary(&steps).len(), 3);
        assert!(log.steps_since(Processed, number - 1).is_none());
        assert_eq!(log.resume_point(Processed, id(9, 0)), ResumePoint::Ahead);
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
        assert!(log.steps_since(Processed, now).is_some_and(|steps| steps.is_empty()));
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
}
