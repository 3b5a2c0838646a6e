//! Epochs, their leaders, and the inflation that this ledger does not have.
//!
//! One node leads every slot, so schedules are known from the epoch schedule alone. As on Agave they
//! are known up to the epoch that the root's leader schedule reaches, and no further.

use std::collections::HashMap;

use chain::View;
use ledger::{Commitment, Slot};
use solana_account::ReadableAccount;
use solana_commitment_config::CommitmentConfig;
use solana_epoch_info::EpochInfo;
use solana_inflation::Inflation;
use solana_rpc_client_types::config::{
    RpcBlockProductionConfig, RpcContextConfig, RpcEpochConfig, RpcLeaderScheduleConfig,
    RpcLeaderScheduleConfigWrapper,
};
use solana_rpc_client_types::request::MAX_GET_SLOT_LEADERS;
use solana_rpc_client_types::response::{
    RpcBlockProduction, RpcBlockProductionRange, RpcInflationGovernor, RpcInflationRate,
    RpcInflationReward, RpcLeaderSchedule,
};
use solana_slot_history::{Check, SlotHistory};

use super::{Answer, Class, Method, MethodResult, blocks, read, text};
use crate::commitment::{view, view_of, with_context};
use crate::custom_error::RpcCustomError;
use crate::error::RpcError;
use crate::node::Node;
use crate::params::Params;

pub(super) const METHODS: &[Method] = &[
    Method { name: "getEpochInfo", class: Class::Inline, run: epoch_info },
    Method { name: "getEpochSchedule", class: Class::Inline, run: epoch_schedule },
    Method { name: "getSlotLeader", class: Class::Inline, run: slot_leader },
    Method { name: "getSlotLeaders", class: Class::Medium, run: slot_leaders },
    Method { name: "getLeaderSchedule", class: Class::Medium, run: leader_schedule },
    Method { name: "getBlockProduction", class: Class::Medium, run: block_production },
    Method { name: "getInflationGovernor", class: Class::Inline, run: inflation_governor },
    Method { name: "getInflationRate", class: Class::Inline, run: inflation_rate },
    Method { name: "getInflationReward", class: Class::Inline, run: inflation_reward },
];

fn epoch_info(node: &Node, params: Params<'_>) -> MethodResult {
    let (config,): (Option<RpcContextConfig>,) = params.parse(0)?;
    let view = view_of(node, config)?;
    let slot = view.block().slot;
    let (epoch, slot_index) = node.cluster.epoch_schedule.get_epoch_and_slot_index(slot);
    Answer::of(&EpochInfo {
        epoch,
        slot_index,
        slots_in_epoch: node.cluster.epoch_schedule.get_slots_in_epoch(epoch),
        absolute_slot: slot,
        block_height: view.meta().block_height,
        transaction_count: Some(view.meta().transaction_count),
    })
}

fn epoch_schedule(node: &Node, params: Params<'_>) -> MethodResult {
    params.none()?;
    Answer::of(&node.cluster.epoch_schedule)
}

/// The last epoch whose leaders are known.
fn last_scheduled_epoch(node: &Node) -> u64 {
    let root = node.reader.view(Commitment::Finalized).block().slot;
    node.cluster.epoch_schedule.get_leader_schedule_epoch(root)
}

fn slot_leader(node: &Node, params: Params<'_>) -> MethodResult {
    let (config,): (Option<RpcContextConfig>,) = params.parse(0)?;
    view_of(node, config)?;
    Answer::of(&node.cluster.identity.to_string())
}

fn slot_leaders(node: &Node, params: Params<'_>) -> MethodResult {
    let (start, limit): (Slot, u64) = params.parse(2)?;
    if limit > MAX_GET_SLOT_LEADERS as u64 {
        let message = format!("Invalid limit; max {MAX_GET_SLOT_LEADERS}");
        return Err(RpcError::invalid_params(message));
    }
    let last_known = last_scheduled_epoch(node);
    let last_asked = start.saturating_add(limit.saturating_sub(1));
    let schedule = &node.cluster.epoch_schedule;
    if limit > 0 && schedule.get_epoch(last_asked) > last_known {
        let epoch = schedule.get_epoch(start).max(last_known + 1);
        return Err(RpcError::invalid_params(format!(
            "Invalid slot range: leader schedule for epoch {epoch} is unavailable"
        )));
    }
    Answer::of(&vec![node.cluster.identity.to_string(); limit as usize])
}

fn leader_schedule(node: &Node, params: Params<'_>) -> MethodResult {
    type Given = (Option<RpcLeaderScheduleConfigWrapper>, Option<RpcLeaderScheduleConfig>);
    let (first, second): Given = params.parse(0)?;
    let (slot, first_config) = first.map(|first| first.unzip()).unwrap_or_default();
    let config = first_config.or(second).unwrap_or_default();
    if let Some(identity) = &config.identity {
        text::pubkey(identity)?;
    }
    let slot = slot.unwrap_or_else(|| view(node, config.commitment).block().slot);
    let epoch = node.cluster.epoch_schedule.get_epoch(slot);
    if epoch > last_scheduled_epoch(node) {
        return Answer::of(&None::<RpcLeaderSchedule>);
    }
    let ours = node.cluster.identity.to_string();
    let mut by_identity = RpcLeaderSchedule::new();
    if config.identity.is_none_or(|asked| asked == ours) {
        let slots = node.cluster.epoch_schedule.get_slots_in_epoch(epoch);
        by_identity.insert(ours, (0..slots as usize).collect());
    }
    Answer::of(&Some(by_identity))
}

fn block_production(node: &Node, params: Params<'_>) -> MethodResult {
    let (config,): (Option<RpcBlockProductionConfig>,) = params.parse(0)?;
    let config = config.unwrap_or_default();
    let asked = config.identity.as_deref().map(text::pubkey).transpose()?;
    let view = view(node, config.commitment);
    let slot = view.block().slot;
    let schedule = &node.cluster.epoch_schedule;
    let (first_slot, last_slot) = match config.range {
        None => (schedule.get_first_slot_in_epoch(schedule.get_epoch(slot)), slot),
        Some(range) => (range.first_slot, range.last_slot.unwrap_or(slot)),
    };
    if last_slot < first_slot {
        return Err(RpcError::invalid_params(format!(
            "lastSlot, {last_slot}, cannot be less than firstSlot, {first_slot}"
        )));
    }
    let history = slot_history(&view).ok_or(RpcCustomError::NoSlotHistory)?;
    let (oldest, newest) = (history.oldest(), history.newest());
    if first_slot < oldest {
        return Err(RpcError::invalid_params(format!(
            "firstSlot, {first_slot}, is too small; min {oldest}"
        )));
    }
    if last_slot > newest {
        return Err(RpcError::invalid_params(format!(
            "lastSlot, {last_slot}, is too large; max {newest}"
        )));
    }
    let mut by_identity = HashMap::new();
    if asked.is_none_or(|asked| asked == node.cluster.identity) {
        let slots = first_slot..=last_slot;
        let produced = slots.clone().filter(|slot| history.check(*slot) == Check::Found).count();
        by_identity.insert(node.cluster.identity.to_string(), (slots.count(), produced));
    }
    let range = RpcBlockProductionRange { first_slot, last_slot };
    Answer::of(&with_context(&view, RpcBlockProduction { by_identity, range }))
}

/// Which of the last million slots have a block, as the ledger's sysvar says.
fn slot_history(view: &View) -> Option<SlotHistory> {
    let account = read::account(view, &solana_sdk_ids::sysvar::slot_history::ID)?;
    bincode::deserialize(account.0.data()).ok()
}

fn inflation_governor(_: &Node, params: Params<'_>) -> MethodResult {
    let (_commitment,): (Option<CommitmentConfig>,) = params.parse(0)?;
    Answer::of(&RpcInflationGovernor::from(Inflation::new_disabled()))
}

fn inflation_rate(node: &Node, params: Params<'_>) -> MethodResult {
    params.none()?;
    let slot = node.reader.view(Commitment::Finalized).block().slot;
    let epoch = node.cluster.epoch_schedule.get_epoch(slot);
    Answer::of(&RpcInflationRate { total: 0.0, validator: 0.0, foundation: 0.0, epoch })
}

/// No epoch pays anything, so every address gets a null; but only for an epoch whose first block
/// after it is there to say so.
fn inflation_reward(node: &Node, params: Params<'_>) -> MethodResult {
    let (addresses, config): (Vec<String>, Option<RpcEpochConfig>) = params.parse(1)?;
    let addresses = text::pubkeys(&addresses)?;
    let config = config.unwrap_or_default();
    let context = RpcContextConfig {
        commitment: config.commitment,
        min_context_slot: config.min_context_slot,
    };
    let schedule = &node.cluster.epoch_schedule;
    let epoch = match config.epoch {
        Some(epoch) => epoch,
        None => {
            let slot = view_of(node, Some(context))?.block().slot;
            schedule.get_epoch(slot).saturating_sub(1)
        }
    };
    let history = node.history.snapshot();
    let first_available_block = blocks::first_available(node, &history);
    let slot = schedule.get_first_slot_in_epoch(epoch.saturating_add(1));
    if slot < first_available_block {
        return Err(RpcCustomError::BlockCleanedUp { slot, first_available_block }.into());
    }
    let last = blocks::confirmed_slot(node, context)?;
    if slot > last {
        return Err(RpcCustomError::BlockNotAvailable { slot }.into());
    }
    let Some(boundary) = history.blocks(slot..=last).next() else {
        return Err(RpcCustomError::BlockNotAvailable { slot }.into());
    };
    if boundary.parent_slot >= slot {
        return Err(RpcCustomError::SlotNotEpochBoundary { slot: boundary.id.slot }.into());
    }
    Answer::of(&vec![None::<RpcInflationReward>; addresses.len()])
}
