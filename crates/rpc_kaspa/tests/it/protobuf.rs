//! The messages of gRPC over a connection in memory. Its frames are those of WebSocket: streams of HTTP/2 are tested where
//! they are served (`grpc_kaspa`).

use std::sync::Arc;

use chain_kaspa::ChainEvent;
use clients::ClientId;
use futures_util::{SinkExt, StreamExt};
use kaspa::{
    Encoding, JsonServerMessage, Method, Notification, Operation, PROTOBUF_PREFIX_BYTES,
    ProtobufRequest,
};
use rpc_kaspa::{MessageFormat, SessionState, Settings};
use testkit::kaspa_chain::pay;
use tokio::io::{DuplexStream, duplex};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use websocket::serve_session;

use crate::golden;
use crate::methods::golden_set;
use crate::world::World;

/// A connection in protobuf.
struct ProtobufClient(WebSocketStream<DuplexStream>);

impl ProtobufClient {
    async fn connect(world: &World) -> Self {
        let (client, io) = duplex(64 * 1024);
        let state = SessionState::with_format(MessageFormat::Protobuf);
        tokio::spawn(serve_session(io, ClientId(7), Arc::clone(&world.server), state));
        Self(WebSocketStream::from_raw_socket(client, Role::Client, None).await)
    }

    async fn send(&mut self, message: Vec<u8>) {
        self.0.send(Message::Binary(message.into())).await.expect("it reads");
    }

    /// The content of the next message, after its prefix, or the code of the close frame.
    async fn receive(&mut self) -> Result<Vec<u8>, u16> {
        match self.0.next().await.expect("it is open").expect("no error") {
            Message::Binary(bytes) => {
                let (prefix, content) = bytes.split_at(PROTOBUF_PREFIX_BYTES);
                let len = u32::from_be_bytes(prefix[1..].try_into().expect("four bytes"));
                assert_eq!((prefix[0], len as usize), (0, content.len()));
                Ok(content.to_vec())
            }
            Message::Close(frame) => Err(frame.expect("a code").code.into()),
            other => panic!("{other:?}"),
        }
    }

    async fn exchange(&mut self, request: Vec<u8>) -> Vec<u8> {
        self.send(request).await;
        self.receive().await.expect("a reply")
    }
}

#[tokio::test]
async fn every_method_is_answered_as_kaspad_answers_it() {
    let settings = Settings { allow_unsafe_rpc: true, ..Settings::default() };
    let world = World::with_set_and_settings(golden_set(), settings);
    let mut client = ProtobufClient::connect(&world).await;
    let mut forwarded = 0;
    for request in golden::protobuf_messages().filter(|golden| golden.kind == "request") {
        let parsed = ProtobufRequest::parse(&request.bytes).expect(request.name);
        let Operation::Method(method) = parsed.operation else { continue };
        // The upstream of the test answers by the name of the method.
        let is_failure = request.name.starts_with("error_");
        let reply = client.exchange(request.bytes).await;
        for seen in world.forward.take_requests() {
            assert_eq!((seen.encoding, seen.operation), (Encoding::Json, parsed.operation));
            forwarded += 1;
        }
        // These depend on the chain: its sink, its DAA score, and the order of a hash table.
        let is_of_chain = matches!(
            method,
            Method::GetSink
                | Method::GetSinkBlueScore
                | Method::GetServerInfo
                | Method::GetUtxosByAddresses
        );
        let expected = golden::find_protobuf(request.name, "response");
        if let Some(expected) = expected.filter(|_| !is_failure && !is_of_chain) {
            assert!(reply == expected, "{}", request.name);
        }
    }
    assert!(forwarded >= Method::ALL.len() - 7, "{forwarded}");
}

#[tokio::test]
async fn utxos_are_streamed_with_the_length_of_the_list() {
    let world = World::with_utxos(golden_set());
    let mut client = ProtobufClient::connect(&world).await;
    let reply = client.exchange(golden::protobuf("getUtxosByAddresses", "request")).await;
    let golden = golden::protobuf("getUtxosByAddresses", "response");
    let sorted = |mut bytes: Vec<u8>| {
        bytes.sort_unstable();
        bytes
    };
    assert_eq!(sorted(reply), sorted(golden));
}

#[tokio::test]
async fn notifications_are_those_of_kaspad_byte_by_byte() {
    let mut world = World::start();
    let mut client = ProtobufClient::connect(&world).await;
    for golden in golden::protobuf_messages().filter(|golden| golden.kind == "request") {
        if golden.name.starts_with("subscribe_") && golden.name != "subscribe_utxos_changed" {
            let reply = client.exchange(golden.bytes).await;
            assert!(reply == golden::protobuf(golden.name, "response"), "{}", golden.name);
        }
    }
    for golden in golden::messages(Encoding::Json).filter(|golden| golden.kind == "notification") {
        let text = String::from_utf8(golden.bytes).expect("UTF-8");
        let params = JsonServerMessage::parse(&text).expect("a message").params;
        let notification = Notification::decode_json(params.expect("parameters").get());
        let notification = notification.expect("a notification");
        let event = match &notification {
            Notification::UtxosChanged(_) => continue,
            Notification::VirtualChainChanged(change) => {
                Some(ChainEvent::ChainChanged(Arc::new(change.clone())))
            }
            Notification::SinkBlueScoreChanged { sink_blue_score: blue_score } => {
                Some(ChainEvent::SinkBlueScoreChanged { blue_score: *blue_score })
            }
            Notification::VirtualDaaScoreChanged { virtual_daa_score: daa_score } => {
                Some(ChainEvent::VirtualDaaScoreChanged { daa_score: *daa_score })
            }
            Notification::PruningPointUtxoSetOverride => Some(ChainEvent::UtxoSetReplaced),
            _ => None,
        };
        match event {
            Some(event) => world.publisher.publish_chain(&[event]),
            // The resolution of a conflict comes by the subscription to conflicts.
            None => world.publisher.publish_upstream(Encoding::Json, &notification),
        }
        let received = client.receive().await.expect("a notification");
        assert!(received == golden::protobuf(golden.name, "notification"), "{}", golden.name);
    }
}

#[tokio::test]
async fn changed_utxos_come_until_the_subscription_is_stopped() {
    let mut world = World::start();
    let mut client = ProtobufClient::connect(&world).await;
    // notifyUtxosChangedRequest without addresses: all of them. The command 1 stops.
    let start = [0xa8, 0x06, 1, 0xca, 0x41, 0];
    let stop = [0xa8, 0x06, 2, 0xca, 0x41, 3, 0xa8, 0x06, 1];
    // notifyUtxosChangedResponse.
    assert_eq!(client.exchange(start.to_vec()).await, [0xa8, 0x06, 1, 0xd2, 0x41, 0]);
    world.chain.add_block(&[], &[pay(1, 5)]);
    world.publish();
    let notification = client.receive().await.expect("a notification");
    // utxosChangedNotification.
    assert_eq!(notification[..2], [0xda, 0x41]);
    assert_eq!(client.exchange(stop.to_vec()).await, [0xa8, 0x06, 2, 0xd2, 0x41, 0]);
    world.chain.add_block(&[], &[pay(1, 6)]);
    world.publish();
    // The next message is the reply, and not a notification.
    let pong = client.exchange(vec![0xa8, 0x06, 3, 0x82, 0x44, 0]).await;
    assert_eq!(pong, [0xa8, 0x06, 3, 0x8a, 0x44, 0]);
}

#[tokio::test]
async fn methods_that_change_the_upstream_are_refused_in_the_reply() {
    let world = World::start();
    let mut client = ProtobufClient::connect(&world).await;
    let reply = client.exchange(golden::protobuf("shutdown", "request")).await;
    let text = String::from_utf8_lossy(&reply);
    assert!(text.contains("Method unavailable in safe mode"), "{text}");
    assert!(world.forward.take_requests().is_empty());
}

#[tokio::test]
async fn a_message_without_a_known_request_closes_the_connection() {
    let world = World::start();
    for message in [&[][..], &[0xa8, 0x06, 1], &[0xf2, 0x46, 0], &[0xca, 0x41, 9], b"{}"] {
        let mut client = ProtobufClient::connect(&world).await;
        client.send(message.to_vec()).await;
        assert_eq!(client.receive().await, Err(1007), "{message:?}");
    }
}
