//! Decodes messages of kaspad 2.1.0, encodes their content again, and compares byte by byte.

use kaspa::{
    AddressUtxo, Block, BorshReply, BorshServerMessage, ChainReply, Event, Hash, Method,
    Notification, Operation, Prefix, decode_borsh_utxos,
};
use serde_json::Value as Json;

use super::{
    AcceptedShape, BlockShape, Call, Encoding, Frame, PlacedTransaction, Request, Structure,
    TransactionBlock, Value, address_utxo, optional_header, plain_transaction, raw_block,
};
use crate::kaspa_golden::{BORSH, CHAIN, JSON, decode_digits, expect, expect_bytes};

fn json(name: &str, kind: &str) -> Json {
    serde_json::from_str(expect(JSON, name, kind)).expect("JSON")
}

struct Reply {
    id: u64,
    operation: Operation,
    structure: Vec<u8>,
}

fn reply(frame: &[u8]) -> Reply {
    match BorshServerMessage::parse(frame) {
        Ok(BorshServerMessage::Reply(BorshReply {
            id,
            operation: Some(operation),
            result: Ok(structure),
        })) => Reply { id, operation, structure: structure.to_vec() },
        other => panic!("not a successful reply: {other:?}"),
    }
}

fn assert_borsh(reply: &Reply, structure: &Structure, frame: &[u8]) {
    let written = Encoding::Borsh.reply(reply.id, reply.operation, structure);
    assert_eq!(written, Frame::Binary(frame.to_vec()), "{:?}", reply.operation);
}

fn assert_json(structure: &Structure, expected: &Json) {
    let mut text = String::new();
    structure.put_json(&mut text);
    assert_eq!(&serde_json::from_str::<Json>(&text).expect("JSON"), expected);
}

fn accepted_chain(frame: &[u8]) -> Structure {
    let reply = reply(frame);
    let mut chain = ChainReply::parse(&reply.structure).expect("a chain");
    let mut blocks = Vec::new();
    while let Some(block) = chain.next_block().expect("a block") {
        let accepted = block.transactions.iter().map(|accepted| {
            let shape = AcceptedShape {
                id: accepted.id,
                hash: accepted.transaction.hash(),
                transaction: &accepted.transaction,
                spent: &accepted.spent,
                block: TransactionBlock {
                    block_hash: accepted.block_hash,
                    block_time_ms: accepted.block_time_ms,
                },
                prefix: Prefix::Simnet,
            };
            shape.to_structure()
        });
        let header = optional_header(block.hash, &block.header);
        blocks.push(
            Structure::with_version16(1)
                .field("chainBlockHeader", Value::Structure(header))
                .field("acceptedTransactions", Value::structures(accepted.collect())),
        );
    }
    Structure::with_version16(1)
        .field("removedChainBlockHashes", Value::hashes(&chain.removed))
        .field("addedChainBlockHashes", Value::hashes(&chain.added))
        .field("chainBlockAcceptedTransactions", Value::structures(blocks))
}

#[test]
fn accepted_chains_are_written_as_kaspad_writes_them() {
    let frames = [
        expect(CHAIN, "chain_v2_full", "response"),
        expect(CHAIN, "reorg_v2", "response"),
        expect(BORSH, "getVirtualChainFromBlockV2_Full", "response"),
    ];
    for frame in frames.map(decode_digits) {
        assert_borsh(&reply(&frame), &accepted_chain(&frame), &frame);
    }
    // Both files have the same chain.
    let frame = decode_digits(frames[2]);
    let expected = &json("getVirtualChainFromBlockV2_Full", "response")["params"];
    assert_json(&accepted_chain(&frame), expected);
}

fn hashes(list: &Json) -> Vec<Hash> {
    let list = list.as_array().expect("a list").iter();
    list.map(|hash| Hash::from_hex(hash.as_str().expect("a text")).expect("a hash")).collect()
}

/// A block, with its verbose data from JSON.
fn block_shape(block: &Block, verbose: &Json) -> Structure {
    let ids = hashes(&verbose["transactionIds"]);
    let written: Vec<Hash> = block.transactions.iter().map(|tx| tx.id()).collect();
    assert_eq!(written, ids);
    let shape = BlockShape {
        hash: block.hash,
        header: &block.header,
        transactions: Some(&block.transactions),
        transaction_ids: &ids,
        selected_parent: hashes(&Json::from(vec![verbose["selectedParentHash"].clone()]))[0],
        children: &hashes(&verbose["childrenHashes"]),
        blues: &hashes(&verbose["mergeSetBluesHashes"]),
        reds: &hashes(&verbose["mergeSetRedsHashes"]),
        is_chain_block: verbose["isChainBlock"].as_bool().expect("a flag"),
        prefix: Prefix::Simnet,
    };
    Structure::with_version16(1).field("block", Value::Structure(shape.to_structure()))
}

#[test]
fn blocks_are_written_as_kaspad_writes_them() {
    let frame = expect_bytes(BORSH, "getBlock", "response");
    let golden = reply(&frame);
    let block = Block::decode_borsh(&golden.structure).expect("a block");
    let expected = &json("getBlock", "response")["params"];
    let written = block_shape(&block, &expected["block"]["verboseData"]);
    assert_borsh(&golden, &written, &frame);
    assert_json(&written, expected);

    let frame = expect_bytes(BORSH, "blockAddedNotification", "notification");
    let Ok(BorshServerMessage::Notification { event, payload }) = BorshServerMessage::parse(&frame)
    else {
        panic!("not a notification")
    };
    let Ok(Notification::BlockAdded(structure)) = Notification::decode_borsh(event, payload) else {
        panic!("not a block")
    };
    let block = Block::decode_borsh(&structure).expect("a block");
    let expected = &json("blockAddedNotification", "notification")["params"]["BlockAdded"];
    let written = block_shape(&block, &expected["block"]["verboseData"]);
    assert_json(&written, expected);
    let written = Encoding::Borsh.notification(Event::BlockAdded, &written);
    assert_eq!(written, Frame::Binary(frame));
}

#[test]
fn utxos_are_written_as_kaspad_writes_them() {
    let list = |utxos: &[AddressUtxo]| Value::structures(utxos.iter().map(address_utxo).collect());
    for (file, name) in [(BORSH, "getUtxosByAddresses"), (CHAIN, "chain_utxos")] {
        let frame = expect_bytes(file, name, "response");
        let golden = reply(&frame);
        let utxos = decode_borsh_utxos(&golden.structure).expect("UTXOs");
        let written = Structure::with_version16(1).field("entries", list(&utxos));
        assert_borsh(&golden, &written, &frame);
    }
    let text = expect(JSON, "utxosChangedNotification", "notification");
    let params = &json("utxosChangedNotification", "notification")["params"];
    let Ok(Notification::UtxosChanged(changes)) = Notification::decode_json(&params.to_string())
    else {
        panic!("not UTXOs")
    };
    let written = Structure::with_version16(1)
        .field("added", list(&changes.added))
        .field("removed", list(&changes.removed));
    let written = Encoding::Json.notification(Event::UtxosChanged, &written);
    assert_eq!(written, Frame::Text(text.to_owned()));
}

fn submitted_block(request: Option<Request>) -> super::Call {
    request.expect("a known operation").call.expect("the parameters")
}

#[test]
fn templates_and_submitted_blocks_are_the_same_blocks() {
    let request = Request::from_borsh(&expect_bytes(BORSH, "submitBlock", "request"));
    let Call::SubmitBlock { header, transactions } = submitted_block(request) else {
        panic!("not a block")
    };
    assert_eq!(transactions.len(), 2);
    assert_eq!(crate::kaspa_node::dag::merkle_root(&transactions), header.hash_merkle_root);
    // The template of the submitted block was recorded, too.
    let frame = expect_bytes(BORSH, "getBlockTemplate", "response");
    let written = Structure::with_version16(1)
        .field("block", Value::Structure(raw_block(&header, &transactions)))
        .field("isSynced", Value::Flag(true));
    assert_borsh(&reply(&frame), &written, &frame);
    assert_json(&written, &json("getBlockTemplate", "response")["params"]);

    let request = Request::from_json(expect(JSON, "submitBlock", "request"));
    let Call::SubmitBlock { header, transactions } = submitted_block(request) else {
        panic!("not a block")
    };
    assert_eq!(crate::kaspa_node::dag::merkle_root(&transactions), header.hash_merkle_root);
    let written = raw_block(&header, &transactions);
    assert_json(&written, &json("submitBlock", "request")["params"]["block"]);
}

#[test]
fn mempool_transactions_are_written_as_kaspad_writes_them() {
    let entry = &json("getMempoolEntry", "response")["params"]["mempoolEntry"];
    let request = serde_json::json!({
        "id": 1,
        "method": "submitTransaction",
        "params": { "transaction": entry["transaction"] },
    });
    let request = Request::from_json(&request.to_string()).expect("a known method");
    let Some(Call::SubmitTransaction(transaction)) = request.call else {
        panic!("not a transaction")
    };
    let placed = PlacedTransaction {
        block: TransactionBlock { block_hash: Hash::default(), block_time_ms: 0 },
        prefix: Prefix::Simnet,
    };
    let written = Structure::without_version()
        .field("fee", Value::U64(entry["fee"].as_u64().expect("a number")))
        .field("transaction", Value::Structure(plain_transaction(&transaction, Some(&placed))))
        .field("is_orphan", Value::Flag(false));
    assert_json(&written, entry);
    let frame = expect_bytes(BORSH, "getMempoolEntry", "response");
    let one = Structure::with_version16(1).field("mempoolEntry", Value::Structure(written.clone()));
    assert_borsh(&reply(&frame), &one, &frame);
    let frame = expect_bytes(BORSH, "getMempoolEntries", "response");
    let all =
        Structure::with_version16(1).field("mempoolEntries", Value::structures(vec![written]));
    assert_borsh(&reply(&frame), &all, &frame);
}

#[test]
fn every_recorded_request_is_read_in_both_encodings() {
    let mut requests = 0;
    for line in BORSH.lines().chain(CHAIN.lines()) {
        let mut parts = line.splitn(3, ' ');
        let mut part = || parts.next().expect("three parts");
        let name = part();
        if part() != "request" {
            continue;
        }
        let request = Request::from_borsh(&decode_digits(part())).expect("a known operation");
        requests += 1;
        let is_modelled = !matches!(request.call, Some(Call::Other(_)));
        if name.starts_with("error_bad") || name.starts_with("error_no") {
            assert!(request.call.is_none(), "{name}");
        } else {
            assert!(request.call.is_some(), "{name}");
        }
        if is_modelled && request.call.is_some() && !name.starts_with("error") {
            let same = JSON.lines().find_map(|line| line.strip_prefix(&format!("{name} request ")));
            if let Some(text) = same {
                let request = Request::from_json(text).expect("a known method");
                assert!(request.call.is_some(), "{name}");
            }
        }
    }
    assert!(requests > 70, "{requests}");
}

#[test]
fn failures_and_rejections_match_kaspad() {
    let name = "error_getVirtualChainFromBlockV2";
    let operation = Operation::Method(Method::GetVirtualChainFromBlockV2);
    let frame = expect_bytes(BORSH, name, "response");
    let id = u64::from_le_bytes(frame[1..9].try_into().expect("8 bytes"));
    let text = format!("cannot find header {}", "ab".repeat(32));
    assert_eq!(Encoding::Borsh.failure(id, operation, &text), Frame::Binary(frame));
    let golden = expect(JSON, name, "response");
    let id = json(name, "response")["id"].as_u64().expect("a number");
    assert_eq!(Encoding::Json.failure(id, operation, &text), Frame::Text(golden.to_owned()));
    for (name, error) in [
        ("error_not_found", kaspa::ServerError::NotFound),
        ("error_bad_payload", kaspa::ServerError::InvalidParams),
    ] {
        let frame = expect_bytes(CHAIN, name, "response");
        let id = u64::from_le_bytes(frame[1..9].try_into().expect("8 bytes"));
        assert_eq!(Encoding::Borsh.rejection(id, operation, &error), Frame::Binary(frame));
    }
}
