//! Pages of the chain: full blocks in one reply, or, if the source cannot send them so, block by block.
//!
//! In: our newest blocks. Out: changes of the chain for the writer.
//! kaspad refuses a page if one output of it has a script without an address. A page may also be longer than a message
//! may be. Then the ids of accepted transactions are requested, and the blocks that contain them.
//! A source may not have our sink: another source had it. Then the page starts at an older block of ours.
//! Blocks leave the chain together with the first block that joins it, once that was checked. In pieces the others follow
//! one by one, so meanwhile the chain may be shorter, as far as a reorganization may be deep.
//! Bounds: a page, or the blocks that one chain block merges, one after another, each of [`BLOCK_BYTES_MAX`]. A long
//! reply is decoded on a thread for blocking work.

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};
use kaspa::{
    AcceptedIds, AcceptedTransaction, AcceptingBlock, Block, ChainChange, Hash, Header, Method,
    ServerError, VerbosityLevel,
};
use ledger::Commitment;

use crate::connection::Connection;
use crate::long_message::decode_reply;
use crate::session::Session;
use crate::source_error::SourceError;
use crate::writer_queue::{Fork, WriterHandle, WriterMessage, count_known};

/// A page with fewer blocks ends at the sink: a longer one has at least ten times the blocks that one block may merge.
const PAGE_BLOCKS_MIN: usize = 10;

/// Blocks that one block merges. kaspad's limit is 248 at ten blocks a second. Each of them is requested, so a source
/// could hold the follower up with a longer list.
const MERGE_SET_MAX: usize = 1_024;

/// Bytes of the reply with one block. The largest blocks of kaspad have some 2 MB. Decoded, a block may take 24 times
/// its bytes, so a source could fill the memory with a longer one.
const BLOCK_BYTES_MAX: usize = 8 << 20;

/// A page that was applied.
pub(crate) struct AppliedPage {
    /// The number of blocks that joined the chain.
    pub(crate) added: usize,
    /// Whether it ended at the sink of the source.
    pub(crate) is_last: bool,
}

/// The reply to getVirtualChainFromBlockV2.
enum PageReply {
    Page(Bytes),
    /// The source does not know the start.
    UnknownStart(ServerError),
    /// The source cannot send the page.
    Unsendable,
}

/// A block of a source, and the blocks that it merges.
pub(crate) struct MergingBlock {
    pub(crate) block: Block,
    pub(crate) merge_set: Vec<Hash>,
}

impl Session<'_> {
    /// Requests the chain from our sink, and applies the reply.
    pub(crate) async fn apply_next_page(&mut self) -> Result<AppliedPage, SourceError> {
        let added = self.apply_from_recent().await?;
        self.context.status.count_page();
        Ok(AppliedPage { added, is_last: added < PAGE_BLOCKS_MIN })
    }

    /// Requests the chain from the newest of our blocks that the source has.
    async fn apply_from_recent(&mut self) -> Result<usize, SourceError> {
        let sink = self.context.reader.status().sink.hash;
        let mut start = sink;
        let mut older = Vec::new();
        let mut depth = 0;
        loop {
            let error = match self.request_page(start).await? {
                PageReply::Page(structure) => {
                    let page = self.context.writer.new_received_page(structure);
                    let apply = |reply| WriterMessage::ApplyPage { start, page, reply };
                    return self.context.writer.request(apply).await?;
                }
                PageReply::Unsendable => return self.apply_in_pieces(start).await,
                PageReply::UnknownStart(error) => error,
            };
            if depth == 0 {
                older = request_recent_blocks(&self.context.writer).await?;
            }
            let depth_max = older.len().saturating_sub(1);
            if depth >= depth_max {
                return Err(SourceError::UnknownChain { block: sink, error });
            }
            depth = (2 * depth).clamp(1, depth_max);
            start = older[depth_max - depth];
        }
    }

    async fn request_page(&mut self, start: Hash) -> Result<PageReply, SourceError> {
        if self.is_in_pieces {
            return Ok(PageReply::Unsendable);
        }
        let method = Method::GetVirtualChainFromBlockV2;
        let encode = |id| Method::encode_borsh_get_chain(id, &start, VerbosityLevel::Full, None);
        Ok(match self.connection.call(method, encode).await? {
            Ok(structure) => PageReply::Page(structure),
            Err(ServerError::Text(text)) if is_invalid_address(&text) => PageReply::Unsendable,
            Err(error) if is_unknown_block(&error) => PageReply::UnknownStart(error),
            Err(error) => return Err(SourceError::Refused { name: method.name(), error }),
        })
    }

    /// Applies the chain from a block of ours, block by block.
    async fn apply_in_pieces(&mut self, start: Hash) -> Result<usize, SourceError> {
        let method = Method::GetVirtualChainFromBlock;
        let encode = |id| Method::encode_borsh_get_chain_ids(id, &start);
        let structure = match self.connection.call(method, encode).await? {
            Ok(structure) => structure,
            Err(error) if is_unknown_block(&error) => {
                return Err(SourceError::UnknownChain { block: start, error });
            }
            Err(error) => return Err(SourceError::Refused { name: method.name(), error }),
        };
        let change = decode_reply(structure, decode_chain_change).await?;
        let ChainChange { removed, added, accepted } = change;
        let accepting = accepted.iter().map(|accepted| &accepted.accepting_block);
        if !added.iter().eq(accepting) {
            let what = "its blocks and their accepted transactions differ";
            return Err(SourceError::Contradiction { method, what });
        }
        let sink = self.context.reader.status().sink.hash;
        let mut start = start;
        let mut known_len = 0;
        if start != sink && removed.is_empty() {
            // The page may start with blocks that the chain already has.
            let recent = request_recent_blocks(&self.context.writer).await?;
            let newest_first = recent.iter().rev().copied();
            let left: Vec<Hash> = newest_first.take_while(|hash| *hash != start).collect();
            known_len = count_known(&left, &added);
            start = known_len.checked_sub(1).map_or(start, |last| added[last]);
        }
        if start != sink || !removed.is_empty() {
            self.check_fork_weight(sink, added.last()).await?;
        }
        let mut added_len = 0;
        let mut fork = Fork { start, removed };
        let mut parent: Option<Block> = None;
        for accepted in accepted.into_iter().skip(known_len) {
            let merging = self.request_block(accepted.accepting_block).await?;
            let block = self.assemble_block(&merging, &accepted, parent.as_ref()).await?;
            let next_fork = Fork { start: block.hash, removed: Vec::new() };
            let fork = std::mem::replace(&mut fork, next_fork);
            let block = Box::new(block);
            let apply = |reply| WriterMessage::ApplyBlock { fork, block, reply };
            added_len += self.context.writer.request(apply).await??;
            self.context.status.count_piece_block();
            parent = Some(merging.block);
        }
        Ok(added_len)
    }

    /// Checks that the newest block of a fork claims at least the work of our sink, before blocks leave the chain.
    pub(crate) async fn check_fork_weight(
        &mut self,
        sink: Hash,
        newest: Option<&Hash>,
    ) -> Result<(), SourceError> {
        let newest = match newest {
            Some(newest) => Some(self.request_block(*newest).await?),
            None => None,
        };
        let view = self.context.reader.utxos.view(Commitment::Confirmed);
        let own_work = view.meta().header.blue_work;
        let is_heavy = |newest: MergingBlock| {
            let Block { hash, header, .. } = newest.block;
            header.hash() == hash && header.blue_work >= own_work
        };
        if newest.is_some_and(is_heavy) { Ok(()) } else { Err(SourceError::LessWork { sink }) }
    }

    /// Requests a block with its transactions. Its header is not checked.
    pub(crate) async fn request_block(&mut self, hash: Hash) -> Result<MergingBlock, SourceError> {
        let method = Method::GetBlock;
        let encode = |id| Method::encode_borsh_get_block(id, &hash, true);
        let structure = self.connection.call_or_fail(method, encode).await?;
        let merging = decode_reply(structure, decode_merging_block).await?;
        if merging.block.hash != hash {
            let what = "it is another block";
            return Err(SourceError::Contradiction { method, what });
        }
        Ok(merging)
    }

    /// Finds the transactions that a chain block accepts in the blocks that it merges. `parent` is the chain block
    /// below, if it was requested before.
    async fn assemble_block(
        &mut self,
        merging: &MergingBlock,
        accepted: &AcceptedIds,
        parent: Option<&Block>,
    ) -> Result<AcceptingBlock, SourceError> {
        let ids = &accepted.transaction_ids;
        let mut search = TransactionSearch::new(ids);
        for hash in merged_blocks(&merging.block.header, &merging.merge_set) {
            if search.is_complete() {
                break;
            }
            match parent.filter(|parent| parent.hash == hash) {
                Some(parent) => search.search(parent),
                None => search.search(&self.request_block(hash).await?.block),
            }
        }
        let Block { hash, header, .. } = &merging.block;
        let missing = |transaction| SourceError::MissingTransaction { block: *hash, transaction };
        let transactions = search.finish().map_err(missing)?;
        Ok(AcceptingBlock { hash: *hash, header: header.clone(), transactions })
    }
}

/// Decodes a reply to getVirtualChainFromBlock.
fn decode_chain_change(structure: &[u8]) -> Result<ChainChange, SourceError> {
    ChainChange::decode_borsh(structure).map_err(SourceError::from)
}

/// Decodes a reply to getBlock, with the blocks that the block merges. Its header is not checked.
fn decode_merging_block(structure: &[u8]) -> Result<MergingBlock, SourceError> {
    let block = decode_block(structure)?;
    let merge_set = Block::decode_borsh_merge_set(structure)?;
    if merge_set.len() > MERGE_SET_MAX {
        let what = "a block merges more blocks than any network allows";
        return Err(SourceError::Contradiction { method: Method::GetBlock, what });
    }
    Ok(MergingBlock { block, merge_set })
}

/// Decodes a reply to getBlock. Its header is not checked.
pub(crate) fn decode_block(structure: &[u8]) -> Result<Block, SourceError> {
    if structure.len() > BLOCK_BYTES_MAX {
        let what = "a block is longer than any network allows";
        return Err(SourceError::Contradiction { method: Method::GetBlock, what });
    }
    Ok(Block::decode_borsh(structure)?)
}

/// Returns how many blocks from this one down are not on the selected chain of a source. `None` if the source does not
/// have the block.
pub(crate) async fn count_blocks_off_chain(
    connection: &mut Connection,
    block: &Hash,
) -> Result<Option<usize>, SourceError> {
    let method = Method::GetVirtualChainFromBlock;
    let encode = |id| Method::encode_borsh_get_chain_ids(id, block);
    match connection.call(method, encode).await? {
        Ok(structure) => {
            let change = decode_reply(structure, decode_chain_change).await?;
            Ok(Some(change.removed.len()))
        }
        Err(error) if is_unknown_block(&error) => Ok(None),
        Err(error) => Err(SourceError::Refused { name: method.name(), error }),
    }
}

/// Returns our newest blocks, the sink last.
pub(crate) async fn request_recent_blocks(writer: &WriterHandle) -> Result<Vec<Hash>, SourceError> {
    writer.request(|reply| WriterMessage::RecentBlocks { reply }).await
}

/// Returns the blocks that a block merges, the selected parent first.
fn merged_blocks(header: &Header, merge_set: &[Hash]) -> Vec<Hash> {
    let selected_parent = header.parents.direct().first().copied();
    let others = merge_set.iter().copied().filter(|hash| Some(*hash) != selected_parent);
    selected_parent.into_iter().chain(others).collect()
}

/// The search for transactions by their ids.
struct TransactionSearch<'a> {
    ids: &'a [Hash],
    index: HashMap<Hash, usize>,
    found: Vec<Option<AcceptedTransaction>>,
    found_len: usize,
}

impl<'a> TransactionSearch<'a> {
    fn new(ids: &'a [Hash]) -> Self {
        let mut index = HashMap::with_capacity(ids.len());
        index.extend(ids.iter().enumerate().map(|(at, id)| (*id, at)));
        let mut found = Vec::new();
        found.resize_with(ids.len(), || None);
        Self { ids, index, found, found_len: 0 }
    }

    fn is_complete(&self) -> bool {
        self.found_len == self.ids.len()
    }

    /// Searches the transactions of a block.
    fn search(&mut self, block: &Block) {
        for transaction in &block.transactions {
            let id = transaction.id();
            let Some(at) = self.index.get(&id) else { continue };
            let slot = &mut self.found[*at];
            if slot.is_none() {
                self.found_len += 1;
                *slot = Some(AcceptedTransaction {
                    id,
                    transaction: transaction.clone(),
                    spent: Vec::new(),
                    block_hash: block.hash,
                    block_time_ms: block.header.timestamp_ms,
                });
            }
        }
    }

    /// Returns the transactions in the order of the ids, or the id of a missing one.
    fn finish(self) -> Result<Vec<AcceptedTransaction>, Hash> {
        let found = self.found.into_iter().zip(self.ids);
        found.map(|(found, id)| found.ok_or(*id)).collect()
    }
}

/// Whether kaspad cannot send a page because a script in it has no address.
fn is_invalid_address(text: &str) -> bool {
    text.contains("address is invalid")
}

/// Whether kaspad does not have a block, or has it below the blocks that it retains.
fn is_unknown_block(error: &ServerError) -> bool {
    let ServerError::Text(text) = error else { return false };
    text.contains("cannot find header") || text.contains("retention root")
}

#[cfg(test)]
mod tests {
    use kaspa::{Network, Transaction};

    use super::*;

    fn block(nonces: &[u64]) -> Block {
        let header = Network::Simnet.genesis();
        let transaction = |nonce: &u64| Transaction { lock_time: *nonce, ..Transaction::default() };
        let transactions = nonces.iter().map(transaction).collect();
        Block { hash: header.hash(), header, transactions }
    }

    #[test]
    fn transactions_are_found_in_the_order_of_acceptance() {
        let first = block(&[1, 2, 3]);
        let second = block(&[3, 4]);
        let id = |block: &Block, at: usize| block.transactions[at].id();
        let ids = [id(&second, 1), id(&first, 0), id(&second, 0)];
        let mut search = TransactionSearch::new(&ids);
        search.search(&first);
        assert!(!search.is_complete());
        search.search(&second);
        assert!(search.is_complete());
        let found = search.finish().expect("all of them");
        let found: Vec<Hash> = found.iter().map(|accepted| accepted.id).collect();
        assert_eq!(found, ids);
    }

    #[test]
    fn a_missing_transaction_is_named() {
        let ids = [block(&[1]).transactions[0].id(), Hash([7; 32])];
        let mut search = TransactionSearch::new(&ids);
        search.search(&block(&[1, 2]));
        assert_eq!(search.finish().map(|found| found.len()), Err(Hash([7; 32])));
    }
}
