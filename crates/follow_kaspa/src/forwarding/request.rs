//! A client's request for the upstream: its checks, its id, and the id of its reply.
//!
//! kaspad closes a connection after a head that it cannot read, and reserves memory by the counts in a request. So the
//! head is read here, and each count and length must be backed by bytes.
//! Not here: what kaspad refuses in its safe mode, in which the upstream is not (`rpc_kaspa`).

use bytes::{Bytes, BytesMut};
use kaspa::{
    BorshRequest, BorshServerMessage, Encoding, JsonRequest, JsonServerMessage, Method, Operation,
    check_borsh_request, replace_borsh_id,
};
use serde_json::value::RawValue;

use super::error::ForwardError;
use crate::socket::WrpcMessage;
use crate::source_error::SourceError;

/// A request that may be sent to the upstream.
#[derive(Debug)]
pub(super) struct UpstreamRequest {
    method: Method,
    /// The id that the client gave it.
    client_id: u64,
    message: CheckedMessage,
}

#[derive(Debug)]
enum CheckedMessage {
    /// The whole message, whose id is replaced.
    Borsh(Bytes),
    /// The parameters, for a message with another id.
    Json(Box<RawValue>),
}

/// A request, encoded with the id of a connection.
pub(super) enum EncodedRequest {
    Binary(Vec<u8>),
    Text(Vec<u8>),
}

impl UpstreamRequest {
    /// Checks a message. Cost: its length, some milliseconds for a megabyte.
    pub(super) fn check(
        encoding: Encoding,
        method: Method,
        message: Bytes,
    ) -> Result<Self, ForwardError> {
        match encoding {
            Encoding::Borsh => Self::check_borsh(method, message),
            Encoding::Json => Self::check_json(method, &message),
        }
    }

    fn check_borsh(method: Method, message: Bytes) -> Result<Self, ForwardError> {
        let request = BorshRequest::parse(&message).map_err(|_| ForwardError::Malformed)?;
        let client_id = request.id.ok_or(ForwardError::Malformed)?;
        if request.operation != Operation::Method(method) {
            return Err(ForwardError::Malformed);
        }
        let invalid =
            |error: kaspa::BorshError| ForwardError::InvalidParams { reason: error.to_string() };
        check_borsh_request(&request).map_err(invalid)?;
        Ok(Self { method, client_id, message: CheckedMessage::Borsh(message) })
    }

    fn check_json(method: Method, message: &[u8]) -> Result<Self, ForwardError> {
        let text = std::str::from_utf8(message).map_err(|_| ForwardError::Malformed)?;
        let request = JsonRequest::parse(text).map_err(|_| ForwardError::Malformed)?;
        let client_id = request.id.ok_or(ForwardError::Malformed)?;
        if request.operation != Operation::Method(method) {
            return Err(ForwardError::Malformed);
        }
        let params = request.params.to_owned();
        Ok(Self { method, client_id, message: CheckedMessage::Json(params) })
    }

    /// Returns the bytes of the message.
    pub(super) fn bytes(&self) -> usize {
        match &self.message {
            CheckedMessage::Borsh(bytes) => bytes.len(),
            CheckedMessage::Json(params) => params.get().len(),
        }
    }

    /// Whether the request may be sent twice without another effect.
    pub(super) fn is_repeatable(&self) -> bool {
        !matches!(
            self.method,
            Method::SubmitBlock
                | Method::SubmitTransaction
                | Method::SubmitTransactionReplacement
                | Method::Shutdown
                | Method::AddPeer
                | Method::Ban
                | Method::Unban
        )
    }

    /// Encodes the request with the id of a connection.
    pub(super) fn encode(&self, id: u64) -> EncodedRequest {
        match &self.message {
            CheckedMessage::Borsh(bytes) => {
                let mut bytes = bytes.to_vec();
                replace_borsh_id(&mut bytes, id);
                EncodedRequest::Binary(bytes)
            }
            CheckedMessage::Json(params) => {
                let operation = Operation::Method(self.method);
                let request = JsonRequest { id: Some(id), operation, params };
                EncodedRequest::Text(request.encode_with_id(id))
            }
        }
    }

    /// Returns the reply with the id of the client. `None` if the message is a notification.
    pub(super) fn match_reply(
        &self,
        id: u64,
        message: WrpcMessage,
    ) -> Result<Option<Bytes>, SourceError> {
        match (message, &self.message) {
            (WrpcMessage::Binary(bytes), CheckedMessage::Borsh(_)) => self.match_borsh(id, bytes),
            (WrpcMessage::Text(text), CheckedMessage::Json(_)) => self.match_json(id, &text),
            _ => Err(SourceError::Text),
        }
    }

    fn match_borsh(&self, id: u64, bytes: Bytes) -> Result<Option<Bytes>, SourceError> {
        let BorshServerMessage::Reply(reply) = BorshServerMessage::parse(&bytes)? else {
            return Ok(None);
        };
        self.check_reply(id, reply.id, reply.operation)?;
        // A message whose memory nothing else uses is not copied.
        let mut reply = bytes.try_into_mut().unwrap_or_else(|bytes| BytesMut::from(&bytes[..]));
        replace_borsh_id(&mut reply, self.client_id);
        Ok(Some(reply.freeze()))
    }

    fn match_json(&self, id: u64, text: &[u8]) -> Result<Option<Bytes>, SourceError> {
        let unexpected = || SourceError::UnexpectedReply { name: self.method.name() };
        let text = std::str::from_utf8(text).map_err(|_| unexpected())?;
        let reply = JsonServerMessage::parse(text).map_err(|_| unexpected())?;
        let Some(reply_id) = reply.id else { return Ok(None) };
        self.check_reply(id, reply_id, reply.operation)?;
        Ok(Some(reply.encode_with_id(self.client_id).into()))
    }

    fn check_reply(
        &self,
        expected: u64,
        id: u64,
        operation: Option<Operation>,
    ) -> Result<(), SourceError> {
        let own = Operation::Method(self.method);
        let is_own = id == expected && operation.is_none_or(|operation| operation == own);
        let unexpected = SourceError::UnexpectedReply { name: self.method.name() };
        if is_own { Ok(()) } else { Err(unexpected) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_borsh(method: Method, message: &[u8]) -> Result<UpstreamRequest, ForwardError> {
        UpstreamRequest::check(Encoding::Borsh, method, Bytes::copy_from_slice(message))
    }

    fn check_json(method: Method, message: &str) -> Result<UpstreamRequest, ForwardError> {
        let message = Bytes::copy_from_slice(message.as_bytes());
        UpstreamRequest::check(Encoding::Json, method, message)
    }

    fn text(request: &UpstreamRequest, id: u64) -> String {
        match request.encode(id) {
            EncodedRequest::Text(text) => String::from_utf8(text).expect("UTF-8"),
            EncodedRequest::Binary(bytes) => panic!("not a text: {bytes:?}"),
        }
    }

    /// A frame of Borsh with an id of 7.
    fn frame(method: Method, structure: &[u8]) -> Vec<u8> {
        let mut frame = vec![1, 7, 0, 0, 0, 0, 0, 0, 0, method.code()];
        frame.extend_from_slice(&u32::try_from(structure.len()).expect("short").to_le_bytes());
        frame.extend_from_slice(structure);
        frame
    }

    #[test]
    fn an_id_is_replaced_on_the_way_and_back() {
        let message = Method::GetInfo.encode_borsh_request(7);
        let request = check_borsh(Method::GetInfo, &message).expect("a request");
        let EncodedRequest::Binary(sent) = request.encode(99) else { panic!("not binary") };
        assert_eq!(sent, Method::GetInfo.encode_borsh_request(99));
        let request = check_json(Method::GetInfo, r#"{"id":7,"method":"getInfo","params":{}}"#);
        let request = request.expect("a request");
        assert_eq!(text(&request, 99), r#"{"id":99,"method":"getInfo","params":{}}"#);
    }

    #[test]
    fn messages_that_would_end_the_connection_are_refused() {
        let info = Method::GetInfo.encode_borsh_request(7);
        let mut unknown = info.clone();
        unknown[9] = 200;
        let without_id = [&[0_u8][..], &info[9..]].concat();
        let ping = Method::Ping.encode_borsh_request(1);
        for message in [info[..5].to_vec(), Vec::new(), unknown, without_id, ping] {
            let refused = check_borsh(Method::GetInfo, &message).err();
            assert_eq!(refused, Some(ForwardError::Malformed), "{message:?}");
        }
        for message in ["", "{}", r#"{"method":"getInfo","params":{}}"#, r#"{"id":1,"method":"x"}"#]
        {
            let refused = check_json(Method::GetInfo, message).err();
            assert_eq!(refused, Some(ForwardError::Malformed), "{message}");
        }
    }

    #[test]
    fn a_count_without_bytes_is_refused() {
        let huge = [&1_u16.to_le_bytes()[..], &u32::MAX.to_le_bytes()].concat();
        let message = frame(Method::GetDaaScoreTimestampEstimate, &huge);
        let refused = check_borsh(Method::GetDaaScoreTimestampEstimate, &message).err();
        assert!(matches!(refused, Some(ForwardError::InvalidParams { .. })));
    }
}
