//! The balance of an address, and the number of its UTXOs.

use chain_kaspa::script_totals;
use jsonrpc::params::Params;
use jsonrpc::{MethodOutput, MethodResult};
use serde::Serialize;

use super::kaspa_api::KaspaApi;
use super::options::{ReadOptions, parse_address};
use super::position::{Position, Positioned};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Balance {
    sompi: u64,
    utxo_count: u64,
}

/// Runs `getBalance address [{at}]`.
pub(super) fn get_balance(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    let (address, options): (String, Option<ReadOptions>) = params.parse(1)?;
    let address = parse_address(&address)?;
    let view = api.chain.utxos.view(options.unwrap_or_default().at.commitment());
    let totals = script_totals(&view, &address.payload.ledger_address());
    let position = Position::new(view.meta());
    let value = Balance { sompi: totals.amount, utxo_count: totals.count };
    MethodOutput::json(&Positioned { position, value })
}
