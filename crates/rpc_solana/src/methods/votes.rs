//! Validators: their votes, and the stake behind them.
//!
//! In: all accounts of the vote program in one view, and the stakes of its epoch (`Cluster::stakes`). A one-node ledger
//! has one validator, but vote and stake accounts that clients create are reported as on a cluster.

use std::sync::Arc;

use chain_solana::{View, VoteStakes};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec};
use ledger::{Address, Commitment, KeyKind, Slot};
use solana::key_kind;
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;
use solana_rpc_client_types::config::RpcGetVoteAccountsConfig;
use solana_rpc_client_types::request::{
    DELINQUENT_VALIDATOR_SLOT_DISTANCE, MAX_RPC_VOTE_ACCOUNT_INFO_EPOCH_CREDITS_HISTORY,
};
use solana_rpc_client_types::response::{
    RpcBlockCommitment, RpcVoteAccountInfo, RpcVoteAccountStatus,
};
use solana_sdk_ids::{stake, vote};
use solana_vote_interface::state::{MAX_LOCKOUT_HISTORY, VoteStateV4, VoteStateVersions};

use super::{accounts_reader, node_info, parse_key};
use crate::commitment::view;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    MethodSpec::new("getVoteAccounts", Execution::Medium, vote_accounts),
    MethodSpec::new("getBlockCommitment", Execution::Medium, block_commitment),
];

/// Returns the keys that must be indexed for the node's own reads, whatever indexes clients may use. Without them every
/// getVoteAccounts would scan all accounts.
pub fn required_index_keys() -> [(KeyKind, Address); 2] {
    [vote::ID, stake::ID].map(|program| (key_kind::PROGRAM, accounts_reader::address(&program)))
}

/// Number of blocks below the root for which stake is reported: the size of Agave's status cache.
const ROOTED_BLOCKS_REPORTED: u64 = 300;

fn vote_accounts(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (config,): (Option<RpcGetVoteAccountsConfig>,) = params.parse(0)?;
    let config = config.unwrap_or_default();
    let vote_pubkey = config.vote_pubkey.as_deref().map(parse_key::pubkey).transpose()?;
    let view = view(api, config.commitment);
    let slot = view.block().slot;
    let stakes = activated_stakes(api, &view)?;
    let voters = api.cluster.voters(api.cluster_info.epoch_schedule.get_epoch(slot));
    let mut infos: Vec<RpcVoteAccountInfo> = view
        .records_by_key(key_kind::PROGRAM, &accounts_reader::address(&vote::ID))
        .filter_map(|(address, account)| Some((accounts_reader::pubkey(&address)?, account)))
        .filter(|(pubkey, _)| vote_pubkey.is_none_or(|requested| requested == *pubkey))
        .filter_map(|(pubkey, account)| {
            let stake = stakes.stake(&pubkey);
            let is_voter = voters.as_ref().map_or(stake > 0, |voters| voters.stake(&pubkey) > 0);
            info(&pubkey, account.0.data(), stake, is_voter)
        })
        .collect();
    infos.sort_by(|a, b| {
        b.activated_stake.cmp(&a.activated_stake).then_with(|| a.vote_pubkey.cmp(&b.vote_pubkey))
    });
    let distance = config.delinquent_slot_distance.unwrap_or(DELINQUENT_VALIDATOR_SLOT_DISTANCE);
    // A validator that has never voted is delinquent, even on a young ledger. On a one-node ledger the slots between a
    // block and its parent are those that a time travel skipped.
    let expected_vote = if voters.is_none() { slot.min(view.meta().parent.slot + 1) } else { slot };
    let oldest_current = expected_vote.saturating_sub(distance);
    let (current, mut delinquent): (Vec<_>, Vec<_>) =
        infos.into_iter().partition(|info| info.last_vote > oldest_current);
    if !config.keep_unstaked_delinquents.unwrap_or_default() {
        delinquent.retain(|info| info.activated_stake > 0);
    }
    MethodOutput::json(&RpcVoteAccountStatus { current, delinquent })
}

fn info(
    pubkey: &Pubkey,
    data: &[u8],
    activated_stake: u64,
    is_voter: bool,
) -> Option<RpcVoteAccountInfo> {
    if !VoteStateVersions::is_correct_size_and_initialized(data) {
        return None;
    }
    let state = VoteStateV4::deserialize(data, pubkey).ok()?;
    let bps = state.inflation_rewards_commission_bps;
    let credits = &state.epoch_credits;
    let skipped = credits.len().saturating_sub(MAX_RPC_VOTE_ACCOUNT_INFO_EPOCH_CREDITS_HISTORY);
    Some(RpcVoteAccountInfo {
        vote_pubkey: pubkey.to_string(),
        node_pubkey: state.node_pubkey.to_string(),
        activated_stake,
        commission: u8::try_from(bps.div_ceil(100)).unwrap_or(u8::MAX),
        inflation_rewards_commission_bps: Some(bps),
        epoch_vote_account: is_voter,
        epoch_credits: credits.iter().skip(skipped).copied().collect(),
        last_vote: state.votes.back().map_or(0, |vote| vote.slot()),
        root_slot: state.root_slot.unwrap_or(0),
    })
}

/// Returns the stake that counts for each vote account in the epoch of the view.
fn activated_stakes(api: &SolanaApi, view: &View) -> Result<Arc<VoteStakes>, RpcError> {
    api.cluster.stakes(view).ok_or_else(|| node_info::unknown("the stakes of this epoch are"))
}

/// Returns the stake behind a block, by the number of confirmations that the votes for it have in the processed state.
///
/// Cost: on a cluster, reads every vote account with stake.
fn block_commitment(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (slot,): (Slot,) = params.parse(1)?;
    let views = api.reader.views();
    let epoch = api.cluster_info.epoch_schedule.get_epoch(views.processed.block().slot);
    let voters = api.cluster.voters(epoch);
    // As in Agave: the current stake, which also weighs the votes for a block.
    let stakes_view = if voters.is_some() { &views.processed } else { &views.finalized };
    let stakes = activated_stakes(api, stakes_view)?;
    let total_stake = stakes.total();
    let history = api.history.snapshot();
    let root = history.newest_slot(Commitment::Finalized);
    let below_root = history.height_difference(slot, root);
    let is_reported = below_root.is_none_or(|blocks| blocks < ROOTED_BLOCKS_REPORTED);
    let block = history.block(slot, Commitment::Confirmed).filter(|_| is_reported);
    let Some(block) = block else {
        return MethodOutput::json(&RpcBlockCommitment { commitment: None::<()>, total_stake });
    };
    let mut commitment = [0u64; MAX_LOCKOUT_HISTORY + 1];
    if voters.is_some() {
        for (vote_account, stake) in &stakes.0 {
            if let Some(depth) = lockout_depth(&views.processed, vote_account, slot) {
                commitment[depth] = commitment[depth].saturating_add(*stake);
            }
        }
    } else {
        // The one validator of a localnet votes for every block.
        let above = views.confirmed.meta().block_height.saturating_sub(block.block_height);
        let depth = if history.commitment(slot) == Commitment::Finalized {
            MAX_LOCKOUT_HISTORY
        } else {
            (above as usize).min(MAX_LOCKOUT_HISTORY - 1)
        };
        commitment[depth] = total_stake; // the array is one longer than the deepest
    }
    MethodOutput::json(&RpcBlockCommitment { commitment: Some(commitment), total_stake })
}

/// Returns the confirmations of the oldest vote of a vote account for a slot or its descendants, less one;
/// [`MAX_LOCKOUT_HISTORY`] if its root is not below the slot. `None` without a vote for it.
fn lockout_depth(view: &View, vote_account: &Pubkey, slot: Slot) -> Option<usize> {
    let account = accounts_reader::account(view, vote_account)?;
    let state = VoteStateV4::deserialize(account.0.data(), vote_account).ok()?;
    if state.root_slot.is_some_and(|root| root >= slot) {
        return Some(MAX_LOCKOUT_HISTORY);
    }
    let vote = state.votes.iter().find(|vote| vote.slot() >= slot)?;
    let confirmations = vote.confirmation_count() as usize;
    Some(confirmations.clamp(1, MAX_LOCKOUT_HISTORY) - 1)
}
