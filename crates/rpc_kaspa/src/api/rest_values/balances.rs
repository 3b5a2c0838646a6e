//! The balance of an address, or of several.

use chain_kaspa::{View, script_totals};
use jsonrpc::params::Params;
use jsonrpc::{MethodOutput, MethodResult};
use kaspa::KaspaAddress;
use ledger::Commitment;
use serde::Serialize;

use super::address_reader::{read_address, read_addresses};
use crate::api::kaspa_api::KaspaApi;

#[derive(Serialize)]
struct AddressBalance {
    address: String,
    balance: u64,
}

/// Runs `restGetBalance address`.
pub(super) fn get_balance(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    let (address,): (String,) = params.parse(1)?;
    let address = read_address(api, &address)?;
    let view = api.chain.utxos.view(Commitment::Processed);
    MethodOutput::json(&AddressBalance::read(&view, &address))
}

/// Runs `restGetBalances addresses`. An address that occurs twice has two balances, as in kaspad.
pub(super) fn get_balances(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    let (addresses,): (Vec<String>,) = params.parse(1)?;
    let addresses = read_addresses(api, &addresses)?;
    let view = api.chain.utxos.view(Commitment::Processed);
    let balances = addresses.iter().map(|address| AddressBalance::read(&view, address));
    MethodOutput::json(&balances.collect::<Vec<_>>())
}

impl AddressBalance {
    fn read(view: &View, address: &KaspaAddress) -> Self {
        let balance = script_totals(view, &address.payload.ledger_address()).amount;
        Self { address: address.to_string(), balance }
    }
}
