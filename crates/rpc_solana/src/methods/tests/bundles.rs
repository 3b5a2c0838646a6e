//! Bundles, with fake services.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chain_solana::{
    BundleCall, BundleError, BundleReply, BundleSender, QueueBound, SendError, Sender,
    VerifiedTransaction, pending,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_instruction::error::InstructionError;
use solana_pubkey::Pubkey;
use solana_sdk_ids::system_program;
use solana_signature::Signature;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;

use super::world::{CONFIRMED, FINALIZED, PROCESSED, World, keypair, sign_transaction, simulation};
use crate::Bundles;

/// Records bundles, and replies when the test requests it.
#[derive(Default)]
struct FakeBundleSender {
    sent: Mutex<Vec<Vec<VerifiedTransaction>>>,
    replies: Mutex<Vec<BundleReply>>,
    refusal: Mutex<Option<SendError>>,
}

impl BundleSender for FakeBundleSender {
    fn send_bundle(
        &self,
        _: Sender,
        transactions: Vec<VerifiedTransaction>,
    ) -> Result<BundleCall, SendError> {
        if let Some(refusal) = self.refusal.lock().clone() {
            return Err(refusal);
        }
        let (call, reply) = pending();
        self.sent.lock().push(transactions);
        self.replies.lock().push(reply);
        Ok(call)
    }
}

fn world() -> (World, Arc<FakeBundleSender>) {
    let mut world = World::new();
    let sender = Arc::<FakeBundleSender>::default();
    world.api.bundles = Arc::new(Bundles::new(Arc::clone(&sender) as Arc<dyn BundleSender>));
    (world, sender)
}

fn payment(lamports: u64) -> VersionedTransaction {
    let payer = keypair(10);
    sign_transaction(
        &[transfer(&payer.pubkey(), &keypair(11).pubkey(), lamports)],
        &payer,
        CONFIRMED,
    )
}

fn wire(transaction: &VersionedTransaction) -> Vec<u8> {
    wincode::serialize(transaction).expect("a transaction has a size")
}

fn base64(transaction: &VersionedTransaction) -> String {
    BASE64_STANDARD.encode(wire(transaction))
}

fn texts(transactions: &[VersionedTransaction]) -> Vec<String> {
    transactions.iter().map(base64).collect()
}

fn send(transactions: &[VersionedTransaction]) -> Value {
    json!([texts(transactions), { "encoding": "base64" }])
}

#[test]
fn a_queued_bundle_is_identified_by_its_signatures() {
    let (world, sender) = world();
    let bundle = [payment(1), payment(2), payment(3)];
    let signatures = bundle.each_ref().map(|one| one.signatures[0].to_string());
    let hash = Sha256::digest(signatures.join(","));
    let expected: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let base58 = bundle.each_ref().map(|one| bs58::encode(wire(one)).into_string());
    assert_eq!(world.ok("sendBundle", json!([base58])), expected);
    let sent = sender.sent.lock().pop().expect("it was queued");
    let sent: Vec<_> = sent.iter().map(|one| one.signature().to_string()).collect();
    assert_eq!(sent, signatures);
    // The bundle is waiting, so it is not queued again.
    assert_eq!(world.ok("sendBundle", send(&bundle)), expected);
    assert!(sender.sent.lock().is_empty());
    // A failed bundle is queued again.
    let err = BundleError::LedgerFull;
    sender.replies.lock().pop().expect("a reply").send(Err(err));
    assert_eq!(world.ok("sendBundle", send(&bundle)), expected);
    assert_eq!(sender.sent.lock().len(), 1);
    let one = [payment(9)];
    assert_ne!(world.ok("sendBundle", send(&one)), expected);
}

#[test]
fn a_bundle_that_cannot_be_queued_is_refused_with_a_reason() {
    let (world, sender) = world();
    let refused = |params: Value, code: i64, message: &str| {
        world.check_refusal("sendBundle", params, code, message);
    };
    refused(json!([[]]), -32602, "the bundle has 0 transactions: 1 to 5");
    let six: Vec<_> = (1..=6).map(payment).collect();
    refused(send(&six), -32602, "the bundle has 6 transactions: 1 to 5");
    let many = vec!["x"; 1_000];
    refused(json!([many]), -32602, "the bundle has 1000 transactions: 1 to 5");
    refused(send(&[payment(1), payment(2), payment(1)]), -32602, "duplicate transactions");
    let unsupported = "unsupported encoding: json. Supported encodings: base58, base64";
    refused(json!([["x"], { "encoding": "json" }]), -32602, unsupported);
    let digit = "invalid base58 encoding: InvalidCharacter { character: '0', index: 0 }";
    refused(json!([["0"]]), -32602, digit);
    let bytes = "invalid base64 encoding: InvalidByte(0, 33)";
    refused(json!([[base64(&payment(1)), "!!!!"], { "encoding": "base64" }]), -32602, bytes);
    let large = "base64 encoded solana_transaction::versioned::VersionedTransaction too large: \
                 1645 bytes (max: encoded/raw 1644/1232)";
    refused(json!([["!".repeat(1_645)], { "encoding": "base64" }]), -32602, large);
    let mut wrong = payment(2);
    wrong.signatures[0] = Signature::from([1; 64]);
    let message = "Transaction signature verification failure";
    refused(send(&[payment(1), wrong]), -32003, message);
    let mut short = payment(1);
    short.signatures.clear();
    let message = "invalid transaction: Transaction failed to sanitize accounts offsets correctly";
    refused(send(&[payment(2), short]), -32602, message);
    let err = world.call("sendBundle", &json!([])).expect_err("no parameters");
    assert_eq!(err.code, -32602);
    let err = world.call("sendBundle", &json!([7])).expect_err("no list");
    assert_eq!(err.code, -32602);
    let unknown = [
        ("sendBundle", json!([[], { "encodings": "base64" }]), "encodings"),
        ("simulateBundle", json!([{ "encodedTransactions": [], "tip": 1 }]), "tip"),
        ("simulateBundle", json!([{ "encodedTransactions": [] }, { "slot": 1 }]), "slot"),
    ];
    for (method, params, name) in unknown {
        let err = world.call(method, &params).expect_err("it is unknown");
        assert!(err.message.contains(&format!("unknown field `{name}`")), "{}", err.message);
    }
    assert!(sender.sent.lock().is_empty());

    let full = SendError::QueueFull { bound: QueueBound::ClientTransactions, queued: 8, limit: 9 };
    *sender.refusal.lock() = Some(full.clone());
    refused(send(&[payment(1)]), -32005, &full.to_string());
    let id = "a".repeat(64);
    let status = world.value(PROCESSED, "getInflightBundleStatuses", json!([[id]]));
    assert_eq!(status[0]["status"], "Invalid");
}

#[test]
fn a_bundle_has_its_transactions_status() {
    let (world, sender) = world();
    // Each is in one block of the history, as if the ledger had executed it.
    let [memo, confirmed] = ["memo", "confirmed"].map(|name| world.tx(name).transaction.clone());
    let id = |transactions: &[VersionedTransaction]| {
        let id = world.ok("sendBundle", send(transactions));
        id.as_str().expect("a text").to_owned()
    };
    let landed = id(std::slice::from_ref(&memo));
    let lost = id(&[memo, confirmed.clone()]);
    let waiting = id(&[payment(5)]);
    let of_60 = id(&[confirmed]);
    for reply in sender.replies.lock().drain(..) {
        drop(reply);
    }
    let again = id(&[payment(5), payment(6)]);
    let unknown = "0".repeat(64);
    let ids = json!([[landed, lost, waiting, again, unknown]]);
    let value = world.value(PROCESSED, "getInflightBundleStatuses", ids.clone());
    let inflight = |id: &str, status: &str, slot: Value| json!({ "bundle_id": id, "status": status, "landed_slot": slot });
    let failed = |id: &str| {
        let mut value = inflight(id, "Failed", Value::Null);
        value["err"] = "the ledger is shutting down".into();
        value
    };
    assert_eq!(
        value,
        json!([
            inflight(&landed, "Landed", json!(42)),
            // Its transactions are in two blocks.
            failed(&lost),
            failed(&waiting),
            inflight(&again, "Pending", Value::Null),
            inflight(&unknown, "Invalid", Value::Null),
        ])
    );
    let value = world.value(PROCESSED, "getBundleStatuses", ids);
    let status = |id: &str, name: &str, slot: u64, confirmation: &str| {
        json!({
            "bundle_id": id, "transactions": [world.signature(name)], "slot": slot,
            "confirmation_status": confirmation, "err": { "Ok": null },
        })
    };
    let expected = json!([status(&landed, "memo", 42, "finalized"), null, null, null, null]);
    assert_eq!(value, expected);
    let value = world.value(PROCESSED, "getBundleStatuses", json!([[of_60]]));
    assert_eq!(value, json!([status(&of_60, "confirmed", 60, "confirmed")]));
    // Executed blocks whose transactions are no longer on the chain, or no longer in the history.
    for (slot, expected) in [(70, "Failed"), (7, "Landed")] {
        let id = id(&[payment(100 + slot)]);
        sender.replies.lock().pop().expect("a reply").send(Ok(slot));
        let value = world.value(PROCESSED, "getInflightBundleStatuses", json!([[id]]));
        assert_eq!(value[0]["status"], expected, "{value}");
    }
    let texts = vec![unknown; 6];
    for method in ["getBundleStatuses", "getInflightBundleStatuses"] {
        world.check_refusal(method, json!([texts]), -32602, "6 bundle ids: at most 5");
        for text in ["", "x", "é"] {
            let value = world.value(PROCESSED, method, json!([[text]]));
            assert!(value[0].is_null() || value[0]["status"] == "Invalid", "{value}");
        }
    }
}

#[test]
fn there_are_eight_tip_accounts() {
    let (world, _) = world();
    let tips = world.ok("getTipAccounts", json!([]));
    let tips = tips.as_array().expect("a list");
    let keys: std::collections::HashSet<Pubkey> =
        tips.iter().filter_map(|tip| tip.as_str()?.parse().ok()).collect();
    assert_eq!((tips.len(), keys.len()), (8, 8));
    assert_eq!(keys, crate::tip_accounts().collect());
}

#[test]
fn a_ledger_that_takes_no_bundles_says_so_and_simulates_them() {
    let world = World::new();
    let message = "Method not found: only a local ledger has it (hydrant dev)";
    for (method, params) in [
        ("sendBundle", send(&[payment(1)])),
        ("getBundleStatuses", json!([["0".repeat(64)]])),
        ("getInflightBundleStatuses", json!([["0".repeat(64)]])),
        ("getTipAccounts", json!([])),
    ] {
        world.check_refusal(method, params, -32601, message);
    }
    let request = json!([{ "encodedTransactions": texts(&[payment(1)]) }]);
    let value = world.value(CONFIRMED, "simulateBundle", request);
    assert_eq!(value["summary"], "succeeded");
}

#[test]
fn each_transaction_is_simulated_after_those_before_it() {
    let (world, _) = world();
    let from = keypair(10).pubkey();
    let to = keypair(11).pubkey();
    let mut run = simulation();
    let wallet = |lamports| AccountSharedData::new(lamports, 0, &system_program::ID);
    let program = AccountSharedData::new(1, 3, &system_program::ID);
    run.post_accounts = vec![(from, wallet(70)), (to, wallet(30)), (system_program::ID, program)];
    *world.transaction_service.simulation.lock() = Ok(run);
    let addresses =
        json!({ "addresses": [from.to_string(), to.to_string()], "encoding": "base64" });
    let params = json!([
        { "encodedTransactions": texts(&[payment(1), payment(2)]) },
        {
            "preExecutionAccountsConfigs": [null, addresses],
            "postExecutionAccountsConfigs": [addresses, null],
            "transactionEncoding": "base64",
            "simulationBank": "tip",
        },
    ]);
    let value = world.value(PROCESSED, "simulateBundle", params);
    assert_eq!(value["summary"], "succeeded");
    let [first, second] = value["transactionResults"].as_array().expect("a list").as_slice() else {
        panic!("{value}")
    };
    let account = |lamports: u64| {
        json!({ "lamports": lamports, "data": ["", "base64"], "owner": system_program::ID.to_string(),
                "executable": false, "rentEpoch": 0, "space": 0 })
    };
    assert_eq!(first["preExecutionAccounts"], json!([]));
    assert_eq!(first["postExecutionAccounts"], json!([account(70), account(30)]));
    assert_eq!(second["preExecutionAccounts"], json!([account(70), account(30)]));
    assert_eq!(second["postExecutionAccounts"], json!([]));
    assert_eq!((&first["err"], &first["unitsConsumed"]), (&Value::Null, &json!(150)));
    assert_eq!((&first["fee"], &first["loadedAccountsDataSize"]), (&json!(5000), &json!(9)));
    // The second transaction saw the writes of the first one, and no account that the first could only read.
    let written = world.transaction_service.written.lock();
    assert_eq!(written[0].keys().count(), 0);
    let lamports = |key| written[1].get(key).flatten().map(|account| account.0.lamports());
    assert_eq!(
        [lamports(&from), lamports(&to), lamports(&system_program::ID)],
        [Some(70), Some(30), None]
    );
    let simulated = world.transaction_service.simulated.lock();
    assert!(simulated.iter().all(|(slot, request)| {
        *slot == PROCESSED && !request.replace_recent_blockhash && !request.inner_instructions
    }));
}

#[test]
fn a_simulated_bundle_ends_at_the_first_failure() {
    let (world, _) = world();
    let mut failed = simulation();
    failed.err = Some(TransactionError::InstructionError(0, InstructionError::Custom(1)));
    *world.transaction_service.simulation.lock() = Ok(failed);
    let bundle = [payment(1), payment(2)];
    let to = keypair(11).pubkey().to_string();
    let after = json!([{ "addresses": [to, to] }, null]);
    let params = json!([
        { "encodedTransactions": texts(&bundle) },
        { "postExecutionAccountsConfigs": after, "simulationBank": { "commitment": { "commitment": "finalized" } } },
    ]);
    let value = world.value(FINALIZED, "simulateBundle", params);
    let message = "Error processing Instruction 0: custom program error: 0x1";
    let signature = bundle[0].signatures[0];
    assert_eq!(
        value["summary"],
        json!({ "failed": {
            "error": { "TransactionFailure": [signature.as_array().to_vec(), message] },
            "tx_signature": signature.to_string(),
        } })
    );
    let results = value["transactionResults"].as_array().expect("a list");
    assert_eq!(results.len(), 1);
    assert_eq!(results[0]["err"], json!({ "InstructionError": [0, { "Custom": 1 }] }));
    assert_eq!(results[0]["postExecutionAccounts"], json!([null, null]));
}

#[test]
fn a_bundle_that_cannot_be_simulated_is_refused() {
    let (world, _) = world();
    let refused = |bundle: &[VersionedTransaction], config: Value, message: &str| {
        let params = json!([{ "encodedTransactions": texts(bundle) }, config]);
        world.check_refusal("simulateBundle", params, -32602, message);
    };
    let two = [payment(1), payment(2)];
    refused(&[], json!({}), "the bundle has 0 transactions: 1 to 20");
    let many: Vec<_> = (1..=21).map(payment).collect();
    refused(&many, json!({}), "the bundle has 21 transactions: 1 to 20");
    refused(&[payment(1), payment(1)], json!({}), "duplicate transactions");
    let message = "preExecutionAccountsConfigs has 1 entries: one for each of the 2 transactions";
    refused(&two, json!({ "preExecutionAccountsConfigs": [null] }), message);
    let message = "Base64 is the only supported encoding for post-execution accounts";
    let zstd = json!([{ "addresses": [], "encoding": "base64+zstd" }, null]);
    refused(&two, json!({ "postExecutionAccountsConfigs": zstd }), message);
    let addresses = vec![keypair(1).pubkey().to_string(); 129];
    let many = json!([{ "addresses": addresses }, null]);
    let message = "Too many accounts provided; max 128";
    refused(&two, json!({ "preExecutionAccountsConfigs": many }), message);
    let message = "replaceRecentBlockhash may not be used without skipSigVerify";
    refused(&two, json!({ "replaceRecentBlockhash": true }), message);
    let message = "bank not found for the provided slot: 7";
    refused(&two, json!({ "simulationBank": { "slot": 7 } }), message);
    let mut wrong = payment(3);
    wrong.signatures[0] = Signature::from([1; 64]);
    let message =
        "transaction signature is invalid: Transaction did not pass signature verification";
    refused(&[payment(1), wrong.clone()], json!({}), message);
    let unchecked = json!([
        { "encodedTransactions": texts(&[wrong]) },
        { "skipSigVerify": true, "replaceRecentBlockhash": true, "simulationBank": { "slot": PROCESSED } },
    ]);
    let value = world.value(PROCESSED, "simulateBundle", unchecked);
    assert_eq!(value["summary"], "succeeded");
}

#[test]
fn what_a_simulated_bundle_returns_and_retains_is_bounded() {
    let (world, _) = world();
    let mut run = simulation();
    let data = AccountSharedData::new(7, 10 << 20, &system_program::ID);
    run.post_accounts = vec![(keypair(10).pubkey(), data.clone()), (keypair(11).pubkey(), data)];
    *world.transaction_service.simulation.lock() = Ok(run.clone());
    let large = vec![keypair(10).pubkey().to_string(); 4];
    let params = json!([
        { "encodedTransactions": texts(&[payment(1)]) },
        { "postExecutionAccountsConfigs": [{ "addresses": large }] },
    ]);
    let message = "the requested accounts have more than 33554432 bytes of data";
    world.check_refusal("simulateBundle", params, -32602, message);
    // A transaction that writes 14 accounts of 10 MiB.
    let payer = keypair(10);
    let keys: Vec<Pubkey> = (20..34).map(|number| keypair(number).pubkey()).collect();
    let pay: Vec<_> = keys.iter().map(|key| transfer(&payer.pubkey(), key, 1)).collect();
    let data = run.post_accounts[0].1.clone();
    run.post_accounts = keys.iter().map(|key| (*key, data.clone())).collect();
    *world.transaction_service.simulation.lock() = Ok(run);
    let params =
        json!([{ "encodedTransactions": texts(&[sign_transaction(&pay, &payer, CONFIRMED)]) }]);
    let message = "the bundle writes accounts of 146800640 bytes, at most 134217728";
    world.check_refusal("simulateBundle", params, -32602, message);
}
