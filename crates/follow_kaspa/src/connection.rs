//! A connection of wRPC in Borsh: calls one after another, and the notifications that come meanwhile.
//!
//! In: requests. Out: the structures of their replies, and notifications in the order in which they came.
//! Bounds: [`ConnectionConfig`]: time for each step, bytes of a message and of stored notifications. After an error the
//! connection is of no further use.
//! Not here: the choice of a source (`sources`), the meaning of the messages (`session`).

use std::collections::VecDeque;

use bytes::Bytes;
use kaspa::{BorshServerMessage, Event, Method, Notification, Operation, Scope, ServerError};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::config::{ConnectionConfig, SourceConfig};
use crate::long_message::READ_HERE_BYTES_MAX;
use crate::socket::{WrpcMessage, WrpcSocket};
use crate::source_error::SourceError;

/// Payloads up to this length are copied when they are stored: a slice would retain the buffer that the socket read it
/// into, which has 128 KiB.
const COPIED_BYTES_MAX: usize = 64 * 1024;

/// A connection to a kaspad, with the notifications that wait.
pub(crate) struct Connection {
    socket: WrpcSocket,
    config: ConnectionConfig,
    next_id: u64,
    /// Notifications that came before a reply.
    stored: VecDeque<StoredNotification>,
    /// Bytes of the payloads, and of the entries in `stored`.
    stored_bytes: usize,
    /// The next notification while another thread decodes it.
    decoding: Option<JoinHandle<Result<ReceivedNotification, SourceError>>>,
}

/// A notification that is not decoded.
struct StoredNotification {
    event: Event,
    /// The bytes after the head of the message.
    payload: Bytes,
}

/// A notification, and the bytes that it had.
pub(crate) struct ReceivedNotification {
    pub(crate) notification: Notification,
    pub(crate) bytes: usize,
}

/// A source's message after its head.
enum Received {
    Reply { id: u64, operation: Option<Operation>, result: Result<Bytes, ServerError> },
    Notification(StoredNotification),
}

impl Connection {
    pub(crate) async fn open(
        source: &SourceConfig,
        config: &ConnectionConfig,
    ) -> Result<Self, SourceError> {
        let socket = WrpcSocket::connect(source, config).await?;
        let stored = VecDeque::new();
        let decoding = None;
        Ok(Self { socket, config: *config, next_id: 1, stored, stored_bytes: 0, decoding })
    }

    /// Calls a method. `encode` gets the id of the request. Returns the structure of the reply, or the error of the
    /// source.
    pub(crate) async fn call(
        &mut self,
        method: Method,
        encode: impl FnOnce(u64) -> Vec<u8>,
    ) -> Result<Result<Bytes, ServerError>, SourceError> {
        self.request(Operation::Method(method), encode).await
    }

    /// Calls a method that the source must not refuse.
    pub(crate) async fn call_or_fail(
        &mut self,
        method: Method,
        encode: impl FnOnce(u64) -> Vec<u8>,
    ) -> Result<Bytes, SourceError> {
        let refused = |error| SourceError::Refused { name: method.name(), error };
        self.call(method, encode).await?.map_err(refused)
    }

    pub(crate) async fn subscribe(&mut self, scope: &Scope) -> Result<(), SourceError> {
        let encode = |id| scope.encode_borsh_subscribe(id);
        let reply = self.request(Operation::Subscribe, encode).await?;
        let name = scope.event().scope_name();
        reply.map(drop).map_err(|error| SourceError::Refused { name, error })
    }

    /// Returns the next notification. Cancel-safe.
    pub(crate) async fn next_notification(&mut self) -> Result<ReceivedNotification, SourceError> {
        let decoding = match self.decoding.as_mut() {
            Some(decoding) => decoding,
            None => {
                let stored = self.next_stored().await?;
                if stored.payload.len() <= READ_HERE_BYTES_MAX {
                    return stored.decode();
                }
                self.decoding.insert(spawn_blocking(move || stored.decode()))
            }
        };
        let decoded = decoding.await;
        self.decoding = None;
        decoded.unwrap_or_else(|error| Err(SourceError::from_decoding(&error)))
    }

    /// Returns the next notification, not decoded. Cancel-safe.
    async fn next_stored(&mut self) -> Result<StoredNotification, SourceError> {
        if let Some(stored) = self.stored.pop_front() {
            self.stored_bytes -= stored.memory();
            return Ok(stored);
        }
        match parse_message(self.socket.read().await?)? {
            Received::Notification(notification) => Ok(notification),
            Received::Reply { .. } => Err(SourceError::UnrequestedReply),
        }
    }

    /// Whether notifications came before a reply and are not taken.
    pub(crate) fn has_stored(&self) -> bool {
        !self.stored.is_empty() || self.decoding.is_some()
    }

    async fn request(
        &mut self,
        operation: Operation,
        encode: impl FnOnce(u64) -> Vec<u8>,
    ) -> Result<Result<Bytes, ServerError>, SourceError> {
        let id = self.next_id;
        self.next_id += 1;
        self.socket.send_binary(encode(id)).await?;
        let limit = self.config.call_timeout;
        let reply = tokio::time::timeout(limit, self.read_reply(id, operation)).await;
        reply.map_err(|_| SourceError::Timeout { what: "reply", limit })?
    }

    async fn read_reply(
        &mut self,
        expected: u64,
        expected_operation: Operation,
    ) -> Result<Result<Bytes, ServerError>, SourceError> {
        loop {
            match parse_message(self.socket.read().await?)? {
                Received::Notification(notification) => self.store(notification)?,
                Received::Reply { id, operation, result } => {
                    // A request that was not dispatched has no operation in its reply.
                    let is_own = operation.is_none_or(|operation| operation == expected_operation);
                    if id == expected && is_own {
                        return Ok(result);
                    }
                    let name = expected_operation.name();
                    return Err(SourceError::UnexpectedReply { name });
                }
            }
        }
    }

    fn store(&mut self, mut notification: StoredNotification) -> Result<(), SourceError> {
        if notification.payload.len() <= COPIED_BYTES_MAX {
            notification.payload = Bytes::copy_from_slice(&notification.payload);
        }
        self.stored_bytes += notification.memory();
        self.stored.push_back(notification);
        let bytes_max = self.config.notification_bytes_max;
        if self.stored_bytes > bytes_max {
            return Err(SourceError::TooManyNotifications { bytes_max });
        }
        Ok(())
    }
}

impl StoredNotification {
    /// Returns the bytes in memory. A notification may have no payload, so its entry counts as well.
    fn memory(&self) -> usize {
        size_of::<Self>() + self.payload.len()
    }

    fn decode(self) -> Result<ReceivedNotification, SourceError> {
        let notification = Notification::decode_borsh(self.event, &self.payload)?;
        Ok(ReceivedNotification { notification, bytes: self.payload.len() })
    }
}

/// Reads the head of a message. The payload shares its memory.
fn parse_message(message: WrpcMessage) -> Result<Received, SourceError> {
    let WrpcMessage::Binary(bytes) = message else { return Err(SourceError::Text) };
    Ok(match BorshServerMessage::parse(&bytes)? {
        BorshServerMessage::Notification { event, payload } => {
            let payload = bytes.slice_ref(payload);
            Received::Notification(StoredNotification { event, payload })
        }
        BorshServerMessage::Reply(reply) => Received::Reply {
            id: reply.id,
            operation: reply.operation,
            result: reply.result.map(|structure| bytes.slice_ref(structure)),
        },
    })
}
