//! Epochs: the current one, the rates of inflation, and the rewards that were paid.
//!
//! Not here: leaders (`leaders`), stakes (`votes`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chain_solana::{Block, InflationSchedule};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec};
use ledger::{Commitment, Slot};
use solana_commitment_config::CommitmentConfig;
use solana_epoch_info::EpochInfo;
use solana_epoch_rewards_hasher::EpochRewardsHasher;
use solana_pubkey::Pubkey;
use solana_rpc_client_types::config::{RpcContextConfig, RpcEpochConfig};
use solana_rpc_client_types::response::{
    RpcInflationGovernor, RpcInflationRate, RpcInflationReward,
};
use solana_transaction_status::{Reward, RewardType};

use super::node_info::{no_dependency, unknown};
use super::slot::block_dependency;
use super::{blocks, parse_key};
use crate::commitment::{view, view_for_config};
use crate::custom_error::RpcCustomError;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    MethodSpec::new("getEpochInfo", Execution::Inline, epoch_info)
        .with_revalidation_dependencies(block_dependency),
    MethodSpec::new("getEpochSchedule", Execution::Inline, epoch_schedule)
        .with_revalidation_dependencies(no_dependency),
    MethodSpec::new("getInflationGovernor", Execution::Inline, inflation_governor),
    MethodSpec::new("getInflationRate", Execution::Inline, inflation_rate),
    MethodSpec::new("getInflationReward", Execution::Medium, inflation_reward),
];

fn epoch_info(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (config,): (Option<RpcContextConfig>,) = params.parse(0)?;
    let view = view_for_config(api, config)?;
    let slot = view.block().slot;
    let (epoch, slot_index) = api.cluster_info.epoch_schedule.get_epoch_and_slot_index(slot);
    MethodOutput::json(&EpochInfo {
        epoch,
        slot_index,
        slots_in_epoch: api.cluster_info.epoch_schedule.get_slots_in_epoch(epoch),
        absolute_slot: slot,
        block_height: view.meta().block_height,
        transaction_count: Some(view.meta().transaction_count),
    })
}

fn epoch_schedule(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    MethodOutput::json(&api.cluster_info.epoch_schedule)
}

/// Returns the rates of the cluster's inflation.
fn inflation(api: &SolanaApi) -> Result<Arc<InflationSchedule>, RpcError> {
    api.cluster.inflation().ok_or_else(|| unknown("the inflation of the cluster is"))
}

fn inflation_governor(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (_commitment,): (Option<CommitmentConfig>,) = params.parse(0)?;
    MethodOutput::json(&RpcInflationGovernor::from(*inflation(api)?.inflation()))
}

fn inflation_rate(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    let slot = api.reader.view(Commitment::Finalized).block().slot;
    let epoch = api.cluster_info.epoch_schedule.get_epoch(slot);
    let schedule = inflation(api)?;
    let inflation = schedule.inflation();
    let year = schedule.year(epoch);
    MethodOutput::json(&RpcInflationRate {
        total: inflation.total(year),
        validator: inflation.validator(year),
        foundation: inflation.foundation(year),
        epoch,
    })
}

/// Returns the rewards of addresses for an epoch. Vote accounts are paid in the first block after it, stake accounts in
/// one of the following blocks, which depends on their address.
fn inflation_reward(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (addresses, config): (Vec<String>, Option<RpcEpochConfig>) = params.parse(1)?;
    let addresses = parse_key::pubkeys(&addresses)?;
    let config = config.unwrap_or_default();
    let context = RpcContextConfig {
        commitment: config.commitment,
        min_context_slot: config.min_context_slot,
    };
    let schedule = &api.cluster_info.epoch_schedule;
    let epoch = match config.epoch {
        Some(epoch) => epoch,
        None => {
            let slot = view_for_config(api, Some(context))?.block().slot;
            schedule.get_epoch(slot).saturating_sub(1)
        }
    };
    let first_available_block = blocks::first_available(api, &api.history.snapshot());
    let slot = schedule.get_first_slot_in_epoch(epoch.saturating_add(1));
    if slot < first_available_block {
        return Err(RpcCustomError::BlockCleanedUp { slot, first_available_block }.into());
    }
    let (history, commitment, last) = blocks::confirmed_history(api, context)?;
    if slot > last {
        return Err(RpcCustomError::BlockNotAvailable { slot }.into());
    }
    let Some(boundary) = history.blocks(slot..=last, commitment).next() else {
        return Err(RpcCustomError::BlockNotAvailable { slot }.into());
    };
    if boundary.parent.slot >= slot {
        return Err(RpcCustomError::SlotNotEpochBoundary { slot: boundary.id.slot }.into());
    }
    let texts: Vec<String> = addresses.iter().map(Pubkey::to_string).collect();
    let mut rewards: HashMap<&str, (&Reward, Slot)> = HashMap::new();
    rewards.extend(find_rewards(boundary, &texts, &[RewardType::Voting]));
    if let Some(partitions) = boundary.reward_partitions {
        let hasher = EpochRewardsHasher::new(partitions as usize, &boundary.previous_blockhash);
        let after = boundary.id.slot.saturating_add(1);
        let blocks = history.blocks(after..=last, commitment).take(partitions as usize);
        let blocks: Vec<_> = blocks.collect();
        let mut by_partition: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (address, text) in addresses.iter().zip(&texts) {
            if !rewards.contains_key(text.as_str()) {
                let partition = hasher.clone().hash_address_to_partition(address);
                by_partition.entry(partition).or_default().push(text.clone());
            }
        }
        for (partition, texts) in &by_partition {
            let block = blocks.get(*partition).ok_or_else(|| {
                let view = view(api, config.commitment);
                RpcCustomError::EpochRewardsPeriodActive {
                    slot: view.block().slot,
                    current_block_height: view.meta().block_height,
                    rewards_complete_block_height: boundary.block_height + partitions + 1,
                }
            })?;
            rewards.extend(find_rewards(
                block,
                texts,
                &[RewardType::Staking, RewardType::DeactivatedStake],
            ));
        }
    }
    let reward = |text: &String| {
        let (reward, effective_slot) = *rewards.get(text.as_str())?;
        Some(RpcInflationReward {
            epoch,
            effective_slot,
            amount: reward.lamports.unsigned_abs(),
            post_balance: reward.post_balance,
            commission: reward.commission,
            commission_bps: reward.commission_bps,
        })
    };
    MethodOutput::json(&texts.iter().map(reward).collect::<Vec<_>>())
}

/// Finds the rewards of some kinds that a block paid to some addresses.
fn find_rewards<'a>(
    block: &'a Block,
    addresses: &[String],
    kinds: &'a [RewardType],
) -> impl Iterator<Item = (&'a str, (&'a Reward, Slot))> {
    let addresses: HashSet<String> = addresses.iter().cloned().collect();
    let has_kind = |reward: &&Reward| reward.reward_type.is_some_and(|kind| kinds.contains(&kind));
    let found = block.rewards.iter().filter(has_kind);
    let found = found.filter(move |reward| addresses.contains(&reward.pubkey));
    found.map(|reward| (reward.pubkey.as_str(), (reward, block.id.slot)))
}
