//! The methods that a node answers.
//!
//! Input: the table of Agave's methods in `docs/methods.md`. A method is answered unless the error is -32601 (not
//! found) or -32051, by which surfpool refuses a method that it declares and does not implement.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::rivals::dataset::Dataset;
use crate::rivals::node::RunningNode;
use crate::workspace::root;

/// Errors of methods that a node does not have.
const UNSUPPORTED_CODES: [i64; 2] = [-32601, -32051];

/// Functions beyond Agave's methods, each with the call that has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Features {
    /// Back to an earlier block.
    pub(super) revert: Option<&'static str>,
    /// Back to the start only.
    pub(super) reset: Option<&'static str>,
    pub(super) reorganization: Option<&'static str>,
    pub(super) verification: Option<&'static str>,
}

impl Features {
    /// Calls the methods of all candidates. A reset comes last.
    pub(super) fn probe(node: &RunningNode) -> Result<Self> {
        let find = |method: &'static str| -> Result<Option<&'static str>> {
            Ok(is_supported(&node.call(method, &json!([]))?).then_some(method))
        };
        Ok(Self {
            revert: find("hydrant_revert")?,
            reorganization: find("hydrant_reorg")?,
            verification: find("hydrantGetVerification")?,
            reset: find("surfnet_resetNetwork")?,
        })
    }
}

/// Calls each method of the reference with parameters that it accepts.
pub(super) fn probe(
    node: &RunningNode,
    dataset: &Dataset,
    signature: &str,
) -> Result<BTreeMap<String, bool>> {
    let document = fs::read_to_string(root().join("docs/methods.md")).context("docs/methods.md")?;
    let names = reference_methods(&document);
    ensure!(!names.is_empty(), "docs/methods.md: no table of methods");
    let mut methods = BTreeMap::new();
    for name in names {
        let params = params(&name, dataset, signature, &node.latest_blockhash()?);
        methods.insert(name.clone(), is_supported(&node.call(&name, &params)?));
    }
    Ok(methods)
}

/// Returns the names in the table of methods over HTTP.
fn reference_methods(document: &str) -> Vec<String> {
    let lines = document.lines().skip_while(|line| !line.starts_with("## HTTP: "));
    let section = lines.skip(1).take_while(|line| !line.starts_with("## "));
    let first_cells = section.filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let is_name =
        |cell: &&str| cell.chars().all(|c| c.is_ascii_alphanumeric()) && *cell != "method";
    first_cells.filter(is_name).map(str::to_owned).collect()
}

/// Returns parameters that a method accepts: some nodes check them before they refuse a method.
fn params(method: &str, dataset: &Dataset, signature: &str, blockhash: &str) -> Value {
    let token = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";
    let Dataset { token_account, mint, owner, .. } = dataset;
    match method {
        "getAccountInfo" | "getBalance" | "getTokenAccountBalance" => json!([token_account]),
        "getSignaturesForAddress" => json!([owner, { "limit": 1 }]),
        "getBlock" | "getBlockCommitment" | "getBlockTime" => json!([0]),
        "getBlocks" | "getBlocksWithLimit" => json!([0, 1]),
        "getFeeForMessage" | "sendTransaction" | "simulateTransaction" => {
            json!(["AA==", { "encoding": "base64" }])
        }
        "getInflationReward" | "getMultipleAccounts" => json!([[token_account]]),
        "getMinimumBalanceForRentExemption" => json!([0]),
        "getProgramAccounts" => json!([token, { "filters": [{ "dataSize": 82 }] }]),
        "getSignatureStatuses" => json!([[signature]]),
        "getSlotLeaders" => json!([0, 1]),
        "getTokenAccountsByDelegate" | "getTokenAccountsByOwner" => {
            json!([owner, { "mint": mint }, { "encoding": "base64" }])
        }
        "getTokenLargestAccounts" | "getTokenSupply" => json!([mint]),
        "getTransaction" => json!([signature]),
        "isBlockhashValid" => json!([blockhash]),
        "requestAirdrop" => json!([owner, 1]),
        _ => json!([]),
    }
}

fn is_supported(response: &Value) -> bool {
    !response["error"]["code"].as_i64().is_some_and(|code| UNSUPPORTED_CODES.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_lists_each_method_of_agave() {
        let document = fs::read_to_string(root().join("docs/methods.md")).unwrap();
        let names = reference_methods(&document);
        let heading = format!("## HTTP: {} methods", names.len());
        assert!(document.lines().any(|line| line == heading), "{names:?}");
        assert!(names.contains(&"simulateTransaction".to_owned()));
    }

    #[test]
    fn only_a_method_that_does_not_exist_is_not_answered() {
        let error = |code: i64| json!({ "error": { "code": code, "message": "" } });
        assert!(!is_supported(&error(-32601)) && !is_supported(&error(-32051)));
        assert!(is_supported(&error(-32602)));
        assert!(is_supported(&json!({ "result": null })));
    }
}
