//! From blocks and how sure the ledger is of them to the steps that subscribers are told.
//!
//! In: blocks with their parents, and "this block is processed, confirmed, finalized now". Out: for
//! each commitment a numbered walk from block to block: every block of the chain is applied once and in
//! order, however many a commitment jumps over, and blocks of a fork that was left are undone first,
//! the newest first.
//! Bounds: each walk's last `steps_max` steps are kept, for those who come back, and all walks together
//! `bytes_max` bytes of blocks, each block counted once: beyond that the oldest step goes, whosever it
//! is, so that all walks reach back as far. If nothing that could come back was there for `steps_max`
//! steps, only [`STEPS_IDLE`] are kept: steps hold all that their blocks wrote. At most `unrooted_max` blocks wait for a root.
//! Invariant: after a step of a commitment its walk stands on the block that the step names, or, if it
//! was undone, on that block's parent.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use ledger::{BlockId, Commitment};

/// Steps of each walk that are kept although nothing could come back for them: what a view that a new
/// subscription begins with may be behind its walk.
const STEPS_IDLE: usize = 8;

/// One step of a walk.
pub struct BlockStep<B> {
    /// Counts the steps of all walks; greater is later.
    pub number: u64,
    /// Whose walk.
    pub commitment: Commitment,
    /// Whether the block came or went.
    pub direction: Direction,
    /// Which block.
    pub block: BlockId,
    /// What is in it.
    pub body: Arc<B>,
}

/// What a step does with its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It is the newest of the chain now.
    Applied,
    /// It is not on the chain any more.
    Reverted,
}

/// The blocks do not hang together: one was never told, or is too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("block {block:?} does not lead back to the chain that was told")]
pub struct MissingParent {
    /// The block that cannot be reached.
    pub block: BlockId,
}

/// Where a walk stood at a block, for whoever goes on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResumePoint {
    /// After that many steps.
    After(u64),
    /// It did not get there yet.
    Ahead,
    /// It was there too long ago.
    Expired,
}

/// The walks.
pub(crate) struct BlockLog<B> {
    blocks: HashMap<BlockId, Node<B>>,
    cursors: [CommitmentCursor<B>; 3],
    next_number: u64,
    retention: Retention,
    /// The blocks of all kept steps.
    retained: HashMap<BlockId, RetainedBlock>,
    retained_bytes: usize,
    unrooted_max: usize,
    /// Processed steps since something was there that could come back.
    idle_steps: usize,
}

/// What is kept for those who come back.
#[derive(Clone, Copy)]
pub(crate) struct Retention {
    /// Steps of each walk.
    pub(crate) steps_max: usize,
    /// Bytes of the blocks of all walks.
    pub(crate) bytes_max: usize,
}

struct Node<B> {
    parent: BlockId,
    body: Arc<B>,
    bytes: usize,
}

/// A block that kept steps name.
struct RetainedBlock {
    steps: usize,
    bytes: usize,
}

struct CommitmentCursor<B> {
    tip: Option<BlockId>,
    /// After which step the walk stood on the block that it began with.
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
        let walk = || CommitmentCursor {
            tip: None,
            base_step: 0,
            base_block: None,
            steps: VecDeque::new(),
        };
        Self {
            blocks: HashMap::default(),
            cursors: [walk(), walk(), walk()],
            next_number: 1,
            retention,
            retained: HashMap::default(),
            retained_bytes: 0,
            unrooted_max,
            idle_steps: usize::MAX,
        }
    }

    /// Forgets all blocks.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
    }

    /// Puts one walk on a block; the blocks after it must be told.
    pub(crate) fn start_at(&mut self, commitment: Commitment, at: BlockId) {
        while self.evict_oldest(commitment as usize) {}
        let walk = &mut self.cursors[commitment as usize];
        walk.tip = Some(at);
        walk.base_block = Some(at);
        walk.base_step = self.next_number - 1;
    }

    /// Makes a block known, and how much it counts. No walk goes there yet.
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

    /// Says that something is there that could leave and come back.
    pub(crate) fn mark_in_use(&mut self) {
        self.idle_steps = 0;
    }

    /// The bytes of the blocks that are kept for those who come back, each once.
    pub(crate) fn retained_bytes(&self) -> usize {
        self.retained_bytes
    }

    /// The step at which each walk is now.
    pub(crate) fn number(&self) -> u64 {
        self.next_number - 1
    }

    /// Where a walk is.
    pub(crate) fn tip(&self, commitment: Commitment) -> Option<BlockId> {
        self.cursors[commitment as usize].tip
    }

    /// Walks to a block. What is finalized was confirmed, and what is confirmed processed: those walks
    /// go along if they are not there.
    pub(crate) fn advance(
        &mut self,
        commitment: Commitment,
        to: BlockId,
    ) -> Result<Vec<BlockStep<B>>, MissingParent> {
        let mut steps = Vec::new();
        for level in Commitment::ALL.into_iter().take_while(|level| *level <= commitment) {
            let tip = self.tip(level);
            if tip.is_none_or(|tip| !self.leads_to(tip, to)) {
                self.advance_cursor(level, to, &mut steps)?;
            }
        }
        self.evict_over_bytes();
        if commitment == Commitment::Finalized {
            self.set_root(to);
        }
        Ok(steps)
    }

    /// Where a walk stood at a block.
    pub(crate) fn resume_point(&self, commitment: Commitment, block: BlockId) -> ResumePoint {
        let walk = &self.cursors[commitment as usize];
        let applied =
            |step: &&BlockStep<B>| step.direction == Direction::Applied && step.block == block;
        if let Some(step) = walk.steps.iter().rev().find(applied) {
            return ResumePoint::After(step.number);
        }
        if walk.base_block == Some(block) && self.reaches(walk, walk.base_step) {
            return ResumePoint::After(walk.base_step);
        }
        // The oldest kept step says where the walk stood before it.
        if walk.tip.is_none_or(|tip| block.slot > tip.slot) {
            ResumePoint::Ahead
        } else {
            ResumePoint::Expired
        }
    }

    /// The steps of a walk after a number. `None` if not all of them are kept.
    pub(crate) fn steps_since(
        &self,
        commitment: Commitment,
        number: u64,
    ) -> Option<Vec<BlockStep<B>>> {
        let walk = &self.cursors[commitment as usize];
        if !self.reaches(walk, number) {
            return None;
        }
        let first = walk.steps.partition_point(|step| step.number <= number);
        Some(walk.steps.range(first..).cloned().collect())
    }

    /// Whether every step of a walk after a number is kept.
    fn reaches(&self, walk: &CommitmentCursor<B>, number: u64) -> bool {
        number >= walk.base_step
    }

    /// Whether one block is another or comes after it.
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
        let (mut undone, mut applied) = (Vec::new(), Vec::new());
        let (mut left, mut right) = (tip, to);
        while left != right {
            // The one in the later slot goes back; of two in one slot either may.
            let at = if left.slot > right.slot { left } else { right };
            let node = self.blocks.get(&at).ok_or(gap)?;
            if left.slot > right.slot {
                undone.push((left, node.bytes, Arc::clone(&node.body)));
                left = node.parent;
            } else {
                applied.push((right, node.bytes, Arc::clone(&node.body)));
                right = node.parent;
            }
        }
        let undone = undone.into_iter().map(|block| (Direction::Reverted, block));
        let applied = applied.into_iter().rev().map(|block| (Direction::Applied, block));
        for (turn, (block, bytes, body)) in undone.chain(applied) {
            let step =
                BlockStep { number: self.next_number, commitment, direction: turn, block, body };
            self.next_number += 1;
            out.push(step.clone());
            self.retain_step(step, bytes);
        }
        self.cursors[commitment as usize].tip = Some(to);
        Ok(())
    }

    fn retain_step(&mut self, step: BlockStep<B>, bytes: usize) {
        let kept = self.retained.entry(step.block).or_insert(RetainedBlock { steps: 0, bytes });
        if kept.steps == 0 {
            self.retained_bytes += kept.bytes;
        }
        kept.steps += 1;
        if step.commitment == Commitment::Processed {
            self.idle_steps = self.idle_steps.saturating_add(1);
        }
        let at = step.commitment as usize;
        self.cursors[at].steps.push_back(step);
        let steps_max = self.retention.steps_max;
        // What was there at a step was told it, and goes on after it.
        let is_wanted = self.idle_steps <= steps_max.saturating_add(1);
        let steps_max = if is_wanted { steps_max } else { steps_max.min(STEPS_IDLE) };
        while self.cursors[at].steps.len() > steps_max {
            self.evict_oldest(at);
        }
    }

    /// Forgets the oldest steps until the blocks of the others are within the window's bytes.
    fn evict_over_bytes(&mut self) {
        while self.retained_bytes > self.retention.bytes_max {
            let oldest = |at: &usize| self.cursors[*at].steps.front().map(|step| step.number);
            let walks = (0..self.cursors.len()).filter(|at| oldest(at).is_some());
            let Some(at) = walks.min_by_key(oldest) else { return };
            self.evict_oldest(at);
        }
    }

    /// Forgets the oldest step of a walk. False if it has none.
    fn evict_oldest(&mut self, at: usize) -> bool {
        let walk = &mut self.cursors[at];
        let Some(forgotten) = walk.steps.pop_front() else { return false };
        walk.base_step = forgotten.number;
        walk.base_block = (forgotten.direction == Direction::Applied).then_some(forgotten.block);
        if let Some(kept) = self.retained.get_mut(&forgotten.block) {
            kept.steps -= 1;
            if kept.steps == 0 {
                self.retained_bytes -= kept.bytes;
                self.retained.remove(&forgotten.block);
            }
        }
        true
    }

    /// Forgets what cannot be on the chain any more.
    fn set_root(&mut self, root: BlockId) {
        let blocks = self.blocks.keys().copied();
        let kept: HashSet<BlockId> =
            blocks.filter(|block| block.slot > root.slot && self.leads_to(*block, root)).collect();
        self.blocks.retain(|block, _| kept.contains(block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u64, bank: u64) -> BlockId {
        BlockId { slot, bank }
    }

    fn block_log(steps_max: usize) -> BlockLog<()> {
        let mut levels = BlockLog::new(Retention { steps_max, bytes_max: 1_000 }, 100);
        levels.mark_in_use();
        Commitment::ALL.into_iter().for_each(|level| levels.start_at(level, id(0, 0)));
        levels
    }

    fn summary(steps: &[BlockStep<()>]) -> Vec<(Commitment, Direction, u64)> {
        steps.iter().map(|step| (step.commitment, step.direction, step.block.slot)).collect()
    }

    use Commitment::{Confirmed, Finalized, Processed};
    use Direction::{Applied, Reverted};

    #[test]
    fn a_commitment_that_jumps_ten_slots_steps_through_all_ten() -> Result<(), MissingParent> {
        let mut levels = block_log(100);
        for slot in 1..=10 {
            levels.add(id(slot, 0), id(slot - 1, 0), Arc::new(()), 1)?;
        }
        let steps = levels.advance(Finalized, id(10, 0))?;
        assert_eq!(steps.len(), 30, "ten at each commitment");
        let finalized: Vec<u64> = steps[20..].iter().map(|step| step.block.slot).collect();
        assert_eq!(finalized, (1..=10).collect::<Vec<_>>());
        assert!(steps.is_sorted_by_key(|step| step.number));
        assert!(levels.blocks.is_empty());
        Ok(())
    }

    #[test]
    fn a_fork_is_left_before_the_other_is_entered() -> Result<(), MissingParent> {
        let mut levels = block_log(100);
        levels.add(id(1, 0), id(0, 0), Arc::new(()), 1)?;
        levels.add(id(2, 0), id(1, 0), Arc::new(()), 1)?;
        levels.add(id(3, 0), id(2, 0), Arc::new(()), 1)?;
        levels.add(id(4, 0), id(1, 0), Arc::new(()), 1)?;
        levels.advance(Processed, id(3, 0))?;
        let steps = levels.advance(Processed, id(4, 0))?;
        let expected =
            [(Processed, Reverted, 3), (Processed, Reverted, 2), (Processed, Applied, 4)];
        assert_eq!(summary(&steps), expected);
        let steps = levels.advance(Finalized, id(4, 0))?;
        let expected = [(Confirmed, Applied, 1), (Confirmed, Applied, 4)];
        assert_eq!(summary(&steps)[..2], expected);
        assert!(levels.blocks.is_empty(), "the dead fork is forgotten");
        Ok(())
    }

    #[test]
    fn two_banks_of_one_slot_are_two_blocks() -> Result<(), MissingParent> {
        let mut levels = block_log(100);
        levels.add(id(1, 0), id(0, 0), Arc::new(()), 1)?;
        levels.add(id(1, 1), id(0, 0), Arc::new(()), 1)?;
        levels.advance(Processed, id(1, 0))?;
        let steps = levels.advance(Processed, id(1, 1))?;
        assert_eq!(summary(&steps), [(Processed, Reverted, 1), (Processed, Applied, 1)]);
        Ok(())
    }

    #[test]
    fn a_cursor_resumes_from_a_retained_block_and_says_when_it_cannot() -> Result<(), MissingParent>
    {
        let mut levels = block_log(3);
        for slot in 1..=5 {
            levels.add(id(slot, 0), id(slot - 1, 0), Arc::new(()), 1)?;
            levels.advance(Processed, id(slot, 0))?;
        }
        assert_eq!(levels.resume_point(Processed, id(1, 0)), ResumePoint::Expired);
        let ResumePoint::After(number) = levels.resume_point(Processed, id(2, 0)) else {
            panic!("three steps are kept after it")
        };
        let steps = levels.steps_since(Processed, number).expect("kept");
        assert_eq!(summary(&steps).len(), 3);
        assert!(levels.steps_since(Processed, number - 1).is_none());
        assert_eq!(levels.resume_point(Processed, id(9, 0)), ResumePoint::Ahead);
        Ok(())
    }

    #[test]
    fn retention_is_bounded_in_bytes_and_all_cursors_reach_back_as_far() -> Result<(), MissingParent>
    {
        let mut levels = block_log(100);
        for slot in 1..=50 {
            levels.add(id(slot, 0), id(slot - 1, 0), Arc::new(()), 100)?;
            levels.advance(Confirmed, id(slot, 0))?;
            if slot > 5 {
                levels.advance(Finalized, id(slot - 5, 0))?;
            }
            assert!(levels.retained_bytes() <= 1_000);
        }
        // Ten blocks: the last five of all walks, and those of before that are finalized since.
        assert_eq!(levels.retained_bytes(), 1_000);
        for (walk, first) in [(Processed, 46), (Confirmed, 46), (Finalized, 41)] {
            let steps = &levels.cursors[walk as usize].steps;
            assert_eq!(steps.front().map(|step| step.block.slot), Some(first), "{walk:?}");
            assert_eq!(levels.resume_point(walk, id(first - 2, 0)), ResumePoint::Expired);
            let ResumePoint::After(number) = levels.resume_point(walk, id(first - 1, 0)) else {
                panic!("all after it is kept")
            };
            assert_eq!(levels.steps_since(walk, number).map(|steps| steps.len()), Some(5));
        }
        // One block beyond the bound is told, and kept by nobody.
        levels.add(id(51, 0), id(50, 0), Arc::new(()), 1_001)?;
        assert_eq!(summary(&levels.advance(Processed, id(51, 0))?), [(Processed, Applied, 51)]);
        assert_eq!((levels.retained_bytes(), levels.retained.len()), (0, 0));
        let now = levels.number();
        assert_eq!(levels.resume_point(Processed, id(51, 0)), ResumePoint::After(now));
        assert!(levels.steps_since(Processed, now).is_some_and(|steps| steps.is_empty()));
        assert!(levels.steps_since(Processed, now - 1).is_none());
        Ok(())
    }

    #[test]
    fn steps_are_retained_while_a_listener_could_resume_and_for_a_window_after_it_left()
    -> Result<(), MissingParent> {
        let window = Retention { steps_max: 20, bytes_max: 1_000_000 };
        let mut levels: BlockLog<()> = BlockLog::new(window, 1_000);
        Commitment::ALL.into_iter().for_each(|level| levels.start_at(level, id(0, 0)));
        let mut slots = 1..;
        let mut walk = |levels: &mut BlockLog<()>, steps: usize, is_wanted: bool| {
            for slot in slots.by_ref().take(steps) {
                levels.add(id(slot, 0), id(slot - 1, 0), Arc::new(()), 100)?;
                if is_wanted {
                    levels.mark_in_use();
                }
                levels.advance(Finalized, id(slot, 0))?;
            }
            assert_eq!(levels.retained_bytes(), 100 * levels.cursors[0].steps.len());
            Ok::<_, MissingParent>(levels.cursors.each_ref().map(|walk| walk.steps.len()))
        };
        assert_eq!(walk(&mut levels, 50, false)?, [STEPS_IDLE; 3]);
        assert_eq!(walk(&mut levels, 5, true)?, [STEPS_IDLE + 5; 3]);
        assert_eq!(walk(&mut levels, 50, true)?, [20; 3]);
        // It has left, and may come back for as long as the window reaches.
        assert_eq!(walk(&mut levels, 20, false)?, [20; 3]);
        assert_eq!(walk(&mut levels, 1, false)?, [STEPS_IDLE; 3]);
        Ok(())
    }

    #[test]
    fn a_block_without_a_way_back_has_a_missing_parent() {
        let mut levels = block_log(3);
        assert_eq!(levels.add(id(7, 0), id(6, 0), Arc::new(()), 1), Ok(()));
        let gap = levels.advance(Processed, id(7, 0)).err();
        assert_eq!(gap, Some(MissingParent { block: id(7, 0) }));
    }
}
