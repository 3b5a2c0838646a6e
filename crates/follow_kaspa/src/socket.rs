//! The WebSocket to a kaspad: whole messages with limits of time and of length.
//!
//! Not here: replies and notifications (`connection`), the queues of forwarded calls (`forwarding`).

use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, SinkExt, StreamExt};
use http_client::{ByteStream, Endpoint, connect_stream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::config::{ConnectionConfig, SourceConfig};
use crate::source_error::SourceError;

/// A WebSocket to a kaspad.
pub(crate) struct WrpcSocket {
    stream: WebSocketStream<Box<dyn ByteStream>>,
    /// Time limit of a write: that of a call.
    write_timeout: Duration,
}

/// A message of a kaspad.
pub(crate) enum WrpcMessage {
    Binary(Bytes),
    Text(Bytes),
}

impl WrpcMessage {
    /// Returns its length in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Binary(bytes) | Self::Text(bytes) => bytes.len(),
        }
    }
}

impl WrpcSocket {
    pub(crate) async fn connect(
        source: &SourceConfig,
        config: &ConnectionConfig,
    ) -> Result<Self, SourceError> {
        let limit = config.connect_timeout;
        let timeout = || SourceError::Timeout { what: "connection", limit };
        let connected = tokio::time::timeout(limit, Self::connect_untimed(source, config)).await;
        connected.map_err(|_| timeout())?
    }

    async fn connect_untimed(
        source: &SourceConfig,
        config: &ConnectionConfig,
    ) -> Result<Self, SourceError> {
        // It may resolve a name, and read the certificates that the machine trusts.
        let url = source.http_url();
        let endpoint = tokio::task::spawn_blocking(move || Endpoint::parse(&url)).await;
        let endpoint = endpoint.map_err(|_| SourceError::WriterEnded)?;
        let connect_error = |error| SourceError::Connect(Box::new(error));
        let endpoint = endpoint.map_err(connect_error)?;
        let socket = connect_stream(&endpoint).await.map_err(connect_error)?;
        let bytes_max = Some(config.message_bytes_max);
        let limits =
            WebSocketConfig::default().max_message_size(bytes_max).max_frame_size(bytes_max);
        let handshake =
            tokio_tungstenite::client_async_with_config(source.url.as_str(), socket, Some(limits));
        let handshake_error = |error| SourceError::Handshake(Box::new(error));
        let (stream, _) = handshake.await.map_err(handshake_error)?;
        Ok(Self { stream, write_timeout: config.call_timeout })
    }

    pub(crate) async fn send_binary(&mut self, message: Vec<u8>) -> Result<(), SourceError> {
        self.send(Message::Binary(message.into())).await
    }

    pub(crate) async fn send_text(&mut self, message: Vec<u8>) -> Result<(), SourceError> {
        let text = String::from_utf8(message).map_err(|_| SourceError::Text)?;
        self.send(Message::Text(text.into())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), SourceError> {
        let limit = self.write_timeout;
        let sent = tokio::time::timeout(limit, self.stream.send(message)).await;
        let timeout = SourceError::Timeout { what: "room for a request", limit };
        sent.map_err(|_| timeout)?.map_err(SourceError::from_socket)
    }

    /// Reads the next message, and replies to pings meanwhile. Cancel-safe.
    pub(crate) async fn read(&mut self) -> Result<WrpcMessage, SourceError> {
        loop {
            let message = self.stream.next().await.ok_or(SourceError::Closed)?;
            match message.map_err(SourceError::from_socket)? {
                Message::Binary(bytes) => return Ok(WrpcMessage::Binary(bytes)),
                Message::Text(text) => return Ok(WrpcMessage::Text(text.into())),
                Message::Close(_) => return Err(SourceError::Closed),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }

    /// Whether a connection that was idle is still open: nothing that was received says otherwise. Messages that came
    /// without a request are discarded, up to `discarded_max` of them.
    pub(crate) fn is_open(&mut self, discarded_max: usize) -> bool {
        for _ in 0..discarded_max {
            match self.read().now_or_never() {
                None => return true,
                Some(Ok(_)) => {}
                Some(Err(_)) => return false,
            }
        }
        false
    }
}
