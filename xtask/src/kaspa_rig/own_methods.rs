//! Hydrant's own methods, compared with the state of kaspad at the same position.
//!
//! `getPosition`, `getBalance`, `getUtxos` page by page, `getTransaction` and `getTransactions` of JSON-RPC.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use kaspa::{ChainChange, Hash, KaspaAddress};
use serde_json::{Value, json};

use crate::kaspa_rig::comparison::Comparison;
use crate::kaspa_rig::stream_state::NodeState;
use crate::rig::json_rpc;

/// UTXOs of a page: few, so that there are several pages.
const PAGE_ENTRIES: usize = 7;
/// The most pages of an address that are read.
const PAGES_MAX: usize = 200;
/// The most transactions that are requested in one comparison.
const TRANSACTIONS_MAX: usize = 20;

/// The block whose UTXOs are requested.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UtxosAt {
    Virtual,
    Sink,
}

/// Compares the own methods at `rpc`. `change` has the acceptance of the newest chain blocks.
pub(crate) fn compare_own_methods(
    comparison: &mut Comparison,
    rpc: SocketAddr,
    state: &NodeState,
    addresses: &[KaspaAddress],
    change: &ChainChange,
) -> Result<()> {
    let position = call(rpc, "getPosition", json!([]))?;
    comparison.check("getPosition, own", &expect_position(state), &select_position(&position));
    for address in addresses {
        compare_address(comparison, rpc, state, address)?;
    }
    compare_transactions(comparison, rpc, change)
}

/// Compares the balance and the UTXOs of an address.
fn compare_address(
    comparison: &mut Comparison,
    rpc: SocketAddr,
    state: &NodeState,
    address: &KaspaAddress,
) -> Result<()> {
    let utxos: BTreeMap<String, Value> =
        state.utxos.iter().filter(|utxo| utxo.address == Some(*address)).map(to_entry).collect();
    let sompi: u64 = utxos.values().filter_map(|entry| entry["amount"].as_u64()).sum();
    let expected = json!({
        "position": expect_position(state),
        "value": { "sompi": sompi, "utxoCount": utxos.len() },
    });
    let mut balance = call(rpc, "getBalance", json!([address.to_string()]))?;
    balance["position"] = select_position(&balance["position"]);
    comparison.check("getBalance, own", &expected, &balance);
    let pages = read_pages(rpc, address, UtxosAt::Virtual)?;
    comparison.check("getUtxos, own", &utxos, &pages);
    Ok(())
}

/// Compares the accepting blocks of transactions, and that the history of their addresses has them.
fn compare_transactions(
    comparison: &mut Comparison,
    rpc: SocketAddr,
    change: &ChainChange,
) -> Result<()> {
    let accepted = change.accepted.iter().rev().flat_map(|accepted| {
        accepted.transaction_ids.iter().map(|id| (*id, accepted.accepting_block))
    });
    let accepted: Vec<(Hash, Hash)> = accepted.take(TRANSACTIONS_MAX).collect();
    for (id, block) in &accepted {
        let found = call(rpc, "getTransaction", json!([id.to_string()]))?;
        let found = &found["value"];
        let expected = json!([id.to_string(), block.to_string()]);
        let actual = json!([found["transactionId"], found["acceptingBlockHash"]]);
        comparison.check("getTransaction, own", &expected, &actual);
        let outputs = found["outputs"].as_array().context("a transaction without outputs")?;
        let mut addresses = outputs.iter().filter_map(|output| output["address"].as_str());
        let Some(address) = addresses.next() else { continue };
        let params = json!([address, { "limit": 1_000 }]);
        let history = call(rpc, "getTransactions", params)?;
        let history = history["value"]["transactions"].as_array().context("no transactions")?;
        let ids: BTreeSet<&str> =
            history.iter().filter_map(|found| found["transactionId"].as_str()).collect();
        // Each once, and this one as getTransaction has it.
        let entry = history.iter().find(|entry| entry["transactionId"] == found["transactionId"]);
        let entry = entry.filter(|_| ids.len() == history.len());
        comparison.check("getTransactions, own", &Some(found), &entry);
    }
    Ok(())
}

/// Reads all pages of an address. Returns the entries by outpoint, as they are in JSON.
pub(crate) fn read_pages(
    rpc: SocketAddr,
    address: &KaspaAddress,
    at: UtxosAt,
) -> Result<BTreeMap<String, Value>> {
    let at = match at {
        UtxosAt::Virtual => "virtual",
        UtxosAt::Sink => "sink",
    };
    let mut utxos = BTreeMap::new();
    let mut after = Value::Null;
    for _ in 0..PAGES_MAX {
        let mut options = json!({ "at": at, "limit": PAGE_ENTRIES });
        if !after.is_null() {
            options["after"] = after;
        }
        let page = call(rpc, "getUtxos", json!([address.to_string(), options]))?;
        let page = &page["value"];
        for utxo in page["utxos"].as_array().context("a page without UTXOs")? {
            let outpoint = utxo["outpoint"].to_string();
            let is_new = utxos.insert(outpoint.clone(), utxo["utxoEntry"].clone()).is_none();
            ensure!(is_new, "{outpoint} is on two pages of {address}");
        }
        after = page["next"].clone();
        if after.is_null() {
            return Ok(utxos);
        }
    }
    anyhow::bail!("{address} has more than {PAGES_MAX} pages")
}

/// Returns the outpoint and the entry of a UTXO, as they are in JSON.
fn to_entry(utxo: &kaspa::AddressUtxo) -> (String, Value) {
    let mut text = Vec::new();
    utxo.encode_json_into(&mut text);
    let utxo: Value = serde_json::from_slice(&text).unwrap_or_default();
    (utxo["outpoint"].to_string(), utxo["utxoEntry"].clone())
}

fn expect_position(state: &NodeState) -> Value {
    json!({
        "chainBlock": state.sink.to_string(),
        "daaScore": state.virtual_daa_score,
        "isVirtual": true,
    })
}

/// Returns the fields of a position that are compared.
fn select_position(position: &Value) -> Value {
    let fields = ["chainBlock", "daaScore", "isVirtual"];
    fields.map(|field| (field.to_owned(), position[field].clone())).into_iter().collect()
}

fn call(rpc: SocketAddr, method: &str, params: Value) -> Result<Value> {
    let mut response = json_rpc::call(rpc, method, &params)?;
    ensure!(response["error"].is_null(), "{method} {params}: {}", response["error"]);
    Ok(response["result"].take())
}

#[cfg(test)]
mod tests {
    use kaspa::{AddressPayload, AddressUtxo, Outpoint, Prefix, ScriptPublicKey, UtxoEntry};

    use super::*;

    #[test]
    fn an_entry_has_the_fields_of_kaspads_json() {
        let payload = AddressPayload::ScriptHash([1; 32]);
        let utxo = AddressUtxo {
            address: Some(KaspaAddress { prefix: Prefix::Simnet, payload }),
            outpoint: Outpoint { transaction_id: Hash([2; 32]), index: 3 },
            entry: UtxoEntry {
                amount: 4,
                script_public_key: ScriptPublicKey::from_payload(&payload),
                block_daa_score: 5,
                is_coinbase: true,
                covenant_id: None,
            },
        };
        let (outpoint, entry) = to_entry(&utxo);
        assert!(outpoint.contains("\"index\":3"), "{outpoint}");
        assert_eq!(entry["amount"], 4);
        assert_eq!(entry["isCoinbase"], true);
    }

    #[test]
    fn positions_are_compared_by_block_and_score() {
        let state = NodeState {
            sink: Hash([1; 32]),
            sink_blue_score: 9,
            virtual_daa_score: 10,
            utxos: Vec::new(),
        };
        let mut position = json!({
            "chainBlock": "01".repeat(32),
            "daaScore": 10,
            "blueScore": 9,
            "blockTime": 1,
            "isVirtual": true,
            "isProven": true,
        });
        assert_eq!(select_position(&position), expect_position(&state));
        position["daaScore"] = json!(11);
        assert_ne!(select_position(&position), expect_position(&state));
    }
}
