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
pub struct Step<B> {
    /// Counts the steps of all walks; greater is later.
    pub number: u64,
    /// Whose walk.
    pub commitment: Commitment,
    /// Whether the block came or went.
    pub turn: Turn,
    /// Which block.
    pub block: BlockId,
    /// What is in it.
    pub body: Arc<B>,
}

/// What a step does with its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is the newest of the chain now.
    Applied,
    /// It is not on the chain any more.
    Undone,
}

/// The blocks do not hang together: one was never told, or is too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("block {block:?} does not lead back to the chain that was told")]
pub struct Gap {
    /// The block that cannot be reached.
    pub block: BlockId,
}

/// Where a walk stood at a block, for whoever goes on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// After that many steps.
    After(u64),
    /// It did not get there yet.
    Ahead,
    /// It was there too long ago.
    Gone,
}

/// The walks.
pub(crate) struct Levels<B> {
    blocks: HashMap<BlockId, Node<B>>,
    walks: [Walk<B>; 3],
    next_number: u64,
    window: Window,
    /// The blocks of all kept steps.
    kept: HashMap<BlockId, Kept>,
    kept_bytes: usize,
    unrooted_max: usize,
    /// Processed steps since something was there that could come back.
    steps_unwanted: usize,
}

/// What is kept for those who come back.
#[derive(Clone, Copy)]
pub(crate) struct Window {
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
struct Kept {
    steps: usize,
    bytes: usize,
}

struct Walk<B> {
    tip: Option<BlockId>,
    /// After which step the walk stood on the block that it began with.
    since: u64,
    began: Option<BlockId>,
    steps: VecDeque<Step<B>>,
}

impl<B> Clone for Step<B> {
    fn clone(&self) -> Self {
        Self { body: Arc::clone(&self.body), ..*self }
    }
}

impl<B> Levels<B> {
    pub(crate) fn new(window: Window, unrooted_max: usize) -> Self {
        let walk = || Walk { tip: None, since: 0, began: None, steps: VecDeque::new() };
        Self {
            blocks: HashMap::default(),
            walks: [walk(), walk(), walk()],
            next_number: 1,
            window,
            kept: HashMap::default(),
            kept_bytes: 0,
            unrooted_max,
            steps_unwanted: usize::MAX,
        }
    }

    /// Forgets all blocks.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
    }

    /// Puts one walk on a block; the blocks after it must be told.
    pub(crate) fn begin_at(&mut self, commitment: Commitment, at: BlockId) {
        while self.forget_oldest(commitment as usize) {}
        let walk = &mut self.walks[commitment as usize];
        walk.tip = Some(at);
        walk.began = Some(at);
        walk.since = self.next_number - 1;
    }

    /// Makes a block known, and how much it counts. No walk goes there yet.
    pub(crate) fn add(
        &mut self,
        block: BlockId,
        parent: BlockId,
        body: Arc<B>,
        bytes: usize,
    ) -> Result<(), Gap> {
        if self.blocks.len() >= self.unrooted_max {
            return Err(Gap { block });
        }
        self.blocks.insert(block, Node { parent, body, bytes });
        Ok(())
    }

    /// Says that something is there that could leave and come back.
    pub(crate) fn want(&mut self) {
        self.steps_unwanted = 0;
    }

    /// The bytes of the blocks that are kept for those who come back, each once.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// The step at which each walk is now.
    pub(crate) fn number(&self) -> u64 {
        self.next_number - 1
    }

    /// Where a walk is.
    pub(crate) fn tip(&self, commitment: Commitment) -> Option<BlockId> {
        self.walks[commitment as usize].tip
    }

    /// Walks to a block. What is finalized was confirmed, and what is confirmed processed: those walks
    /// go along if they are not there.
    pub(crate) fn advance(
        &mut self,
        commitment: Commitment,
        to: BlockId,
    ) -> Result<Vec<Step<B>>, Gap> {
        let mut steps = Vec::new();
        for level in Commitment::ALL.into_iter().take_while(|level| *level <= commitment) {
            let tip = self.tip(level);
            if tip.is_none_or(|tip| !self.leads_to(tip, to)) {
                self.walk(level, to, &mut steps)?;
            }
        }
        self.forget_beyond();
        if commitment == Commitment::Finalized {
            self.root(to);
        }
        Ok(steps)
    }

    /// Where a walk stood at a block.
    pub(crate) fn stand(&self, commitment: Commitment, block: BlockId) -> Stand {
        let walk = &self.walks[commitment as usize];
        let applied = |step: &&Step<B>| step.turn == Turn::Applied && step.block == block;
        if let Some(step) = walk.steps.iter().rev().find(applied) {
            return Stand::After(step.number);
        }
        if walk.began == Some(block) && self.reaches(walk, walk.since) {
            return Stand::After(walk.since);
        }
        // The oldest kept step says where the walk stood before it.
        if walk.tip.is_none_or(|tip| block.slot > tip.slot) { Stand::Ahead } else { Stand::Gone }
    }

    /// The steps of a walk after a number. `None` if not all of them are kept.
    pub(crate) fn since(&self, commitment: Commitment, number: u64) -> Option<Vec<Step<B>>> {
        let walk = &self.walks[commitment as usize];
        if !self.reaches(walk, number) {
            return None;
        }
        let first = walk.steps.partition_point(|step| step.number <= number);
        Some(walk.steps.range(first..).cloned().collect())
    }

    /// Whether every step of a walk after a number is kept.
    fn reaches(&self, walk: &Walk<B>, number: u64) -> bool {
        number >= walk.since
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

    fn walk(
        &mut self,
        commitment: Commitment,
        to: BlockId,
        out: &mut Vec<Step<B>>,
    ) -> Result<(), Gap> {
        let gap = Gap { block: to };
        let Some(tip) = self.tip(commitment) else {
            self.begin_at(commitment, to);
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
        let undone = undone.into_iter().map(|block| (Turn::Undone, block));
        let applied = applied.into_iter().rev().map(|block| (Turn::Applied, block));
        for (turn, (block, bytes, body)) in undone.chain(applied) {
            let step = Step { number: self.next_number, commitment, turn, block, body };
            self.next_number += 1;
            out.push(step.clone());
            self.keep(step, bytes);
        }
        self.walks[commitment as usize].tip = Some(to);
        Ok(())
    }

    fn keep(&mut self, step: Step<B>, bytes: usize) {
        let kept = self.kept.entry(step.block).or_insert(Kept { steps: 0, bytes });
        if kept.steps == 0 {
            self.kept_bytes += kept.bytes;
        }
        kept.steps += 1;
        if step.commitment == Commitment::Processed {
            self.steps_unwanted = self.steps_unwanted.saturating_add(1);
        }
        let at = step.commitment as usize;
        self.walks[at].steps.push_back(step);
        let steps_max = self.window.steps_max;
        // What was there at a step was told it, and goes on after it.
        let is_wanted = self.steps_unwanted <= steps_max.saturating_add(1);
        let steps_max = if is_wanted { steps_max } else { steps_max.min(STEPS_IDLE) };
        while self.walks[at].steps.len() > steps_max {
            self.forget_oldest(at);
        }
    }

    /// Forgets the oldest steps until the blocks of the others are within the window's bytes.
    fn forget_beyond(&mut self) {
        while self.kept_bytes > self.window.bytes_max {
            let oldest = |at: &usize| self.walks[*at].steps.front().map(|step| step.number);
            let walks = (0..self.walks.len()).filter(|at| oldest(at).is_some());
            let Some(at) = walks.min_by_key(oldest) else { return };
            self.forget_oldest(at);
        }
    }

    /// Forgets the oldest step of a walk. False if it has none.
    fn forget_oldest(&mut self, at: usize) -> bool {
        let walk = &mut self.walks[at];
        let Some(forgotten) = walk.steps.pop_front() else { return false };
        walk.since = forgotten.number;
        walk.began = (forgotten.turn == Turn::Applied).then_some(forgotten.block);
        if let Some(kept) = self.kept.get_mut(&forgotten.block) {
            kept.steps -= 1;
            if kept.steps == 0 {
                self.kept_bytes -= kept.bytes;
                self.kept.remove(&forgotten.block);
            }
        }
        true
    }

    /// Forgets what cannot be on the chain any more.
    fn root(&mut self, root: BlockId) {
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

    fn levels(steps_max: usize) -> Levels<()> {
        let mut levels = Levels::new(Window { steps_max, bytes_max: 1_000 }, 100);
        levels.want();
        Commitment::ALL.into_iter().for_each(|level| levels.begin_at(level, id(0, 0)));
        levels
    }

    fn told(steps: &[Step<()>]) -> Vec<(Commitment, Turn, u64)> {
        steps.iter().map(|step| (step.commitment, step.turn, step.block.slot)).collect()
    }

    use Commitment::{Confirmed, Finalized, Processed};
    use Turn::{Applied, Undone};

    #[test]
    fn a_commitment_that_jumps_ten_slots_tells_all_ten() -> Result<(), Gap> {
        let mut levels = levels(100);
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
    fn a_fork_is_left_before_the_other_is_entered() -> Result<(), Gap> {
        let mut levels = levels(100);
        levels.add(id(1, 0), id(0, 0), Arc::new(()), 1)?;
        levels.add(id(2, 0), id(1, 0), Arc::new(()), 1)?;
        levels.add(id(3, 0), id(2, 0), Arc::new(()), 1)?;
        levels.add(id(4, 0), id(1, 0), Arc::new(()), 1)?;
        levels.advance(Processed, id(3, 0))?;
        let steps = levels.advance(Processed, id(4, 0))?;
        let expected = [(Processed, Undone, 3), (Processed, Undone, 2), (Processed, Applied, 4)];
        assert_eq!(told(&steps), expected);
        let steps = levels.advance(Finalized, id(4, 0))?;
        let expected = [(Confirmed, Applied, 1), (Confirmed, Applied, 4)];
        assert_eq!(told(&steps)[..2], expected);
        assert!(levels.blocks.is_empty(), "the dead fork is forgotten");
        Ok(())
    }

    #[test]
    fn two_banks_of_one_slot_are_two_blocks() -> Result<(), Gap> {
        let mut levels = levels(100);
        levels.add(id(1, 0), id(0, 0), Arc::new(()), 1)?;
        levels.add(id(1, 1), id(0, 0), Arc::new(()), 1)?;
        levels.advance(Processed, id(1, 0))?;
        let steps = levels.advance(Processed, id(1, 1))?;
        assert_eq!(told(&steps), [(Processed, Undone, 1), (Processed, Applied, 1)]);
        Ok(())
    }

    #[test]
    fn a_walk_goes_on_from_a_kept_block_and_says_when_it_cannot() -> Result<(), Gap> {
        let mut levels = levels(3);
        for slot in 1..=5 {
            levels.add(id(slot, 0), id(slot - 1, 0), Arc::new(()), 1)?;
            levels.advance(Processed, id(slot, 0))?;
        }
        assert_eq!(levels.stand(Processed, id(1, 0)), Stand::Gone);
        let Stand::After(number) = levels.stand(Processed, id(2, 0)) else {
            panic!("three steps are kept after it")
        };
        let steps = levels.since(Processed, number).expect("kept");
        assert_eq!(told(&steps).len(), 3);
        assert!(levels.since(Processed, number - 1).is_none());
        assert_eq!(levels.stand(Processed, id(9, 0)), Stand::Ahead);
        Ok(())
    }

    #[test]
    fn the_window_is_bounded_in_bytes_and_all_walks_reach_back_as_far() -> Result<(), Gap> {
        let mut levels = levels(100);
        for slot in 1..=50 {
            levels.add(id(slot, 0), id(slot - 1, 0), Arc::new(()), 100)?;
            levels.advance(Confirmed, id(slot, 0))?;
            if slot > 5 {
                levels.advance(Finalized, id(slot - 5, 0))?;
            }
            assert!(levels.kept_bytes() <= 1_000);
        }
        // Ten blocks: the last five of all walks, and those of before that are finalized since.
        assert_eq!(levels.kept_bytes(), 1_000);
        for (walk, first) in [(Processed, 46), (Confirmed, 46), (Finalized, 41)] {
            let steps = &levels.walks[walk as usize].steps;
            assert_eq!(steps.front().map(|step| step.block.slot), Some(first), "{walk:?}");
            assert_eq!(levels.stand(walk, id(first - 2, 0)), Stand::Gone);
            let Stand::After(number) = levels.stand(walk, id(first - 1, 0)) else {
                panic!("all after it is kept")
            };
            assert_eq!(levels.since(walk, number).map(|steps| steps.len()), Some(5));
        }
        // One block beyond the bound is told, and kept by nobody.
        levels.add(id(51, 0), id(50, 0), Arc::new(()), 1_001)?;
        assert_eq!(told(&levels.advance(Processed, id(51, 0))?), [(Processed, Applied, 51)]);
        assert_eq!((levels.kept_bytes(), levels.kept.len()), (0, 0));
        let now = levels.number();
        assert_eq!(levels.stand(Processed, id(51, 0)), Stand::After(now));
        assert!(levels.since(Processed, now).is_some_and(|steps| steps.is_empty()));
        assert!(levels.since(Processed, now - 1).is_none());
        Ok(())
    }

    #[test]
    fn steps_are_kept_for_those_who_could_come_back_and_for_a_window_after_they_left()
    -> Result<(), Gap> {
        let window = Window { steps_max: 20, bytes_max: 1_000_000 };
        let mut levels: Levels<()> = Levels::new(window, 1_000);
        Commitment::ALL.into_iter().for_each(|level| levels.begin_at(level, id(0, 0)));
        let mut slots = 1..;
        let mut walk = |levels: &mut Levels<()>, steps: usize, is_wanted: bool| {
            for slot in slots.by_ref().take(steps) {
                levels.add(id(slot, 0), id(slot - 1, 0), Arc::new(()), 100)?;
                if is_wanted {
                    levels.want();
                }
                levels.advance(Finalized, id(slot, 0))?;
            }
            assert_eq!(levels.kept_bytes(), 100 * levels.walks[0].steps.len());
            Ok::<_, Gap>(levels.walks.each_ref().map(|walk| walk.steps.len()))
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
    fn a_block_without_a_way_back_is_a_gap() {
        let mut levels = levels(3);
        assert_eq!(levels.add(id(7, 0), id(6, 0), Arc::new(()), 1), Ok(()));
        let gap = levels.advance(Processed, id(7, 0)).err();
        assert_eq!(gap, Some(Gap { block: id(7, 0) }));
    }
}
