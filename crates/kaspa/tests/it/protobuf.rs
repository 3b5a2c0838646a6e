//! Messages of gRPC against the golden ones, which Google's protobuf library wrote from those in JSON.

use kaspa::{
    AddressBalance, AddressUtxo, CoinSupply, Event, Hash, JsonRequest, JsonServerMessage, Method,
    Notification, Operation, PROTOBUF_PREFIX_BYTES, ProtobufError, ProtobufReply, ProtobufRequest,
    UtxoList, encode_protobuf_acknowledgement, encode_protobuf_balance,
    encode_protobuf_block_added, encode_protobuf_failure, encode_protobuf_list_head,
    encode_protobuf_pong, encode_protobuf_reply, encode_protobuf_sink,
    encode_protobuf_sink_blue_score, encode_protobuf_utxos_changed, find_protobuf_operation,
};
use serde_json::Value;
use testkit::kaspa_golden::{JSON, PROTOBUF, decode_digits, expect, expect_bytes, messages};

/// The content of a message, after its prefix.
fn content(message: &[u8]) -> &[u8] {
    let (prefix, content) = message.split_at(PROTOBUF_PREFIX_BYTES);
    assert_eq!(prefix[0], 0, "it is not compressed");
    let len = u32::from_be_bytes(prefix[1..].try_into().expect("four bytes"));
    assert_eq!(len as usize, content.len());
    content
}

fn protobuf(name: &str, kind: &str) -> Vec<u8> {
    expect_bytes(PROTOBUF, name, kind)
}

/// Removes what requests in protobuf leave out: nulls, and the second name of the mass. Zeros before a number go, too.
fn normalize(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("mass");
            fields.retain(|_, value| !value.is_null());
            if let Some(Value::String(work)) = fields.get_mut("blueWork") {
                *work = work.trim_start_matches('0').to_owned();
            }
            fields.values_mut().for_each(normalize);
        }
        Value::Array(elements) => elements.iter_mut().for_each(normalize),
        _ => {}
    }
}

fn parse_normalized(text: &str) -> Value {
    let mut value: Value = serde_json::from_str(text).expect("JSON");
    normalize(&mut value);
    value
}

#[test]
fn every_request_is_that_of_json() {
    let mut methods = 0;
    for golden in messages(PROTOBUF).filter(|golden| golden.kind == "request") {
        let message = decode_digits(golden.text);
        let request = ProtobufRequest::parse(&message).expect(golden.name);
        let json = expect(JSON, golden.name, "request");
        assert_eq!(parse_normalized(&request.json), parse_normalized(json), "{}", golden.name);
        let expected = JsonRequest::parse(json).expect("a request");
        assert_eq!((Some(request.id), request.operation), (expected.id, expected.operation));
        let found = find_protobuf_operation(&message).expect(golden.name);
        match request.operation {
            Operation::Unsubscribe => assert_eq!(found, Operation::Subscribe),
            operation => assert_eq!(found, operation),
        }
        methods += usize::from(matches!(request.operation, Operation::Method(_)));
    }
    assert!(methods >= Method::ALL.len(), "{methods}");
}

#[test]
fn every_reply_is_translated() {
    for golden in messages(PROTOBUF).filter(|golden| golden.kind == "response") {
        let json = expect(JSON, golden.name, "response");
        let parsed = JsonServerMessage::parse(json).expect("a reply");
        let request = expect_bytes(PROTOBUF, golden.name, "request");
        let ProtobufRequest { id, reply_field: field, .. } =
            ProtobufRequest::parse(&request).expect("a request");
        let reply = ProtobufReply { id, field };
        let message = match parsed.operation {
            Some(Operation::Subscribe | Operation::Unsubscribe) => {
                encode_protobuf_acknowledgement(reply)
            }
            // Their entries are encoded in pieces.
            Some(Operation::Method(
                Method::GetUtxosByAddresses | Method::GetBalancesByAddresses,
            )) => continue,
            Some(Operation::Method(method)) => {
                encode_protobuf_reply(reply, method, json).expect(golden.name)
            }
            other => panic!("{other:?}"),
        };
        assert!(content(&message) == decode_digits(golden.text), "{}", golden.name);
    }
}

#[test]
fn own_replies_are_those_of_kaspad() {
    let params = |name: &str| -> Value {
        let text = expect(JSON, name, "response");
        serde_json::from_str::<Value>(text).expect("JSON")
    };
    let id = |reply: &Value| reply["id"].as_u64().expect("an id");
    let number = |value: &Value| value.as_u64().expect("a number");
    let reply = params("ping");
    assert_eq!(content(&encode_protobuf_pong(id(&reply))), protobuf("ping", "response"));
    let reply = params("getCoinSupply");
    let supply = CoinSupply {
        max_sompi: number(&reply["params"]["maxSompi"]),
        circulating_sompi: number(&reply["params"]["circulatingSompi"]),
    };
    let message = supply.encode_protobuf(id(&reply));
    assert_eq!(content(&message), protobuf("getCoinSupply", "response"));
    let reply = params("getBalanceByAddress");
    let message = encode_protobuf_balance(id(&reply), number(&reply["params"]["balance"]));
    assert_eq!(content(&message), protobuf("getBalanceByAddress", "response"));
    let reply = params("getSinkBlueScore");
    let message =
        encode_protobuf_sink_blue_score(id(&reply), number(&reply["params"]["blueScore"]));
    assert_eq!(content(&message), protobuf("getSinkBlueScore", "response"));
    let reply = params("getSink");
    let sink = Hash::from_hex(reply["params"]["sink"].as_str().expect("a hash")).expect("digits");
    let message = encode_protobuf_sink(id(&reply), &sink);
    assert_eq!(content(&message), protobuf("getSink", "response"));
}

#[test]
fn lists_are_those_of_kaspad() {
    let reply: Value =
        serde_json::from_str(expect(JSON, "getBalancesByAddresses", "response")).expect("JSON");
    let mut entries = Vec::new();
    let listed = reply["params"]["entries"].as_array().expect("entries");
    for entry in listed {
        let address = entry["address"].as_str().and_then(|text| text.parse().ok());
        let balance = entry["balance"].as_u64().expect("an amount");
        let entry = AddressBalance { address: address.expect("an address"), balance };
        entry.encode_protobuf_into(&mut entries);
    }
    let id = reply["id"].as_u64().expect("an id");
    let count = listed.len() as u64;
    let method = Method::GetBalancesByAddresses;
    let head = encode_protobuf_list_head(id, method, count, entries.len() as u64).expect("short");
    let message = [head, entries].concat();
    assert_eq!(content(&message), protobuf("getBalancesByAddresses", "response"));

    let mut utxos = Vec::new();
    for utxo in golden_utxos() {
        utxo.encode_protobuf_into(UtxoList::Entries, &mut utxos);
    }
    let text = expect(JSON, "getUtxosByAddresses", "response");
    let id = JsonServerMessage::parse(text).expect("a reply").id.expect("an id");
    let method = Method::GetUtxosByAddresses;
    let head = encode_protobuf_list_head(id, method, 1, utxos.len() as u64).expect("short");
    let message = [head, utxos].concat();
    assert_eq!(content(&message), protobuf("getUtxosByAddresses", "response"));
}

/// The UTXOs of the golden reply, read as those of a notification.
fn golden_utxos() -> Vec<AddressUtxo> {
    let text = expect(JSON, "getUtxosByAddresses", "response");
    let reply: Value = serde_json::from_str(text).expect("JSON");
    let entries = &reply["params"]["entries"];
    let params = serde_json::json!({ "UtxosChanged": { "added": entries, "removed": [] } });
    match Notification::decode_json(&params.to_string()).expect("a notification") {
        Notification::UtxosChanged(changes) => changes.added,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_notification_is_that_of_kaspad() {
    let mut events = Vec::new();
    for golden in messages(PROTOBUF).filter(|golden| golden.kind == "notification") {
        let text = expect(JSON, golden.name, "notification");
        let params = JsonServerMessage::parse(text).expect("a message").params.expect("params");
        let notification = Notification::decode_json(params.get()).expect(golden.name);
        events.push(notification.event());
        let notification = match notification {
            Notification::BlockAdded(json) => {
                let json = String::from_utf8(json).expect("UTF-8");
                Notification::BlockAdded(encode_protobuf_block_added(&json).expect("a block"))
            }
            other => other,
        };
        let expected = decode_digits(golden.text);
        assert!(content(&notification.encode_protobuf()) == expected, "{}", golden.name);
        if let Notification::UtxosChanged(changes) = notification {
            let encode = |list, utxos: &[AddressUtxo]| -> Vec<Vec<u8>> {
                let encode = |utxo: &AddressUtxo| {
                    let mut bytes = Vec::new();
                    utxo.encode_protobuf_into(list, &mut bytes);
                    bytes
                };
                utxos.iter().map(encode).collect()
            };
            let added = encode(UtxoList::Added, &changes.added);
            let removed = encode(UtxoList::Removed, &changes.removed);
            assert!(content(&encode_protobuf_utxos_changed(&added, &removed)) == expected);
        }
    }
    events.sort_unstable();
    events.dedup();
    assert_eq!(events, Event::ALL);
}

#[test]
fn failures_are_the_error_of_the_reply() {
    let name = "getHeaders";
    let id = JsonServerMessage::parse(expect(JSON, name, "response")).expect("a reply").id;
    let reply = ProtobufReply { id: id.expect("an id"), field: 1_048 };
    let message = encode_protobuf_failure(reply, "Not implemented");
    assert_eq!(content(&message), protobuf(name, "response"));
}

#[test]
fn other_bytes_are_no_request() {
    let is_refused = |message: &[u8]| ProtobufRequest::parse(message).expect_err("it is refused");
    assert_eq!(is_refused(&[]), ProtobufError::NoRequest);
    // An id alone, and a request that does not exist.
    assert_eq!(is_refused(&[0xa8, 6, 1]), ProtobufError::NoRequest);
    assert_eq!(is_refused(&[0xf2, 0x46, 0]), ProtobufError::NoRequest);
    let ping = protobuf("ping", "request");
    for len in 1..ping.len() {
        assert!(ProtobufRequest::parse(&ping[..len]).is_err(), "{len}");
    }
    for golden in messages(PROTOBUF).filter(|golden| golden.kind == "request") {
        let mut message = decode_digits(golden.text);
        for at in 0..message.len() {
            message[at] ^= 0x55;
            // It is refused, or it is JSON.
            if let Ok(request) = ProtobufRequest::parse(&message) {
                serde_json::from_str::<Value>(&request.json).expect("JSON");
            }
            message[at] ^= 0x55;
        }
    }
}

/// Encodes a field with bytes.
fn field(number: u32, content: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    for mut value in [u64::from(number) << 3 | 2, content.len() as u64] {
        while value > 0x7f {
            message.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        message.push(value as u8);
    }
    message.extend_from_slice(content);
    message
}

#[test]
fn elements_without_content_are_refused_before_they_become_long_json() {
    const SUBMIT_BLOCK: u32 = 1_003;
    const BLOCK: u32 = 2;
    const TRANSACTIONS: u32 = 2;
    let submit = |transactions: Vec<u8>| {
        ProtobufRequest::parse(&field(SUBMIT_BLOCK, &field(BLOCK, &transactions)))
    };
    // The list of transactions has the elements first, then the list of a transaction's inputs.
    let empty = field(TRANSACTIONS, &[]).repeat(100_000);
    assert_eq!(submit(empty.clone()), Err(ProtobufError::SparseList { number: 2 }));
    let nested = field(TRANSACTIONS, &empty);
    assert_eq!(submit(nested), Err(ProtobufError::SparseList { number: 2 }));
    // A few of them are translated, and refused by kaspad.
    let few = submit(field(TRANSACTIONS, &[]).repeat(10)).expect("a request");
    assert_eq!(few.json.matches("\"lockTime\":0").count(), 10);
    // Transactions with content of any number.
    let payload = field(8, "ab".repeat(100).as_bytes());
    let many = submit(field(TRANSACTIONS, &payload).repeat(5_000)).expect("a request");
    assert_eq!(many.json.matches("\"lockTime\":0").count(), 5_000);
}
