//! The block that a result is true at.

use chain_kaspa::BlockInfo;
use jsonrpc::params::Params;
use jsonrpc::{MethodOutput, MethodResult};
use serde::Serialize;

use super::kaspa_api::KaspaApi;
use super::options::ReadOptions;

/// A block of the ledger.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Position {
    /// The chain block, or that below the virtual block.
    chain_block: String,
    daa_score: u64,
    blue_score: u64,
    /// The time of the chain block, in Unix milliseconds.
    block_time: u64,
    is_virtual: bool,
    /// Whether the UTXO set was compared with the commitment of the chain block.
    is_proven: bool,
}

/// A result with its position.
#[derive(Serialize)]
pub(super) struct Positioned<T> {
    pub(super) position: Position,
    pub(super) value: T,
}

impl Position {
    pub(super) fn new(info: &BlockInfo) -> Self {
        Self {
            chain_block: info.hash.to_string(),
            daa_score: info.daa_score,
            blue_score: info.header.blue_score,
            block_time: info.header.timestamp_ms,
            is_virtual: info.is_virtual,
            is_proven: info.is_proven(),
        }
    }
}

/// Runs `getPosition [{at}]`.
pub(super) fn get_position(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    let (options,): (Option<ReadOptions>,) = params.parse(0)?;
    let view = api.chain.utxos.view(options.unwrap_or_default().at.commitment());
    MethodOutput::json(&Position::new(view.meta()))
}
