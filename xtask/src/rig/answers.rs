//! The answers of the validator and of the follower to the same calls.
//!
//! Shape: what belongs to one slot (blocks, transactions) is asked once both have the slot as final. What belongs to
//! now is asked of both again and again until the answers are equal, or for [`TRIES`] times: the nodes are not at the
//! same slot at all times.
//! Bounds: a round compares one slot, in at most [`CALLS_PER_ROUND`] calls; one difference of a method is stored.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::rig::clock::pause;
use crate::rig::json_rpc::call;

/// Calls about now, in one round.
const CALLS_PER_ROUND: usize = 6;
/// Times that a call about now is made until both answer the same.
const TRIES: u32 = 25;
/// Pause between them.
const PAUSE: Duration = Duration::from_millis(15);
/// Transactions of a block that are asked for.
const TRANSACTIONS_PER_BLOCK: usize = 3;
/// Slots behind the newest final one: both have it.
const SLOTS_BEHIND: u64 = 8;

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

/// What was found of a method.
#[derive(Default)]
struct Method {
    equal: usize,
    different: usize,
    example: Option<Value>,
}

/// The comparison.
pub(crate) struct Answers {
    validator: SocketAddr,
    follower: SocketAddr,
    addresses: PathBuf,
    methods: BTreeMap<String, Method>,
    next_slot: Option<u64>,
    next_call: usize,
    failures: usize,
}

impl Answers {
    pub(crate) fn new(validator: SocketAddr, follower: SocketAddr, addresses: PathBuf) -> Self {
        let methods = BTreeMap::new();
        let (next_slot, next_call, failures) = (None, 0, 0);
        Self { validator, follower, addresses, methods, next_slot, next_call, failures }
    }

    /// Compares one slot and some calls. A node that does not answer is counted and is no difference.
    pub(crate) fn round(&mut self) {
        if self.compare_slot().is_err() {
            self.failures += 1;
        }
        let calls = self.calls();
        for _ in 0..CALLS_PER_ROUND {
            let (method, params) = &calls[self.next_call % calls.len()];
            self.next_call += 1;
            if self.compare_now(method, params).is_err() {
                self.failures += 1;
            }
        }
    }

    fn both(&self, method: &str, params: &Value) -> Result<(Value, Value)> {
        Ok((call(self.validator, method, params)?, call(self.follower, method, params)?))
    }

    fn compare_slot(&mut self) -> Result<()> {
        let newest = |node| -> Result<u64> {
            Ok(call(node, "getSlot", &json!([]))?["result"].as_u64().unwrap_or_default())
        };
        let final_slot = newest(self.validator)?.min(newest(self.follower)?);
        let slot = self.next_slot.unwrap_or_else(|| final_slot.saturating_sub(1));
        if slot + SLOTS_BEHIND > final_slot {
            self.next_slot = Some(slot);
            return Ok(());
        }
        self.next_slot = Some(slot + 1);
        let block = call(self.validator, "getBlock", &json!([slot, details("json", "full")]))?;
        for (encoding, level) in [
            ("json", "full"),
            ("base64", "full"),
            ("jsonParsed", "full"),
            ("json", "accounts"),
            ("json", "signatures"),
            ("json", "none"),
        ] {
            self.compare_once("getBlock", &json!([slot, details(encoding, level)]))?;
        }
        self.compare_once("getBlockTime", &json!([slot]))?;
        self.compare_once("getBlocks", &json!([slot.saturating_sub(3), slot]))?;
        self.compare_once("getBlocksWithLimit", &json!([slot.saturating_sub(3), 3]))?;
        let transactions = block["result"]["transactions"].as_array().cloned().unwrap_or_default();
        // The first one is often a vote.
        for transaction in transactions.iter().rev().take(TRANSACTIONS_PER_BLOCK) {
            let signature = &transaction["transaction"]["signatures"][0];
            for encoding in ["json", "jsonParsed"] {
                let options = json!({"encoding": encoding, "maxSupportedTransactionVersion": 0});
                self.compare_once("getTransaction", &json!([signature, options]))?;
            }
            let search = json!({"searchTransactionHistory": true});
            self.compare_now("getSignatureStatuses", &json!([[signature], search]))?;
        }
        Ok(())
    }

    fn compare_once(&mut self, method: &str, params: &Value) -> Result<()> {
        let (theirs, ours) = self.both(method, params)?;
        self.record(method, params, theirs, ours);
        Ok(())
    }

    fn compare_now(&mut self, method: &str, params: &Value) -> Result<()> {
        let (mut theirs, mut ours) = self.both(method, params)?;
        for _ in 1..TRIES {
            if theirs == ours {
                break;
            }
            // The later of two slots cannot be reached backwards: ask the one that is behind again.
            let slot = |value: &Value| value["result"]["context"]["slot"].as_u64();
            match (slot(&theirs), slot(&ours)) {
                (Some(one), Some(two)) if one > two => ours = call(self.follower, method, params)?,
                (Some(one), Some(two)) if one < two => {
                    theirs = call(self.validator, method, params)?;
                }
                _ => (theirs, ours) = self.both(method, params)?,
            }
            pause(PAUSE);
        }
        self.record(method, params, theirs, ours);
        Ok(())
    }

    fn record(&mut self, method: &str, params: &Value, theirs: Value, ours: Value) {
        let entry = self.methods.entry(method.to_owned()).or_default();
        if theirs == ours {
            entry.equal += 1;
            return;
        }
        entry.different += 1;
        let first = difference(&theirs, &ours, String::new());
        entry.example.get_or_insert_with(|| {
            json!({"params": params, "first_difference": first, "validator": theirs, "follower": ours})
        });
    }

    /// The calls about now.
    fn calls(&self) -> Vec<(&'static str, Value)> {
        let text = std::fs::read_to_string(&self.addresses).unwrap_or_default();
        let made: Value = serde_json::from_str(&text).unwrap_or_default();
        let newest = |kind: &str| made[kind].as_array().and_then(|all| all.last()).cloned();
        let final_now = json!({"commitment": "finalized"});
        let parsed = json!({"commitment": "finalized", "encoding": "jsonParsed"});
        let base64 = json!({"commitment": "finalized", "encoding": "base64"});
        let mut calls = vec![
            ("getEpochInfo", json!([final_now])),
            ("getSlot", json!([final_now])),
            ("getBlockHeight", json!([final_now])),
            ("getTransactionCount", json!([final_now])),
            ("getLatestBlockhash", json!([final_now])),
            ("getVoteAccounts", json!([final_now])),
            ("getSupply", json!([final_now])),
            ("getLargestAccounts", json!([final_now])),
            ("getInflationRate", json!([])),
            ("getInflationGovernor", json!([final_now])),
            ("getLeaderSchedule", json!([])),
            ("getSlotLeader", json!([final_now])),
            ("getBlockProduction", json!([final_now])),
            ("getEpochSchedule", json!([])),
            ("getStakeMinimumDelegation", json!([final_now])),
            ("getMinimumBalanceForRentExemption", json!([165])),
            ("getGenesisHash", json!([])),
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
        ];
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
        for account in made["accounts"].as_array().into_iter().flatten().take(4) {
            calls.push(("getBalance", json!([account, final_now])));
            calls.push(("getSignaturesForAddress", json!([account, {"limit": 20}])));
            calls.push(("getTokenAccountsByOwner", json!([account, {"programId": TOKEN}, parsed])));
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

    /// The state in one line.
    pub(crate) fn line(&self) -> String {
        let sum = |count: fn(&Method) -> usize| self.methods.values().map(count).sum::<usize>();
        format!(
            "answers: {} equal, {} differ, {} rounds without an answer",
            sum(|it| it.equal),
            sum(|it| it.different),
            self.failures
        )
    }

    /// A line for each method.
    pub(crate) fn table(&self) -> String {
        let mut text =
            "\n| method | equal | differ | first difference |\n|---|---|---|---|\n".to_owned();
        for (name, Method { equal, different, example }) in &self.methods {
            let first = example
                .as_ref()
                .map_or("", |it| it["first_difference"].as_str().unwrap_or_default());
            // Writing to a String does not fail.
            let _ = writeln!(text, "| {name} | {equal} | {different} | {first} |");
        }
        text
    }

    /// The stored differences, as JSON.
    pub(crate) fn differences(&self) -> String {
        let of = |(name, method): (&String, &Method)| Some((name.clone(), method.example.clone()?));
        Value::Object(self.methods.iter().filter_map(of).collect()).to_string()
    }
}

fn details(encoding: &str, level: &str) -> Value {
    json!({
        "encoding": encoding,
        "transactionDetails": level,
        "maxSupportedTransactionVersion": 0,
        "rewards": true,
    })
}

/// Where two values differ first.
fn difference(theirs: &Value, ours: &Value, path: String) -> Option<String> {
    if theirs == ours {
        return None;
    }
    match (theirs, ours) {
        (Value::Object(one), Value::Object(two)) => {
            let keys = one.keys().chain(two.keys());
            keys.map(|key| (key, one.get(key), two.get(key))).find_map(|(key, one, two)| {
                let path = format!("{path}.{key}");
                difference(one.unwrap_or(&Value::Null), two.unwrap_or(&Value::Null), path)
            })
        }
        (Value::Array(one), Value::Array(two)) if one.len() == two.len() => {
            let mut pairs = one.iter().zip(two).enumerate();
            pairs.find_map(|(at, (one, two))| difference(one, two, format!("{path}[{at}]")))
        }
        (Value::Array(one), Value::Array(two)) => {
            Some(format!("{path}: {} values, not {}", two.len(), one.len()))
        }
        _ => {
            let short = |value: &Value| value.to_string().chars().take(80).collect::<String>();
            Some(format!("{path}: {}, not {}", short(ours), short(theirs)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_has_its_path() {
        let path = |one: Value, two: Value| difference(&one, &two, String::new());
        assert_eq!(path(json!({"a": [1, 2]}), json!({"a": [1, 3]})).unwrap(), ".a[1]: 3, not 2");
        assert_eq!(path(json!([1]), json!([])).unwrap(), ": 0 values, not 1");
        assert_eq!(path(json!({"a": 1}), json!({})).unwrap(), ".a: null, not 1");
        assert_eq!(path(json!({"a": 1}), json!({"a": 1})), None);
    }
}
