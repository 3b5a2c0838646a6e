//! The toy ledger in binary messages: one ledger in two encodings over the same connections.

use std::collections::VecDeque;
use std::sync::Arc;

use clients::ClientId;
use futures_util::{SinkExt, StreamExt};
use ledger::Address;
use serde_json::json;
use testkit::toy_api::binary::{
    HEAD_BYTES, KIND_ERROR, KIND_NOTIFICATION, KIND_OK, OP_ADD, OP_GET, OP_HEIGHT, OP_LIST,
    OP_SUBSCRIBE_COUNTER, OP_SUBSCRIBE_HEIGHT, OP_UNSUBSCRIBE, encode_request,
};
use testkit::toy_api::{ToyBinary, ToyBinaryServer, pubsub_config};
use tokio::io::{DuplexStream, duplex};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use websocket::serve_connection;

use crate::toy_api::Toy;

/// A client of the binary protocol.
struct BinaryClient {
    socket: WebSocketStream<DuplexStream>,
    next_id: u64,
    /// Notifications that came before a reply.
    early: VecDeque<Vec<u8>>,
}

impl BinaryClient {
    async fn connect(server: &Arc<ToyBinaryServer>) -> Self {
        let (client, io) = duplex(4_096);
        tokio::spawn(serve_connection(io, ClientId(1), Arc::clone(server)));
        let socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        Self { socket, next_id: 1, early: VecDeque::new() }
    }

    /// The next message, whole.
    async fn receive(&mut self) -> Vec<u8> {
        loop {
            match self.socket.next().await.expect("it is open").expect("no error") {
                Message::Binary(bytes) => return bytes.to_vec(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The kind and the payload of a reply.
    async fn call(&mut self, operation: u8, payload: &[u8]) -> (u8, Vec<u8>) {
        let id = self.next_id;
        self.next_id += 1;
        let request = encode_request(id, operation, payload);
        self.socket.send(Message::Binary(request.into())).await.expect("it reads");
        let mut reply = self.receive().await;
        while reply[8] == KIND_NOTIFICATION {
            self.early.push_back(reply);
            reply = self.receive().await;
        }
        assert_eq!(reply[..8], id.to_le_bytes());
        (reply[8], reply[HEAD_BYTES..].to_vec())
    }

    async fn number(&mut self, operation: u8, payload: &[u8]) -> u64 {
        let (kind, payload) = self.call(operation, payload).await;
        assert_eq!(kind, KIND_OK, "{}", String::from_utf8_lossy(&payload));
        u64::from_le_bytes(payload.try_into().expect("a number"))
    }

    /// The value, the subscription and the sequence of a notification.
    async fn notification(&mut self) -> [u64; 3] {
        let message = match self.early.pop_front() {
            Some(message) => message,
            None => self.receive().await,
        };
        assert_eq!(message[..HEAD_BYTES], encode_request(0, KIND_NOTIFICATION, &[]));
        let number = |at: usize| {
            let at = HEAD_BYTES + 8 * at;
            u64::from_le_bytes(message[at..at + 8].try_into().expect("a number"))
        };
        [number(0), number(1), number(2)]
    }
}

fn add_request(amount: u64, name: &str) -> Vec<u8> {
    [&amount.to_le_bytes()[..], name.as_bytes()].concat()
}

#[test]
fn one_ledger_is_served_in_two_encodings() {
    let toy = Toy::start();
    let binary = toy.runtime.block_on(async { ToyBinary::start(&toy.server, pubsub_config()) });
    toy.run(async {
        let mut client = BinaryClient::connect(&binary).await;
        let heights = client.number(OP_SUBSCRIBE_HEIGHT, &[]).await;
        let values = client.number(OP_SUBSCRIBE_COUNTER, b"a").await;
        assert_eq!(client.number(OP_ADD, &add_request(5, "a")).await, 5);
        let mut notifications = [client.notification().await, client.notification().await];
        notifications.sort_by_key(|[_, id, _]| *id);
        let mut expected = [[1, heights, 0], [5, values, 0]];
        expected.sort_by_key(|[_, id, _]| *id);
        assert_eq!(notifications, expected);

        // A block of a client of the other encoding.
        toy.add("b");
        assert_eq!(client.notification().await, [2, heights, 1]);
        assert_eq!(client.number(OP_HEIGHT, &[]).await, 2);
        let (_, ended) = client.call(OP_UNSUBSCRIBE, &heights.to_le_bytes()).await;
        assert_eq!(ended, [1]);
    });
    assert_eq!(toy.call("counterGet", json!(["a"]))["result"]["value"], json!(5));
    assert_eq!(toy.call("getHeight", json!([]))["result"], json!(2));
}

#[test]
fn a_replaced_tip_is_read_at_processed() {
    let toy = Toy::start();
    let binary = toy.runtime.block_on(async { ToyBinary::start(&toy.server, pubsub_config()) });
    toy.add("a");
    let name = Address::try_from(&b"a"[..]).expect("a short name");
    toy.run(async {
        let mut client = BinaryClient::connect(&binary).await;
        for value in [7, 8, 9_u64] {
            toy.server.api.counters.replace_tip(&[(name, value)]).expect("room");
            let (_, processed) = client.call(OP_GET, b"\x01a").await;
            assert_eq!(processed, [&[1][..], &value.to_le_bytes()].concat());
        }
        let (_, finalized) = client.call(OP_GET, b"\0a").await;
        assert_eq!(finalized, [&[1][..], &1_u64.to_le_bytes()].concat());
        let (_, missing) = client.call(OP_GET, b"\0z").await;
        assert_eq!(missing, [0; 9]);
    });
}

#[test]
fn a_binary_list_is_streamed() {
    let toy = Toy::start();
    let binary = toy.runtime.block_on(async { ToyBinary::start(&toy.server, pubsub_config()) });
    let names: Vec<String> = (0..250).map(|at| format!("{at:03}")).collect();
    names.iter().for_each(|name| toy.add(name));
    toy.run(async {
        let mut client = BinaryClient::connect(&binary).await;
        let (kind, list) = client.call(OP_LIST, &[]).await;
        let entry = |name: &String| [&[3], name.as_bytes(), &1_u64.to_le_bytes()].concat();
        let entries: Vec<u8> = names.iter().flat_map(entry).collect();
        assert_eq!(kind, KIND_OK);
        assert_eq!(list, [&250_u32.to_le_bytes()[..], &entries].concat());
    });
}

#[test]
fn malformed_binary_messages_are_refused() {
    let toy = Toy::start();
    let binary = toy.runtime.block_on(async { ToyBinary::start(&toy.server, pubsub_config()) });
    toy.run(async {
        let mut client = BinaryClient::connect(&binary).await;
        let calls: [(u8, &[u8]); 5] =
            [(99, &[]), (OP_GET, &[]), (OP_GET, b"\x02a"), (OP_ADD, b"a"), (OP_UNSUBSCRIBE, b"1")];
        for (operation, payload) in calls {
            let (kind, text) = client.call(operation, payload).await;
            assert_eq!(kind, KIND_ERROR, "{operation}: {}", String::from_utf8_lossy(&text));
        }
        let long = client.call(OP_SUBSCRIBE_COUNTER, &[b'a'; 37]).await;
        assert_eq!(long.0, KIND_ERROR);
        for message in [Message::text("text"), Message::Binary(vec![1, 2, 3].into())] {
            let mut client = BinaryClient::connect(&binary).await;
            client.socket.send(message).await.expect("it reads");
            let closed = client.socket.next().await.expect("a close frame").expect("no error");
            let Message::Close(Some(frame)) = closed else { panic!("{closed:?}") };
            assert_eq!(u16::from(frame.code), 1003);
        }
    });
}
