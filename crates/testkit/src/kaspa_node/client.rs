//! A client of wRPC that sends any message, and reads message by message.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::connection::message_limit;

/// Much longer than any test waits. Only a bug reaches it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The longest message of a node that clients of kaspad accept.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// A connection to a node.
pub struct WrpcClient(WebSocketStream<TcpStream>);

/// A message from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrpcMessage {
    /// A message in Borsh.
    Binary(Vec<u8>),
    /// A message in JSON.
    Text(String),
    /// A close frame with its code, or the end of the stream without one.
    End(Option<u16>),
}

impl WrpcClient {
    /// Connects to a port of a node.
    pub async fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).await.expect("the node listens");
        let url = format!("ws://{address}");
        let config = message_limit(MESSAGE_BYTES_MAX);
        let (socket, _) = tokio_tungstenite::client_async_with_config(url, socket, Some(config))
            .await
            .expect("a handshake");
        Self(socket)
    }

    /// Sends a message in Borsh.
    pub async fn send_binary(&mut self, message: Vec<u8>) {
        self.0.send(Message::Binary(message.into())).await.expect("the node reads");
    }

    /// Sends a message in JSON.
    pub async fn send_text(&mut self, message: &str) {
        self.0.send(Message::Text(message.into())).await.expect("the node reads");
    }

    /// Reads the next message.
    pub async fn read_message(&mut self) -> WrpcMessage {
        loop {
            let message = timeout(TIMEOUT, self.0.next()).await.expect("a message in time");
            match message {
                Some(Ok(Message::Binary(bytes))) => return WrpcMessage::Binary(bytes.to_vec()),
                Some(Ok(Message::Text(text))) => {
                    return WrpcMessage::Text(text.as_str().to_owned());
                }
                Some(Ok(Message::Close(frame))) => {
                    return WrpcMessage::End(frame.map(|frame| frame.code.into()));
                }
                Some(Err(_)) | None => return WrpcMessage::End(None),
                Some(Ok(_)) => {}
            }
        }
    }

    /// Reads the next message, which is in Borsh.
    pub async fn read_binary(&mut self) -> Vec<u8> {
        match self.read_message().await {
            WrpcMessage::Binary(bytes) => bytes,
            other => panic!("not a binary message: {other:?}"),
        }
    }

    /// Reads the next message, which is in JSON.
    pub async fn read_text(&mut self) -> String {
        match self.read_message().await {
            WrpcMessage::Text(text) => text,
            other => panic!("not a text: {other:?}"),
        }
    }
}
