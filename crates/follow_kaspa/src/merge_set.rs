//! The blocks that the virtual block merges besides the sink.
//!
//! In: the parents of the virtual block. Out: blocks with their transactions, in the order in which they are accepted.
//! The walk ends at blocks that the chain is known to have merged. It may go below them where that is not known: a
//! transaction that was accepted before spends outputs that do not exist any longer, and is left out.
//! Bounds: [`MERGED_MAX`] blocks, requested one after another, and their memory ([`MergedBlocks`]).
//! Not here: when they are requested (`session`).

use std::collections::VecDeque;

use foldhash::HashSet;
use kaspa::Hash;

use crate::chain_pages::{MergingBlock, request_recent_blocks};
use crate::session::Session;
use crate::source_error::SourceError;
use crate::writer_queue::MergedBlocks;

/// The most blocks that are requested. A virtual block that merges more stays joining until the chain moves.
const MERGED_MAX: usize = 64;

impl Session<'_> {
    /// Requests the blocks that a virtual block with these parents merges besides the sink.
    pub(crate) async fn request_merged_blocks(
        &mut self,
        virtual_parents: &[Hash],
        sink: MergingBlock,
    ) -> Result<MergedBlocks, SourceError> {
        let mut known: HashSet<Hash> = HashSet::default();
        known.extend(request_recent_blocks(&self.context.writer).await?);
        known.extend(&sink.merge_set);
        known.insert(sink.block.hash);
        let mut open = VecDeque::from(virtual_parents.to_vec());
        let mut merged = self.context.writer.new_merged_blocks(sink.block);
        while let Some(hash) = open.pop_front() {
            if merged.others_len() == MERGED_MAX {
                break;
            }
            if !known.insert(hash) {
                continue;
            }
            let merging = match self.request_block(hash).await {
                Ok(merging) => merging,
                // The source has deleted it.
                Err(SourceError::Refused { .. }) => continue,
                Err(error) => return Err(error),
            };
            open.extend(merging.block.header.parents.direct());
            if !merged.add(merging.block) {
                break;
            }
        }
        merged.sort();
        Ok(merged)
    }
}
