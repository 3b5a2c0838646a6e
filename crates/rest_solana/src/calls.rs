//! From the parameters of a route to the call of its methods.

use rest::{ApiError, MethodCall, Params};
use serde_json::{Map, Value, json};

const TOKEN_PROGRAM: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";

pub(crate) fn call<const N: usize>(method: &'static str, params: [Value; N]) -> MethodCall {
    MethodCall::Single(method, Value::from(params.to_vec()))
}

/// `fixed`, with the request's parameters of these names added.
pub(crate) fn config(params: &Params, names: &[&str], mut fixed: Map<String, Value>) -> Value {
    for name in names {
        if let Some(value) = params.get(name) {
            fixed.insert((*name).to_owned(), value.clone());
        }
    }
    fixed.into()
}

pub(crate) fn commitment(params: &Params) -> Value {
    // Always present: some methods accept no config without it.
    json!({ "commitment": params.text("commitment").unwrap_or("finalized") })
}

pub(crate) fn versions(params: &Params) -> Map<String, Value> {
    let version = params.number("maxSupportedTransactionVersion").unwrap_or(1);
    Map::from_iter([("maxSupportedTransactionVersion".to_owned(), version.into())])
}

fn account_config(params: &Params) -> Result<Map<String, Value>, ApiError> {
    let mut config = Map::new();
    config.insert("encoding".to_owned(), params.text("encoding").unwrap_or("base64").into());
    match (params.number("dataOffset"), params.number("dataLength")) {
        (None, None) => {}
        (Some(offset), Some(length)) => {
            config.insert("dataSlice".to_owned(), json!({ "offset": offset, "length": length }));
        }
        _ => return Err(ApiError::invalid("dataOffset and dataLength require each other")),
    }
    for name in ["commitment", "minContextSlot"] {
        if let Some(value) = params.get(name) {
            config.insert(name.to_owned(), value.clone());
        }
    }
    Ok(config)
}

pub(crate) fn page_config(params: &Params) -> Result<Value, ApiError> {
    let mut config = account_config(params)?;
    config.insert("withContext".to_owned(), true.into());
    for (name, method_name) in [
        ("limit", "limit"),
        ("cursor", "paginationKey"),
        ("changedSinceSlot", "changedSinceSlot"),
        ("filters", "filters"),
    ] {
        if let Some(value) = params.get(name) {
            config.insert(method_name.to_owned(), value.clone());
        }
    }
    Ok(config.into())
}

pub(crate) fn node(_: &Params) -> Result<MethodCall, ApiError> {
    Ok(MethodCall::Composite(vec![
        ("version", "getVersion", json!([])),
        ("identity", "getIdentity", json!([])),
        ("genesisHash", "getGenesisHash", json!([])),
        ("epochSchedule", "getEpochSchedule", json!([])),
        ("clusterNodes", "getClusterNodes", json!([])),
    ]))
}

pub(crate) fn ledger(params: &Params) -> Result<MethodCall, ApiError> {
    Ok(MethodCall::Composite(vec![
        ("epochInfo", "getEpochInfo", json!([commitment(params)])),
        ("latestBlockhash", "getLatestBlockhash", json!([commitment(params)])),
        ("firstAvailableBlock", "getFirstAvailableBlock", json!([])),
        ("processedSlot", "getSlot", json!([{ "commitment": "processed" }])),
        ("confirmedSlot", "getSlot", json!([{ "commitment": "confirmed" }])),
        ("finalizedSlot", "getSlot", json!([{ "commitment": "finalized" }])),
        ("verification", "hydrantGetVerification", json!([])),
    ]))
}

pub(crate) fn account(params: &Params) -> Result<MethodCall, ApiError> {
    Ok(call("getAccountInfo", [params.json("address"), account_config(params)?.into()]))
}

pub(crate) fn accounts(params: &Params) -> Result<MethodCall, ApiError> {
    Ok(call("getMultipleAccounts", [params.json("addresses"), account_config(params)?.into()]))
}

pub(crate) fn build_transactions_call(params: &Params) -> Result<MethodCall, ApiError> {
    let before = params.get("cursor").map(|cursor| ("before".to_owned(), cursor.clone()));
    let names = ["commitment", "minContextSlot", "limit", "until"];
    let config = config(params, &names, before.into_iter().collect());
    Ok(call("getSignaturesForAddress", [params.json("address"), config]))
}

pub(crate) fn build_tokens_call(params: &Params) -> Result<MethodCall, ApiError> {
    let filter = match (params.text("mint"), params.text("program")) {
        (Some(_), Some(_)) => return Err(ApiError::invalid("mint and program exclude each other")),
        (Some(mint), None) => json!({ "mint": mint }),
        (None, program) => json!({ "programId": program.unwrap_or(TOKEN_PROGRAM) }),
    };
    let config = page_config(params)?;
    Ok(call("getTokenAccountsByOwnerV2", [params.json("address"), filter, config]))
}

pub(crate) fn program_accounts(params: &Params) -> Result<MethodCall, ApiError> {
    let mut filters = Vec::new();
    if let Some(size) = params.number("dataSize") {
        filters.push(json!({ "dataSize": size }));
    }
    match (params.number("memcmpOffset"), params.text("memcmpBytes")) {
        (None, None) => {}
        (Some(offset), Some(bytes)) => {
            filters.push(json!({ "memcmp": { "offset": offset, "bytes": bytes } }));
        }
        _ => return Err(ApiError::invalid("memcmpOffset and memcmpBytes require each other")),
    }
    let mut config = page_config(params)?;
    if !filters.is_empty() {
        config["filters"] = filters.into();
    }
    Ok(call("getProgramAccountsV2", [params.json("address"), config]))
}

pub(crate) fn send(params: &Params) -> Result<MethodCall, ApiError> {
    let base64 = Map::from_iter([("encoding".to_owned(), "base64".into())]);
    let names = ["skipPreflight", "preflightCommitment", "minContextSlot"];
    Ok(call("sendTransaction", [params.json("transaction"), config(params, &names, base64)]))
}

pub(crate) fn simulate(params: &Params) -> Result<MethodCall, ApiError> {
    let mut fixed = Map::from_iter([("encoding".to_owned(), "base64".into())]);
    if let Some(addresses) = params.get("accounts") {
        let accounts = json!({ "encoding": "base64", "addresses": addresses });
        fixed.insert("accounts".to_owned(), accounts);
    }
    let names = [
        "commitment",
        "minContextSlot",
        "sigVerify",
        "replaceRecentBlockhash",
        "innerInstructions",
    ];
    Ok(call("simulateTransaction", [params.json("transaction"), config(params, &names, fixed)]))
}
