//! Requests that a kaspad answers: what is forwarded and how, and what is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use kaspa::{
    BorshRequest, Encoding, JsonRequest, Method, NodeInfo, Operation, ServerError, ServerInfo,
    replace_borsh_id,
};
use rpc_kaspa::{ForwardError, Settings};
use serde_json::{Value, json};
use testkit::kaspa_chain::pay;
use tokio_tungstenite::tungstenite::Message;

use crate::golden;
use crate::world::{World, config};
use crate::wrpc_client::{Content, encode_json};

const UNAVAILABLE: &str =
    "Method unavailable in safe mode. Run the node with --unsaferpc argument.";

const UNSAFE: [Method; 5] = [
    Method::Shutdown,
    Method::Ban,
    Method::Unban,
    Method::AddPeer,
    Method::ResolveFinalityConflict,
];

/// The methods that are answered without the upstream.
const OWN: [Method; 7] = [
    Method::Ping,
    Method::GetUtxosByAddresses,
    Method::GetBalanceByAddress,
    Method::GetBalancesByAddresses,
    Method::GetCoinSupply,
    Method::GetSink,
    Method::GetSinkBlueScore,
];

fn method_of(encoding: Encoding, request: &[u8]) -> Operation {
    match encoding {
        Encoding::Borsh => BorshRequest::parse(request).expect("a request").operation,
        Encoding::Json => {
            let text = std::str::from_utf8(request).expect("UTF-8");
            JsonRequest::parse(text).expect("a request").operation
        }
    }
}

fn with_id(encoding: Encoding, mut message: Vec<u8>, id: u64) -> Vec<u8> {
    match encoding {
        Encoding::Borsh => {
            assert!(replace_borsh_id(&mut message, id));
            message
        }
        Encoding::Json => {
            let text = String::from_utf8(message).expect("UTF-8");
            JsonRequest::parse(&text).expect("a request").encode_with_id(id)
        }
    }
}

#[tokio::test]
async fn every_method_of_kaspad_is_answered_or_forwarded_unchanged() {
    let settings = Settings { allow_unsafe_rpc: true, ..Settings::default() };
    let world = World::with_settings(settings);
    for encoding in Encoding::ALL {
        let mut client = world.connect(encoding).await;
        let mut forwarded = Vec::new();
        let requests = golden::messages(encoding).filter(|golden| golden.kind == "request");
        for golden in requests {
            let Operation::Method(method) = method_of(encoding, &golden.bytes) else { continue };
            let id = client.allocate_id();
            let request = with_id(encoding, golden.bytes, id);
            let reply = client.exchange(id, request.clone()).await;
            let seen = world.forward.take_requests();
            if OWN.contains(&method) {
                assert_eq!(seen, [], "{}", golden.name);
                assert!(reply.is_ok(), "{}", golden.name);
                continue;
            }
            assert_eq!(seen.len(), 1, "{}", golden.name);
            assert_eq!(seen[0].operation, Operation::Method(method));
            assert_eq!(seen[0].encoding, encoding);
            assert!(seen[0].request == request, "{}", golden.name);
            forwarded.push(method);
        }
        forwarded.sort();
        forwarded.dedup();
        assert_eq!(forwarded.len() + OWN.len(), Method::ALL.len());
    }
}

#[tokio::test]
async fn replies_of_the_upstream_are_passed_on() {
    let world = World::start();
    for encoding in Encoding::ALL {
        let mut client = world.connect(encoding).await;
        for name in ["getBlockDagInfo", "getFeeEstimate", "getMempoolEntries", "getHeaders"] {
            client.send(golden::find(encoding, name, "request")).await;
            let reply = client.receive_reply().await;
            assert!(reply == golden::find(encoding, name, "response"), "{name}");
        }
    }
}

#[tokio::test]
async fn the_state_of_the_node_is_that_of_the_chain() {
    let mut world = World::start();
    world.chain.add_block(&[], &[pay(1, 1)]);
    world.publish();
    let daa_score = world.daa_score();
    let mut client = world.connect(Encoding::Borsh).await;
    let Content(content) = client.call(Method::GetServerInfo).await.expect("server info");
    let info = ServerInfo::decode_borsh(&content).expect("server info");
    assert_eq!(
        (info.virtual_daa_score, info.has_utxo_index, info.is_synced),
        (daa_score, true, true)
    );
    assert_eq!(info.server_version, "2.1.0");
    let Content(content) = client.call(Method::GetInfo).await.expect("node info");
    assert!(NodeInfo::decode_borsh(&content).expect("node info").is_utxo_indexed);
    let mut client = world.connect(Encoding::Json).await;
    let Content(content) = client.call(Method::GetServerInfo).await.expect("server info");
    let golden = golden::find(Encoding::Json, "getServerInfo", "response");
    let mut golden: Value = serde_json::from_slice(&golden).expect("JSON");
    golden["params"]["virtualDaaScore"] = json!(daa_score);
    assert_eq!(serde_json::from_slice::<Value>(&content).expect("JSON"), golden["params"]);
    client.send(golden::find(Encoding::Json, "getInfo", "request")).await;
    let reply = client.receive_reply().await;
    assert!(reply == golden::find(Encoding::Json, "getInfo", "response"));
}

#[tokio::test]
async fn a_chain_that_is_behind_is_not_in_sync() {
    let world = World::start();
    let is_behind = Arc::new(AtomicBool::new(false));
    let check = Arc::clone(&is_behind);
    let problem = || "the chain has not reached the sink of its source".to_owned();
    world.server.report_problem(move || check.load(Ordering::SeqCst).then(problem));
    for is_problem in [false, true] {
        is_behind.store(is_problem, Ordering::SeqCst);
        let mut client = world.connect(Encoding::Borsh).await;
        let Content(content) = client.call(Method::GetServerInfo).await.expect("server info");
        let info = ServerInfo::decode_borsh(&content).expect("server info");
        assert_eq!(info.is_synced, !is_problem);
        let Content(content) = client.call(Method::GetSyncStatus).await.expect("a status");
        assert_eq!(content, [1, 0, u8::from(!is_problem)]);
        let mut client = world.connect(Encoding::Json).await;
        for method in [Method::GetServerInfo, Method::GetInfo, Method::GetSyncStatus] {
            let Content(content) = client.call(method).await.expect("a reply");
            let reply: Value = serde_json::from_slice(&content).expect("JSON");
            assert_eq!(reply["isSynced"], json!(!is_problem), "{method:?}");
        }
    }
}

#[tokio::test]
async fn methods_that_change_the_upstream_are_refused_with_the_error_of_kaspad() {
    let world = World::start();
    for encoding in Encoding::ALL {
        let mut client = world.connect(encoding).await;
        for method in UNSAFE {
            let id = client.allocate_id();
            let request = golden::find(encoding, method.name(), "request");
            let reply = client.exchange(id, with_id(encoding, request, id)).await;
            assert_eq!(reply, Err(ServerError::Text(UNAVAILABLE.to_owned())), "{method:?}");
        }
        assert_eq!(world.forward.take_requests(), []);
    }
    let mut exposition = metrics::Exposition::default();
    metrics::Collector::write(&*world.server.requests, &mut exposition);
    let text = exposition.into_string();
    for line in [
        r#"hydrant_kaspa_requests_total{encoding="json",method="shutdown"} 1"#,
        r#"hydrant_kaspa_refused_requests_total{cause="safe_mode"} 10"#,
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[tokio::test]
async fn safe_mode_clears_orphans_and_limits_windows() {
    let world = World::start();
    let mut client = world.connect(Encoding::Borsh).await;
    let golden = golden::find(Encoding::Borsh, "submitTransaction", "request");
    let mut orphan = golden.clone();
    *orphan.last_mut().expect("a flag") = 1;
    for request in [golden.clone(), orphan] {
        client.send(request).await;
        client.receive_reply().await;
        let seen = world.forward.take_requests();
        assert!(seen.len() == 1 && seen[0].request == golden);
    }
    let mut client = world.connect(Encoding::Json).await;
    let golden = golden::find(Encoding::Json, "submitTransaction", "request");
    let text = String::from_utf8(golden.clone()).expect("UTF-8");
    let orphan = text.replace(r#""allowOrphan":false"#, r#""allowOrphan":true"#);
    for request in [golden.clone(), orphan.into_bytes()] {
        client.send(request).await;
        client.receive_reply().await;
        let seen = world.forward.take_requests();
        assert!(seen.len() == 1 && seen[0].request == golden);
    }
    for (blocks, is_forwarded) in [(10_000_u32, true), (10_001, false), (u32::MAX, false)] {
        let id = client.allocate_id();
        let params = json!({ "windowSize": blocks, "startHash": null });
        let request = encode_json(id, Method::EstimateNetworkHashesPerSecond, &params);
        let reply = client.exchange(id, request).await;
        assert_eq!(world.forward.take_requests().len(), usize::from(is_forwarded));
        if !is_forwarded {
            let text = format!(
                "Requested window size {blocks} is larger than max 10000 allowed in RPC safe mode."
            );
            assert_eq!(reply, Err(ServerError::Text(text)));
        }
    }
}

#[tokio::test]
async fn errors_of_forwarding_have_texts() {
    let world = World::start();
    for encoding in Encoding::ALL {
        let mut client = world.connect(encoding).await;
        for text in ["too many calls wait", "the connection was lost"] {
            let error = ForwardError::new(text);
            *world.forward.error.lock() = Some(error);
            let reply = client.call(Method::GetBlockDagInfo).await;
            assert_eq!(reply, Err(ServerError::Text(text.to_owned())));
        }
        // Own methods do not need the upstream.
        client.call(Method::GetCoinSupply).await.expect("a supply");
    }
}

#[tokio::test]
async fn a_call_that_waits_for_the_upstream_delays_no_other_client() {
    let world = World::start();
    world.forward.permits.forget_permits(usize::MAX);
    let mut waiting = world.connect(Encoding::Borsh).await;
    let id = waiting.allocate_id();
    waiting.send(Method::GetBlockDagInfo.encode_borsh_request(id)).await;
    let mut other = world.connect(Encoding::Borsh).await;
    other.call(Method::GetCoinSupply).await.expect("a supply");
    while world.forward.requests.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    world.forward.permits.add_permits(1);
    waiting.receive_reply().await;
    // A client that leaves gives its request up.
    let id = waiting.allocate_id();
    waiting.send(Method::GetBlockDagInfo.encode_borsh_request(id)).await;
    while world.forward.requests.lock().len() < 2 {
        tokio::task::yield_now().await;
    }
    drop(waiting);
    // A connection that waits notices it at its next ping, and one is sent now.
    world.server.shut_down();
    while world.forward.dropped.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_forwarded_call_gets_its_reply_before_a_shutdown_closes_its_connection() {
    let world = World::start();
    world.forward.permits.forget_permits(usize::MAX);
    let mut client = world.connect(Encoding::Borsh).await;
    let id = client.allocate_id();
    client.send(Method::GetBlockDagInfo.encode_borsh_request(id)).await;
    while world.forward.requests.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    world.server.shut_down();
    let ping = client.socket.next().await.expect("it is open").expect("no error");
    assert!(matches!(ping, Message::Ping(_)), "{ping:?}");
    world.forward.permits.add_permits(1);
    client.receive_reply().await;
    assert_eq!(client.receive().await, Err(1001));
}

#[tokio::test]
async fn a_reply_that_does_not_come_is_an_error() {
    let settings = Settings { forward_timeout_ms: 1, ..Settings::default() };
    let world = World::new(Vec::new(), settings, config());
    world.forward.permits.forget_permits(usize::MAX);
    let mut client = world.connect(Encoding::Json).await;
    let reply = client.call(Method::GetBlockDagInfo).await;
    let text = "the upstream node did not answer within 1 ms".to_owned();
    assert_eq!(reply, Err(ServerError::Text(text)));
    assert_eq!(world.forward.dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_long_transaction_is_checked_and_forwarded() {
    let world = World::start();
    let mut client = world.connect(Encoding::Borsh).await;
    let golden = golden::find(Encoding::Borsh, "submitTransaction", "request");
    // The transaction gets a field of a newer version, of 100 KB.
    let newer = vec![7; 100_000];
    let mut request = golden;
    let mut lengthen = |at: usize| {
        let length: [u8; 4] = request[at..at + 4].try_into().expect("a length");
        let length = u32::from_le_bytes(length) + 100_000;
        request[at..at + 4].copy_from_slice(&length.to_le_bytes());
    };
    lengthen(10);
    lengthen(16);
    let flag = request.pop().expect("a flag");
    request.extend_from_slice(&newer);
    request.push(flag);
    client.send(request.clone()).await;
    client.receive_reply().await;
    let seen = world.forward.take_requests();
    assert!(seen.len() == 1 && seen[0].request == request);
}
