//! Transactions by signature and by address, and their statuses.

use std::sync::Arc;

use chain_solana::{Block, ExecutedTransaction, History, HistoryLimits, PreSnapshotStatuses};
use ledger::{BlockId, Commitment, Slot};
use serde_json::{Value, json};
use solana_signature::Signature;
use solana_signer::Signer;
use solana_transaction_error::TransactionError;

use super::world::{CONFIRMED, GENESIS_TIME, PROCESSED, World, keypair};

#[test]
fn a_transaction_is_there_once_its_commitment_is_reached() {
    let world = World::new();
    let get = |name: &str, config: Value| {
        world.ok("getTransaction", json!([world.signature(name), config]))
    };
    let confirmed = || json!({"commitment": "confirmed"});
    let memo = get("memo", json!({}));
    assert_eq!(memo["slot"], 42);
    assert_eq!(memo["blockTime"], GENESIS_TIME + 168);
    assert_eq!(memo["transactionIndex"], 1);
    assert_eq!(memo["meta"]["err"], Value::Null);
    assert_eq!(memo["meta"]["logMessages"], json!(["ran"]));
    assert_eq!(memo["meta"]["computeUnitsConsumed"], 150);
    let failed = get("failed", json!({}));
    assert_eq!(failed["meta"]["err"], json!({"InstructionError": [0, {"Custom": 1}]}));
    assert_eq!(get("confirmed", json!({})), Value::Null);
    assert_eq!(get("confirmed", confirmed())["slot"], 60);
    assert_eq!(get("processed", confirmed()), Value::Null);
    assert_eq!(get("forgotten", confirmed()), Value::Null);
    let unknown = Signature::from([5; 64]).to_string();
    assert_eq!(world.ok("getTransaction", json!([unknown])), Value::Null);
}

#[test]
fn a_transaction_in_each_encoding() {
    let world = World::new();
    let get = |config: Value| {
        world.ok("getTransaction", json!([world.signature("memo"), config]))["transaction"].clone()
    };
    let wire = wincode::serialize(&world.tx("memo").transaction).expect("it has a size");
    let base58 = bs58::encode(&wire).into_string();
    assert_eq!(get(json!("binary")), json!(base58));
    assert_eq!(get(json!({"encoding": "base58"})), json!([base58, "base58"]));
    assert_eq!(get(json!({"encoding": "base64"}))[1], "base64");
    assert_eq!(get(json!("jsonParsed"))["message"]["instructions"][1]["parsed"], "hello");
    assert_eq!(get(json!({}))["message"]["instructions"][0]["programIdIndex"], 2);
}

#[test]
fn a_transaction_that_cannot_be_encoded_is_refused() {
    let world = World::new();
    let message = "Transaction version (0) is not supported by the requesting client. Please try \
                   the request again with the following configuration parameter: \
                   \"maxSupportedTransactionVersion\": 0";
    world.check_refusal("getTransaction", json!([world.signature("lookup")]), -32015, message);
    let config = json!({"maxSupportedTransactionVersion": 0});
    let lookup = world.ok("getTransaction", json!([world.signature("lookup"), config]));
    assert_eq!(lookup["version"], 0);
    let config = json!({"commitment": "processed"});
    let message = "Method does not support commitment below `confirmed`";
    world.check_refusal(
        "getTransaction",
        json!([world.signature("memo"), config]),
        -32602,
        message,
    );
    world.check_refusal("getTransaction", json!(["x"]), -32602, "Invalid param: WrongSize");
}

#[test]
fn address_signatures_come_newest_first() {
    let world = World::new();
    let payer = keypair(10).pubkey().to_string();
    let slots = |config: Value| -> Vec<u64> {
        let found = world.ok("getSignaturesForAddress", json!([payer, config]));
        let found = found.as_array().expect("a list");
        found.iter().filter_map(|entry| entry["slot"].as_u64()).collect()
    };
    assert_eq!(slots(json!({})), [45, 44, 43, 42]);
    assert_eq!(slots(json!({"commitment": "confirmed"})), [60, 45, 44, 43, 42]);
    assert_eq!(slots(json!({"limit": 2})), [45, 44]);
    assert_eq!(slots(json!({"before": world.signature("priced")})), [44, 43, 42]);
    assert_eq!(slots(json!({"until": world.signature("failed")})), [45, 44]);
    let between = json!({"before": world.signature("priced"), "until": world.signature("memo"),
                         "limit": 1});
    assert_eq!(slots(between), [44]);
    let nothing = json!({"before": world.signature("memo"), "until": world.signature("priced")});
    assert_eq!(slots(nothing), [0; 0]);

    // An address that only a lookup table contains is found, too. An address in no transaction is not.
    let by =
        |number| world.ok("getSignaturesForAddress", json!([keypair(number).pubkey().to_string()]));
    assert_eq!(by(30)[0]["slot"], 44);
    assert_eq!(by(99), json!([]));
}

#[test]
fn pages_of_a_long_list_follow_each_other() {
    let mut world = World::new();
    let payer = keypair(10).pubkey().to_string();
    let limits = HistoryLimits { blocks_max: 40, bytes_max: u64::MAX };
    let history = History::new(limits, BlockId { slot: 39, version: 39 });
    let one = |index: u32| {
        let mut executed = (**world.tx("memo")).clone();
        let mut signature = [0; 64];
        signature[..4].copy_from_slice(&index.to_le_bytes());
        executed.transaction.signatures[0] = Signature::from(signature);
        (executed.slot, executed.index) = (40 + u64::from(index / 1_000), index % 1_000);
        Arc::new(executed)
    };
    let block = world.api.history.snapshot().block(42, Commitment::Finalized).cloned();
    let block = block.expect("it is retained");
    for slot in 40..49 {
        let first = (slot as u32 - 40) * 1_000;
        let transactions: Vec<_> = (first..first + 1_000).map(one).collect();
        let id = BlockId { slot, version: slot };
        let parent = BlockId { slot: slot - 1, version: slot - 1 };
        history.record_transactions(id, &transactions);
        history.record_block(&Block { id, parent, transactions, ..(*block).clone() });
        history.set_tip(id);
        history.confirm(id);
        history.finalize(id);
    }
    history.publish();
    world.api.history = Arc::new(history);
    let mut expected = (0..9_000u32).rev();
    let mut before = Value::Null;
    loop {
        let config = json!({"before": before, "limit": 700});
        let page = world.ok("getSignaturesForAddress", json!([payer, config]));
        let page = page.as_array().expect("a list");
        let Some(last) = page.last() else { break };
        before = last["signature"].clone();
        for entry in page {
            let index = expected.next().expect("no more than there are");
            assert_eq!(entry["slot"], 40 + u64::from(index / 1_000));
            assert_eq!(entry["transactionIndex"], index % 1_000);
        }
    }
    assert_eq!(expected.next(), None);
}

#[test]
fn an_address_signature_has_memo_error_and_status() {
    let world = World::new();
    let payer = keypair(10).pubkey().to_string();
    let config = json!({"commitment": "confirmed"});
    let found = world.ok("getSignaturesForAddress", json!([payer, config]));
    let memo = json!({"signature": world.signature("memo"), "slot": 42, "err": null,
                      "memo": "[5] hello", "blockTime": GENESIS_TIME + 168,
                      "confirmationStatus": "finalized", "transactionIndex": 1});
    assert_eq!(found[4], memo);
    assert_eq!(found[3]["err"], json!({"InstructionError": [0, {"Custom": 1}]}));
    assert_eq!(found[0]["confirmationStatus"], "confirmed");
    assert_eq!(found[0]["memo"], Value::Null);
}

#[test]
fn invalid_signature_lists_are_refused_with_a_reason() {
    let world = World::new();
    let payer = keypair(10).pubkey().to_string();
    let unknown = Signature::from([5; 64]).to_string();
    for (config, code, message) in [
        (json!({"limit": 0}), -32602, "Invalid limit; max 1000".to_owned()),
        (json!({"limit": 1_001}), -32602, "Invalid limit; max 1000".to_owned()),
        (json!({"before": "x"}), -32602, "Invalid param: WrongSize".to_owned()),
        (json!({"until": "0"}), -32602, "Invalid param: Invalid".to_owned()),
        (json!({"before": unknown}), -32020, format!("Transaction {unknown} not found")),
        (json!({"until": unknown}), -32020, format!("Transaction {unknown} not found")),
        (
            // Confirmed is not finalized.
            json!({"before": world.signature("confirmed")}),
            -32020,
            format!("Transaction {} not found", world.signature("confirmed")),
        ),
        (
            json!({"commitment": "processed"}),
            -32602,
            "Method does not support commitment below `confirmed`".to_owned(),
        ),
        (
            json!({"minContextSlot": 49}),
            -32016,
            "Minimum context slot has not been reached".to_owned(),
        ),
    ] {
        world.check_refusal("getSignaturesForAddress", json!([payer, config]), code, &message);
    }
}

#[test]
fn a_status_reports_its_confirmations() {
    let world = World::new();
    let names = ["memo", "failed", "confirmed", "processed", "forgotten"];
    let signatures: Vec<String> = names.iter().map(|name| world.signature(name)).collect();
    let statuses = world.value(PROCESSED, "getSignatureStatuses", json!([signatures]));
    assert_eq!(
        statuses[0],
        json!({"slot": 42, "confirmations": null, "status": {"Ok": null}, "err": null,
               "confirmationStatus": "finalized"})
    );
    let err = json!({"InstructionError": [0, {"Custom": 1}]});
    assert_eq!(statuses[1]["err"], err);
    assert_eq!(statuses[1]["status"], json!({"Err": err}));
    assert_eq!(statuses[2]["confirmationStatus"], "confirmed");
    assert_eq!(statuses[2]["confirmations"], CONFIRMED - 60);
    assert_eq!(statuses[3]["confirmationStatus"], "processed");
    assert_eq!(statuses[3]["confirmations"], 0);
    assert_eq!(statuses[4], Value::Null);
    let search = json!({"searchTransactionHistory": true});
    let params = json!([[signatures[0], Signature::from([5; 64]).to_string()], search]);
    let found = world.value(PROCESSED, "getSignatureStatuses", params);
    assert_eq!(found[0]["slot"], 42);
    assert_eq!(found[1], Value::Null);
}

/// Builds a history whose first block has a transaction, and whose other blocks have slots a thousand apart. The newest
/// blocks are not final.
fn history_with_gaps(
    sample: &Block,
    memo: &ExecutedTransaction,
    [blocks, unfinalized]: [u64; 2],
) -> History {
    let limits = HistoryLimits { blocks_max: u64::MAX, bytes_max: u64::MAX };
    let mut parent = BlockId { slot: 0, version: 0 };
    let history = History::new(limits, parent);
    for block_height in 1..=blocks {
        let slot = if block_height == 1 { 1 } else { block_height * 1_000 };
        let id = BlockId { slot, version: slot };
        let memo = ExecutedTransaction { slot, ..memo.clone() };
        let transactions = if block_height == 1 { vec![Arc::new(memo)] } else { Vec::new() };
        let block = Block { id, parent, transactions, block_height, ..sample.clone() };
        history.record_block(&block);
        history.set_tip(id);
        history.confirm(id);
        if block_height + unfinalized <= blocks {
            history.finalize(id);
        }
        parent = id;
    }
    history.publish();
    history
}

#[test]
fn a_status_is_known_by_blocks_and_not_by_slots() {
    let mut world = World::new();
    let sample = world.api.history.snapshot().block(42, Commitment::Finalized).cloned();
    let sample = sample.expect("it is retained");
    let memo = Arc::clone(world.tx("memo"));
    let signatures = json!([world.signature("memo")]);
    let recent = json!({"searchTransactionHistory": false});
    let all = json!({"searchTransactionHistory": true});
    let mut statuses = |[blocks, unfinalized]: [_; 2], config: &Value| {
        world.api.history = Arc::new(history_with_gaps(&sample, &memo, [blocks, unfinalized]));
        world.value(PROCESSED, "getSignatureStatuses", json!([signatures, config]))[0].clone()
    };
    assert_eq!(statuses([301, 0], &recent)["confirmationStatus"], "finalized");
    assert_eq!(statuses([302, 0], &recent), Value::Null);
    assert_eq!(statuses([302, 0], &all)["confirmationStatus"], "finalized");
    let confirmed = statuses([6, 6], &recent);
    assert_eq!(
        (&confirmed["confirmationStatus"], &confirmed["confirmations"]),
        (&json!("confirmed"), &json!(5))
    );
}

#[test]
fn a_transaction_without_notification_has_no_status() {
    let world = World::new();
    let signatures = json!([[world.signature("refused"), world.signature("processed")]]);
    let statuses = || world.value(PROCESSED, "getSignatureStatuses", signatures.clone());
    assert_eq!(statuses()[0], Value::Null);
    assert_eq!(statuses()[1]["slot"], PROCESSED);
    let search = json!([signatures[0], {"searchTransactionHistory": true}]);
    let found = world.value(PROCESSED, "getSignatureStatuses", search);
    assert_eq!(found[0], Value::Null);
    world.tx("refused").show_status();
    assert_eq!(statuses()[0]["err"], "AccountNotFound");
    assert_eq!(statuses()[0]["confirmationStatus"], "processed");
}

/// Statuses of an archive: each transaction succeeded in the slot that its signature starts with.
struct ArchivedStatuses;

impl PreSnapshotStatuses for ArchivedStatuses {
    fn find(&self, signature: &Signature) -> Option<(Slot, Result<(), TransactionError>)> {
        Some((signature.as_array()[0].into(), Ok(())))
    }
}

#[test]
fn an_archived_status_is_final_only_once_its_slot_is() {
    let mut world = World::new();
    world.api.older_statuses = Some(Arc::new(ArchivedStatuses));
    // The history has no block of these slots.
    let signatures = [46, 64].map(|slot| Signature::from([slot; 64]).to_string());
    let statuses = world.value(PROCESSED, "getSignatureStatuses", json!([signatures]));
    assert_eq!(statuses[0]["confirmationStatus"], "finalized");
    assert_eq!((&statuses[0]["slot"], &statuses[0]["confirmations"]), (&json!(46), &Value::Null));
    assert_eq!(statuses[1]["confirmationStatus"], "confirmed");
    assert_eq!(statuses[1]["confirmations"], CONFIRMED - 64);
}

#[test]
fn a_client_that_got_a_transaction_gets_its_status() {
    let address = keypair(17).pubkey().to_string();
    for ways in 0..4 {
        let world = World::with_late();
        let signature = world.signature("late");
        let status = || {
            let params = json!([[signature]]);
            world.value(PROCESSED, "getSignatureStatuses", params)[0]["confirmationStatus"].clone()
        };
        assert_eq!(status(), Value::Null, "nobody was told of it");
        let confirmed = json!({"commitment": "confirmed"});
        let (method, params) = match ways {
            0 => ("getTransaction", json!([signature, confirmed])),
            1 => ("getSignaturesForAddress", json!([address, confirmed])),
            2 => ("getBlock", json!([61, confirmed])),
            _ => ("getTransactionsForAddress", {
                json!([address, {"commitment": "confirmed", "transactionDetails": "full"}])
            }),
        };
        let found = world.call(method, &params).expect("it is confirmed");
        assert!(found.to_string().contains(&signature), "{method}");
        assert_eq!(status(), "confirmed", "after {method}");
    }
}

#[test]
fn at_most_256_statuses_are_returned_at_once() {
    let world = World::new();
    let many = vec![world.signature("memo"); 257];
    let message = "Too many inputs provided; max 256";
    world.check_refusal("getSignatureStatuses", json!([many]), -32602, message);
    world.value(PROCESSED, "getSignatureStatuses", json!([many[..256]]));
    world.check_refusal("getSignatureStatuses", json!([["x"]]), -32602, "Invalid param: WrongSize");
    let message = "Invalid params: missing field `searchTransactionHistory`.";
    world.check_refusal("getSignatureStatuses", json!([[], {}]), -32602, message);
}
