//! The calls and routes that are compared.
//!
//! Shape: a call has a slot that it is about, which all replicas have reached: as `minContextSlot` where the method has
//! it, and as the header `hydrant-min-slot` of every request.
//! Not here: what may differ (`rig::replica_differences`).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cluster::load::{ACCOUNT_BYTES, ACCOUNTS};
use crate::rig::http_client::Request;

/// Slots before a block that a call about it includes.
pub(crate) const SLOTS_BEFORE: u64 = 5;

/// A page with all accounts that the load edits.
const PAGE_MAX: usize = 2 * ACCOUNTS;

/// Methods whose lists are about the blocks that a node retains, by the member that has the slot. Only the slots that all
/// nodes have are compared.
const HISTORIES: [(&str, &str); 1] = [("getRecentPrioritizationFees", "slot")];

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

/// Removes the items of lists that are about slots that a node lacks: its history starts later, or has a hole since it
/// jumped to a snapshot.
pub(crate) fn trim_histories<'a>(name: &str, responses: impl Iterator<Item = &'a mut Value>) {
    let Some((_, member)) = HISTORIES.iter().find(|(method, _)| *method == name) else { return };
    let mut lists: Vec<&mut Vec<Value>> =
        responses.filter_map(|response| response["result"].as_array_mut()).collect();
    let slot = |item: &Value| item[*member].as_u64();
    let slots = lists.iter().map(|list| list.iter().map(slot).collect::<BTreeSet<_>>());
    let Some(common) = slots.reduce(|one, two| &one & &two) else { return };
    for list in &mut lists {
        list.retain(|item| common.contains(&slot(item)));
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
        // The accounts that the load edits, on one page: pages start and end at other items on each node.
        method(
            "getProgramAccountsV2",
            json!([SYSTEM, {
                "commitment": commitment, "encoding": "base64", "limit": PAGE_MAX,
                "filters": [{"dataSize": ACCOUNT_BYTES}], "dataSlice": {"offset": 0, "length": 64},
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

/// Returns the calls about a final block, whose responses never change. `block` is the block in JSON, and `final_slots`
/// are those of the final blocks from [`SLOTS_BEFORE`] slots before it to its own.
pub(crate) fn block_calls(slot: u64, block: &Value, final_slots: &[u64]) -> Vec<Call> {
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
    let start = slot.saturating_sub(SLOTS_BEFORE);
    calls.push(method("getBlocks", json!([start, slot])));
    // A limit above the number of final blocks includes later ones, which may not be final on each node.
    if !final_slots.is_empty() {
        calls.push(method("getBlocksWithLimit", json!([start, final_slots.len()])));
    }
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
    use crate::rig::replica_differences::own_reason;

    #[test]
    fn no_call_is_about_the_node() {
        let addresses = vec!["a".to_owned(), "b".to_owned()];
        let block = json!({"result": {"transactions": [{"transaction": {"signatures": ["s"]}}]}});
        let calls = [
            state_calls("processed", &addresses),
            block_calls(9, &block, &[4, 9]),
            changing_calls(
                9,
                &block,
                &json!({"result": {"transactions": [{"transaction": ["x"]}]}}),
            ),
            history_calls("a"),
        ];
        for call in calls.concat() {
            assert_eq!(own_reason(call.name()), None, "{call:?}");
        }
    }

    #[test]
    fn a_list_of_blocks_with_a_limit_ends_at_the_block() {
        let limited = |final_slots: &[u64]| {
            let calls = block_calls(9, &json!({}), final_slots);
            calls.into_iter().find(|call| call.name() == "getBlocksWithLimit")
        };
        // Slots 5 to 8 were skipped.
        assert_eq!(limited(&[4, 9]), Some(method("getBlocksWithLimit", json!([4, 2]))));
        assert_eq!(limited(&[]), None);
    }

    #[test]
    fn the_slot_is_required_where_the_method_has_a_commitment() {
        let params = with_min_context_slot(&json!(["a", {"commitment": "finalized"}]), 7);
        assert_eq!(params, json!(["a", {"commitment": "finalized", "minContextSlot": 7}]));
        assert_eq!(with_min_context_slot(&json!([7]), 9), json!([7]));
    }

    #[test]
    fn histories_are_compared_at_the_slots_that_all_nodes_have() {
        let fees = |slots: &[u64]| {
            let items: Vec<Value> = slots.iter().map(|slot| json!({"slot": slot})).collect();
            json!({"result": items})
        };
        let mut responses = [fees(&[5, 6, 7, 8]), fees(&[4, 6, 8])];
        trim_histories("getBlocks", responses.iter_mut());
        assert_ne!(responses[0], responses[1]);
        trim_histories("getRecentPrioritizationFees", responses.iter_mut());
        assert_eq!(responses, [fees(&[6, 8]), fees(&[6, 8])]);
    }
}
