//! A client of wRPC in either encoding.

use std::collections::VecDeque;

use futures_util::{SinkExt, StreamExt};
use kaspa::{
    AddressUtxo, BorshReply, BorshServerMessage, Encoding, JsonServerMessage, KaspaAddress, Method,
    Notification, Operation, Scope, ServerError, decode_borsh_utxos,
};
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

pub(crate) struct WrpcClient {
    pub(crate) socket: WebSocketStream<DuplexStream>,
    encoding: Encoding,
    next_id: u64,
    /// Notifications that came before a reply.
    early: VecDeque<Notification>,
}

/// A successful reply: the structure in Borsh, or the parameters in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content(pub(crate) Vec<u8>);

pub(crate) type Reply = Result<Content, ServerError>;

impl WrpcClient {
    pub(crate) fn new(socket: WebSocketStream<DuplexStream>, encoding: Encoding) -> Self {
        // Above 2^53, as those of official clients.
        Self { socket, encoding, next_id: u64::MAX - 1_000_000, early: VecDeque::new() }
    }

    pub(crate) fn allocate_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Sends a message in the encoding of the connection.
    pub(crate) async fn send(&mut self, message: Vec<u8>) {
        let message = match self.encoding {
            Encoding::Borsh => Message::Binary(message.into()),
            Encoding::Json => Message::text(String::from_utf8(message).expect("UTF-8")),
        };
        self.socket.send(message).await.expect("it reads");
    }

    /// The next message, or the code of the close frame.
    pub(crate) async fn receive(&mut self) -> Result<Vec<u8>, u16> {
        loop {
            match self.socket.next().await.expect("it is open").expect("no error") {
                Message::Binary(bytes) => {
                    assert_eq!(self.encoding, Encoding::Borsh);
                    return Ok(bytes.to_vec());
                }
                Message::Text(text) => {
                    assert_eq!(self.encoding, Encoding::Json);
                    return Ok(text.as_bytes().to_vec());
                }
                Message::Close(frame) => return Err(frame.expect("a code").code.into()),
                Message::Ping(_) | Message::Pong(_) => {}
                Message::Frame(_) => panic!("a raw frame"),
            }
        }
    }

    /// The next message that is not a notification.
    pub(crate) async fn receive_reply(&mut self) -> Vec<u8> {
        loop {
            let message = self.receive().await.expect("a reply comes before the end");
            match self.parse_notification(&message) {
                Some(notification) => self.early.push_back(notification),
                None => return message,
            }
        }
    }

    /// Receives a reply in Borsh, which is successful.
    pub(crate) async fn check_reply(&mut self) {
        let reply = self.receive_reply().await;
        let message = BorshServerMessage::parse(&reply).expect("a message");
        assert!(matches!(message, BorshServerMessage::Reply(BorshReply { result: Ok(_), .. })));
    }

    fn parse_notification(&self, message: &[u8]) -> Option<Notification> {
        match self.encoding {
            Encoding::Borsh => {
                let message = BorshServerMessage::parse(message).expect("a message");
                message.decode_notification().map(|decoded| decoded.expect("a notification"))
            }
            Encoding::Json => {
                let text = std::str::from_utf8(message).expect("UTF-8");
                let message = JsonServerMessage::parse(text).expect("a message");
                let params = message.params.filter(|_| message.id.is_none())?;
                Some(Notification::decode_json(params.get()).expect("a notification"))
            }
        }
    }

    /// Sends a request with this id, and returns the result of its reply.
    pub(crate) async fn exchange(&mut self, id: u64, request: Vec<u8>) -> Reply {
        self.send(request).await;
        let reply = self.receive_reply().await;
        match self.encoding {
            Encoding::Borsh => match BorshServerMessage::parse(&reply) {
                Ok(BorshServerMessage::Reply(BorshReply { id: reply_id, result, .. })) => {
                    assert_eq!(reply_id, id);
                    result.map(|structure| Content(structure.to_vec()))
                }
                other => panic!("{other:?}"),
            },
            Encoding::Json => {
                let text = std::str::from_utf8(&reply).expect("UTF-8");
                let reply = JsonServerMessage::parse(text).expect("a message");
                assert_eq!(reply.id, Some(id));
                let params = reply.result()?.expect("parameters");
                Ok(Content(params.get().as_bytes().to_vec()))
            }
        }
    }

    /// Calls a method without parameters.
    pub(crate) async fn call(&mut self, method: Method) -> Reply {
        let id = self.allocate_id();
        let request = match self.encoding {
            Encoding::Borsh => method.encode_borsh_request(id),
            Encoding::Json => encode_json(id, method, &json!({})),
        };
        self.exchange(id, request).await
    }

    /// Calls a method with addresses.
    pub(crate) async fn call_addresses(
        &mut self,
        method: Method,
        addresses: &[KaspaAddress],
    ) -> Reply {
        let id = self.allocate_id();
        let request = match self.encoding {
            Encoding::Borsh => method.encode_borsh_addresses(id, addresses),
            Encoding::Json => {
                let texts: Vec<String> = addresses.iter().map(KaspaAddress::to_string).collect();
                encode_json(id, method, &json!({ "addresses": texts }))
            }
        };
        self.exchange(id, request).await
    }

    /// The UTXOs of addresses, by outpoint.
    pub(crate) async fn utxos(&mut self, addresses: &[KaspaAddress]) -> Vec<AddressUtxo> {
        let reply = self.call_addresses(Method::GetUtxosByAddresses, addresses).await;
        let Content(content) = reply.expect("a list");
        let mut utxos = self.decode_utxos(&content);
        utxos.sort_by_key(|utxo| utxo.outpoint);
        utxos
    }

    pub(crate) fn decode_utxos(&self, content: &[u8]) -> Vec<AddressUtxo> {
        match self.encoding {
            Encoding::Borsh => decode_borsh_utxos(content).expect("UTXOs"),
            Encoding::Json => {
                // The list has the shape of a notification's.
                let params: Value = serde_json::from_slice(content).expect("JSON");
                let changed = json!({"UtxosChanged": {"added": params["entries"], "removed": []}});
                match Notification::decode_json(&changed.to_string()).expect("UTXOs") {
                    Notification::UtxosChanged(changes) => changes.added,
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    pub(crate) async fn subscribe(&mut self, scope: &Scope) -> Result<(), ServerError> {
        let id = self.allocate_id();
        let request = match self.encoding {
            Encoding::Borsh => scope.encode_borsh_subscribe(id),
            Encoding::Json => scope.encode_json_subscribe(id),
        };
        self.exchange(id, request).await.map(|Content(_)| ())
    }

    pub(crate) async fn unsubscribe(&mut self, scope: &Scope) {
        let id = self.allocate_id();
        let request = match self.encoding {
            Encoding::Borsh => scope.encode_borsh_unsubscribe(id),
            Encoding::Json => scope.encode_json_unsubscribe(id),
        };
        self.exchange(id, request).await.expect("kaspad has no error of it");
    }

    /// Takes a notification that came before a reply.
    pub(crate) fn take_early(&mut self) -> Option<Notification> {
        self.early.pop_front()
    }

    /// The next notification.
    pub(crate) async fn notification(&mut self) -> Notification {
        if let Some(early) = self.early.pop_front() {
            return early;
        }
        let message = self.receive().await.expect("a notification comes before the end");
        self.parse_notification(&message).expect("a notification")
    }

    /// Checks that nothing waits for the client. The queue is written after the first reply at the latest.
    pub(crate) async fn check_quiet(&mut self) {
        for _ in 0..2 {
            self.call(Method::Ping).await.expect("a pong");
        }
        assert_eq!(self.early, []);
    }
}

pub(crate) fn encode_json(id: u64, method: Method, params: &Value) -> Vec<u8> {
    let method = Operation::Method(method).name();
    json!({ "id": id, "method": method, "params": params }).to_string().into_bytes()
}
