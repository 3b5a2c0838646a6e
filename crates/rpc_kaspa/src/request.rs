//! A client's message as a request: its operation, its check, and its parameters.
//!
//! Input: a message of a port. Output: a [`Request`], or the reason for which the connection is closed, as kaspad closes
//! it: a message without a known operation.
//! Cost: the length of the message, some milliseconds for a megabyte. Lists are read in parts afterwards.

use bytes::Bytes;
use kaspa::{
    BorshRequest, Encoding, JsonAddresses, JsonRequest, KaspaAddress, Method, Operation, OwnMethod,
    ProtobufRequest, Scope, ServerError, check_borsh_request,
};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use websocket::IncomingMessage;

use crate::message_format::{MessageFormat, ReplyFormat};

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The id that the reply repeats. Without one the message gets no reply.
    pub(crate) id: Option<u64>,
    pub(crate) operation: Operation,
    pub(crate) reply: ReplyFormat,
    message: Message,
    /// The addresses of a message in JSON, if they were found already.
    json_addresses: Option<Result<JsonAddresses, ServerError>>,
}

/// A message in the encoding of its port. One in protobuf was translated to JSON.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Borsh(Bytes),
    Json(Utf8Bytes),
}

/// A message for which kaspad closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) code: CloseCode,
    pub(crate) reason: &'static str,
}

impl Malformed {
    const NOT_BINARY: Self =
        Self { code: CloseCode::Unsupported, reason: "messages in this format are binary" };
    const NOT_UTF8: Self = Self { code: CloseCode::Invalid, reason: "messages in JSON are UTF-8" };
    const NOT_A_REQUEST: Self =
        Self { code: CloseCode::Invalid, reason: "a message without a known operation" };
}

/// Whether a message of an operation may be longer than others: it has a list, or a transaction.
pub(crate) fn may_be_long(operation: Operation) -> bool {
    match operation {
        Operation::Subscribe
        | Operation::Unsubscribe
        | Operation::Own(OwnMethod::AddressesSubscribe) => true,
        Operation::Method(method) => matches!(
            method,
            Method::GetUtxosByAddresses
                | Method::GetBalancesByAddresses
                | Method::GetMempoolEntriesByAddresses
                | Method::GetDaaScoreTimestampEstimate
                | Method::SubmitBlock
                | Method::SubmitTransaction
                | Method::SubmitTransactionReplacement
        ),
        Operation::Notification(_)
        | Operation::Unserved(_)
        | Operation::Own(OwnMethod::AddressesUnsubscribe | OwnMethod::AddressesPosition) => false,
    }
}

/// Whether the parameters of an operation have a list of addresses that Hydrant reads.
fn has_addresses(operation: Operation) -> bool {
    match operation {
        Operation::Subscribe
        | Operation::Unsubscribe
        | Operation::Own(OwnMethod::AddressesSubscribe) => true,
        Operation::Method(method) => {
            matches!(method, Method::GetUtxosByAddresses | Method::GetBalancesByAddresses)
        }
        Operation::Notification(_)
        | Operation::Unserved(_)
        | Operation::Own(OwnMethod::AddressesUnsubscribe | OwnMethod::AddressesPosition) => false,
    }
}

impl Request {
    /// Reads the head of a message. Its parameters are not read.
    pub(crate) fn parse(
        format: MessageFormat,
        message: IncomingMessage,
    ) -> Result<Self, Malformed> {
        match (format, message) {
            (MessageFormat::Borsh, IncomingMessage::Binary(bytes)) => {
                let parsed = BorshRequest::parse(&bytes);
                let BorshRequest { id, operation, .. } =
                    parsed.map_err(|_| Malformed::NOT_A_REQUEST)?;
                Ok(Self::new(id, operation, ReplyFormat::Borsh, Message::Borsh(bytes)))
            }
            (MessageFormat::Protobuf, IncomingMessage::Binary(bytes)) => {
                let parsed = ProtobufRequest::parse(&bytes);
                let ProtobufRequest { id, operation, reply_field: field, json } =
                    parsed.map_err(|_| Malformed::NOT_A_REQUEST)?;
                let reply = ReplyFormat::Protobuf { field };
                Ok(Self::new(Some(id), operation, reply, Message::Json(json.into())))
            }
            (MessageFormat::Borsh | MessageFormat::Protobuf, IncomingMessage::Text(_)) => {
                Err(Malformed::NOT_BINARY)
            }
            (MessageFormat::Json, IncomingMessage::Text(text)) => Self::parse_json(text),
            // kaspad reads bytes as a text.
            (MessageFormat::Json, IncomingMessage::Binary(bytes)) => {
                let text = Utf8Bytes::try_from(bytes).map_err(|_| Malformed::NOT_UTF8)?;
                Self::parse_json(text)
            }
        }
    }

    fn new(id: Option<u64>, operation: Operation, reply: ReplyFormat, message: Message) -> Self {
        Self { id, operation, reply, message, json_addresses: None }
    }

    fn parse_json(text: Utf8Bytes) -> Result<Self, Malformed> {
        let parsed = JsonRequest::parse(&text);
        let JsonRequest { id, operation, .. } = parsed.map_err(|_| Malformed::NOT_A_REQUEST)?;
        Ok(Self::new(id, operation, ReplyFormat::Json, Message::Json(text)))
    }

    /// Returns the same request with another message.
    pub(crate) fn with_message(self, message: Message) -> Self {
        Self { message, json_addresses: None, ..self }
    }

    /// Finds the addresses of a message in JSON in advance, so that no task of the pool has to. Cost: the length of the
    /// message.
    pub(crate) fn with_json_addresses(self) -> Self {
        let Message::Json(text) = &self.message else { return self };
        if !has_addresses(self.operation) {
            return self;
        }
        let found = JsonRequest::parse(text).and_then(|it| JsonAddresses::find(text, &it));
        let found = found.map_err(|_| ServerError::InvalidParams);
        Self { json_addresses: Some(found), ..self }
    }

    /// Returns the addresses of a message in JSON, if they were found ([`Self::with_json_addresses`]).
    pub(crate) fn json_addresses(&self) -> Option<&Result<JsonAddresses, ServerError>> {
        self.json_addresses.as_ref()
    }

    /// Returns the encoding of the message, in which it is also forwarded.
    pub(crate) fn encoding(&self) -> Encoding {
        match &self.message {
            Message::Borsh(_) => Encoding::Borsh,
            Message::Json(_) => Encoding::Json,
        }
    }

    pub(crate) fn message(&self) -> &Message {
        &self.message
    }

    /// Returns the bytes of the message.
    pub(crate) fn len(&self) -> usize {
        match &self.message {
            Message::Borsh(bytes) => bytes.len(),
            Message::Json(text) => text.len(),
        }
    }

    /// Checks that each count and each length of the parameters is backed by bytes.
    pub(crate) fn check(&self) -> Result<(), ServerError> {
        match &self.message {
            Message::Borsh(_) => {
                check_borsh_request(&self.borsh()?).map_err(|_| ServerError::InvalidPayload)
            }
            // It was parsed as JSON, which has no counts.
            Message::Json(_) => Ok(()),
        }
    }

    /// The request, if it is in Borsh.
    pub(crate) fn borsh(&self) -> Result<BorshRequest<'_>, ServerError> {
        match &self.message {
            Message::Borsh(bytes) => {
                BorshRequest::parse(bytes).map_err(|_| ServerError::InvalidPayload)
            }
            Message::Json(_) => Err(ServerError::InvalidPayload),
        }
    }

    /// The request, if it is in JSON. Cost: the length of the message.
    pub(crate) fn json(&self) -> Result<JsonRequest<'_>, ServerError> {
        match &self.message {
            Message::Json(text) => JsonRequest::parse(text).map_err(|_| ServerError::InvalidParams),
            Message::Borsh(_) => Err(ServerError::InvalidParams),
        }
    }

    /// The address of getBalanceByAddress.
    pub(crate) fn address(&self) -> Result<KaspaAddress, ServerError> {
        self.read(|request| request.address(), |request| request.address())
    }

    /// Checks a request without parameters. In Borsh that was done.
    pub(crate) fn check_no_params(&self) -> Result<(), ServerError> {
        self.read(|_| Ok(()), |request| request.no_params())
    }

    /// The scope of subscribe and unsubscribe.
    pub(crate) fn scope(&self) -> Result<Scope, ServerError> {
        self.read(|request| request.scope(), |request| request.scope())
    }

    fn read<T>(
        &self,
        borsh: impl FnOnce(&BorshRequest<'_>) -> Result<T, kaspa::BorshError>,
        json: impl FnOnce(&JsonRequest<'_>) -> Result<T, serde_json::Error>,
    ) -> Result<T, ServerError> {
        match &self.message {
            Message::Borsh(_) => borsh(&self.borsh()?).map_err(|_| ServerError::InvalidPayload),
            Message::Json(_) => json(&self.json()?).map_err(|_| ServerError::InvalidParams),
        }
    }

    /// Returns the whole message.
    pub(crate) fn into_bytes(self) -> Bytes {
        match self.message {
            Message::Borsh(bytes) => bytes,
            Message::Json(text) => text.into(),
        }
    }
}
