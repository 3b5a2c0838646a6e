//! Transactions: text to bytes to a transaction, its checks, and each method that takes one.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jsonrpc::handle_blocking;
use rpc_solana::fuzzing;
use serde_json::json;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::TransactionBinaryEncoding;

use crate::node::NODE;

/// Checks one transaction: its bytes, or its text after `'` (base58) or `"` (base64).
pub fn transaction(bytes: &[u8]) {
    match bytes.split_first() {
        Some((b'\'', text)) => check_text(text, TransactionBinaryEncoding::Base58),
        Some((b'"', text)) => check_text(text, TransactionBinaryEncoding::Base64),
        _ => check_bytes(bytes),
    }
}

fn check_text(text: &[u8], encoding: TransactionBinaryEncoding) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Ok(transaction) = fuzzing::transaction(text, encoding) {
        check(transaction);
    }
    let _ = fuzzing::message(text);
}

fn check_bytes(bytes: &[u8]) {
    let text = BASE64_STANDARD.encode(bytes);
    let Ok(transaction) = fuzzing::transaction(&text, TransactionBinaryEncoding::Base64) else {
        return;
    };
    let written = wincode::serialize(&transaction).expect("what was read can be written");
    assert_eq!(Some(written.as_slice()), bytes.get(..written.len()), "other bytes than were read");
    check(transaction);
    for (method, config) in [
        ("sendTransaction", json!({ "encoding": "base64" })),
        ("sendTransaction", json!({ "encoding": "base64", "skipPreflight": true })),
        ("simulateTransaction", json!({ "encoding": "base64", "innerInstructions": true })),
        ("simulateTransaction", json!({ "encoding": "base64", "replaceRecentBlockhash": true })),
    ] {
        call(method, &text, &config);
    }
}

fn check(transaction: VersionedTransaction) {
    let message = transaction.message.serialize();
    call("getFeeForMessage", &BASE64_STANDARD.encode(message), &json!({}));
    // Right or wrong, without a panic.
    let _ = chain_solana::VerifiedTransaction::verify(transaction);
}

fn call(method: &str, text: &str, config: &serde_json::Value) {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": [text, config] });
    let reply = handle_blocking(&NODE, &body.to_string()).expect("a call has a response");
    let _: serde_json::Value = serde_json::from_slice(&reply).expect("a response is JSON");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_and_what_is_made_from_them_pass() {
        crate::for_each_input("transactions", transaction);
    }
}
