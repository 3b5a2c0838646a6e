//! Messages as a protocol sees them: text or binary.

use tokio_tungstenite::tungstenite::{Bytes, Utf8Bytes};

/// The reason of a connection's close (1007).
pub(crate) const NOT_UTF8: &str = "a message that is not UTF-8";

/// The two kinds of messages that WebSocket has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// UTF-8.
    Text,
    /// Any bytes.
    Binary,
}

/// A message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IncomingMessage {
    /// A text.
    Text(Utf8Bytes),
    /// Bytes.
    Binary(Bytes),
}

/// A part of a client's message that is read in parts ([`MessageBound::Streamed`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingPart {
    /// The kind of the message.
    pub kind: MessageKind,
    /// The next bytes. A part may end within a character: a text is not checked for UTF-8.
    pub bytes: Bytes,
    /// Whether it is the last one. Only the last one may be empty.
    pub is_last: bool,
}

/// A message to a client, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutgoingMessage {
    /// A text.
    Text(String),
    /// Bytes.
    Binary(Vec<u8>),
}

/// The bound of a message's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageBound {
    /// `Config::message_bytes_max`.
    Short,
    /// `Config::addresses_message_bytes_max`. The message is in memory as a whole.
    Long,
    /// `Config::addresses_message_bytes_max`. The protocol gets the message in parts, of which one is in memory
    /// ([`crate::Protocol::stream_task`]).
    Streamed,
}

impl IncomingMessage {
    /// Returns its length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Binary(bytes) => bytes.len(),
        }
    }

    /// Returns whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl OutgoingMessage {
    /// Returns whether the message is text or binary.
    pub fn kind(&self) -> MessageKind {
        match self {
            Self::Text(_) => MessageKind::Text,
            Self::Binary(_) => MessageKind::Binary,
        }
    }

    /// Returns the content of the message, without frames.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }

    /// Returns its bytes, without a copy.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }
}

impl From<String> for OutgoingMessage {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<u8>> for OutgoingMessage {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Binary(bytes)
    }
}
