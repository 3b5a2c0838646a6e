//! The network, the supply and the health, as far as the chain knows them.
//!
//! Not here: what only a kaspad knows, such as the number of blocks, the tips and the hash rate. Such members are left
//! out.

use jsonrpc::params::Params;
use jsonrpc::{MethodOutput, MethodResult};
use kaspa::MAX_SOMPI;
use ledger::Commitment;
use serde::Serialize;

use crate::api::kaspa_api::KaspaApi;

/// Decimal places of a coin: one coin has 10^8 sompi.
const COIN_DIGITS: u32 = 8;
/// Sompi of a hundredth of a billion coins.
const HUNDREDTH_BILLION_SOMPI: u64 = 10_u64.pow(COIN_DIGITS + 9 - 2);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CoinSupply {
    circulating_supply: String,
    total_supply: String,
    max_supply: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BlockDag {
    network_name: String,
    virtual_daa_score: String,
    sink: String,
    /// The pruning point of the sink's header.
    pruning_point_hash: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BlueScore {
    blue_score: u64,
}

/// The health. Members that only a server with a database or several kaspads has are null or empty.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Health {
    kaspad_servers: [(); 0],
    database: Database,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Database {
    is_synced: bool,
    blue_score: u64,
    blue_score_diff: Option<u64>,
    accepted_tx_block_time: Option<u64>,
    accepted_tx_block_time_diff: Option<u64>,
    /// The time of the sink, in Unix milliseconds. kaspa-rest-server does not have it.
    sink_time: u64,
    /// The block that was refused, and the reason. kaspa-rest-server does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// Runs `restGetCoinSupply`.
pub(super) fn get_coin_supply(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    let supply = circulating_sompi(api).to_string();
    MethodOutput::json(&CoinSupply {
        circulating_supply: supply.clone(),
        total_supply: supply,
        max_supply: MAX_SOMPI.to_string(),
    })
}

/// Runs `restGetCirculatingCoins [inBillion]`: a string with the number of coins, or of billions of coins to two places.
pub(super) fn get_circulating_coins(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    let (is_in_billion,): (Option<bool>,) = params.parse(0)?;
    let sompi = circulating_sompi(api);
    let text = if is_in_billion.unwrap_or_default() {
        format_decimal((sompi + HUNDREDTH_BILLION_SOMPI / 2) / HUNDREDTH_BILLION_SOMPI, 2)
    } else {
        format_decimal(sompi, COIN_DIGITS)
    };
    MethodOutput::json(&text)
}

/// Runs `restGetBlockDag`.
pub(super) fn get_block_dag(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    let view = api.chain.utxos.view(Commitment::Processed);
    let info = view.meta();
    let virtual_daa_score = match info.is_virtual {
        true => info.daa_score,
        false => api.chain.status().virtual_daa_score,
    };
    MethodOutput::json(&BlockDag {
        network_name: format!("kaspa-{}", api.network()),
        virtual_daa_score: virtual_daa_score.to_string(),
        sink: info.hash.to_string(),
        pruning_point_hash: info.header.pruning_point.to_string(),
    })
}

/// Runs `restGetBlueScore`: that of the sink.
pub(super) fn get_blue_score(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    let view = api.chain.utxos.view(Commitment::Confirmed);
    MethodOutput::json(&BlueScore { blue_score: view.meta().header.blue_score })
}

/// Runs `restGetHealth`. The chain is not in sync after a block that was refused.
pub(super) fn get_health(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    let status = api.chain.status();
    let refused = status.refused.as_ref();
    MethodOutput::json(&Health {
        kaspad_servers: [],
        database: Database {
            is_synced: refused.is_none(),
            blue_score: status.sink.blue_score,
            blue_score_diff: None,
            accepted_tx_block_time: None,
            accepted_tx_block_time_diff: None,
            sink_time: status.sink.timestamp_ms,
            refused: refused.map(|refused| format!("{}: {}", refused.hash, refused.reason)),
        },
    })
}

/// The sum of all UTXOs of the virtual block.
fn circulating_sompi(api: &KaspaApi) -> u64 {
    api.chain.utxos.view(Commitment::Processed).meta().supply.sompi
}

/// Formats units of 10^-`places` without trailing zeros, with at least one place.
fn format_decimal(units: u64, places: u32) -> String {
    let one = 10_u64.pow(places);
    let fraction = format!("{:0width$}", units % one, width = places as usize);
    let fraction = fraction.trim_end_matches('0');
    format!("{}.{}", units / one, if fraction.is_empty() { "0" } else { fraction })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_and_short() {
        for (units, places, expected) in [
            (0, 8, "0.0"),
            (1, 8, "0.00000001"),
            (150_000_000, 8, "1.5"),
            (MAX_SOMPI, 8, "29000000000.0"),
            (2_851, 2, "28.51"),
            (2_850, 2, "28.5"),
        ] {
            assert_eq!(format_decimal(units, places), expected);
        }
    }
}
