//! Subscriptions to the toy ledger over WebSocket: what carries them names no chain.

use std::collections::VecDeque;
use std::sync::Arc;

use clients::ClientId;
use futures_util::{SinkExt, StreamExt};
use ledger::Address;
use serde_json::{Value, json};
use testkit::toy_api::pubsub_config;
use tokio::io::{AsyncRead, AsyncWrite, duplex};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error, Message};
use websocket::{Config, serve_connection};

use crate::toy_api::{TIMEOUT, Toy};

/// A client. Notifications that come before a reply wait.
pub(crate) struct Client<S> {
    socket: WebSocketStream<S>,
    early: VecDeque<Value>,
}

impl Toy {
    /// Runs a test's clients, with a time limit.
    pub(crate) fn run<T>(&self, clients: impl Future<Output = T>) -> T {
        self.runtime.block_on(async { timeout(TIMEOUT, clients).await.expect("in time") })
    }

    async fn connect(&self) -> Client<TcpStream> {
        self.try_connect("").await.expect("it upgrades")
    }

    pub(crate) async fn try_connect(&self, path: &str) -> Result<Client<TcpStream>, Error> {
        let stream = TcpStream::connect(self.address).await.expect("it listens");
        let url = format!("ws://{}/{path}", self.address);
        let (socket, _) = tokio_tungstenite::client_async(url, stream).await?;
        Ok(Client { socket, early: VecDeque::new() })
    }

    /// Adds 1 to a counter, in a block of its own.
    pub(crate) fn add(&self, name: &str) {
        let name = Address::try_from(name.as_bytes()).expect("a short name");
        self.server.api.counters.add(&name, 1).expect("room");
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) async fn send(&mut self, text: impl Into<String>) {
        self.socket.send(Message::text(text.into())).await.expect("it reads");
    }

    /// The next text, or the code and the reason of the close frame.
    pub(crate) async fn receive(&mut self) -> Result<Value, (u16, String)> {
        loop {
            match self.socket.next().await.expect("a close frame comes first").expect("no error") {
                Message::Text(text) => return Ok(serde_json::from_str(&text).expect("JSON")),
                Message::Close(frame) => {
                    let frame = frame.expect("a reason");
                    return Err((frame.code.into(), frame.reason.to_string()));
                }
                _ => {}
            }
        }
    }

    /// The result of a call, or its error.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let call = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        self.send(call.to_string()).await;
        loop {
            let mut received = self.receive().await.expect("it stays open");
            if received.get("method").is_some() {
                self.early.push_back(received);
                continue;
            }
            let envelope = (&received["id"], &received["jsonrpc"]);
            assert_eq!(envelope, (&json!(7), &json!("2.0")), "{received}");
            return match received.get_mut("error") {
                Some(err) => Err(err.take()),
                None => Ok(received["result"].take()),
            };
        }
    }

    pub(crate) async fn notification(&mut self) -> Value {
        match self.early.pop_front() {
            Some(early) => early,
            None => self.receive().await.expect("it stays open"),
        }
    }

    /// The close frame, after all that was sent before it.
    pub(crate) async fn closed(&mut self) -> (u16, String) {
        loop {
            if let Err(closed) = self.receive().await {
                return closed;
            }
        }
    }
}

fn notification(method: &str, id: &Value, result: u64) -> Value {
    let params = json!({ "result": result, "subscription": id });
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

#[test]
fn a_subscriber_sees_each_new_block_until_it_unsubscribes() {
    let toy = Toy::with_pubsub(pubsub_config());
    toy.add("a");
    toy.run(async {
        let mut client = toy.connect().await;
        let height = client.call("heightSubscribe", json!([])).await.expect("an id");
        let counter = client.call("counterSubscribe", json!(["a"])).await.expect("an id");
        assert_ne!(height, counter);
        assert_eq!(client.call("heightSubscribe", json!([])).await, Ok(height.clone()), "the same");
        toy.add("b");
        assert_eq!(client.notification().await, notification("heightNotification", &height, 2));
        toy.add("a");
        assert_eq!(client.notification().await, notification("heightNotification", &height, 3));
        assert_eq!(client.notification().await, notification("counterNotification", &counter, 2));
        assert_eq!(client.call("heightUnsubscribe", json!([height])).await, Ok(json!(true)));
        assert_eq!(toy.pubsub.stats().subscriptions, 1);
        toy.add("b");
        toy.add("a");
        assert_eq!(client.notification().await, notification("counterNotification", &counter, 3));
    });
}

#[test]
fn the_methods_of_the_api_are_called_over_websocket_too() {
    let toy = Toy::with_pubsub(pubsub_config());
    toy.run(async {
        let mut client = toy.connect().await;
        let height = client.call("heightSubscribe", json!([])).await.expect("an id");
        assert_eq!(client.call("counterAdd", json!(["a", 5])).await, Ok(json!(5)));
        assert_eq!(client.notification().await, notification("heightNotification", &height, 1));
        let five = json!({ "height": 1, "value": 5 });
        assert_eq!(client.call("counterGet", json!(["a"])).await, Ok(five));
        client.send(r#"[{"jsonrpc":"2.0","id":1,"method":"getHeight"}]"#).await;
        let reply = client.receive().await;
        assert_eq!(reply, Ok(json!([{ "jsonrpc": "2.0", "result": 1, "id": 1 }])));
        client.send("{").await;
        let error = json!({ "code": -32700, "message": "Parse error" });
        let reply = json!({ "jsonrpc": "2.0", "error": error, "id": null });
        assert_eq!(client.receive().await, Ok(reply));
    });
    let metrics = toy.get("/metrics");
    for line in ["hydrant_notifications_sent_total 1\n", "hydrant_subscriptions_distinct "] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    assert!(metrics.contains(r#"method="heightSubscribe""#), "{metrics}");
}

#[test]
fn an_unknown_subscription_is_refused() {
    let toy = Toy::with_pubsub(pubsub_config());
    toy.run(async {
        let mut client = toy.connect().await;
        let unknown = json!({ "code": -32602, "message": "Invalid subscription id." });
        let ended = client.call("heightUnsubscribe", json!([5])).await;
        assert_eq!(ended, Err(unknown.clone()));
        let id = client.call("heightSubscribe", json!([])).await.expect("an id");
        let ended = toy.connect().await.call("heightUnsubscribe", json!([id])).await;
        assert_eq!(ended, Err(unknown), "it is of another connection");
        let missing = client.call("nameSubscribe", json!([])).await;
        assert_eq!(missing, Err(json!({ "code": -32601, "message": "Method not found" })));
        let invalid = client.call("counterSubscribe", json!([""])).await;
        assert_eq!(invalid.expect_err("no name")["code"], json!(-32602));
    });
}

#[test]
fn subscriptions_past_a_limit_are_refused() {
    let mut config = pubsub_config();
    config.limits.subscriptions_max = 3;
    config.limits.subscriptions_per_listener_max = 2;
    let toy = Toy::with_pubsub(config);
    toy.run(async {
        let mut one = toy.connect().await;
        let mut other = toy.connect().await;
        for name in ["a", "b", "b"] {
            one.call("counterSubscribe", json!([name])).await.expect("an id");
        }
        let refused = one.call("heightSubscribe", json!([])).await;
        let message = "Internal Error: Subscription refused. Connection subscription limit reached: \
            2 (pubsub.subscriptions_per_connection_max)";
        assert_eq!(refused, Err(json!({ "code": -32603, "message": message })));
        other.call("counterSubscribe", json!(["a"])).await.expect("an id");
        let refused = other.call("heightSubscribe", json!([])).await;
        let message = "Internal Error: Subscription refused. Node subscription limit reached";
        assert_eq!(refused, Err(json!({ "code": -32603, "message": message })));
        let stats = toy.pubsub.stats();
        assert_eq!((stats.subscriptions, stats.distinct_subscriptions), (3, 2));
    });
}

#[test]
fn a_connection_too_many_is_closed_with_try_again_later() {
    let mut config = pubsub_config();
    config.limits.listeners_max = 1;
    let toy = Toy::with_pubsub(config);
    toy.run(async {
        let mut one = toy.connect().await;
        one.call("heightSubscribe", json!([])).await.expect("an id");
        let reason = "1 connections are open (pubsub.connections_max)".to_owned();
        assert_eq!(toy.connect().await.closed().await, (1013, reason));
    });
}

#[test]
fn a_message_over_the_limit_closes_its_connection() {
    let toy = Toy::with_pubsub(Config { message_bytes_max: 100, ..pubsub_config() });
    toy.run(async {
        let mut client = toy.connect().await;
        client.send(format!("{{{}}}", " ".repeat(99))).await;
        let reason = "a message over 100 bytes (pubsub.message_bytes_max)".to_owned();
        assert_eq!(client.closed().await, (1009, reason));
    });
}

#[test]
fn a_client_that_never_reads_is_closed_and_the_ledger_does_not_wait() {
    let mut config = pubsub_config();
    config.limits.queue_messages_max = 10;
    let toy = Toy::with_pubsub(config);
    toy.run(async {
        let (client, server) = duplex(1_024);
        let served = tokio::spawn(serve_connection(server, ClientId(1), Arc::clone(&toy.pubsub)));
        let socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        let mut client = Client { socket, early: VecDeque::new() };
        client.call("heightSubscribe", json!([])).await.expect("an id");
        let mut blocks = 0;
        while toy.pubsub.stats().connections == 1 {
            toy.add("a");
            blocks += 1;
            tokio::task::yield_now().await;
        }
        assert!(blocks > 10, "{blocks} blocks");
        let stats = toy.pubsub.stats();
        assert_eq!((stats.subscriptions, stats.queue_messages, stats.queue_bytes), (0, 0, 0));
        let reason = "too slow: 10 messages were waiting (pubsub.queue_messages_max)".to_owned();
        assert_eq!(client.closed().await, (1008, reason));
        drop(client);
        served.await.expect("it does not panic");
        assert_eq!(toy.pubsub.stats().notification_bytes, 0);
    });
}
