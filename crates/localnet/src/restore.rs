//! Restores a ledger's state from its directory.

use std::sync::Arc;

use chain_solana::{Block, BlockInfo, BlockhashQueue, RECENT_BLOCKHASHES_MAX};
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;
use solana_vote_interface::state::{LandedVote, VoteStateV4};
use svm::AccountSource;

use crate::status_cache::StatusCache;
use crate::vote::Tower;

/// The bank of the newest stored block. Every stored block is complete, so it is the root.
pub(crate) fn head(blocks: &[Arc<Block>], capitalization: u64) -> Option<BlockInfo> {
    let head = blocks.last()?;
    let first = blocks.len().saturating_sub(RECENT_BLOCKHASHES_MAX);
    let blockhashes = BlockhashQueue::restore(blocks[first..].iter().map(|block| block.blockhash))?;
    Some(BlockInfo {
        block: head.id,
        parent: head.parent,
        block_height: head.block_height,
        blockhashes: Arc::new(blockhashes),
        transaction_count: head.transaction_count,
        unix_timestamp: head.block_time,
        capitalization,
        bank_hash: head.bank_hash,
        hash_components: head.hash_components,
        complete: true,
    })
}

/// The transactions that must not be executed again.
pub(crate) fn status_cache(blocks: &[Arc<Block>]) -> StatusCache {
    let mut cache = StatusCache::default();
    for block in &blocks[blocks.len().saturating_sub(RECENT_BLOCKHASHES_MAX)..] {
        cache.start_block(block.id.slot);
        for executed in &block.transactions {
            cache.insert(executed.transaction.message.hash());
        }
    }
    cache
}

/// The tower in the vote account's state.
pub(crate) fn tower(accounts: &impl AccountSource, vote_account: &Pubkey) -> Tower {
    accounts
        .account(vote_account)
        .and_then(|account| VoteStateV4::deserialize(account.0.data(), vote_account).ok())
        .map(|state| {
            Tower::restore(
                state.votes.iter().map(|LandedVote { lockout, .. }| *lockout),
                state.root_slot,
            )
        })
        .unwrap_or_default()
}
