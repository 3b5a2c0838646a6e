//! Calls that are forwarded to a model node.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clients::ClientId;
use follow_kaspa::{ForwardError, Forwarder, ForwarderConfig, SourceConfig};
use kaspa::{
    BorshReply, BorshServerMessage, Encoding, Event, Method, NodeInfo, Operation, Unserved,
};
use metrics::Collector;
use testkit::eventually::eventually;
use testkit::kaspa_node::KaspaNode;

use crate::world::source;

const ALICE: ClientId = ClientId(1);
const BOB: ClientId = ClientId(2);
/// Any id, which the reply repeats.
const ID: u64 = 0x1234_5678_9abc_def0;

fn config(node: &KaspaNode) -> ForwarderConfig {
    let json = SourceConfig::new(format!("ws://{}", node.json()));
    let mut config = ForwarderConfig::new(vec![source(node)], vec![json]);
    config.common.call_timeout = Duration::from_secs(20);
    config.slow.call_timeout = Duration::from_secs(20);
    config
}

async fn call(
    forwarder: &Forwarder,
    client: ClientId,
    method: Method,
) -> Result<Bytes, ForwardError> {
    let request = method.encode_borsh_request(ID).into();
    forwarder.forward(client, Encoding::Borsh, Operation::Method(method), request).await
}

fn structure(reply: &Bytes) -> &[u8] {
    match BorshServerMessage::parse(reply) {
        Ok(BorshServerMessage::Reply(BorshReply { id: ID, result: Ok(structure), .. })) => {
            structure
        }
        other => panic!("not a successful reply: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_answered_in_both_encodings() {
    let node = KaspaNode::start().await;
    let mut config = config(&node);
    config.common.connections = 1;
    let forwarder = Forwarder::start(config);
    for _ in 0..10 {
        let reply = call(&forwarder, ALICE, Method::GetInfo).await.expect("a reply");
        let info = NodeInfo::decode_borsh(structure(&reply)).expect("getInfo");
        assert_eq!(info.server_version, "2.1.0");
        let request = format!(r#"{{"id":{ID},"method":"getInfo","params":{{}}}}"#);
        let method = Operation::Method(Method::GetInfo);
        let reply = forwarder.forward(ALICE, Encoding::Json, method, request.into()).await;
        let reply = reply.expect("a reply");
        let text = std::str::from_utf8(&reply).expect("UTF-8");
        assert!(text.starts_with(&format!(r#"{{"id":{ID},"method":"getInfo""#)), "{text}");
        assert!(text.contains("2.1.0"), "{text}");
    }
    assert_eq!(node.connections(), 2, "all calls of an encoding have one connection, which stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_the_upstream_are_passed_on() {
    let node = KaspaNode::start().await;
    let forwarder = Forwarder::start(config(&node));
    let unknown = kaspa::Hash([9; 32]);
    let request = Method::encode_borsh_get_block(ID, &unknown, true).into();
    let method = Operation::Method(Method::GetBlock);
    let reply = forwarder.forward(ALICE, Encoding::Borsh, method, request).await.expect("a reply");
    let Ok(BorshServerMessage::Reply(reply)) = BorshServerMessage::parse(&reply) else {
        panic!("not a reply")
    };
    assert_eq!(reply.id, ID);
    assert!(reply.result.is_err_and(|error| error.to_string().contains("cannot find header")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_that_harm_the_upstream_are_refused() {
    let node = KaspaNode::start().await;
    let forwarder = Forwarder::start(config(&node));
    let others = [
        Operation::Subscribe,
        Operation::Unsubscribe,
        Operation::Notification(Event::BlockAdded),
        Operation::Unserved(Unserved::Connect),
    ];
    for operation in others {
        let request = Method::GetInfo.encode_borsh_request(ID).into();
        let refused = forwarder.forward(ALICE, Encoding::Borsh, operation, request).await.err();
        assert_eq!(refused, Some(ForwardError::NotAMethod));
    }
    let request = Bytes::from_static(&[1, 2, 3]);
    let method = Operation::Method(Method::GetInfo);
    let refused = forwarder.forward(ALICE, Encoding::Borsh, method, request).await.err();
    assert_eq!(refused, Some(ForwardError::Malformed));
    assert_eq!(node.connections(), 0, "nothing was sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_many_calls_does_not_harm_others() {
    let node = KaspaNode::start().await;
    let mut config = config(&node);
    config.common.client_calls_max = 3;
    config.common.connections = 8;
    let forwarder = Arc::new(Forwarder::start(config));
    node.delay_replies(Method::GetInfo);
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let forwarder = Arc::clone(&forwarder);
        let call = async move { call(&forwarder, ALICE, Method::GetInfo).await };
        waiting.push(tokio::spawn(call));
    }
    eventually(|| node.connections() == 3, || node.connections().to_string()).await;
    let refused = call(&forwarder, ALICE, Method::GetSink).await.err();
    assert!(matches!(refused, Some(ForwardError::ClientCalls(_))), "{refused:?}");
    call(&forwarder, BOB, Method::GetSink).await.expect("another connection is free");
    node.release_replies();
    for call in waiting {
        call.await.expect("no panic").expect("a reply");
    }
    call(&forwarder, ALICE, Method::GetSink).await.expect("it has no call that waits");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_methods_do_not_delay_others() {
    let node = KaspaNode::start().await;
    let mut config = config(&node);
    config.common.connections = 1;
    config.slow.connections = 1;
    let forwarder = Arc::new(Forwarder::start(config));
    node.delay_replies(Method::GetDaaScoreTimestampEstimate);
    let slow = {
        let forwarder = Arc::clone(&forwarder);
        let method = Method::GetDaaScoreTimestampEstimate;
        let mut request = vec![1];
        request.extend_from_slice(&ID.to_le_bytes());
        request.extend_from_slice(&[method.code(), 6, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
        tokio::spawn(async move {
            let operation = Operation::Method(method);
            forwarder.forward(ALICE, Encoding::Borsh, operation, request.into()).await
        })
    };
    eventually(|| node.connections() == 1, || node.connections().to_string()).await;
    call(&forwarder, ALICE, Method::GetInfo).await.expect("it has another connection");
    node.release_replies();
    slow.await.expect("no panic").expect("a reply");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upstream_that_is_silent_or_gone_is_reported() {
    let node = KaspaNode::start().await;
    let mut config = config(&node);
    config.common.call_timeout = Duration::from_millis(50);
    let forwarder = Forwarder::start(config);
    node.delay_replies(Method::GetInfo);
    let refused = call(&forwarder, ALICE, Method::GetInfo).await.err();
    assert!(matches!(refused, Some(ForwardError::Timeout { .. })), "{refused:?}");
    node.release_replies();
    node.set_accepting(false);
    node.cut_after(0);
    eventually(|| node.connections() == 0, String::new).await;
    let refused = call(&forwarder, ALICE, Method::GetSink).await.err();
    assert!(matches!(refused, Some(ForwardError::Unavailable { .. })), "{refused:?}");
    node.set_accepting(true);
    call(&forwarder, ALICE, Method::GetSink).await.expect("it is back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_do_not_see_the_address_of_the_upstream() {
    // Nothing listens there.
    let source = SourceConfig::new("ws://127.0.0.1:1");
    let forwarder = Forwarder::start(ForwarderConfig::new(vec![source], Vec::new()));
    let refused = call(&forwarder, ALICE, Method::GetSink).await.expect_err("no upstream");
    let text = refused.to_string();
    assert!(text.contains("no connection") && !text.contains("127.0.0.1"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_upstream_is_left_for_the_next_one() {
    let silent = KaspaNode::start().await;
    silent.delay_replies(Method::GetSink);
    let node = KaspaNode::start().await;
    node.mine(1);
    let mut config = ForwarderConfig::new(vec![source(&silent), source(&node)], Vec::new());
    config.common.connections = 1;
    config.common.call_timeout = Duration::from_millis(50);
    let forwarder = Forwarder::start(config);
    let mut calls = 0;
    let reply = loop {
        calls += 1;
        assert!(calls < 100, "only the silent one is called");
        if let Ok(reply) = call(&forwarder, ALICE, Method::GetSink).await {
            break reply;
        }
    };
    assert!(calls > 1);
    assert_eq!(kaspa::decode_borsh_sink(structure(&reply)), Ok(node.sink()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_is_replaced() {
    let node = KaspaNode::start().await;
    let forwarder = Forwarder::start(config(&node));
    for messages in 0..5 {
        call(&forwarder, ALICE, Method::GetSink).await.expect("a reply");
        node.cut_after(messages);
    }
    call(&forwarder, ALICE, Method::GetSink).await.expect("a reply");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_and_replies_have_limits() {
    let node = KaspaNode::start().await;
    let mut config = config(&node);
    config.request_bytes_max = 64;
    config.common.response_bytes_max = 32;
    let forwarder = Forwarder::start(config);
    let refused = call(&forwarder, ALICE, Method::GetInfo).await.err();
    assert_eq!(refused, Some(ForwardError::ReplyTooLong { bytes_max: 32 }));
    let refused = forwarder.forward(
        ALICE,
        Encoding::Borsh,
        Operation::Method(Method::GetInfo),
        vec![0; 65].into(),
    );
    let bytes_max = 64;
    assert_eq!(refused.await.err(), Some(ForwardError::RequestTooLong { bytes: 65, bytes_max }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_no_client_takes_have_a_limit() {
    let node = KaspaNode::start().await;
    let mut config = config(&node);
    config.replies_bytes_max = 1;
    config.common.client_calls_max = 1;
    let forwarder = Forwarder::start(config);
    let mut slow = pin!(call(&forwarder, ALICE, Method::GetInfo));
    // The call is sent, and its client does not take the reply.
    tokio::select! {
        biased;
        reply = &mut slow => panic!("it waits for the upstream: {reply:?}"),
        () = std::future::ready(()) => {}
    }
    let waiting = || {
        let memory = forwarder.memory();
        memory.iter().find(|(name, _)| *name == "kaspa_forward_replies").map(|(_, bytes)| *bytes)
    };
    eventually(|| waiting() > Some(0), || format!("{:?}", waiting())).await;
    let refused = call(&forwarder, ALICE, Method::GetSink).await.err();
    assert!(matches!(refused, Some(ForwardError::ClientCalls(_))), "{refused:?}");
    let refused = call(&forwarder, BOB, Method::GetSink).await.err();
    assert_eq!(refused, Some(ForwardError::RepliesFull));
    let reply = slow.await.expect("a reply");
    assert!(waiting() > Some(0), "it may wait for the thread that translates it");
    let refused = call(&forwarder, ALICE, Method::GetSink).await.err();
    assert!(matches!(refused, Some(ForwardError::ClientCalls(_))), "{refused:?}");
    drop(reply);
    assert_eq!(waiting(), Some(0));
    call(&forwarder, ALICE, Method::GetSink).await.expect("room again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_requests_are_checked_and_forwarded() {
    let node = KaspaNode::start().await;
    let forwarder = Forwarder::start(config(&node));
    let scores = 100_000_u32;
    let method = Method::GetDaaScoreTimestampEstimate;
    let structure = [&1_u16.to_le_bytes()[..], &scores.to_le_bytes(), &[0; 800_000]].concat();
    let mut request = vec![1];
    request.extend_from_slice(&ID.to_le_bytes());
    request.push(method.code());
    request.extend_from_slice(&u32::try_from(structure.len()).expect("short").to_le_bytes());
    request.extend_from_slice(&structure);
    let operation = Operation::Method(method);
    let cut = Bytes::copy_from_slice(&request[..request.len() - 1]);
    let refused = forwarder.forward(ALICE, Encoding::Borsh, operation, cut).await.err();
    assert!(matches!(refused, Some(ForwardError::InvalidParams { .. })), "{refused:?}");
    let reply = forwarder.forward(ALICE, Encoding::Borsh, operation, request.into()).await;
    let reply = reply.expect("a reply");
    assert!(matches!(
        BorshServerMessage::parse(&reply),
        Ok(BorshServerMessage::Reply(BorshReply { id: ID, .. }))
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_needs_an_upstream_of_its_own() {
    let node = KaspaNode::start().await;
    let forwarder = Forwarder::start(ForwarderConfig::new(vec![source(&node)], Vec::new()));
    let request = r#"{"id":1,"method":"getInfo","params":{}}"#.into();
    let method = Operation::Method(Method::GetInfo);
    let refused = forwarder.forward(ALICE, Encoding::Json, method, request).await.err();
    assert_eq!(refused, Some(ForwardError::NoJsonUpstream));
}
