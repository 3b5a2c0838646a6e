//! The calls and routes that are compared, and those that belong to one node.
//!
//! Shape: a call has a slot that it is about, which all replicas have reached: as `minContextSlot` where the method has
//! it, and as the header `hydrant-min-slot` of every request.

use serde_json::{Value, json};

use crate::cluster::http_client::Request;

/// Methods that are not compared, and why. docs/cluster.md has the same list for clients.
const NODE_OWN: [(&str, &str); 12] = [
    ("getClusterNodes", "each node lists what it knows of the others"),
    ("getFirstAvailableBlock", "the history begins at the snapshot that the node loaded"),
    ("getHealth", "about the node"),
    ("getHighestSnapshotSlot", "about the node"),
    ("getIdentity", "each node has a key of its own"),
    ("getMaxRetransmitSlot", "about the node"),
    ("getMaxShredInsertSlot", "about the node"),
    ("getRecentPerformanceSamples", "each node counts minutes since its start"),
    ("getVersion", "about the node"),
    ("hydrantGetVerification", "about the node"),
    ("minimumLedgerSlot", "the history begins at the snapshot that the node loaded"),
    ("sendTransaction", "it sends"),
];

/// Lists without an order, by the path of the list. They are compared as sets.
const SETS: [(&str, &[&str]); 6] = [
    ("getProgramAccounts", &["/result", "/result/value"]),
    ("getTokenAccountsByDelegate", &["/result/value"]),
    ("getTokenAccountsByOwner", &["/result/value"]),
    ("getTokenAccountsByMint", &["/result/value"]),
    ("getVoteAccounts", &["/result/current", "/result/delinquent"]),
    ("getBlock", &["/result/rewards"]),
];

/// Members of a response that belong to one node.
const NODE_MEMBERS: [&str; 3] = ["paginationKey", "cursor", "apiVersion"];

const SYSTEM: &str = "11111111111111111111111111111111";
const CLOCK: &str = "SysvarC1ock11111111111111111111111111111111";
const VOTE: &str = "Vote111111111111111111111111111111111111111";

/// A request that is compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    Method { name: &'static str, params: Value },
    Route { name: &'static str, path: String },
}

impl Call {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Method { name, .. } | Self::Route { name, .. } => name,
        }
    }

    /// Returns the request to a node, about a slot that is not older than `slot`.
    pub(crate) fn request(&self, slot: u64) -> Request {
        let request = match self {
            Self::Method { name, params } => {
                let params = with_min_context_slot(params, slot);
                let body = json!({"jsonrpc": "2.0", "id": 1, "method": name, "params": params});
                Request::post_json(&body.to_string())
            }
            Self::Route { path, .. } => Request::get(path),
        };
        request.with_header("hydrant-min-slot", slot.to_string())
    }
}

/// Adds `minContextSlot` to the configuration of a call, where it has one with a commitment.
fn with_min_context_slot(params: &Value, slot: u64) -> Value {
    let mut params = params.clone();
    let configuration = params.as_array_mut().and_then(|all| all.last_mut());
    if let Some(configuration) = configuration.and_then(Value::as_object_mut)
        && configuration.contains_key("commitment")
    {
        configuration.insert("minContextSlot".to_owned(), json!(slot));
    }
    params
}

/// Formats the methods that are not compared, with the reasons.
pub(crate) fn describe_node_own() -> String {
    let methods = NODE_OWN.iter().map(|(name, reason)| format!("{name} ({reason})"));
    methods.collect::<Vec<_>>().join(", ")
}

/// Returns the part of a response that must be equal on all replicas.
pub(crate) fn comparable(name: &str, mut answer: Value) -> Value {
    if let Some(fields) = answer.as_object_mut() {
        fields.remove("id");
        fields.remove("jsonrpc");
    }
    remove_members(&mut answer);
    let sets = SETS.iter().find(|(method, _)| *method == name);
    for path in sets.into_iter().flat_map(|(_, paths)| *paths) {
        if let Some(list) = answer.pointer_mut(path).and_then(Value::as_array_mut) {
            list.sort_by_cached_key(Value::to_string);
        }
    }
    answer
}

fn remove_members(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !NODE_MEMBERS.contains(&name.as_str()));
            fields.values_mut().for_each(remove_members);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_members),
        _ => {}
    }
}

/// Returns the calls about the state at a commitment. `addresses` were written by the load.
pub(crate) fn state_calls(commitment: &str, addresses: &[String]) -> Vec<Call> {
    let at = json!({"commitment": commitment});
    let encoded = |encoding: &str| json!({"commitment": commitment, "encoding": encoding});
    let mut calls = vec![
        method("getEpochInfo", json!([at])),
        method("getSlot", json!([at])),
        method("getBlockHeight", json!([at])),
        method("getTransactionCount", json!([at])),
        method("getLatestBlockhash", json!([at])),
        method("getVoteAccounts", json!([at])),
        method("getSupply", json!([at])),
        method("getLargestAccounts", json!([at])),
        method("getInflationRate", json!([])),
        method("getInflationGovernor", json!([at])),
        method("getLeaderSchedule", json!([null, at])),
        method("getSlotLeader", json!([at])),
        method("getBlockProduction", json!([at])),
        method("getEpochSchedule", json!([])),
        method("getStakeMinimumDelegation", json!([at])),
        method("getMinimumBalanceForRentExemption", json!([165])),
        method("getGenesisHash", json!([])),
        method("getAgGenesisCert", json!([])),
        method("getRecentPrioritizationFees", json!([])),
        method("getPriorityFeeEstimate", json!([{"accountKeys": [SYSTEM]}])),
        method("getAccountInfo", json!([CLOCK, encoded("jsonParsed")])),
        method("getAccountInfo", json!([CLOCK, encoded("base64+zstd")])),
        method("getProgramAccounts", json!([VOTE, encoded("base64")])),
        method(
            "getProgramAccountsV2",
            json!([SYSTEM, {
                "commitment": commitment, "encoding": "base64", "limit": 50,
            }]),
        ),
    ];
    // The newest ones do not exist at older commitments yet.
    let few: Vec<&String> =
        addresses.iter().take(2).chain(addresses.iter().rev().take(1)).collect();
    calls.push(method("getMultipleAccounts", json!([few, encoded("base64")])));
    for address in &few {
        calls.push(method("getAccountInfo", json!([address, encoded("base64")])));
        calls.push(method("getBalance", json!([address, at])));
        calls.push(method("getTokenAccountsByOwner", json!([
            address, {"programId": "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"}, encoded("jsonParsed"),
        ])));
        let path = format!("/v1/accounts/{address}?commitment={commitment}");
        calls.push(route("GET /v1/accounts/{address}", path));
        let path = format!("/v1/owners/{address}/tokens?commitment={commitment}");
        calls.push(route("GET /v1/owners/{address}/tokens", path));
    }
    let list = few.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(",");
    for (name, path) in [
        ("GET /v1/accounts", format!("/v1/accounts?addresses={list}&commitment={commitment}")),
        ("GET /v1/supply", format!("/v1/supply?commitment={commitment}")),
        (
            "GET /v1/programs/{program}/accounts",
            format!("/v1/programs/{VOTE}/accounts?commitment={commitment}"),
        ),
    ] {
        calls.push(route(name, path));
    }
    calls
}

/// Returns the calls about a final block, whose responses never change. `block` is the block in JSON.
pub(crate) fn block_calls(slot: u64, block: &Value) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for (encoding, details) in
        [("json", "full"), ("base64", "full"), ("jsonParsed", "accounts"), ("json", "signatures")]
    {
        calls.push(method(
            "getBlock",
            json!([slot, {
                "encoding": encoding, "transactionDetails": details, "rewards": true,
                "maxSupportedTransactionVersion": 0,
            }]),
        ));
    }
    calls.push(method("getBlockTime", json!([slot])));
    calls.push(method("getBlocks", json!([slot.saturating_sub(5), slot])));
    calls.push(method("getBlocksWithLimit", json!([slot.saturating_sub(5), 5])));
    calls.push(route("GET /v1/blocks/{slot}", format!("/v1/blocks/{slot}")));
    let transactions = block["result"]["transactions"].as_array();
    for transaction in transactions.into_iter().flatten().rev().take(2) {
        let Some(signature) = transaction["transaction"]["signatures"][0].as_str() else {
            continue;
        };
        let options = json!({"encoding": "json", "maxSupportedTransactionVersion": 0});
        calls.push(method("getTransaction", json!([signature, options])));
        let path = format!("/v1/transactions/{signature}");
        calls.push(route("GET /v1/transactions/{signature}", path));
    }
    calls
}

/// Returns the calls about a final block whose responses depend on the newest state.
pub(crate) fn changing_calls(slot: u64, block: &Value, base64: &Value) -> Vec<Call> {
    let at = json!({"commitment": "finalized"});
    let mut calls = vec![
        method("getSlotLeaders", json!([slot, 20])),
        method("isBlockhashValid", json!([block["result"]["blockhash"], at])),
    ];
    let transactions = block["result"]["transactions"].as_array();
    for transaction in transactions.into_iter().flatten().rev().take(1) {
        let signature = &transaction["transaction"]["signatures"][0];
        let search = json!({"searchTransactionHistory": true});
        calls.push(method("getSignatureStatuses", json!([[signature], search])));
    }
    if let Some(last) = base64["result"]["transactions"].as_array().and_then(|all| all.last()) {
        let options = json!({
            "encoding": "base64", "commitment": "finalized", "replaceRecentBlockhash": true,
        });
        calls.push(method("simulateTransaction", json!([last["transaction"][0], options])));
    }
    calls
}

/// Returns the calls about the history of an address that was written some moments ago: all nodes have it whole.
pub(crate) fn history_calls(address: &str) -> Vec<Call> {
    let newest = json!({"commitment": "confirmed", "limit": 5});
    vec![
        method("getSignaturesForAddress", json!([address, newest])),
        method("getTransactionsForAddress", json!([address, {"commitment": "confirmed"}])),
        route(
            "GET /v1/accounts/{address}/transactions",
            format!("/v1/accounts/{address}/transactions?limit=5&commitment=confirmed"),
        ),
    ]
}

fn method(name: &'static str, params: Value) -> Call {
    Call::Method { name, params }
}

fn route(name: &'static str, path: String) -> Call {
    Call::Route { name, path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_about_the_node() {
        let addresses = vec!["a".to_owned(), "b".to_owned()];
        let block = json!({"result": {"transactions": [{"transaction": {"signatures": ["s"]}}]}});
        let calls = [
            state_calls("processed", &addresses),
            block_calls(9, &block),
            changing_calls(
                9,
                &block,
                &json!({"result": {"transactions": [{"transaction": ["x"]}]}}),
            ),
            history_calls("a"),
        ];
        for call in calls.concat() {
            assert!(NODE_OWN.iter().all(|(name, _)| *name != call.name()), "{call:?}");
        }
    }

    #[test]
    fn the_slot_is_required_where_the_method_has_a_commitment() {
        let params = with_min_context_slot(&json!(["a", {"commitment": "finalized"}]), 7);
        assert_eq!(params, json!(["a", {"commitment": "finalized", "minContextSlot": 7}]));
        assert_eq!(with_min_context_slot(&json!([7]), 9), json!([7]));
    }

    #[test]
    fn sets_are_sorted_and_members_of_one_node_are_removed() {
        let answer = json!({"id": 1, "result": {"context": {"slot": 3, "apiVersion": "1"},
            "value": [{"pubkey": "b"}, {"pubkey": "a"}], "paginationKey": "x"}});
        let expected = json!({"result": {"context": {"slot": 3}, "value": [{"pubkey": "a"}, {"pubkey": "b"}]}});
        assert_eq!(comparable("getProgramAccounts", answer.clone()), expected);
        assert_ne!(comparable("getMultipleAccounts", answer), expected);
    }
}
