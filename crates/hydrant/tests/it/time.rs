//! Time and slots of a local ledger as clients see them: after journeys, and where no clock makes blocks.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use solana_address_lookup_table_interface::instruction::create_lookup_table;
use solana_commitment_config::CommitmentConfig;
use solana_pubkey::Pubkey;
use solana_rpc_client_api::config::RpcSendTransactionConfig;
use solana_signer::Signer;
use testkit::node::Node;

use crate::cheatcodes::{call, ok};
use crate::node::start_node;
use crate::world::{WAIT_TIMEOUT, World, wait_until};

/// Every read that names an earlier transaction or a slot that a commitment names.
fn check_history(node: &Node, signature: &str, address: &Pubkey) -> Result<()> {
    let config = json!({ "commitment": "confirmed", "maxSupportedTransactionVersion": 0 });
    let transaction = ok(node, "getTransaction", &json!([signature, config]))?;
    ensure!(!transaction.is_null(), "getTransaction");
    for search in [false, true] {
        let config = json!({ "searchTransactionHistory": search });
        let statuses = ok(node, "getSignatureStatuses", &json!([[signature], config]))?;
        ensure!(
            statuses["value"][0]["err"].is_null() && !statuses["value"][0].is_null(),
            "{statuses}"
        );
        let confirmations = statuses["value"][0]["confirmations"].as_u64().unwrap_or(0);
        ensure!(confirmations <= 31, "{statuses}");
    }
    let config = json!({ "commitment": "confirmed" });
    let listed = ok(node, "getSignaturesForAddress", &json!([address.to_string(), config]))?;
    ensure!(listed[0]["signature"] == signature, "{listed}");
    for commitment in ["confirmed", "finalized"] {
        let slot = ok(node, "getSlot", &json!([{ "commitment": commitment }]))?;
        let config =
            json!({ "commitment": commitment, "transactionDetails": "none", "rewards": false });
        let block = call(node, "getBlock", &json!([slot, config]))?;
        ensure!(block["result"]["blockhash"].is_string(), "{commitment} {slot}: {block}");
    }
    let first = ok(node, "getFirstAvailableBlock", &json!([]))?;
    ensure!(first == 0 && ok(node, "minimumLedgerSlot", &json!([]))? == 0, "{first}");
    let accounts = ok(node, "getVoteAccounts", &json!([{ "commitment": "processed" }]))?;
    ensure!(accounts["delinquent"] == json!([]), "{accounts}");
    Ok(())
}

#[test]
fn a_journey_of_epochs_leaves_what_was_before_it() -> Result<()> {
    for flags in [&["--slot-ms", "0"][..], &["--slot-ms", "50"]] {
        let node = start_node(flags)?;
        let world = World::new(&node);
        let key = Pubkey::new_unique();
        let signature = world.airdrop(&key, 1)?.to_string();
        ok(&node, "hydrant_snapshot", &json!([]))?;
        for epoch in [1, 3] {
            ok(&node, "surfnet_timeTravel", &json!([{ "absoluteEpoch": epoch }]))?;
            check_history(&node, &signature, &key)?;
        }
        ensure!(ok(&node, "hydrant_revert", &json!([1]))? == true);
        check_history(&node, &signature, &key)?;
    }
    Ok(())
}

#[test]
fn a_lookup_table_is_made_with_the_slot_of_any_commitment() -> Result<()> {
    let node = start_node(&["--slot-ms", "0", "--finalize-after", "5"])?;
    let world = World::new(&node);
    world.airdrop(&world.payer.pubkey(), 10)?;
    let payer = world.payer.pubkey();
    for commitment in [
        CommitmentConfig::processed(),
        CommitmentConfig::confirmed(),
        CommitmentConfig::finalized(),
    ] {
        for preflight in [commitment, CommitmentConfig::processed()] {
            // A slot makes one table, so each slot is another one.
            world.airdrop(&payer, 1)?;
            let slot = world.rpc.get_slot_with_commitment(commitment)?;
            let (create, table) = create_lookup_table(payer, payer, slot);
            let (blockhash, _) = world.rpc.get_latest_blockhash_with_commitment(preflight)?;
            let transaction = world.sign(&[create], &[], &[], blockhash)?;
            let config = RpcSendTransactionConfig {
                preflight_commitment: Some(preflight.commitment),
                ..RpcSendTransactionConfig::default()
            };
            let sent = world.rpc.send_transaction_with_config(&transaction, config);
            let signature = sent.with_context(|| format!("{commitment:?} {preflight:?}"))?;
            world
                .wait_until_confirmed(&signature)?
                .with_context(|| format!("{commitment:?} {preflight:?}"))?;
            ensure!(world.rpc.get_account(&table).is_ok());
        }
    }
    Ok(())
}

fn clock(node: &Node) -> Result<Value> {
    let config = json!({ "encoding": "jsonParsed", "commitment": "processed" });
    let params = json!([solana_sdk_ids::sysvar::clock::ID.to_string(), config]);
    Ok(ok(node, "getAccountInfo", &params)?["value"]["data"]["parsed"]["info"].clone())
}

#[test]
fn the_same_journey_is_possible_after_a_reset() -> Result<()> {
    let node = start_node(&["--slot-ms", "400"])?;
    for _ in 0..2 {
        let before = clock(&node)?["unixTimestamp"].as_i64().context("a time")?;
        let later = json!([{ "absoluteTimestamp": 3_250_368_000_000_u64 }]);
        ok(&node, "surfnet_timeTravel", &later)?;
        ok(&node, "surfnet_resetNetwork", &json!([]))?;
        let after = clock(&node)?["unixTimestamp"].as_i64().context("a time")?;
        ensure!((before..before + 300).contains(&after), "{before} {after}");
        let confirmed = ok(&node, "getSlot", &json!([{ "commitment": "confirmed" }]))?;
        wait_until("blocks go on", WAIT_TIMEOUT, || {
            let now = ok(&node, "getSlot", &json!([{ "commitment": "confirmed" }]))?;
            Ok((now.as_u64() > confirmed.as_u64()).then_some(()))
        })?;
    }
    Ok(())
}
