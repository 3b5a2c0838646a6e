//! Bundles: sent, tried and found again.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde_json::{Value, json};
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::Transaction;

use super::stage::{error, ok, stage, value};
use crate::world::{CONFIRMED, WAIT_TIMEOUT, wait_until};

fn pay(from: &Keypair, to: &Pubkey, lamports: u64) -> Transaction {
    let blockhash = stage().world.rpc.get_latest_blockhash().expect("a blockhash");
    let pay = transfer(&from.pubkey(), to, lamports);
    Transaction::new_signed_with_payer(&[pay], Some(&from.pubkey()), &[from], blockhash)
}

fn wire(transactions: &[Transaction]) -> Vec<String> {
    let wire = |one| BASE64.encode(bincode::serialize(one).expect("a transaction that serializes"));
    transactions.iter().map(wire).collect()
}

fn send(transactions: &[Transaction]) -> String {
    let id = ok("sendBundle", json!([wire(transactions), { "encoding": "base64" }]));
    id.as_str().expect("an id").to_owned()
}

/// Returns the final status of a bundle, and waits for it.
fn inflight(id: &str) -> Value {
    let status = wait_until("the result of the bundle", WAIT_TIMEOUT, || {
        let status = value("getInflightBundleStatuses", json!([[id]]))[0].take();
        Ok((status["status"] != "Pending").then_some(status))
    });
    status.expect("it has one")
}

/// From the payer to a new account, and from there to another one.
fn chain(lamports: u64, onward: u64) -> ([Transaction; 2], Pubkey, Pubkey) {
    let middle = Keypair::new();
    let end = Pubkey::new_unique();
    let first = pay(&stage().world.payer, &middle.pubkey(), lamports);
    ([first, pay(&middle, &end, onward)], middle.pubkey(), end)
}

#[test]
fn method_sendBundle() {
    let (bundle, middle, end) = chain(5_000_000, 2_000_000);
    let status = inflight(&send(&bundle));
    assert_eq!(status["status"], "Landed", "{status}");
    let rpc = &stage().world.rpc;
    for transaction in &bundle {
        let signature = &transaction.signatures[0];
        assert_eq!(stage().world.wait_until_confirmed(signature).expect("confirmed"), Ok(()));
    }
    let balance = |key| rpc.get_balance_with_commitment(key, CONFIRMED).expect("a balance").value;
    assert_eq!([balance(&middle), balance(&end)], [2_995_000, 2_000_000]);
    // Nothing of one that fails in its last transaction.
    let (bundle, middle, end) = chain(5_000_000, 9_000_000);
    let status = inflight(&send(&bundle));
    assert_eq!((&status["status"], &status["landed_slot"]), (&json!("Failed"), &Value::Null));
    let reason = status["err"].as_str().unwrap_or_default();
    assert!(reason.contains("custom program error: 0x1"), "{status}");
    for key in [middle, end] {
        let config = json!([key.to_string(), { "commitment": "processed" }]);
        assert_eq!(value("getBalance", config), 0);
    }
    let refused = error("sendBundle", json!([wire(&vec![bundle[0].clone(); 6])]));
    assert_eq!(refused["message"], "the bundle has 6 transactions: 1 to 5");
}

#[test]
fn method_getInflightBundleStatuses() {
    let unknown = "ab".repeat(32);
    let statuses = value("getInflightBundleStatuses", json!([[unknown]]));
    let expected = json!([{ "bundle_id": unknown, "status": "Invalid", "landed_slot": null }]);
    assert_eq!(statuses, expected);
}

#[test]
fn method_getBundleStatuses() {
    let (bundle, ..) = chain(4_000_000, 1_000_000);
    let id = send(&bundle);
    let slot = inflight(&id)["landed_slot"].clone();
    let status = wait_until("the block of the bundle", WAIT_TIMEOUT, || {
        let unknown = "ab".repeat(32);
        let mut statuses = value("getBundleStatuses", json!([[unknown, id]]));
        assert!(statuses[0].is_null(), "{statuses}");
        Ok((statuses[1]["confirmation_status"] != "processed").then(|| statuses[1].take()))
    });
    let status = status.expect("it is confirmed");
    let signatures: Vec<String> = bundle.iter().map(|one| one.signatures[0].to_string()).collect();
    assert_eq!((&status["bundle_id"], &status["slot"]), (&json!(id), &slot));
    assert_eq!(
        (&status["transactions"], &status["err"]),
        (&json!(signatures), &json!({ "Ok": null }))
    );
    assert!(slot.is_u64());
}

#[test]
fn method_getTipAccounts() {
    let tips = ok("getTipAccounts", json!([]));
    let tips: Vec<Pubkey> = serde_json::from_value::<Vec<String>>(tips)
        .expect("a list of texts")
        .iter()
        .map(|tip| tip.parse().expect("an address"))
        .collect();
    assert_eq!(tips.len(), 8);
    // A tip below the minimum balance is possible, because the account exists.
    let pay = pay(&stage().world.payer, &tips[7], 1_000);
    let balance =
        || value("getBalance", json!([tips[7].to_string(), { "commitment": "processed" }]));
    let before = balance().as_u64().expect("a number");
    assert!(before >= 890_880, "{before}");
    assert_eq!(inflight(&send(&[pay]))["status"], "Landed");
    assert_eq!(balance(), before + 1_000);
}

#[test]
fn method_simulateBundle() {
    let (bundle, middle, end) = chain(6_000_000, 2_000_000);
    let addresses =
        json!({ "addresses": [middle.to_string(), end.to_string()], "encoding": "base64" });
    let config = json!({
        "preExecutionAccountsConfigs": [addresses, addresses],
        "postExecutionAccountsConfigs": [addresses, addresses],
        "simulationBank": "tip",
    });
    let tried = value("simulateBundle", json!([{ "encodedTransactions": wire(&bundle) }, config]));
    assert_eq!(tried["summary"], "succeeded", "{tried}");
    let lamports = |transaction: usize, when: &str| {
        let accounts = &tried["transactionResults"][transaction][when];
        [0, 1].map(|index: usize| accounts[index]["lamports"].as_u64())
    };
    assert_eq!(lamports(0, "preExecutionAccounts"), [None, None]);
    assert_eq!(lamports(0, "postExecutionAccounts"), [Some(6_000_000), None]);
    assert_eq!(lamports(1, "preExecutionAccounts"), [Some(6_000_000), None]);
    assert_eq!(lamports(1, "postExecutionAccounts"), [Some(3_995_000), Some(2_000_000)]);
    let (bundle, ..) = chain(6_000_000, 9_000_000);
    let tried = value("simulateBundle", json!([{ "encodedTransactions": wire(&bundle) }]));
    let signature = bundle[1].signatures[0].to_string();
    assert_eq!(tried["summary"]["failed"]["tx_signature"], signature, "{tried}");
    assert_eq!(tried["transactionResults"].as_array().map(Vec::len), Some(2));
    assert_eq!(value("getBalance", json!([middle.to_string(), { "commitment": "processed" }])), 0);
}
