//! The calls that are compared: of one slot, and of now.

use std::path::Path;

use serde_json::{Value, json};

/// Number of transactions of a block that are requested.
const TRANSACTIONS_PER_BLOCK: usize = 3;

const TOKEN: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";
const TOKEN_2022: &str = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb";
const STAKE: &str = "Stake11111111111111111111111111111111111111";
const VOTE: &str = "Vote111111111111111111111111111111111111111";
const SYSVARS: [&str; 7] = [
    "SysvarC1ock11111111111111111111111111111111",
    "SysvarS1otHashes111111111111111111111111111",
    "SysvarS1otHistory11111111111111111111111111",
    "SysvarRecentB1ockHashes11111111111111111111",
    "SysvarStakeHistory1111111111111111111111111",
    "SysvarEpochRewards1111111111111111111111111",
    "SysvarRent111111111111111111111111111111111",
];

/// A method with its parameters.
pub(crate) type Call = (&'static str, Value);

/// Returns the calls about a final slot that always have the same response.
pub(crate) fn permanent_calls(slot: u64, block: &Value) -> Vec<Call> {
    let mut calls = Vec::new();
    for (encoding, level) in [
        ("json", "full"),
        ("base64", "full"),
        ("jsonParsed", "full"),
        ("json", "accounts"),
        ("json", "signatures"),
        ("json", "none"),
    ] {
        calls.push(("getBlock", json!([slot, details(encoding, level)])));
    }
    calls.push(("getBlockTime", json!([slot])));
    calls.push(("getBlocks", json!([slot.saturating_sub(3), slot])));
    calls.push(("getBlocksWithLimit", json!([slot.saturating_sub(3), 3])));
    for signature in signatures(block) {
        for encoding in ["json", "jsonParsed"] {
            let options = json!({"encoding": encoding, "maxSupportedTransactionVersion": 0});
            calls.push(("getTransaction", json!([signature, options])));
        }
    }
    calls
}

/// Returns the calls about a final slot with a response that depends on time: of its transactions and its blockhash.
pub(crate) fn changing_calls(slot: u64, block: &Value, base64: &Value) -> Vec<Call> {
    let final_now = json!({"commitment": "finalized"});
    let mut calls = vec![
        ("getBlockCommitment", json!([slot])),
        ("getSlotLeaders", json!([slot, 40])),
        ("isBlockhashValid", json!([block["result"]["blockhash"], final_now])),
    ];
    let search = json!({"searchTransactionHistory": true});
    calls.extend(
        signatures(block)
            .into_iter()
            .map(|signature| ("getSignatureStatuses", json!([[signature], search]))),
    );
    let transactions = base64["result"]["transactions"].as_array();
    if let Some(last) = transactions.and_then(|all| all.last()) {
        let transaction = &last["transaction"][0];
        let simulated = json!({
            "encoding": "base64", "commitment": "finalized", "replaceRecentBlockhash": true,
            "innerInstructions": true,
        });
        calls.push(("simulateTransaction", json!([transaction, simulated])));
        let sent = json!({"encoding": "base64", "preflightCommitment": "finalized"});
        calls.push(("sendTransaction", json!([transaction, sent])));
    }
    calls
}

/// Returns the call for a block, with its transactions in an encoding.
pub(crate) fn block(slot: u64, encoding: &str) -> Call {
    ("getBlock", json!([slot, details(encoding, "full")]))
}

/// Returns the signatures of a block's last transactions. The first one is often a vote.
fn signatures(block: &Value) -> Vec<Value> {
    let transactions = block["result"]["transactions"].as_array();
    let last = transactions.into_iter().flatten().rev().take(TRANSACTIONS_PER_BLOCK);
    last.map(|transaction| transaction["transaction"]["signatures"][0].clone()).collect()
}

/// Returns the calls about now. The load has written its addresses to a file.
pub(crate) fn about_now(addresses: &Path) -> Vec<Call> {
    let text = std::fs::read_to_string(addresses).unwrap_or_default();
    let made: Value = serde_json::from_str(&text).unwrap_or_default();
    let newest = |kind: &str| made[kind].as_array().and_then(|all| all.last()).cloned();
    let final_now = json!({"commitment": "finalized"});
    let parsed = json!({"commitment": "finalized", "encoding": "jsonParsed"});
    let base64 = json!({"commitment": "finalized", "encoding": "base64"});
    let mut calls = chain_calls(&final_now, &parsed, &base64);
    calls.extend(SYSVARS.map(|sysvar| ("getAccountInfo", json!([sysvar, parsed]))));
    if let Some(mint) = newest("mints") {
        calls.push(("getTokenSupply", json!([mint, final_now])));
        calls.push(("getTokenLargestAccounts", json!([mint, final_now])));
        calls.push(("getAccountInfo", json!([mint, parsed])));
    }
    if let Some(account) = newest("tokens") {
        calls.push(("getTokenAccountBalance", json!([account, final_now])));
        calls.push(("getAccountInfo", json!([account, parsed])));
        calls.push(("getSignaturesForAddress", json!([account, final_now])));
    }
    if let Some(delegate) = newest("delegates") {
        let of = json!([delegate, {"programId": TOKEN}, parsed]);
        calls.push(("getTokenAccountsByDelegate", of));
    }
    if let Some(message) = newest("messages") {
        calls.push(("getFeeForMessage", json!([message, final_now])));
    }
    for account in made["accounts"].as_array().into_iter().flatten().take(4) {
        calls.push(("getBalance", json!([account, final_now])));
        calls.push(("getSignaturesForAddress", json!([account, {"limit": 20}])));
        calls.push(("getTokenAccountsByOwner", json!([account, {"programId": TOKEN}, parsed])));
    }
    for owner in made["owners"].as_array().into_iter().flatten().rev().take(2) {
        calls.push(("getTokenAccountsByOwner", json!([owner, {"programId": TOKEN}, parsed])));
        calls.push(("getTokenAccountsByOwner", json!([owner, {"programId": TOKEN_2022}, base64])));
    }
    for kind in ["programs", "tables", "stakes", "nonces"] {
        if let Some(address) = newest(kind) {
            calls.push(("getAccountInfo", json!([address, parsed])));
        }
    }
    if let Some(stakes) = made["stakes"].as_array() {
        calls.push(("getInflationReward", json!([stakes])));
    }
    calls
}

/// Returns the calls that need no address of the load.
fn chain_calls(final_now: &Value, parsed: &Value, base64: &Value) -> Vec<Call> {
    let supply = json!({"commitment": "finalized", "excludeNonCirculatingAccountsList": true});
    vec![
        ("getEpochInfo", json!([final_now])),
        ("getSlot", json!([final_now])),
        ("getBlockHeight", json!([final_now])),
        ("getTransactionCount", json!([final_now])),
        ("getLatestBlockhash", json!([final_now])),
        ("getVoteAccounts", json!([final_now])),
        ("getSupply", json!([supply])),
        ("getLargestAccounts", json!([final_now])),
        ("getInflationRate", json!([])),
        ("getInflationGovernor", json!([final_now])),
        ("getLeaderSchedule", json!([null, final_now])),
        ("getSlotLeader", json!([final_now])),
        ("getBlockProduction", json!([final_now])),
        ("getEpochSchedule", json!([])),
        ("getStakeMinimumDelegation", json!([final_now])),
        ("getMinimumBalanceForRentExemption", json!([165])),
        ("getGenesisHash", json!([])),
        ("getAgGenesisCert", json!([])),
        ("getVersion", json!([])),
        ("getIdentity", json!([])),
        ("getClusterNodes", json!([])),
        ("getHealth", json!([])),
        ("getHighestSnapshotSlot", json!([])),
        ("getFirstAvailableBlock", json!([])),
        ("minimumLedgerSlot", json!([])),
        ("getMaxRetransmitSlot", json!([])),
        ("getMaxShredInsertSlot", json!([])),
        ("getRecentPerformanceSamples", json!([1])),
        ("getRecentPrioritizationFees", json!([])),
        ("getMultipleAccounts", json!([SYSVARS, base64])),
        ("getProgramAccounts", json!([STAKE, parsed])),
        ("getProgramAccounts", json!([VOTE, base64])),
        ("getProgramAccounts", json!([TOKEN_2022, parsed])),
        (
            "getProgramAccounts",
            json!([TOKEN, {
                "commitment": "finalized", "encoding": "base64",
                "filters": [{"dataSize": 82}], "withContext": true
            }]),
        ),
    ]
}

fn details(encoding: &str, level: &str) -> Value {
    json!({
        "encoding": encoding,
        "transactionDetails": level,
        "maxSupportedTransactionVersion": 0,
        "rewards": true,
    })
}
