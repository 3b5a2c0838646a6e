//! The fork injector: chooses what happens next to a ledger that forks.

use fastrand::Rng;
use ledger::{BlockId, Commitment, Record};

use crate::Model;

/// One event of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkEvent {
    /// A block is opened.
    Open {
        /// The new block.
        block: BlockId,
        /// A complete block.
        parent: BlockId,
    },
    /// An open block is written.
    Write(BlockId),
    /// A block is closed.
    Complete(BlockId),
    /// A complete block becomes the confirmed tip.
    Confirm(BlockId),
    /// Another block becomes the processed tip.
    SetTip(BlockId),
    /// A complete block becomes the root.
    Finalize(BlockId),
    /// A block is dropped, with its descendants.
    DropFork(BlockId),
    /// Everything becomes visible to readers.
    Publish,
}

/// Chooses random events. All of them are allowed: blocks on any complete parent, several at one slot, roots that
/// jump over blocks, dropped forks that the tips are on. Before a publish the processed tip moves to the chain of the
/// confirmed one, as a producer promises.
#[derive(Clone, Debug)]
pub struct ForkInjector {
    rng: Rng,
    versions: u64,
    /// Above this number of unrooted blocks it only roots and drops.
    unrooted_max: usize,
    /// The tips are on one chain now, and must be published before they move.
    publishes_next: bool,
}

impl ForkInjector {
    /// The injector of this seed.
    pub fn new(seed: u64, unrooted_max: usize) -> Self {
        Self { rng: Rng::with_seed(seed), versions: 0, unrooted_max, publishes_next: false }
    }

    /// The random numbers, for other choices of the test.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// The next event of a ledger in the state of `model`.
    pub fn next_event<R: Record>(&mut self, model: &Model<R>) -> ForkEvent {
        if std::mem::take(&mut self.publishes_next) {
            return ForkEvent::Publish;
        }
        let open = model.unrooted(false);
        let complete = model.unrooted(true);
        let all = [open.as_slice(), &complete].concat();
        let is_crowded = all.len() >= self.unrooted_max;
        let step = match self.rng.usize(..100) {
            ..20 if !is_crowded => Some(self.open(model, &complete)),
            20..60 if !is_crowded => self.rng.choice(&open).copied().map(ForkEvent::Write),
            60..72 => self.rng.choice(&open).copied().map(ForkEvent::Complete),
            72..76 => self.rng.choice(&all).copied().map(ForkEvent::SetTip),
            76..80 => self.rng.choice(&complete).copied().map(ForkEvent::Finalize),
            80..84 => self.rng.choice(&all).copied().map(ForkEvent::DropFork),
            84..92 => self.rng.choice(&complete).copied().map(ForkEvent::Confirm),
            _ => None,
        };
        step.unwrap_or_else(|| self.publish(model, &all))
    }

    /// Publishes, after the processed tip has moved to the chain of the confirmed one if it is not on it.
    fn publish<R: Record>(&mut self, model: &Model<R>, all: &[BlockId]) -> ForkEvent {
        let confirmed = model.tip(Commitment::Confirmed);
        if model.is_on(model.tip(Commitment::Processed), confirmed) {
            return ForkEvent::Publish;
        }
        self.publishes_next = true;
        let above: Vec<BlockId> =
            all.iter().copied().filter(|block| model.is_on(*block, confirmed)).collect();
        ForkEvent::SetTip(self.rng.choice(&above).copied().unwrap_or(confirmed))
    }

    /// Mostly the newest block, as on real chains.
    fn open<R: Record>(&mut self, model: &Model<R>, complete: &[BlockId]) -> ForkEvent {
        let root = model.root();
        let newest = complete.last().copied().unwrap_or(root);
        let any = self.rng.choice(complete).copied().unwrap_or(root);
        let parent = match self.rng.usize(..10) {
            0 => root,
            1..4 => any,
            _ => newest,
        };
        self.versions += 1;
        let slot = parent.slot + 1 + self.rng.u64(..3);
        ForkEvent::Open { block: BlockId { slot, version: self.versions }, parent }
    }
}
