//! Golden messages in JSON are decoded, and encoded again to the same text.

use kaspa::{
    AddressBalance, AddressUtxo, BorshServerMessage, CoinSupply, Event, JSON_LIST_TAIL,
    JsonAddresses, JsonRequest, JsonServerMessage, Method, Network, NodeInfo, Notification,
    Operation, Scope, ServerError, ServerInfo, decode_borsh_utxos, encode_json_balance,
    encode_json_balances_head, encode_json_failure, encode_json_pong, encode_json_sink,
    encode_json_sink_blue_score, encode_json_subscribed, encode_json_unsubscribed,
    encode_json_utxos_changed, encode_json_utxos_head,
};
use serde_json::Value;
use testkit::kaspa_golden::{BORSH, JSON, expect, expect_bytes, messages};

fn text(message: &[u8]) -> &str {
    std::str::from_utf8(message).expect("JSON is UTF-8")
}

fn id_of(message: &str) -> u64 {
    JsonServerMessage::parse(message).expect("a message").id.expect("an id")
}

fn params(message: &str) -> Value {
    serde_json::from_str::<Value>(message).expect("JSON")["params"].take()
}

#[test]
fn a_request_is_nested_as_deeply_as_kaspad_reads() {
    // Brackets in strings and next to each other are not nested.
    let elements = r#"[],{},"[[\"[[\\","#.repeat(300);
    let message = format!(r#"{{"id":1,"method":"getInfo","params":[{elements}0]}}"#);
    assert!(serde_json::from_str::<Value>(&message).is_ok());
    assert!(JsonRequest::parse(&message).is_ok());
    for depth in [1, 100, 125, 126, 127, 128, 200] {
        let nested = "[".repeat(depth) + &"]".repeat(depth);
        let message = format!(r#"{{"id":1,"method":"getInfo","params":{nested}}}"#);
        let is_read = serde_json::from_str::<Value>(&message).is_ok();
        assert_eq!(JsonRequest::parse(&message).is_ok(), is_read, "{depth}");
    }
}

#[test]
fn every_message_is_passed_on_as_it_came() {
    let mut methods = Vec::new();
    for golden in messages(JSON) {
        let name = golden.name.trim_start_matches("error_").split('_').next().unwrap_or_default();
        match golden.kind {
            "request" => {
                let request = JsonRequest::parse(golden.text).expect(golden.name);
                assert_eq!(request.operation.name(), name);
                let id = request.id.expect("an id");
                assert_eq!(text(&request.encode_with_id(id)), golden.text);
                let other = request.encode_with_id(7);
                let other = JsonRequest::parse(text(&other)).expect(golden.name);
                assert_eq!(other.id, Some(7));
                if let Operation::Method(method) = request.operation {
                    methods.push(method);
                }
            }
            "response" => {
                let reply = JsonServerMessage::parse(golden.text).expect(golden.name);
                let id = reply.id.expect("an id");
                assert_eq!(text(&reply.encode_with_id(id)), golden.text);
                assert_eq!(reply.operation.map(Operation::name), Some(name));
            }
            _ => {
                let notification = JsonServerMessage::parse(golden.text).expect(golden.name);
                assert_eq!(notification.id, None);
                assert_eq!(notification.operation.map(Operation::name), Some(name));
            }
        }
    }
    methods.sort();
    methods.dedup();
    assert_eq!(methods, Method::ALL);
}

#[test]
fn all_nine_notifications_are_those_of_kaspad() {
    let mut events = Vec::new();
    for golden in messages(JSON).filter(|golden| golden.kind == "notification") {
        let message = JsonServerMessage::parse(golden.text).expect(golden.name);
        let params = message.params.expect("parameters").get();
        let notification = Notification::decode_json(params).expect(golden.name);
        assert_eq!(text(&notification.encode_json()), golden.text, "{}", golden.name);
        events.push(notification.event());
    }
    events.sort();
    events.dedup();
    assert_eq!(events, Event::ALL);
}

#[test]
fn both_encodings_of_a_notification_have_the_same_content() {
    let names = [
        "virtualChainChangedNotification_made",
        "finalityConflictNotification",
        "finalityConflictResolvedNotification",
        "pruningPointUtxoSetOverrideNotification",
        "newBlockTemplateNotification",
    ];
    for name in names {
        let borsh = expect_bytes(BORSH, name, "notification");
        let borsh = BorshServerMessage::parse(&borsh).expect(name).decode_notification();
        let json = expect(JSON, name, "notification");
        let json = JsonServerMessage::parse(json).expect(name).params.expect("parameters");
        let json = Notification::decode_json(json.get()).expect(name);
        assert_eq!(borsh, Some(Ok(json)), "{name}");
    }
}

#[test]
fn replies_are_those_of_kaspad() {
    let check = |name: &str, encode: &dyn Fn(u64, &Value) -> Vec<u8>| {
        let golden = expect(JSON, name, "response");
        assert_eq!(text(&encode(id_of(golden), &params(golden))), golden, "{name}");
    };
    check("getServerInfo", &|id, params| {
        ServerInfo {
            rpc_api_version: kaspa::RPC_API_VERSION,
            rpc_api_revision: 0,
            server_version: "2.1.0".to_owned(),
            network: Network::Simnet,
            has_utxo_index: true,
            is_synced: true,
            virtual_daa_score: params["virtualDaaScore"].as_u64().expect("a score"),
        }
        .encode_json(id)
    });
    check("getInfo", &|id, params| {
        NodeInfo {
            p2p_id: params["p2pId"].as_str().expect("an id").to_owned(),
            mempool_size: params["mempoolSize"].as_u64().expect("a size"),
            server_version: "2.1.0".to_owned(),
            is_utxo_indexed: true,
            is_synced: true,
            has_notify_command: true,
            has_message_id: true,
        }
        .encode_json(id)
    });
    check("getCoinSupply", &|id, params| {
        let circulating_sompi = params["circulatingSompi"].as_u64().expect("an amount");
        CoinSupply { max_sompi: kaspa::MAX_SOMPI, circulating_sompi }.encode_json(id)
    });
    check("getBalanceByAddress", &|id, params| {
        encode_json_balance(id, params["balance"].as_u64().expect("an amount"))
    });
    check("getBalancesByAddresses", &|id, params| {
        let entries = params["entries"].as_array().expect("entries").iter();
        let balances: Vec<AddressBalance> = entries
            .map(|entry| AddressBalance {
                address: entry["address"].as_str().and_then(|it| it.parse().ok()).expect("address"),
                balance: entry["balance"].as_u64().expect("an amount"),
            })
            .collect();
        let mut encoded = encode_json_balances_head(id);
        for (at, balance) in balances.iter().enumerate() {
            if at > 0 {
                encoded.push(b',');
            }
            balance.encode_json_into(&mut encoded);
        }
        encoded.extend_from_slice(JSON_LIST_TAIL.as_bytes());
        encoded
    });
    check("getSink", &|id, params| {
        let sink = kaspa::Hash::from_hex(params["sink"].as_str().expect("a hash"));
        encode_json_sink(id, &sink.expect("a hash"))
    });
    check("getSinkBlueScore", &|id, params| {
        encode_json_sink_blue_score(id, params["blueScore"].as_u64().expect("a score"))
    });
    check("ping", &|id, _| encode_json_pong(id));
    check("subscribe_utxos_changed", &|id, _| encode_json_subscribed(id, 0));
    check("unsubscribe_utxos_changed", &|id, _| encode_json_unsubscribed(id));
    check("getHeaders", &|id, _| {
        let error = ServerError::Text("Not implemented".to_owned());
        encode_json_failure(id, Operation::Method(Method::GetHeaders), &error)
    });
}

#[test]
fn an_error_has_its_text() {
    let golden = expect(JSON, "getHeaders", "response");
    let message = JsonServerMessage::parse(golden).expect("a message");
    let error = message.result().expect_err("an error");
    assert_eq!(error, ServerError::Text("Not implemented".to_owned()));
}

#[test]
fn a_list_of_utxos_is_encoded_in_pieces() {
    let golden = expect(JSON, "getUtxosByAddresses", "response");
    // The list has the shape of a notification's.
    let entries = params(golden)["entries"].take();
    let changed = serde_json::json!({"UtxosChanged": {"added": entries, "removed": []}});
    let changed = Notification::decode_json(&changed.to_string()).expect("UTXOs");
    let Notification::UtxosChanged(changes) = changed else { panic!("not UTXOs") };

    let mut encoded = encode_json_utxos_head(id_of(golden));
    for (at, utxo) in changes.added.iter().enumerate() {
        if at > 0 {
            encoded.push(b',');
        }
        utxo.encode_json_into(&mut encoded);
    }
    encoded.extend_from_slice(JSON_LIST_TAIL.as_bytes());
    assert_eq!(text(&encoded), golden);

    let frame = expect_bytes(BORSH, "getUtxosByAddresses", "response");
    let Ok(BorshServerMessage::Reply(reply)) = BorshServerMessage::parse(&frame) else {
        panic!("not a reply");
    };
    let mut borsh = decode_borsh_utxos(reply.result.expect("success")).expect("UTXOs");
    let mut json = changes.added;
    let sort = |utxos: &mut Vec<AddressUtxo>| utxos.sort_by_key(|utxo| utxo.outpoint);
    sort(&mut borsh);
    sort(&mut json);
    assert_eq!(borsh, json);
}

#[test]
fn numbers_above_53_bits_stay_exact() {
    let golden = expect(JSON, "utxosChangedNotification", "notification");
    let params = params(golden).to_string();
    let notification = Notification::decode_json(&params).expect("UTXOs");
    let Notification::UtxosChanged(mut changes) = notification else { panic!("not UTXOs") };
    changes.added[0].entry.amount = u64::MAX;
    changes.added[0].entry.covenant_id = Some(kaspa::Hash([0xab; 32]));
    changes.added[0].address = None;
    changes.removed[0].entry.block_daa_score = (1 << 53) + 1;
    let notification = Notification::UtxosChanged(changes);
    let encoded = notification.encode_json();
    assert!(text(&encoded).contains(r#""amount":18446744073709551615,"#));
    assert!(text(&encoded).contains(r#""blockDaaScore":9007199254740993,"#));
    let decoded = JsonServerMessage::parse(text(&encoded)).expect("a message");
    let decoded = Notification::decode_json(decoded.params.expect("parameters").get());
    assert_eq!(decoded.expect("UTXOs"), notification);
    let empty = encode_json_utxos_changed::<&[u8]>(&[], &[]);
    assert_eq!(
        text(&empty),
        r#"{"method":"utxosChangedNotification","params":{"UtxosChanged":{"added":[],"removed":[]}}}"#
    );
}

#[test]
fn scopes_are_read_and_written() {
    for golden in messages(JSON).filter(|golden| golden.kind == "request") {
        let request = JsonRequest::parse(golden.text).expect(golden.name);
        let id = request.id.expect("an id");
        match request.operation {
            Operation::Subscribe => {
                let scope = request.scope().expect(golden.name);
                assert_eq!(text(&scope.encode_json_subscribe(id)), golden.text);
            }
            Operation::Unsubscribe => {
                let scope = request.scope().expect(golden.name);
                assert_eq!(text(&scope.encode_json_unsubscribe(id)), golden.text);
            }
            _ => {}
        }
    }
    let parse = |params: &str| {
        let text = format!(r#"{{"id":1,"method":"subscribe","params":{params}}}"#);
        JsonRequest::parse(&text).expect("an envelope").scope().ok()
    };
    let all = Scope::UtxosChanged { addresses: Vec::new() };
    assert_eq!(parse(r#"{"UtxosChanged":{"addresses":[]}}"#), Some(all));
    let refused = [
        r#"{"UtxosChanged":{}}"#,
        r#"{"UtxosChanged":{"addresses":["kaspa:"]}}"#,
        r#"{"UtxosChanged":{"addresses":[7]}}"#,
        r#"{"Everything":{}}"#,
        r#"{"BlockAdded":{},"NewBlockTemplate":{}}"#,
        r#"[]"#,
        r#"null"#,
    ];
    for params in refused {
        assert_eq!(parse(params), None, "{params}");
    }
}

#[test]
fn parameters_are_read() {
    let request =
        |name: &str| JsonRequest::parse(expect(JSON, name, "request")).expect("an envelope");
    let addresses = request("getUtxosByAddresses").addresses().expect("addresses");
    assert_eq!(addresses.len(), 3);
    let address = request("getBalanceByAddress").address().expect("an address");
    assert_eq!(address, addresses[0]);
    assert!(request("getServerInfo").no_params().is_ok());
    assert!(request("getServerInfo").addresses().is_err());
    assert!(request("getUtxosByAddresses").address().is_err());
}

#[test]
fn addresses_are_read_in_parts() {
    let read_all = |message: &str, count_max: usize| {
        let request = JsonRequest::parse(message)?;
        let mut position = JsonAddresses::find(message, &request)?;
        let mut read = Vec::new();
        loop {
            let part = position.read(message, count_max)?;
            if part.is_empty() {
                return Ok::<_, serde_json::Error>(read);
            }
            assert!(part.len() <= count_max);
            read.extend(part);
        }
    };
    for name in ["getUtxosByAddresses", "getBalancesByAddresses", "subscribe_utxos_changed"] {
        let message = expect(JSON, name, "request");
        let request = JsonRequest::parse(message).expect(name);
        let all = match request.operation {
            Operation::Method(_) => request.addresses().expect(name),
            _ => match request.scope().expect(name) {
                Scope::UtxosChanged { addresses } => addresses,
                other => panic!("{other:?}"),
            },
        };
        for count_max in 1..5 {
            assert_eq!(read_all(message, count_max).expect(name), all);
            let spaced = message.replace(',', " ,\n\t").replace("kaspasim:", "\\u006baspasim:");
            assert_eq!(read_all(&spaced, count_max).expect(name), all);
        }
    }
    let with_list = |list: &str| {
        format!(r#"{{"id":1,"method":"getUtxosByAddresses","params":{{"addresses":{list}}}}}"#)
    };
    assert_eq!(read_all(&with_list("[ ]"), 9).expect("an empty list"), []);
    for list in ["{}", "7", "\"kaspa:\"", "[7]", "[null]", "[[]]", "[\"\"]", "[\"kaspa:q\\n\"]"] {
        assert!(read_all(&with_list(list), 9).is_err(), "{list}");
    }
}

#[test]
fn the_parameters_that_safe_mode_limits_are_found() {
    let golden = expect(JSON, "submitTransaction", "request");
    let request = JsonRequest::parse(golden).expect("a request");
    assert_eq!(request.encode_without_orphans(1).expect("parameters"), None);
    let allowed = golden.replace(r#""allowOrphan":false"#, r#""allowOrphan":true"#);
    let request = JsonRequest::parse(&allowed).expect("a request");
    let changed = request.encode_without_orphans(id_of(golden)).expect("parameters");
    assert_eq!(text(&changed.expect("a changed request")), golden);
    let golden = expect(JSON, "estimateNetworkHashesPerSecond", "request");
    let request = JsonRequest::parse(golden).expect("a request");
    assert!(request.window_size().expect("a size") > 0);
}
