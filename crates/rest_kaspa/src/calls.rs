//! From the parameters of a route to the call of its method.

use rest::{ApiError, MethodCall, Params};
use serde_json::{Value, json};

/// Names of the methods.
pub(crate) mod method {
    pub(crate) const GET_BALANCE: &str = "restGetBalance";
    pub(crate) const GET_BALANCES: &str = "restGetBalances";
    pub(crate) const GET_UTXOS: &str = "restGetUtxos";
    pub(crate) const GET_COIN_SUPPLY: &str = "restGetCoinSupply";
    pub(crate) const GET_BLOCK_DAG: &str = "restGetBlockDag";
    pub(crate) const GET_UTXO_PAGE: &str = "restGetUtxoPage";
    pub(crate) const FIND_TRANSACTIONS: &str = "restFindTransactions";
    pub(crate) const FIND_TRANSACTIONS_BY_TIME: &str = "restFindTransactionsByTime";
    pub(crate) const GET_TRANSACTIONS: &str = "restGetTransactions";
    pub(crate) const GET_TRANSACTION: &str = "restGetTransaction";
    pub(crate) const GET_BLUE_SCORE: &str = "restGetBlueScore";
    pub(crate) const GET_CIRCULATING_COINS: &str = "restGetCirculatingCoins";
    pub(crate) const GET_HEALTH: &str = "restGetHealth";
}

/// The call of a method without parameters.
pub(crate) fn call(method: &'static str) -> MethodCall {
    MethodCall::Single(method, json!([]))
}

pub(crate) fn get_balance(params: &Params) -> Result<MethodCall, ApiError> {
    Ok(MethodCall::Single(method::GET_BALANCE, json!([params.json("kaspaAddress")])))
}

pub(crate) fn get_balances(params: &Params) -> Result<MethodCall, ApiError> {
    Ok(MethodCall::Single(method::GET_BALANCES, json!([params.json("addresses")])))
}

pub(crate) fn list_utxos(params: &Params) -> Result<MethodCall, ApiError> {
    Ok(MethodCall::Single(method::GET_UTXOS, json!([params.json("addresses")])))
}

/// Gets all UTXOs, or a page if the request has a parameter of pages.
pub(crate) fn get_utxos(params: &Params) -> Result<MethodCall, ApiError> {
    let address = params.json("kaspaAddress");
    if params.get("limit").is_none() && params.get("page").is_none() {
        return Ok(MethodCall::Single(method::GET_UTXOS, json!([[address]])));
    }
    let options = pick(params, &["limit", "page"]);
    Ok(MethodCall::Single(method::GET_UTXO_PAGE, json!([address, options])))
}

pub(crate) fn find_transactions(params: &Params) -> Result<MethodCall, ApiError> {
    let options = pick(params, &["limit", "offset", "page"]);
    let params = json!([params.json("kaspaAddress"), options]);
    Ok(MethodCall::Single(method::FIND_TRANSACTIONS, params))
}

pub(crate) fn find_transactions_by_time(params: &Params) -> Result<MethodCall, ApiError> {
    let options = pick(params, &["limit", "before", "after"]);
    let params = json!([params.json("kaspaAddress"), options]);
    Ok(MethodCall::Single(method::FIND_TRANSACTIONS_BY_TIME, params))
}

pub(crate) fn get_transaction(params: &Params) -> Result<MethodCall, ApiError> {
    let params = json!([params.json("transactionId"), transaction_options(params)]);
    Ok(MethodCall::Single(method::GET_TRANSACTION, params))
}

pub(crate) fn get_circulating_coins(params: &Params) -> Result<MethodCall, ApiError> {
    Ok(MethodCall::Single(method::GET_CIRCULATING_COINS, json!([params.json("in_billion")])))
}

/// The options of a method that writes transactions.
pub(crate) fn transaction_options(params: &Params) -> Value {
    let mut options = pick(params, &["inputs", "outputs"]);
    if let Some(mode) = params.get("resolve_previous_outpoints") {
        options["previousOutpoints"] = mode.clone();
    }
    let fields = params.get("fields").and_then(Value::as_array).into_iter().flatten();
    let fields: Vec<&Value> = fields.filter(|field| field.as_str() != Some("")).collect();
    if !fields.is_empty() {
        options["fields"] = json!(fields);
    }
    options
}

/// An object with the parameters of these names that the request has.
fn pick(params: &Params, names: &[&str]) -> Value {
    let mut picked = json!({});
    for name in names {
        if let Some(value) = params.get(name) {
            picked[*name] = value.clone();
        }
    }
    picked
}
