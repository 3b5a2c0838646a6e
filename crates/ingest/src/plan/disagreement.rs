//! Comparison of the own blocks with those of the log: two sources of one chain should not differ.
//!
//! Not here: a log of another chain, which stops the ingester (`following`); the memory of differences
//! (`compared_blocks`).

use chain_solana::wire::{BlockKey, BlockName, RecordHead, RecordKind};

use super::phase::Phase;
use super::{BlockDifference, Notice, Plan};

impl Plan {
    /// Compares the block of a record, whose last message has this sequence, with the own one, if there is one.
    pub(super) fn compare_record(&mut self, head: &RecordHead, sequence: u64) {
        if let RecordKind::Block { name, blockhash, .. } = head.kind {
            self.compared_blocks.note_block(sequence, name.number);
            self.compare_with_log(&BlockKey { slot: name.slot, blockhash });
        }
    }

    /// Compares the own block of this name with that of the log, if both have it.
    pub(super) fn compare_with_log(&mut self, key: &BlockKey) {
        let Phase::Following(following) = &self.phase else { return };
        let Some(number) = following.chain.find(key) else { return };
        let in_log = following.chain.block(number);
        let (Some(in_log), Some(own)) = (in_log, self.own.find(key)) else { return };
        // The writes of a jump are the difference to an older block.
        if own.is_jump || in_log.parent_slot != own.parent.slot {
            return;
        }
        let difference = BlockDifference {
            generation: following.generation,
            position: in_log.last_sequence,
            name: BlockName { slot: key.slot, number },
        };
        let (Some(in_log), Some(own)) = (in_log.digests, own.digests()) else { return };
        let slot = key.slot;
        let is_equal = in_log.state == own.state;
        self.compared_blocks.note_comparison(difference.position, slot, is_equal);
        if !is_equal {
            self.counters.state_disagreements += 1;
            self.notices.push(Notice::Disagrees { slot, what: "state" });
            if !self.is_leader() {
                // The leader cannot find a fault of its own blocks. The oldest one is enough.
                self.difference = self.difference.or(Some(difference));
            }
        }
        if in_log.rest != own.rest {
            self.counters.rest_disagreements += 1;
            self.notices.push(Notice::Disagrees { slot, what: "rest" });
        }
    }
}
