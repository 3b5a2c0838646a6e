//! Blocks and transactions: finalized ones are immutable, and raw bytes are available.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chain_solana::{Block, ExecutedTransaction, History, StatusVisibility};
use serde_json::json;
use solana_hash::Hash;
use solana_message::{Message, MessageHeader, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::TransactionStatusMeta;

use crate::{Node, decoded_body, get, get_json};
use testkit::sample_ledger::{CONFIRMED, FINALIZED, NOW, WALLET, block};
use testkit::test_ledger::empty_block;

const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// The signature of a transaction, by its slot and its index.
pub(crate) fn signature(slot: u64, index: u32) -> Signature {
    let mut bytes = [3; 64];
    bytes[..8].copy_from_slice(&slot.to_le_bytes());
    bytes[8..12].copy_from_slice(&index.to_le_bytes());
    Signature::from(bytes)
}

/// A transaction of `WALLET` that names a program and does nothing.
pub(crate) fn transaction_with_balances(
    slot: u64,
    index: u32,
    balances: usize,
) -> Arc<ExecutedTransaction> {
    let message = Message {
        header: MessageHeader {
            num_required_signatures: 1,
            num_readonly_signed_accounts: 0,
            num_readonly_unsigned_accounts: 1,
        },
        account_keys: vec![WALLET, Pubkey::new_from_array([99; 32])],
        recent_blockhash: Hash::new_from_array([6; 32]),
        instructions: Vec::new(),
    };
    let transaction = VersionedTransaction {
        signatures: vec![signature(slot, index)],
        message: VersionedMessage::Legacy(message),
    };
    let meta = TransactionStatusMeta {
        fee: 5_000,
        pre_balances: vec![u64::MAX; balances],
        post_balances: vec![u64::MAX - 1; balances],
        ..TransactionStatusMeta::default()
    };
    let keys = transaction.message.static_account_keys().to_vec();
    Arc::new(ExecutedTransaction {
        slot,
        index,
        block_time: NOW,
        transaction,
        meta,
        account_keys: keys,
        is_vote: false,
        // Only a node that notifies a client of it shows it.
        visibility: StatusVisibility::hidden(),
    })
}

pub(crate) fn completed_block(slot: u64, transactions: Vec<Arc<ExecutedTransaction>>) -> Block {
    Block {
        block_height: slot - 10,
        bank_hash: Hash::new_from_array([8; 32]),
        block_time: NOW,
        transaction_count: slot * 10,
        transactions,
        ..empty_block(block(slot), block(slot - 1))
    }
}

/// Adds a block to the history, and makes it the confirmed tip.
pub(crate) fn confirm_block(history: &History, block: Block) {
    history.record_block(&block);
    history.set_tip(block.id);
    history.confirm(block.id);
}

/// A node with a block of five transactions and a long one, both finalized, and one that is confirmed.
fn node() -> Node {
    let node = Node::new();
    let history = &node.world.server.api.history;
    for (slot, transactions, balances) in
        [(FINALIZED - 1, 5, 2), (FINALIZED, 1, 40_000), (CONFIRMED, 1, 2)]
    {
        let all: Vec<_> = (0..transactions)
            .map(|index| transaction_with_balances(slot, index, balances))
            .collect();
        confirm_block(history, completed_block(slot, all));
    }
    history.publish();
    node
}

#[test]
fn finalized_responses_are_immutable_and_others_are_revalidated() {
    let node = node();
    let mut client = node.client();
    let transaction = |slot| format!("/v1/transactions/{}", signature(slot, 0));
    let of_block = |slot| format!("/v1/blocks/{slot}");
    for (path, slot, is_long) in [
        (transaction(FINALIZED - 1), FINALIZED - 1, false),
        (of_block(FINALIZED - 1), FINALIZED - 1, false),
        (of_block(FINALIZED), FINALIZED, true),
    ] {
        let mut etags = Vec::new();
        for coding in ["identity", "gzip"] {
            let accept = format!("accept-encoding: {coding}\r\n");
            let first = get(&mut client, &path, &accept);
            assert_eq!(first.status, 200, "{}", first.body);
            assert_eq!(decoded_body(&first).len() > 1024 * 1024, is_long, "{path}");
            assert_eq!(first.header("cache-control"), Some(IMMUTABLE));
            assert_eq!(first.header("hydrant-slot"), Some(slot.to_string().as_str()));
            assert_eq!(first.header("hydrant-commitment"), Some("finalized"));
            let etag = first.header("etag").expect("an ETag");
            let again = get(&mut client, &path, &format!("{accept}if-none-match: {etag}\r\n"));
            assert_eq!((again.status, again.body.as_str()), (304, ""), "{path}");
            assert_eq!(again.header("cache-control"), Some(IMMUTABLE));
            etags.push((first.header("content-encoding").map(str::to_owned), etag.to_owned()));
        }
        // A short response is not compressed, so it is the same.
        let is_coded = etags[0].0 != etags[1].0;
        assert_eq!(is_coded, !path.contains("transactions"), "{path}");
        assert_eq!(etags[0].1 != etags[1].1, is_coded, "{path}: each coding has its own");
    }
    // The ETag depends on the requested details too, not only on the block.
    let long = of_block(FINALIZED);
    let one = get(&mut client, &long, "").header("etag").map(str::to_owned);
    let other = get(&mut client, &format!("{long}?encoding=base64"), "");
    assert!(other.header("etag").is_some() && other.header("etag") != one.as_deref());
    for path in [transaction(CONFIRMED), of_block(CONFIRMED)] {
        let missing = get(&mut client, &path, "");
        assert_eq!(missing.status, 404, "it is not final: {}", missing.body);
        let response = get(&mut client, &format!("{path}?commitment=confirmed"), "");
        assert_eq!(response.status, 200, "{}", response.body);
        assert_eq!(response.header("cache-control"), Some("no-cache"));
        assert_eq!(response.header("hydrant-commitment"), Some("confirmed"));
        assert_eq!(response.header("hydrant-slot"), Some(CONFIRMED.to_string().as_str()));
    }
}

#[test]
fn a_transaction_is_returned_as_it_was_sent() {
    let node = node();
    let mut client = node.client();
    let path = format!("/v1/transactions/{}", signature(FINALIZED - 1, 2));
    let raw = get(&mut client, &path, "accept: application/octet-stream\r\n");
    assert_eq!(raw.header("content-type"), Some("application/octet-stream"));
    assert_eq!(raw.header("hydrant-slot"), Some((FINALIZED - 1).to_string().as_str()));
    assert_eq!(raw.header("cache-control"), Some(IMMUTABLE));
    let json = get_json(&mut client, &format!("{path}?encoding=base64"));
    let expected = json["transaction"][0].as_str().expect("base64");
    assert_eq!(raw.bytes, BASE64_STANDARD.decode(expected).expect("base64"));
    let missing = format!("/v1/transactions/{}", signature(7, 7));
    let missing = get(&mut client, &missing, "accept: application/octet-stream\r\n");
    assert_eq!(missing.status, 404);
    assert_eq!(missing.json()["error"]["name"], "not_found");
}

#[test]
fn transactions_of_an_address_have_pages() {
    let node = node();
    let mut client = node.client();
    let path = format!("/v1/accounts/{WALLET}/transactions?commitment=confirmed");
    let whole = get_json(&mut client, &path)["transactions"].as_array().expect("a list").clone();
    assert_eq!(whole.len(), 7);
    let mut path = format!("{path}&limit=3");
    let mut found = Vec::new();
    loop {
        let response = get(&mut client, &path, "");
        let page = response.json();
        found.extend(page["transactions"].as_array().expect("a list").iter().cloned());
        let Some(link) = response.header("link") else { break };
        assert_eq!(response.header("hydrant-cursor"), None);
        let next = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\""));
        path = next.expect("a link").to_owned();
    }
    assert_eq!(found, whole);
}

#[test]
fn the_description_has_examples_of_the_node() {
    let node = Node::new();
    let mut client = node.client();
    let example = |client: &mut _, path: &str, of: &str| {
        let document = get_json(client, "/v1/openapi.json");
        let params =
            document["paths"][path]["get"]["parameters"].as_array().expect("a list").clone();
        let param = params.iter().find(|param| param["name"] == of).expect("the parameter").clone();
        param["example"].clone()
    };
    let by_signature = "/v1/transactions/{signature}";
    let by_slot = "/v1/blocks/{slot}";
    assert_eq!(example(&mut client, by_signature, "signature"), json!(null));
    let history = &node.world.server.api.history;
    confirm_block(
        history,
        completed_block(FINALIZED, vec![transaction_with_balances(FINALIZED, 0, 2)]),
    );
    history.publish();
    let value = example(&mut client, by_signature, "signature");
    assert_eq!(value, json!(signature(FINALIZED, 0).to_string()));
    assert_eq!(example(&mut client, by_slot, "slot"), json!(FINALIZED));
}
