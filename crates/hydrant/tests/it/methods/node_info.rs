//! The node: identity, version, health, cluster, votes.

use serde_json::json;

use super::stage::{error, number, ok, stage};

#[test]
fn method_getHealth() {
    assert_eq!(ok("getHealth", json!([])), "ok");
}

#[test]
fn method_getVersion() {
    let version = ok("getVersion", json!([]));
    assert!(
        version["solana-core"].as_str().is_some_and(|release| release.starts_with("4.2.")),
        "{version}"
    );
    assert!(version["feature-set"].is_u64(), "{version}");
}

#[test]
fn method_getIdentity() {
    assert_eq!(ok("getIdentity", json!([])), json!({"identity": stage().identity}));
}

#[test]
fn method_getGenesisHash() {
    let hash = ok("getGenesisHash", json!([]));
    assert!(hash.as_str().is_some_and(|hash| hash.parse::<solana_hash::Hash>().is_ok()), "{hash}");
    assert_eq!(hash, ok("getGenesisHash", json!([])));
}

#[test]
fn method_getAgGenesisCert() {
    assert_eq!(ok("getAgGenesisCert", json!([])), json!(null));
}

#[test]
fn method_hydrantGetVerification() {
    let newest = ok("hydrantGetVerification", json!([]));
    assert_eq!(newest["requiredLevel"], "computed", "{newest}");
    let slot = number(&newest["verifiedSlot"]);
    assert_eq!((number(&newest["bank"]["slot"]), &newest["mismatchedBanks"]), (slot, &json!(0)));
    let found = ok("hydrantGetVerification", json!([slot]));
    let bank = &found["bank"];
    let parent = &newest["bank"]["parentSlot"];
    assert_eq!((bank, &bank["level"]), (&newest["bank"], &json!("computed")));
    // The next bank's hash covers it.
    let parent = ok("hydrantGetVerification", json!([parent]));
    assert_eq!(parent["bank"]["bankHash"], bank["parentBankHash"]);
    let refused = error("hydrantGetVerification", json!([u64::MAX]));
    assert_eq!(refused["code"], json!(-32004));
}

#[test]
fn method_getClusterNodes() {
    let nodes = ok("getClusterNodes", json!([]));
    let [node] = nodes.as_array().map(Vec::as_slice).expect("a list") else { panic!("{nodes}") };
    assert_eq!(node["pubkey"], stage().identity);
    let rpc = node["rpc"].as_str().expect("an RPC address");
    assert_eq!(rpc, stage().node.rpc.to_string());
}

#[test]
fn method_getHighestSnapshotSlot() {
    let refused = error("getHighestSnapshotSlot", json!([]));
    assert_eq!((&refused["code"], &refused["message"]), (&json!(-32008), &json!("No snapshot")));
}

#[test]
fn method_getMaxRetransmitSlot() {
    let root = number(&ok("getSlot", json!([])));
    assert!(number(&ok("getMaxRetransmitSlot", json!([]))) >= root);
}

#[test]
fn method_getMaxShredInsertSlot() {
    let root = number(&ok("getSlot", json!([])));
    assert!(number(&ok("getMaxShredInsertSlot", json!([]))) >= root);
}

#[test]
fn method_getVoteAccounts() {
    let votes = ok("getVoteAccounts", json!([]));
    assert_eq!(votes["delinquent"], json!([]));
    let vote = &votes["current"][0];
    assert_eq!(vote["nodePubkey"], stage().identity);
    assert!(number(&vote["activatedStake"]) > 0, "{vote}");
    assert!(number(&vote["lastVote"]) > 0 && vote["rootSlot"].is_u64(), "{vote}");
    let none = ok("getVoteAccounts", json!([{"votePubkey": stage().mint.to_string()}]));
    assert_eq!(none, json!({"current": [], "delinquent": []}));
}
