//! surfnet_setAccount and surfnet_setSupply.

use chain_solana::ACCOUNT_BYTES_MAX;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec};
use ledger::Commitment;
use serde::Deserialize;
use solana::JsonU64;
use solana_account::{AccountSharedData, ReadableAccount, WritableAccount};

use super::super::parse_key;
use super::{control_result, hex};
use crate::cheatcodes::SupplyOverride;
use crate::commitment::context;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    gated!("surfnet_setAccount", Execution::Light, set_account),
    gated!("surfnet_setSupply", Execution::Light, set_supply),
];

/// The rent epoch of an account that the runtime creates.
const RENT_EXEMPT_EPOCH: u64 = u64::MAX;

/// The fields of an account to set. Absent fields do not change.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SetAccountParams {
    lamports: Option<JsonU64>,
    /// The data in hexadecimal.
    data: Option<String>,
    owner: Option<String>,
    executable: Option<bool>,
    rent_epoch: Option<JsonU64>,
}

/// Sets fields of an account. An account that does not exist belongs to the system program, and gets the lamports that
/// exempt it from rent unless the request has others.
fn set_account(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (pubkey, update): (String, SetAccountParams) = params.parse(2)?;
    let pubkey = parse_key::pubkey(&pubkey)?;
    let SetAccountParams { lamports, data, owner, executable, rent_epoch } = update;
    let data = data.map(|text| account_data(&text)).transpose()?;
    let owner = owner.map(|owner| parse_key::pubkey(&owner)).transpose()?;
    control_result::edit(api, params.client(), move |now| {
        let current = now.account(&pubkey);
        let is_new = current.is_none();
        let mut account: AccountSharedData =
            current.map(|account| account.0.clone()).unwrap_or_default();
        if let Some(data) = data {
            account.set_data_from_slice(&data);
        }
        if let Some(owner) = owner {
            account.set_owner(owner);
        }
        if let Some(executable) = executable {
            account.set_executable(executable);
        }
        match rent_epoch {
            Some(JsonU64(rent_epoch)) => account.set_rent_epoch(rent_epoch),
            None if is_new => account.set_rent_epoch(RENT_EXEMPT_EPOCH),
            None => {}
        }
        match lamports {
            Some(JsonU64(lamports)) => account.set_lamports(lamports),
            None if is_new => account.set_lamports(now.minimum_balance(account.data().len())),
            None => {}
        }
        Ok(vec![(pubkey, account)])
    })
}

/// Parses the data of an account.
fn account_data(text: &str) -> Result<Vec<u8>, RpcError> {
    if text.len() > 2 * ACCOUNT_BYTES_MAX {
        let bytes = text.len() / 2;
        let message = format!("data has {bytes} bytes, an account at most {ACCOUNT_BYTES_MAX}");
        return Err(RpcError::invalid_params(message));
    }
    hex::decode("data", text)
}

/// The values of the supply to set. surfpool's own server has the names with underscores, its documents the others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SupplyUpdate {
    total: Option<JsonU64>,
    circulating: Option<JsonU64>,
    #[serde(alias = "non_circulating")]
    non_circulating: Option<JsonU64>,
    #[serde(alias = "non_circulating_accounts")]
    non_circulating_accounts: Option<Vec<String>>,
}

/// Sets the values that getSupply reports. No account changes.
fn set_supply(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (update,): (SupplyUpdate,) = params.parse(1)?;
    let accounts = update.non_circulating_accounts.map(|accounts| parse_key::pubkeys(&accounts));
    let later = SupplyOverride {
        total: update.total.map(u64::from),
        circulating: update.circulating.map(u64::from),
        non_circulating: update.non_circulating.map(u64::from),
        non_circulating_accounts: accounts.transpose()?,
    };
    api.cheatcodes.supply.write().get_or_insert_default().update(later);
    MethodOutput::json_in(context(&api.reader.view(Commitment::Processed)), &())
}
