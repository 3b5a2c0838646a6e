//! A WebSocket client of a node: calls, sets of addresses, notifications.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures_util::{SinkExt, StreamExt};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Bytes, Message as Frame, Utf8Bytes};

/// Longer than any response takes.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Addresses of one binary message unless [`Client::addresses_per_message`] is changed: half a mebibyte.
const ADDRESSES_PER_MESSAGE: usize = 16_000;

/// A connected client.
pub struct Client {
    socket: WebSocketStream<TcpStream>,
    early: VecDeque<Utf8Bytes>,
    next_id: u32,
    /// Addresses in a message of [`Self::add`].
    pub addresses_per_message: usize,
}

/// A notification of a set, without its accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenNotification {
    /// Which block.
    pub slot: u64,
    /// Number of the message within its subscription.
    pub sequence: u64,
    /// The changed accounts, in base58.
    pub pubkeys: Vec<String>,
}

/// A response, or a notification, which has a method.
#[derive(serde::Deserialize)]
struct Message {
    method: Option<IgnoredAny>,
    #[serde(default)]
    id: Value,
    #[serde(default)]
    result: Value,
    #[serde(default)]
    error: Value,
}

impl Client {
    /// Connects.
    pub async fn connect(ws: SocketAddr) -> Result<Self> {
        let socket = TcpStream::connect(ws).await?;
        socket.set_nodelay(true)?;
        // One process has thousands of clients.
        let config = WebSocketConfig::default().read_buffer_size(8 * 1024).write_buffer_size(0);
        let request = format!("ws://{ws}/").into_client_request()?;
        let handshake = tokio_tungstenite::client_async_with_config(request, socket, Some(config));
        let (socket, _) = timeout(RESPONSE_TIMEOUT, handshake).await.context("no handshake")??;
        Ok(Self {
            socket,
            early: VecDeque::new(),
            next_id: 1,
            addresses_per_message: ADDRESSES_PER_MESSAGE,
        })
    }

    /// Calls a method. Notifications that come before its response are queued.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.next_id;
        self.next_id += 1;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.socket.send(Frame::text(request.to_string())).await?;
        self.receive_response(id).await.with_context(|| method.to_owned())
    }

    /// Adds addresses to a set, in as many binary messages as necessary.
    pub async fn add(
        &mut self,
        subscription: u64,
        addresses: impl Iterator<Item = [u8; 32]>,
    ) -> Result<Value> {
        let mut addresses = addresses.peekable();
        let mut response = Value::Null;
        while addresses.peek().is_some() {
            let id = self.next_id;
            self.next_id += 1;
            let mut message = vec![0xad, 1, 0, 0];
            message.extend_from_slice(&id.to_le_bytes());
            message.extend_from_slice(&subscription.to_le_bytes());
            addresses
                .by_ref()
                .take(self.addresses_per_message)
                .for_each(|a| message.extend_from_slice(&a));
            self.socket.send(Frame::Binary(Bytes::from(message))).await?;
            response = self.receive_response(id).await.context("add")?;
        }
        Ok(response)
    }

    /// Subscribes to a set. Returns the subscription, and the slot after which its notifications start.
    pub async fn subscribe_set(
        &mut self,
        commitment: &str,
        addresses: impl Iterator<Item = [u8; 32]>,
    ) -> Result<(u64, u64)> {
        // An empty slice: the addresses of the changed accounts are enough.
        let slice = json!({ "offset": 0, "length": 0 });
        let params = json!([[], { "commitment": commitment, "dataSlice": slice }]);
        let response = self.call("addressesSubscribe", params).await?;
        let subscription = response["subscription"].as_u64().context("no subscription")?;
        let added = self.add(subscription, addresses).await?;
        Ok((subscription, added["slot"].as_u64().context("no slot")?))
    }

    /// The next notification, as text.
    pub async fn notification(&mut self) -> Result<Utf8Bytes> {
        match self.early.pop_front() {
            Some(early) => Ok(early),
            None => self.next_message().await,
        }
    }

    /// Takes the notifications that came before the response of a call.
    pub fn take_early(&mut self) -> impl Iterator<Item = Utf8Bytes> + use<> {
        std::mem::take(&mut self.early).into_iter()
    }

    /// Closes the connection, and reads until the node has closed it too.
    pub async fn close(mut self) -> Result<()> {
        self.socket.close(None).await?;
        let rest = async { while let Some(Ok(_)) = self.socket.next().await {} };
        timeout(RESPONSE_TIMEOUT, rest).await.context("no closing handshake")
    }

    /// Disconnects within a message.
    pub async fn vanish_within_a_message(self) -> Result<()> {
        let mut io = self.socket.into_inner();
        // A masked binary frame that declares 1,000 bytes and ends after two.
        io.write_all(&[0x82, 0xfe, 0x03, 0xe8, 1, 2, 3, 4, 5, 6]).await?;
        Ok(())
    }

    /// Reads the method of a notification.
    pub fn parse_method(text: &str) -> Result<Cow<'_, str>> {
        #[derive(serde::Deserialize)]
        struct Notification<'a> {
            #[serde(borrow)]
            method: Cow<'a, str>,
        }
        Ok(serde_json::from_str::<Notification<'_>>(text)?.method)
    }

    /// Reads a notification of a set.
    pub fn parse_notification(text: &str) -> Result<SeenNotification> {
        #[derive(serde::Deserialize)]
        struct Notification<'a> {
            method: &'a str,
            params: Params,
        }
        #[derive(serde::Deserialize)]
        struct Params {
            result: Set,
            sequence: u64,
        }
        #[derive(serde::Deserialize)]
        struct Set {
            context: Context,
            kind: String,
            value: Vec<Item>,
        }
        #[derive(serde::Deserialize)]
        struct Context {
            slot: u64,
        }
        #[derive(serde::Deserialize)]
        struct Item {
            pubkey: String,
        }
        let notification: Notification<'_> = serde_json::from_str(text)?;
        ensure!(notification.method == "addressesNotification", "{text}");
        let Params { result, sequence } = notification.params;
        ensure!(result.kind == "update", "{text}");
        let pubkeys = result.value.into_iter().map(|item| item.pubkey).collect();
        Ok(SeenNotification { slot: result.context.slot, sequence, pubkeys })
    }

    async fn receive_response(&mut self, id: u32) -> Result<Value> {
        loop {
            let text =
                timeout(RESPONSE_TIMEOUT, self.next_message()).await.context("no response")??;
            let message: Message = serde_json::from_str(&text)?;
            if message.method.is_some() {
                self.early.push_back(text);
                continue;
            }
            ensure!(message.id == id, "another response: {text}");
            if !message.error.is_null() {
                bail!("{}", message.error);
            }
            return Ok(message.result);
        }
    }

    async fn next_message(&mut self) -> Result<Utf8Bytes> {
        loop {
            match self.socket.next().await.context("the node closed the connection")?? {
                Frame::Text(text) => return Ok(text),
                Frame::Close(reason) => bail!("closed by the node: {reason:?}"),
                _ => {}
            }
        }
    }
}
