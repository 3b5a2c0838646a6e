//! Frames of wRPC in Borsh: a head, and a payload.
//!
//! A request has an id and an operation, then its payload. A reply has the id, a kind and the operation, then a result. A
//! notification has no id.
//! Not here: payloads (`request.rs`, `reply.rs`, `notification.rs`), WebSocket's own frames.

use super::reader::{BorshError, Reader};
use super::writer::BorshBuffer;
use crate::message::ServerError;
use crate::operation::{Event, Operation};

/// Offset of the id in a request and in a reply that have one.
const ID_OFFSET: usize = 1;
/// Offset of the operation in a request with an id. One without an id has it earlier.
pub const OPERATION_OFFSET: usize = 9;

/// Kinds of a node's messages.
mod kind {
    pub(super) const SUCCESS: u8 = 0;
    pub(super) const ERROR: u8 = 1;
    pub(super) const NOTIFICATION: u8 = 0xff;
}

/// Tags of the result in a reply.
const RESULT_OK: u8 = 1;
const RESULT_ERROR: u8 = 0;

/// Codes of errors.
mod code {
    pub(super) const NOT_FOUND: u8 = 3;
    pub(super) const REQUEST_DESERIALIZE: u8 = 8;
    pub(super) const RESPONSE_SERIALIZE: u8 = 9;
    pub(super) const TEXT: u8 = 13;
}

/// A message that a client sends.
#[derive(Clone, Copy, Debug)]
pub struct BorshRequest<'a> {
    /// The id that the reply repeats. Without one the message gets no reply.
    pub id: Option<u64>,
    /// The operation that the client requests.
    pub operation: Operation,
    /// The bytes after the head: the parameters.
    pub payload: &'a [u8],
}

/// A message that a node sends.
#[derive(Clone, Debug)]
pub enum BorshServerMessage<'a> {
    /// The reply to a request.
    Reply(BorshReply<'a>),
    /// A message without a request. Its payload is read with `Notification::decode_borsh`.
    Notification {
        /// The event that the client subscribed to.
        event: Event,
        /// The bytes after the head: the notification.
        payload: &'a [u8],
    },
}

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BorshReply<'a> {
    /// The id of the request.
    pub id: u64,
    /// The operation of the request. `None` if the request was not dispatched.
    pub operation: Option<Operation>,
    /// The structure of the reply, without its length.
    pub result: Result<&'a [u8], ServerError>,
}

impl<'a> BorshRequest<'a> {
    /// Reads the head of a client's message. kaspad closes the connection after an error.
    pub fn parse(frame: &'a [u8]) -> Result<Self, BorshError> {
        let mut reader = Reader::new(frame);
        let id = reader.option(Reader::u64)?;
        let operation = read_operation(&mut reader)?;
        Ok(Self { id, operation, payload: reader.remaining() })
    }

    /// Returns the structure of the request: the payload without its length, which must be exact.
    pub fn structure(&self) -> Result<&'a [u8], BorshError> {
        let mut reader = Reader::new(self.payload);
        let structure = reader.bytes()?;
        reader.finish()?;
        Ok(structure)
    }
}

impl<'a> BorshServerMessage<'a> {
    /// Reads the head of a node's message.
    pub fn parse(frame: &'a [u8]) -> Result<Self, BorshError> {
        let mut reader = Reader::new(frame);
        let id = reader.option(Reader::u64)?;
        let kind = reader.u8()?;
        let operation = reader.option(read_operation)?;
        match (id, kind, operation) {
            (Some(id), kind::SUCCESS, operation) => {
                let result = match reader.u8()? {
                    RESULT_OK => Ok(reader.bytes()?),
                    RESULT_ERROR => Err(ServerError::read(&mut reader)?),
                    tag => {
                        let field = "the tag of a result";
                        return Err(BorshError::UnknownValue { field, value: u64::from(tag) });
                    }
                };
                Ok(Self::Reply(BorshReply { id, operation, result }))
            }
            (Some(id), kind::ERROR, operation) => {
                let result = Err(ServerError::read(&mut reader)?);
                Ok(Self::Reply(BorshReply { id, operation, result }))
            }
            (None, kind::NOTIFICATION, Some(Operation::Notification(event))) => {
                Ok(Self::Notification { event, payload: reader.remaining() })
            }
            (_, kind, _) => {
                let field = "the kind of a node's message";
                Err(BorshError::UnknownValue { field, value: u64::from(kind) })
            }
        }
    }
}

impl ServerError {
    fn read(reader: &mut Reader<'_>) -> Result<Self, BorshError> {
        Ok(match reader.u8()? {
            code::NOT_FOUND => Self::NotFound,
            code::REQUEST_DESERIALIZE => Self::InvalidParams,
            code::RESPONSE_SERIALIZE => Self::InvalidPayload,
            code::TEXT => Self::Text(reader.string("the text of an error")?),
            other => Self::Other(other),
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::NotFound => out.put_u8(code::NOT_FOUND),
            Self::InvalidParams => out.put_u8(code::REQUEST_DESERIALIZE),
            Self::InvalidPayload => out.put_u8(code::RESPONSE_SERIALIZE),
            Self::Text(text) => {
                out.put_u8(code::TEXT);
                out.put_bytes(text.as_bytes());
            }
            Self::Other(other) => out.put_u8(*other),
        }
    }
}

fn read_operation(reader: &mut Reader<'_>) -> Result<Operation, BorshError> {
    let code = reader.u8()?;
    let error = BorshError::UnknownValue { field: "the operation", value: u64::from(code) };
    Operation::from_code(code).ok_or(error)
}

/// Encodes a request: `write` appends the fields of its structure.
pub(crate) fn encode_request(
    id: u64,
    operation: Operation,
    write: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let mut frame = Vec::with_capacity(64);
    put_id(&mut frame, id);
    frame.put_u8(operation.code());
    frame.put_payload(write);
    frame
}

/// Encodes a successful reply: `write` appends the fields of its structure.
pub(crate) fn encode_reply(
    id: u64,
    operation: Operation,
    write: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let mut frame = Vec::with_capacity(64);
    put_reply_head(&mut frame, id, operation);
    frame.put_payload(write);
    frame
}

/// Appends the head of a successful reply, up to the length of its structure.
pub(crate) fn put_reply_head(frame: &mut Vec<u8>, id: u64, operation: Operation) {
    put_id(frame, id);
    frame.put_u8(kind::SUCCESS);
    put_operation(frame, operation);
    frame.put_u8(RESULT_OK);
}

/// Encodes a notification: `write` appends the fields of its structure.
pub(crate) fn encode_notification(event: Event, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = Vec::with_capacity(64);
    frame.put_u8(0);
    frame.put_u8(kind::NOTIFICATION);
    put_operation(&mut frame, Operation::Notification(event));
    frame.put_payload(write);
    frame
}

/// Encodes the reply to a request if its method failed.
pub fn encode_borsh_failure(id: u64, operation: Operation, error: &ServerError) -> Vec<u8> {
    let mut frame = Vec::with_capacity(64);
    put_id(&mut frame, id);
    frame.put_u8(kind::SUCCESS);
    put_operation(&mut frame, operation);
    frame.put_u8(RESULT_ERROR);
    error.write(&mut frame);
    frame
}

/// Encodes the reply to a request that was not dispatched: no such method, or a payload of another shape.
pub fn encode_borsh_rejection(id: u64, error: &ServerError) -> Vec<u8> {
    let mut frame = Vec::with_capacity(16);
    put_id(&mut frame, id);
    frame.put_u8(kind::ERROR);
    frame.put_u8(0);
    error.write(&mut frame);
    frame
}

/// Replaces the id of a request or a reply, so that it can be passed on. Returns false if the frame has none.
pub fn replace_borsh_id(frame: &mut [u8], id: u64) -> bool {
    let id_range = ID_OFFSET..ID_OFFSET + size_of::<u64>();
    match (frame.first(), frame.len() >= id_range.end) {
        (Some(1), true) => {
            frame[id_range].copy_from_slice(&id.to_le_bytes());
            true
        }
        _ => false,
    }
}

fn put_id(frame: &mut Vec<u8>, id: u64) {
    frame.put_u8(1);
    frame.put_u64(id);
}

fn put_operation(frame: &mut Vec<u8>, operation: Operation) {
    frame.put_u8(1);
    frame.put_u8(operation.code());
}
