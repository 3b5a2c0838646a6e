//! Passes on the new blocks of a source in JSON, for clients in JSON: a block is sent to them as kaspad wrote it.
//!
//! In: messages of a source's port for JSON. Out: messages for the writer, which sends them to the sinks.
//! The other events have no bytes that depend on the encoding. The session passes them on, and clients would get them
//! twice.
//! Bounds: those of a connection. Nothing of it reaches the chain.
//! Not here: the notifications in Borsh (`session`).

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_client::describe_error;
use kaspa::{Encoding, Event, JsonServerMessage, Network, Notification};
use tokio::time::timeout;

use crate::backoff::Backoff;
use crate::config::{ConnectionConfig, SessionConfig, SourceConfig};
use crate::long_message::run_by_length;
use crate::session::relayed_scopes;
use crate::socket::{WrpcMessage, WrpcSocket};
use crate::source_error::SourceError;
use crate::writer_queue::{WriterHandle, WriterMessage};

/// Time without a message after which the source is pinged.
const IDLE_INTERVAL: Duration = Duration::from_secs(30);
/// The event that is passed on.
const RELAYED_EVENT: Event = Event::BlockAdded;
/// The ids of requests.
const INFO_ID: u64 = 1;
const PING_ID: u64 = 2;
const SCOPE_ID: u64 = 3;

/// The relay of the notifications in JSON.
pub(crate) struct JsonRelay {
    pub(crate) network: Network,
    pub(crate) sources: Vec<SourceConfig>,
    pub(crate) connection: ConnectionConfig,
    pub(crate) session: SessionConfig,
    pub(crate) writer: WriterHandle,
}

impl JsonRelay {
    /// Runs until the writer has ended.
    pub(crate) async fn run(self) {
        let mut backoff = Backoff::new(self.sources.len(), &self.session);
        let mut at = 0;
        loop {
            let source = &self.sources[at];
            let mut is_subscribed = false;
            let Err(error) = self.relay(source, &mut is_subscribed).await;
            if matches!(error, SourceError::WriterEnded) {
                return;
            }
            tracing::warn!(server = %source.server(), "the relay of JSON ends: {}", describe_error(&error));
            if !is_subscribed {
                at = (at + 1) % self.sources.len();
            }
            let delay =
                if is_subscribed { backoff.record_success() } else { backoff.record_failure() };
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = self.writer.closed() => return,
            }
        }
    }

    async fn relay(
        &self,
        source: &SourceConfig,
        is_subscribed: &mut bool,
    ) -> Result<Infallible, SourceError> {
        let mut socket = WrpcSocket::connect(source, &self.connection).await?;
        self.check_network(&mut socket).await?;
        let scopes = relayed_scopes(&self.session);
        for scope in scopes.filter(|scope| scope.event() == RELAYED_EVENT) {
            socket.send_text(scope.encode_json_subscribe(SCOPE_ID)).await?;
        }
        *is_subscribed = true;
        loop {
            let text = match timeout(IDLE_INTERVAL, read_text(&mut socket)).await {
                Ok(text) => text?,
                Err(_) => {
                    socket.send_text(encode_request(PING_ID, "ping")).await?;
                    self.read_in_time(&mut socket).await?
                }
            };
            self.pass_on(text).await?;
        }
    }

    async fn check_network(&self, socket: &mut WrpcSocket) -> Result<(), SourceError> {
        socket.send_text(encode_request(INFO_ID, "getServerInfo")).await?;
        let text = self.read_in_time(socket).await?;
        let reply: serde_json::Value = serde_json::from_slice(&text).map_err(invalid_json)?;
        let name = reply.pointer("/params/networkId").and_then(serde_json::Value::as_str);
        let source_network: Option<Network> = name.and_then(|name| name.parse().ok());
        let source_network = source_network.ok_or(SourceError::UnrequestedReply)?;
        if source_network != self.network {
            return Err(SourceError::WrongNetwork { source_network, network: self.network });
        }
        Ok(())
    }

    async fn read_in_time(&self, socket: &mut WrpcSocket) -> Result<Bytes, SourceError> {
        let limit = self.connection.call_timeout;
        let read = timeout(limit, read_text(socket)).await;
        read.map_err(|_| SourceError::Timeout { what: "reply", limit })?
    }

    /// Passes a new block on. Successful replies are ignored.
    async fn pass_on(&self, text: Bytes) -> Result<(), SourceError> {
        let bytes = text.len();
        let decoded = run_by_length(bytes, move || decode_notification(&text)).await;
        let decoded = decoded.map_err(|error| SourceError::from_decoding(&error))??;
        let Some(notification) = decoded.filter(|it| it.event() == RELAYED_EVENT) else {
            return Ok(());
        };
        let encoding = Encoding::Json;
        let permit = self.writer.permit(bytes).await?;
        self.writer.send(WriterMessage::Relay { encoding, notification, permit }).await
    }
}

/// Decodes a message. Returns `None` for a successful reply. Errors: it is not valid, or a reply with an error.
fn decode_notification(text: &[u8]) -> Result<Option<Notification>, SourceError> {
    let text = std::str::from_utf8(text).map_err(invalid_json)?;
    let message = JsonServerMessage::parse(text).map_err(invalid_json)?;
    if let Err(error) = message.result() {
        return Err(SourceError::Refused { name: "subscribe", error });
    }
    let (None, Some(params)) = (message.id, message.params) else { return Ok(None) };
    Notification::decode_json(params.get()).map(Some).map_err(invalid_json)
}

fn encode_request(id: u64, method: &str) -> Vec<u8> {
    format!(r#"{{"id":{id},"method":"{method}","params":{{}}}}"#).into_bytes()
}

async fn read_text(socket: &mut WrpcSocket) -> Result<Bytes, SourceError> {
    match socket.read().await? {
        WrpcMessage::Text(text) => Ok(text),
        WrpcMessage::Binary(_) => Err(SourceError::Binary),
    }
}

fn invalid_json(error: impl fmt::Display) -> SourceError {
    SourceError::InvalidJson { reason: error.to_string() }
}
