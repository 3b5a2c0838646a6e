//! Messages that no client of kaspad sends, and what kaspad does with them.

use futures_util::{SinkExt, StreamExt};
use kaspa::{Encoding, Method, Operation, Scope, ServerError};
use rpc_kaspa::Settings;
use serde_json::json;
use testkit::kaspa_chain::{address, pay};
use tokio_tungstenite::tungstenite::Message;

use crate::golden;
use crate::world::{World, config};
use crate::wrpc_client::{Content, WrpcClient, encode_json};

/// A frame in Borsh with these fields as its structure.
fn frame(operation: Operation, fields: &[&[u8]]) -> Vec<u8> {
    let fields = fields.concat();
    let mut frame = [&[1][..], &7_u64.to_le_bytes(), &[operation.code()]].concat();
    frame.extend_from_slice(&(fields.len() as u32).to_le_bytes());
    frame.extend_from_slice(&fields);
    frame
}

/// The code with which a connection ends after a message.
async fn close_code(world: &World, encoding: Encoding, message: Message) -> u16 {
    let mut client = world.connect(encoding).await;
    client.socket.send(message).await.expect("it reads");
    match client.socket.next().await {
        Some(Ok(Message::Close(Some(frame)))) => frame.code.into(),
        other => panic!("{other:?}"),
    }
}

/// Checks that the connection still works.
async fn check_alive(client: &mut WrpcClient) {
    client.call(Method::Ping).await.expect("a pong");
}

#[tokio::test]
async fn a_message_without_a_known_operation_closes_its_connection() {
    let world = World::start();
    let mut unknown = golden::find(Encoding::Borsh, "ping", "request");
    unknown[9] = 200;
    let mut tag = golden::find(Encoding::Borsh, "ping", "request");
    tag[0] = 2;
    for bytes in [unknown, tag, Vec::new(), vec![1], vec![0], vec![1, 2, 3, 4, 5, 6, 7, 8, 9]] {
        let code = close_code(&world, Encoding::Borsh, Message::Binary(bytes.into())).await;
        assert_eq!(code, 1007);
    }
    let texts = [
        r#"{"id":1,"method":"nothing","params":{}}"#,
        r#"{"id":-1,"method":"ping","params":{}}"#,
        r#"{"id":"1","method":"ping","params":{}}"#,
        r#"{"id":18446744073709551616,"method":"ping","params":{}}"#,
        r#"{"id":1,"method":"ping"}"#,
        r#"{"id":1,"method":"ping","params":{}}{"id":2,"method":"ping","params":{}}"#,
        "[]",
        "",
    ];
    let nested = "[".repeat(200) + &"]".repeat(200);
    let nested = format!(r#"{{"id":1,"method":"getInfo","params":{nested}}}"#);
    for text in texts.into_iter().chain([nested.as_str()]) {
        assert_eq!(close_code(&world, Encoding::Json, Message::text(text)).await, 1007, "{text}");
    }
    // Nothing of it reached the connection that all clients share.
    assert_eq!(world.forward.take_requests(), []);
}

#[tokio::test]
async fn a_message_of_the_other_kind_is_read_as_kaspad_does() {
    let world = World::start();
    let ping = String::from_utf8(golden::find(Encoding::Json, "ping", "request")).expect("UTF-8");
    let code = close_code(&world, Encoding::Borsh, Message::text(ping.clone())).await;
    assert_eq!(code, 1003);
    // Bytes are read as a text.
    let mut client = world.connect(Encoding::Json).await;
    client.socket.send(Message::Binary(ping.into_bytes().into())).await.expect("it reads");
    assert!(client.receive_reply().await == golden::find(Encoding::Json, "ping", "response"));
    let borsh = golden::find(Encoding::Borsh, "ping", "request");
    let code = close_code(&world, Encoding::Json, Message::Binary(borsh.into())).await;
    assert_eq!(code, 1007);
}

#[tokio::test]
async fn a_message_without_an_id_gets_no_reply() {
    let world = World::start();
    for encoding in Encoding::ALL {
        let mut client = world.connect(encoding).await;
        for name in ["ping", "getBlockDagInfo", "subscribe_utxos_changed"] {
            let request = golden::find(encoding, name, "request");
            let without_id = match encoding {
                Encoding::Borsh => [&[0], &request[9..]].concat(),
                Encoding::Json => {
                    let text = String::from_utf8(request).expect("UTF-8");
                    let (_, rest) = text.split_once(',').expect("an id");
                    format!("{{{rest}").into_bytes()
                }
            };
            client.send(without_id).await;
        }
        check_alive(&mut client).await;
        assert_eq!(world.forward.take_requests(), []);
        assert_eq!(world.server.stats().subscriptions, 0);
    }
}

#[tokio::test]
async fn a_request_that_is_cut_anywhere_is_not_forwarded() {
    let world = World::start();
    let mut client = world.connect(Encoding::Borsh).await;
    let names =
        ["getUtxosByAddresses", "submitTransaction", "getBlocks", "subscribe_utxos_changed"];
    for name in names {
        let request = golden::find(Encoding::Borsh, name, "request");
        for len in 10..request.len() {
            let id = u64::from_le_bytes(request[1..9].try_into().expect("eight bytes"));
            let reply = client.exchange(id, request[..len].to_vec()).await;
            assert_eq!(reply, Err(ServerError::InvalidPayload), "{name} at {len}");
        }
        // A byte more, and two requests in one frame: there is one reply.
        for more in [&[0][..], &request] {
            client.send([&request[..], more].concat()).await;
            client.receive_reply().await;
            check_alive(&mut client).await;
        }
    }
    assert_eq!(world.forward.take_requests(), []);
    assert_eq!(world.server.stats().subscriptions, 0);
}

#[tokio::test]
async fn counts_and_lengths_that_no_bytes_back_are_refused() {
    let world = World::start();
    let mut client = world.connect(Encoding::Borsh).await;
    let huge = 0xffff_fff0_u32.to_le_bytes();
    let method = Operation::Method;
    let requests = [
        frame(method(Method::GetUtxosByAddresses), &[&[1, 0], &huge]),
        frame(method(Method::GetBalancesByAddresses), &[&[1, 0], &huge, &[0; 38]]),
        frame(method(Method::GetBalanceByAddress), &[&[1, 0, 2, 0], &huge]),
        frame(method(Method::GetMempoolEntriesByAddresses), &[&[1, 0], &huge, &[0, 0]]),
        frame(method(Method::GetDaaScoreTimestampEstimate), &[&[1, 0], &huge]),
        frame(method(Method::GetBlockTemplate), &[&[1, 0, 2, 0], &huge]),
        frame(Operation::Subscribe, &[&[1, 0, 4], &huge]),
        frame(Operation::Unsubscribe, &[&[1, 0, 4], &huge, &[0; 38]]),
        // A length of the whole structure.
        [&[1][..], &7_u64.to_le_bytes(), &[135], &huge, &[1, 0]].concat(),
    ];
    for request in requests {
        let reply = client.exchange(7, request).await;
        assert_eq!(reply, Err(ServerError::InvalidPayload));
    }
    assert_eq!(world.forward.take_requests(), []);
    check_alive(&mut client).await;
}

#[tokio::test]
async fn addresses_and_scopes_that_do_not_exist_are_refused() {
    let world = World::start();
    let mut client = world.connect(Encoding::Borsh).await;
    let good = [&[2, 0, 32, 0, 0, 0][..], &[7; 32]].concat();
    let balance = Operation::Method(Method::GetBalanceByAddress);
    client.exchange(7, frame(balance, &[&[1, 0], &good])).await.expect("a balance");
    let mut bad = Vec::new();
    for (at, value) in [(0, 4), (0, 255), (1, 2), (1, 9), (2, 31)] {
        let mut address = good.clone();
        address[at] = value;
        bad.push(address);
    }
    bad.push([&[2, 0, 33, 0, 0, 0][..], &[7; 33]].concat());
    bad.push([&[2, 1, 32, 0, 0, 0][..], &[7; 32]].concat());
    for address in &bad {
        let one = 1_u32.to_le_bytes();
        let requests = [
            frame(balance, &[&[1, 0], address]),
            frame(Operation::Method(Method::GetUtxosByAddresses), &[&[1, 0], &one, address]),
            frame(Operation::Subscribe, &[&[1, 0, 4], &one, address]),
        ];
        for request in requests {
            let reply = client.exchange(7, request).await;
            assert_eq!(reply, Err(ServerError::InvalidPayload), "{address:?}");
        }
    }
    for variant in [9, 255] {
        let reply = client.exchange(7, frame(Operation::Subscribe, &[&[1, 0, variant]])).await;
        assert_eq!(reply, Err(ServerError::InvalidPayload));
    }
    // Versions are not checked, as in kaspad.
    for version in [0_u16, 2, u16::MAX] {
        let request = frame(balance, &[&version.to_le_bytes(), &good]);
        client.exchange(7, request).await.expect("a balance");
    }
    assert_eq!(world.server.stats().subscriptions, 0);
}

#[tokio::test]
async fn tags_of_options_that_do_not_exist_are_refused() {
    let world = World::start();
    let mut client = world.connect(Encoding::Borsh).await;
    let hash = [7_u8; 32];
    let method = Operation::Method;
    let requests = |tag: u8| {
        let tag = [tag];
        [
            frame(method(Method::GetBlocks), &[&[1, 0], &tag, &hash, &[0, 0]]),
            frame(
                method(Method::EstimateNetworkHashesPerSecond),
                &[&[1, 0, 9, 0, 0, 0], &tag, &hash],
            ),
            frame(method(Method::GetVirtualChainFromBlock), &[&[2, 0], &hash, &[0], &tag, &[0; 8]]),
            // The last one is within a structure of one byte.
            frame(
                method(Method::GetVirtualChainFromBlockV2),
                &[&[1, 0], &hash, &[1, 0, 0, 0], &tag, &[0]],
            ),
        ]
    };
    for tag in [2, 255] {
        for request in requests(tag) {
            let reply = client.exchange(7, request).await;
            assert_eq!(reply, Err(ServerError::InvalidPayload), "{tag}");
        }
    }
    assert_eq!(world.forward.take_requests(), []);
    check_alive(&mut client).await;
}

#[tokio::test]
async fn parameters_of_another_shape_are_refused_in_json() {
    let mut world = World::start();
    world.chain.add_block(&[], &[pay(1, 5)]);
    world.publish();
    let mut client = world.connect(Encoding::Json).await;
    let good = address(1).to_string();
    let params = [
        json!([]),
        json!({}),
        json!({ "address": 7 }),
        json!({ "address": good.to_uppercase() }),
        json!({ "address": good.replace("kaspasim", "kaspa") }),
        json!({ "address": format!("{}q", good) }),
        json!({ "address": good.trim_start_matches("kaspasim:") }),
    ];
    for params in params {
        let id = client.allocate_id();
        let request = encode_json(id, Method::GetBalanceByAddress, &params);
        let error = client.exchange(id, request).await.expect_err("another shape");
        assert_eq!(error.to_string(), "request deserialization error", "{params}");
    }
    for scope in ["{}", r#"{"Nothing":{}}"#, r#"{"UtxosChanged":{}}"#, r#""BlockAdded""#, "[]"] {
        let id = client.allocate_id();
        let request = format!(r#"{{"id":{id},"method":"subscribe","params":{scope}}}"#);
        let error = client.exchange(id, request.into_bytes()).await.expect_err("no scope");
        assert_eq!(error.to_string(), "request deserialization error", "{scope}");
    }
    // A long scope of another shape is refused without reading its addresses.
    let id = client.allocate_id();
    let many = vec![good.as_str(); 200];
    let list = json!(many).to_string();
    let request = format!(
        r#"{{"id":{id},"method":"subscribe","params":{{"UtxosChanged":{{"addresses":{list},"addresses":{list}}}}}}}"#
    );
    let error = client.exchange(id, request.into_bytes()).await.expect_err("a list twice");
    assert_eq!(error.to_string(), "request deserialization error");
    let id = client.allocate_id();
    let request = encode_json(id, Method::GetBalanceByAddress, &json!({ "address": good }));
    let reply = client.exchange(id, request).await;
    assert_eq!(reply, Ok(Content(br#"{"balance":5}"#.to_vec())));
}

#[tokio::test]
async fn operations_that_are_not_methods_are_not_found() {
    let world = World::start();
    for encoding in Encoding::ALL {
        let mut client = world.connect(encoding).await;
        let operations = (0..=u8::MAX).filter_map(Operation::from_code);
        for operation in operations {
            if !matches!(operation, Operation::Notification(_) | Operation::Unserved(_)) {
                continue;
            }
            let request = match encoding {
                Encoding::Borsh => frame(operation, &[&[1, 0]]),
                Encoding::Json => {
                    format!(r#"{{"id":7,"method":"{}","params":{{}}}}"#, operation.name())
                        .into_bytes()
                }
            };
            let error = client.exchange(7, request).await.expect_err("not a method");
            assert_eq!(error.to_string(), "RPC method not found", "{operation:?}");
        }
        assert_eq!(world.forward.take_requests(), []);
    }
}

#[tokio::test]
async fn a_message_over_its_bound_closes_the_connection() {
    let limits = websocket::Config { addresses_message_bytes_max: 16_384, ..config() };
    let world = World::new(Vec::new(), Settings::default(), limits.clone());
    // Only operations with lists may have more than the ordinary bound.
    let long = vec![0; limits.message_bytes_max];
    let request = frame(Operation::Method(Method::GetBlock), &[&long]);
    let code = close_code(&world, Encoding::Borsh, Message::Binary(request.into())).await;
    assert_eq!(code, 1009);
    let longest = vec![0; limits.addresses_message_bytes_max];
    let request = frame(Operation::Method(Method::GetUtxosByAddresses), &[&longest]);
    let code = close_code(&world, Encoding::Borsh, Message::Binary(request.into())).await;
    assert_eq!(code, 1009);
    // A decoy of a long operation.
    let padding = "x".repeat(limits.message_bytes_max);
    let request = format!(
        r#"{{"decoy":"\"getUtxosByAddresses\"","method":"getBlock","subscribe":"","id":1,
            "params":{{"padding":"{padding}"}}}}"#
    );
    assert_eq!(close_code(&world, Encoding::Json, Message::text(request)).await, 1009);
    assert_eq!(world.forward.take_requests(), []);
}

#[tokio::test]
async fn clients_that_close_within_a_call_leave_nothing_behind() {
    let world = World::new(Vec::new(), Settings::default(), config());
    let scope = Scope::UtxosChanged { addresses: (0..200).map(address).collect() };
    for encoding in Encoding::ALL {
        for _ in 0..20 {
            let mut client = world.connect(encoding).await;
            let id = client.allocate_id();
            client
                .send(match encoding {
                    Encoding::Borsh => scope.encode_borsh_subscribe(id),
                    Encoding::Json => scope.encode_json_subscribe(id),
                })
                .await;
        }
    }
    while world.server.stats().connections > 0 {
        tokio::task::yield_now().await;
    }
    assert!(world.server.subscriptions.is_idle());
    assert_eq!(world.server.stats().tracked_addresses, 0);
}
