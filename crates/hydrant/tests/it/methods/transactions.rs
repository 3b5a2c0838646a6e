//! Sending, trying and pricing transactions.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde_json::{Value, json};
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::versioned::VersionedTransaction;

use super::stage::{error, ok, stage, value};
use crate::world::CONFIRMED;

/// A transfer of `lamports` from the payer to a new account.
fn pay(lamports: u64, blockhash: Hash) -> (VersionedTransaction, Pubkey) {
    let world = &stage().world;
    let to = Pubkey::new_unique();
    let pay = transfer(&world.payer.pubkey(), &to, lamports);
    (world.sign(&[pay], &[], &[], blockhash).expect("a message that compiles"), to)
}

fn wire(transaction: &VersionedTransaction) -> Value {
    json!(BASE64.encode(bincode::serialize(transaction).expect("a transaction that serializes")))
}

#[test]
fn method_requestAirdrop() {
    let to = Pubkey::new_unique();
    let signature = ok("requestAirdrop", json!([to.to_string(), 1_500_000_000]));
    let signature = signature.as_str().and_then(|text| text.parse().ok()).expect("a signature");
    assert_eq!(stage().world.wait_until_confirmed(&signature).expect("confirmed"), Ok(()));
    assert_eq!(
        value("getBalance", json!([to.to_string(), {"commitment": "confirmed"}])),
        1_500_000_000
    );
}

#[test]
fn method_sendTransaction() {
    let world = &stage().world;
    let (transaction, to) = pay(2_000_000, world.rpc.get_latest_blockhash().expect("a blockhash"));
    let config = json!({"encoding": "base64", "preflightCommitment": "confirmed"});
    let signature = ok("sendTransaction", json!([wire(&transaction), config]));
    assert_eq!(signature, transaction.signatures[0].to_string());
    assert_eq!(world.wait_until_confirmed(&transaction.signatures[0]).expect("confirmed"), Ok(()));
    assert_eq!(
        world.rpc.get_balance_with_commitment(&to, CONFIRMED).expect("a balance").value,
        2_000_000
    );

    let (too_much, _) = pay(1 << 60, world.rpc.get_latest_blockhash().expect("a blockhash"));
    let refused = error("sendTransaction", json!([wire(&too_much), config]));
    assert_eq!(refused["code"], -32002);
    assert_eq!(refused["data"]["err"], json!({"InstructionError": [0, {"Custom": 1}]}));
    assert!(refused["data"]["logs"].as_array().is_some_and(|logs| !logs.is_empty()), "{refused}");
}

#[test]
fn method_simulateTransaction() {
    let (transaction, to) = pay(3_000_000, Hash::new_unique());
    let config = json!({
        "encoding": "base64",
        "replaceRecentBlockhash": true,
        "innerInstructions": true,
        "accounts": {"encoding": "base64", "addresses": [to.to_string()]},
    });
    let tried = value("simulateTransaction", json!([wire(&transaction), config]));
    assert_eq!((&tried["err"], &tried["unitsConsumed"]), (&json!(null), &json!(150)));
    assert_eq!(tried["accounts"][0]["lamports"], 3_000_000);
    assert!(tried["replacementBlockhash"]["blockhash"].is_string(), "{tried}");
    assert_eq!(value("getBalance", json!([to.to_string(), {"commitment": "processed"}])), 0);
    let stale = value("simulateTransaction", json!([wire(&transaction), {"encoding": "base64"}]));
    assert_eq!(stale["err"], "BlockhashNotFound");
}

#[test]
fn method_getFeeForMessage() {
    let fee = |blockhash| {
        let (transaction, _) = pay(1, blockhash);
        let message = BASE64.encode(transaction.message.serialize());
        value("getFeeForMessage", json!([message, {"commitment": "confirmed"}]))
    };
    assert_eq!(fee(stage().world.rpc.get_latest_blockhash().expect("a blockhash")), 5_000);
    assert_eq!(fee(Hash::new_unique()), json!(null));
}

#[test]
fn method_getTransactionsForAddress() {
    let bob = stage().world.bob.pubkey().to_string();
    let transfer = stage().transfer.to_string();
    let of_bob = |token_accounts: &str| -> Vec<Value> {
        let filters = json!({"tokenAccounts": token_accounts, "slot": {"lte": stage().slot}});
        let config = json!({"sortOrder": "asc", "filters": filters});
        let page = ok("getTransactionsForAddress", json!([bob, config]));
        assert_eq!(page["paginationToken"], Value::Null);
        let data = page["data"].as_array().expect("a list");
        data.iter().map(|entry| entry["signature"].clone()).collect()
    };
    // The transfer names Bob's token account, not Bob.
    let direct = of_bob("none");
    assert!(direct.len() >= 2 && !direct.contains(&json!(transfer)), "{direct:?}");
    for token_accounts in ["balanceChanged", "all"] {
        let found = of_bob(token_accounts);
        let (last, before) = found.split_last().expect("a transaction");
        assert_eq!((last, before), (&json!(transfer), &direct[..]), "{token_accounts}");
    }
    let config = json!({"transactionDetails": "full", "maxSupportedTransactionVersion": 0, "limit": 1,
                        "filters": {"slot": {"eq": stage().slot}, "tokenAccounts": "all"}});
    let whole = ok("getTransactionsForAddress", json!([bob, config]));
    let config = json!({"maxSupportedTransactionVersion": 0});
    assert_eq!(whole["data"][0], ok("getTransaction", json!([transfer, config])));
}

#[test]
fn method_getPriorityFeeEstimate() {
    let keys = [stage().alices.to_string()];
    let levels = json!({"accountKeys": keys, "options": {"includeAllPriorityFeeLevels": true}});
    let levels = &ok("getPriorityFeeEstimate", json!([levels]))["priorityFeeLevels"];
    assert!(levels["min"].is_f64() && levels["unsafeMax"].is_f64(), "{levels}");
    let recommended = json!({"accountKeys": keys, "options": {"recommended": true}});
    let recommended = ok("getPriorityFeeEstimate", json!([recommended]));
    assert_eq!(recommended, json!({"priorityFeeEstimate": 10_000.0}));
}
