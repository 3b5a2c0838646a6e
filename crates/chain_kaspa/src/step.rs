//! A step of the selected chain: blocks that leave it, and blocks that join it. It is shown as a whole or not at all.
//!
//! Input: the reply to getVirtualChainFromBlockV2 from our sink, block by block. Output: checked blocks in the ledger, and
//! on [`ChainStep::commit`] a new sink.
//! The blocks that leave stay until the step is committed. A step that is dropped leaves nothing behind, so a source that
//! names blocks to remove and then lies about the others removes nothing.
//! Bounds: a reorganization removes at most [`crate::ChainConfig::depth_max`] blocks. The ledger has at most
//! [`query::UNROOTED_MAX`] blocks above the root: commit and publish at least every 2,000 blocks.

use std::sync::Arc;

use kaspa::{AcceptedIds, AcceptedTransaction, AcceptingBlock, ChainChange, Hash};
use query::LedgerError;

use crate::acceptance::{ParentBlock, accept_block};
use crate::block_info::BlockInfo;
use crate::chain::{Chain, NewBlock};
use crate::history::HistoryBlock;
use crate::ledger_block::{ChainBlock, ForkError, LedgerBlock};
use crate::records::{RecordChanges, find_utxo};
use crate::refusal::Refusal;
use crate::script_utxo::ScriptUtxo;
use crate::status::RefusedBlock;
use crate::virtual_state::VirtualMode;

/// Why a step fails. One variant for each reaction of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The block is a lie, or the source is broken. Change the source.
    #[error("block {hash} is refused: {reason}")]
    Refused {
        /// The hash that the source has for the block.
        hash: Hash,
        /// The rule that the block breaks.
        reason: Refusal,
    },
    /// A block was refused before. Change the source first ([`Chain::change_source`]).
    #[error("block {hash} was refused, and the source was not changed")]
    AfterRefusal {
        /// The hash of the block that was refused.
        hash: Hash,
    },
    /// A removed block is not the one that the chain has there. Ask the source again, from our sink.
    #[error("block {removed} cannot leave the chain, which has {expected} in its place")]
    NotOnChain {
        /// The block that was to be removed.
        removed: Hash,
        /// The block of the chain.
        expected: Hash,
    },
    /// The reorganization is too deep: it removes final blocks of this chain, or more than the configured depth. Start
    /// again from a snapshot below it, or raise the depth.
    #[error(
        "{removed} blocks leave the chain, and some of them are final: the root is at most \
         {depth_max} blocks below the sink (--reorg-depth)"
    )]
    TooDeep {
        /// The number of removed blocks.
        removed: usize,
        /// The configured depth. A chain that started above it has fewer blocks that can leave.
        depth_max: usize,
    },
    /// The ledger has no room. Raise its limit of addresses, or publish more often.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// A step of the selected chain. Dropping it discards its blocks.
pub struct ChainStep<'a> {
    chain: &'a mut Chain,
    removed_len: usize,
    fork_point: ChainBlock,
    added: Vec<AddedBlock>,
}

struct AddedBlock {
    chain: ChainBlock,
    /// Moved into the history at the end.
    transactions: Vec<AcceptedTransaction>,
}

impl Chain {
    /// Starts a step in which these blocks leave the chain, the highest first: the sink is the first of them.
    pub fn start_step(&mut self, removed: &[Hash]) -> Result<ChainStep<'_>, StepError> {
        if let Some(refused) = &self.refused {
            return Err(StepError::AfterRefusal { hash: refused.hash });
        }
        let too_deep = StepError::TooDeep { removed: removed.len(), depth_max: self.depth_max };
        let fork_point = self.window.fork_point(removed).map_err(|error| match error {
            ForkError::Other { removed, expected } => StepError::NotOnChain { removed, expected },
            ForkError::BelowRoot => too_deep.clone(),
        })?;
        if removed.len() > self.depth_max {
            return Err(too_deep);
        }
        let fork_point = fork_point.clone();
        Ok(ChainStep { chain: self, removed_len: removed.len(), fork_point, added: Vec::new() })
    }

    fn refuse(&mut self, hash: Hash, reason: Refusal) -> StepError {
        self.refused = Some(RefusedBlock { hash, reason: reason.clone() });
        self.counters.refused += 1;
        self.pending.refused.push(hash);
        // Its messages about the virtual state are ignored, too.
        self.virtual_state.restart(VirtualMode::Off);
        StepError::Refused { hash, reason }
    }
}

impl ChainStep<'_> {
    /// Returns the number of blocks that were added.
    pub fn len(&self) -> usize {
        self.added.len()
    }

    /// Returns whether no block was added.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty()
    }

    /// Checks the next block of the chain, from the lowest up, and writes it.
    pub fn add_block(&mut self, block: AcceptingBlock) -> Result<(), StepError> {
        if let Some(refused) = &self.chain.refused {
            return Err(StepError::AfterRefusal { hash: refused.hash });
        }
        let parent = self.added.last().map_or(&self.fork_point, |added| &added.chain);
        let parent_id = parent.block.id;
        let parent_info = Arc::clone(&parent.block.info);
        let parent_block = ParentBlock {
            hash: parent.block.info.hash,
            header: &parent.block.info.header,
            next_daa_score_min: parent.block.next_daa_score_min(),
            product: &parent.product,
            supply: parent.block.info.supply,
        };
        let mut records = RecordChanges::new(&self.chain.ledger, parent_id);
        let accepted = accept_block(&block, &parent_block, &mut records);
        let set = records.finish();
        let acceptance = accepted.map_err(|reason| self.chain.refuse(block.hash, reason))?;
        let AcceptingBlock { hash, header, transactions } = block;
        let info = BlockInfo {
            hash,
            daa_score: header.daa_score,
            header: Arc::new(header),
            is_virtual: false,
            supply: acceptance.supply,
        };
        let new_block = NewBlock {
            parent: parent_id,
            parent_info,
            info: Arc::new(info),
            created: acceptance.created,
            spent: acceptance.spent,
        };
        let written = self.chain.write_block(new_block, set)?;
        let accepted_ids = transactions.iter().map(|accepted| accepted.id).collect();
        let ledger_block = Arc::new(LedgerBlock { accepted_ids, ..written });
        let chain = ChainBlock { block: ledger_block, product: acceptance.product };
        self.added.push(AddedBlock { chain, transactions });
        Ok(())
    }

    /// Makes the last added block the sink. Readers see it after the next publication. A step without blocks changes
    /// nothing: a source without new blocks is polled repeatedly, and the ages of differences count steps. After a
    /// refused block the whole step is discarded.
    pub fn commit(mut self) {
        let is_empty = self.removed_len == 0 && self.added.is_empty();
        if is_empty || self.chain.refused.is_some() {
            return;
        }
        let removed = self.chain.window.remove_newest(self.removed_len);
        let added = std::mem::take(&mut self.added);
        let Chain { history, window, counters, pending, .. } = &mut *self.chain;
        if let Some(lowest) = removed.last() {
            history.revert_from(lowest.block.info.daa_score);
            pending.dropped.push(lowest.block.id);
            counters.reorganizations += 1;
            counters.removed_blocks += removed.len() as u64;
            counters.deepest_reorganization = counters.deepest_reorganization.max(removed.len());
        }
        for chain in &removed {
            remove_from_change(&mut pending.chain, chain.block.info.hash);
        }
        let mut joined = Vec::with_capacity(added.len());
        for AddedBlock { chain, transactions } in added {
            let accepting_block = chain.block.info.hash;
            let header = Arc::clone(&chain.block.info.header);
            counters.blocks += 1;
            counters.transactions += transactions.len() as u64;
            history.push(HistoryBlock::new(accepting_block, header, transactions));
            let transaction_ids = chain.block.accepted_ids.clone();
            pending.chain.added.push(accepting_block);
            pending.chain.accepted.push(AcceptedIds { accepting_block, transaction_ids });
            pending.blocks.push(Arc::clone(&chain.block));
            window.push(chain.clone());
            joined.push(chain);
        }
        let Chain { ledger, virtual_state, window, .. } = &mut *self.chain;
        let sink = window.sink().block.id;
        let in_chain = |utxo: &ScriptUtxo| find_utxo(ledger, sink, utxo);
        virtual_state.apply_step(&removed, &joined, &in_chain);
    }
}

impl Drop for ChainStep<'_> {
    fn drop(&mut self) {
        if let Some(lowest) = self.added.first() {
            // It fails only for the root and for blocks that do not exist.
            let _ = self.chain.ledger.drop_fork(lowest.chain.block.id);
        }
    }
}

/// Records that a block leaves the chain. One that joined it since the last publication was never shown.
fn remove_from_change(change: &mut ChainChange, hash: Hash) {
    if change.added.last() == Some(&hash) {
        change.added.pop();
        change.accepted.pop();
    } else {
        change.removed.push(hash);
    }
}
