//! The thread that encodes blocks, so that neither the ledger's writer nor the task of the log does.
//!
//! Input: events of the sink. Output: own events with encoded blocks, in the same order, over a bounded channel.
//! Bounds: footers and names of the blocks above the root.

use std::collections::HashMap;
use std::sync::Arc;

use chain_solana::wire::{BlockKey, BlockSource, EncodedBlock};
use chain_solana::{Block, BlockFooter, BlockInfo, EventReceiver, LedgerEvent, Received};
use ledger::{BlockId, Slot};
use solana_hash::Hash;
use tokio::sync::mpsc::Sender;

use crate::own_chain::{FrozenBlock, OwnEvent, OwnStart};
use crate::status::IngestStatus;

/// Encodes the blocks of a ledger.
pub(crate) struct Encoder {
    pub(crate) events: EventReceiver,
    pub(crate) output: Sender<OwnEvent>,
    pub(crate) status: Arc<IngestStatus>,
    /// The state of the ledger before its first event.
    pub(crate) start: OwnStart,
    /// Whether the log has entries and footers. Otherwise those that the ledger has are left out: another ingester may
    /// have none, and both must log the same.
    pub(crate) has_entries: bool,
    /// The time in milliseconds since 1970.
    pub(crate) unix_ms: fn() -> u64,
}

/// The facts of blocks that events refer to.
struct PendingFacts {
    /// Footers of blocks that are not frozen.
    footers: HashMap<BlockId, Arc<BlockFooter>>,
    blockhashes: HashMap<BlockId, Hash>,
}

impl Encoder {
    /// Encodes blocks until the ledger has ended, or the task.
    pub(crate) fn run(mut self) {
        let mut facts = PendingFacts::new(self.start);
        while let Some(received) = self.events.recv() {
            let event = match received {
                Received::Event { event, .. } => self.convert(&event, &mut facts),
                Received::Lost(_) => {
                    self.status.count_lost_events();
                    Some(OwnEvent::Lost)
                }
            };
            if let Some(event) = event
                && self.output.blocking_send(event).is_err()
            {
                return;
            }
        }
    }

    /// Returns the own event, or `None` if the log needs none.
    fn convert(&self, event: &LedgerEvent, facts: &mut PendingFacts) -> Option<OwnEvent> {
        Some(match event {
            LedgerEvent::BlockFooter { block, footer } => {
                facts.footers.insert(*block, Arc::clone(footer));
                return None;
            }
            LedgerEvent::Frozen { block, info, .. } => {
                OwnEvent::Frozen(self.freeze(block, info, facts, false))
            }
            LedgerEvent::Jumped { block, info } => {
                OwnEvent::Frozen(self.freeze(block, info, facts, true))
            }
            LedgerEvent::TipMoved { block } => OwnEvent::TipMoved(*block),
            LedgerEvent::Confirmed { block, .. } => OwnEvent::Confirmed(key(block)),
            LedgerEvent::Rooted { block, .. } => {
                facts.forget_below(block.id.slot);
                OwnEvent::Rooted { id: block.id, key: key(block) }
            }
            LedgerEvent::Reverted { block, reason, .. } => {
                OwnEvent::Reverted { key: key(block), reason: reason.clone() }
            }
            // The sink does not queue them.
            LedgerEvent::BankCreated { .. }
            | LedgerEvent::AccountsWritten { .. }
            | LedgerEvent::Executed(_)
            | LedgerEvent::Voted(_) => return None,
        })
    }

    fn freeze(
        &self,
        block: &Block,
        info: &BlockInfo,
        facts: &mut PendingFacts,
        is_jump: bool,
    ) -> FrozenBlock {
        let footer = facts.footers.remove(&block.id);
        let parent = facts.blockhashes.get(&block.parent).copied();
        let parent_blockhash = parent.unwrap_or(block.previous_blockhash);
        facts.blockhashes.insert(block.id, block.blockhash);
        let source = BlockSource {
            block,
            parent_blockhash,
            capitalization: info.capitalization,
            clock_time: info.unix_timestamp,
            is_jump,
            footer: footer.as_ref(),
            made_at_ms: (self.unix_ms)(),
        };
        let content = match self.has_entries {
            true => EncodedBlock::new(&source),
            false => EncodedBlock::without_entries(&source),
        };
        let content = content.map(Arc::new).map_err(|err| {
            tracing::error!(slot = block.id.slot, %err, "a block cannot be logged");
            Arc::from(err.to_string())
        });
        let parent = BlockKey { slot: block.parent.slot, blockhash: parent_blockhash };
        FrozenBlock { id: block.id, key: key(block), parent, is_jump, content }
    }
}

impl PendingFacts {
    /// The root is the parent of the first block, also of a jump, whose previous blockhash is of a missing block.
    fn new(start: OwnStart) -> Self {
        let blockhashes = HashMap::from([(start.root, start.root_key.blockhash)]);
        Self { footers: HashMap::new(), blockhashes }
    }

    fn forget_below(&mut self, root: Slot) {
        self.footers.retain(|block, _| block.slot > root);
        self.blockhashes.retain(|block, _| block.slot >= root);
    }
}

fn key(block: &Block) -> BlockKey {
    BlockKey { slot: block.id.slot, blockhash: block.blockhash }
}

#[cfg(test)]
mod tests {
    use solana::Entry;
    use testkit::test_ledger::{block_info, empty_block};
    use tokio::sync::mpsc;

    use super::*;
    use crate::model::source::key as block_key;
    use crate::sink;

    fn id(slot: Slot) -> BlockId {
        BlockId { slot, version: 1 }
    }

    fn encoder(start: OwnStart, has_entries: bool) -> Encoder {
        let (_sink, events) = sink::channel(1 << 20, has_entries);
        let (output, _own) = mpsc::channel(1);
        let status = Arc::new(IngestStatus::default());
        Encoder { events, output, status, start, has_entries, unix_ms: || 1 }
    }

    #[test]
    fn entries_that_another_ingester_may_lack_are_left_out() {
        let start = OwnStart { root: id(3), root_key: block_key(3, false), is_complete: true };
        let entry = Entry {
            num_hashes: 1,
            hash: Hash::default(),
            transaction_count: 0,
            starting_transaction_index: 0,
        };
        let whole = Block { entries: vec![entry], ..empty_block(id(4), id(3)) };
        let bare = Block { entries: Vec::new(), ..whole.clone() };
        let digests = |block: &Block, has_entries: bool| {
            let mut known = PendingFacts::new(start);
            let encoder = encoder(start, has_entries);
            let frozen = encoder.freeze(block, &block_info(4), &mut known, false);
            frozen.content.expect("it is short enough").digests()
        };
        assert_eq!(digests(&whole, false), digests(&bare, false));
        assert_ne!(digests(&whole, true), digests(&bare, true));
    }

    #[test]
    fn a_jump_from_the_start_has_the_root_as_its_parent() {
        let root_key = block_key(3, false);
        let start = OwnStart { root: id(3), root_key, is_complete: true };
        let encoder = encoder(start, false);
        let block = Block {
            previous_blockhash: block_key(8, false).blockhash,
            ..empty_block(id(9), id(3))
        };
        let mut facts = PendingFacts::new(start);
        let frozen = encoder.freeze(&block, &block_info(9), &mut facts, true);
        assert_eq!(frozen.parent, root_key);
    }
}
