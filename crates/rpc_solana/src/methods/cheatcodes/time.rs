//! surfnet_timeTravel, surfnet_pauseClock and surfnet_resumeClock.

use chain_solana::{ControlCommand, TimeTarget};
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodResult, MethodSpec};
use serde::Deserialize;
use solana::JsonU64;

use super::control_result;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    gated!("surfnet_timeTravel", Execution::Light, time_travel),
    gated!("surfnet_pauseClock", Execution::Light, pause_clock),
    gated!("surfnet_resumeClock", Execution::Light, resume_clock),
];

/// The destination of a time travel. Timestamps are in milliseconds.
#[derive(Deserialize)]
enum Destination {
    #[serde(rename = "absoluteEpoch")]
    Epoch(JsonU64),
    #[serde(rename = "absoluteSlot")]
    Slot(JsonU64),
    #[serde(rename = "absoluteTimestamp")]
    Timestamp(JsonU64),
    #[serde(rename = "absoluteSlotAt")]
    SlotAt { slot: JsonU64, timestamp: JsonU64 },
}

fn time_travel(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (destination,): (Destination,) = params.parse(1)?;
    let target = match destination {
        Destination::Epoch(JsonU64(epoch)) => TimeTarget::Epoch(epoch),
        Destination::Slot(JsonU64(slot)) => TimeTarget::Slot(slot),
        Destination::Timestamp(JsonU64(unix_ms)) => TimeTarget::UnixMs(unix_ms),
        Destination::SlotAt { slot: JsonU64(slot), timestamp: JsonU64(unix_ms) } => {
            TimeTarget::SlotAt { slot, unix_ms }
        }
    };
    control_result::epoch_info(api, params.client(), ControlCommand::Travel(target))
}

fn pause_clock(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    let result = control_result::epoch_info(api, params.client(), ControlCommand::PauseClock)?;
    // While slots are paused, a missing block is not a sign of a stalled ledger.
    api.health.set_paused(true);
    Ok(result)
}

fn resume_clock(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    let result = control_result::epoch_info(api, params.client(), ControlCommand::ResumeClock)?;
    api.health.set_paused(false);
    Ok(result)
}
