//! What the reader of a client's messages returns: messages, control frames, and the reason why it ends.
//!
//! Input: the unmasked payload of a whole message or of a control frame. Output: [`Received`], or a [`ReadError`].
//! Invariant: texts and reasons of close frames are UTF-8.
//! Not here: frames and their limits (`message_reader`).

use bytes::{Buf, Bytes, BytesMut};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Control};

use crate::message::{IncomingMessage, IncomingPart, MessageKind};

/// A message or a control frame from a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Message(IncomingMessage),
    Part(IncomingPart),
    Ping(Bytes),
    Pong,
    /// With the close frame to send back.
    Close(Option<CloseFrame>),
}

impl Received {
    /// Returns whether it is a whole message, or the last part of one.
    pub(crate) fn ends_message(&self) -> bool {
        match self {
            Self::Message(_) => true,
            Self::Part(part) => part.is_last,
            Self::Ping(_) | Self::Pong | Self::Close(_) => false,
        }
    }
}

/// Why nothing more can be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// The stream ended or broke.
    Gone,
    /// A frame that the standard does not allow.
    Protocol(&'static str),
    /// A text that is not UTF-8.
    NotUtf8,
    /// A message over a limit.
    TooLong { limit: usize, setting: &'static str },
    /// A message that was not complete in time.
    Late,
    /// A message that was not complete in time because there was no memory for it.
    IncomingFull,
}

pub(super) fn received_data(kind: MessageKind, payload: BytesMut) -> Result<Received, ReadError> {
    let payload = payload.freeze();
    let message = match kind {
        MessageKind::Binary => IncomingMessage::Binary(payload),
        MessageKind::Text => {
            IncomingMessage::Text(Utf8Bytes::try_from(payload).map_err(|_| ReadError::NotUtf8)?)
        }
    };
    Ok(Received::Message(message))
}

pub(super) fn received_control(
    control: Control,
    mut payload: Bytes,
) -> Result<Received, ReadError> {
    match control {
        Control::Ping => Ok(Received::Ping(payload)),
        Control::Pong => Ok(Received::Pong),
        Control::Close => match payload.len() {
            0 => Ok(Received::Close(None)),
            1 => Err(ReadError::Protocol("a close frame of one byte")),
            _ => {
                let code = CloseCode::from(payload.get_u16());
                let reason = Utf8Bytes::try_from(payload).map_err(|_| ReadError::NotUtf8)?;
                if code.is_allowed() {
                    return Ok(Received::Close(Some(CloseFrame { code, reason })));
                }
                let reason = Utf8Bytes::from_static("Protocol violation");
                Ok(Received::Close(Some(CloseFrame { code: CloseCode::Protocol, reason })))
            }
        },
        Control::Reserved(_) => Err(ReadError::Protocol("an opcode that is reserved")),
    }
}
