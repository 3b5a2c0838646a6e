//! Forwards a request, and returns the reply to the client.
//!
//! A long reply is checked, and translated to protobuf, on a thread for blocking work. Requests in protobuf were translated
//! to JSON, so the upstream answers them in JSON.
//! Bounds: the time of a reply ([`crate::Settings::forward_timeout_ms`]). Its length, and the requests in flight, are
//! bounded by [`crate::Forward`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clients::ClientId;
use kaspa::{
    Encoding, Method, Operation, ProtobufReply, ServerError, encode_protobuf_reply,
    replace_borsh_id,
};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use websocket::OutgoingMessage;

use crate::kaspa_rpc::{KaspaRpc, KaspaServer};
use crate::message_format::ReplyFormat;
use crate::messages::{encode_failure, to_message};
use crate::node_replies::{adapt_borsh, adapt_json};
use crate::request::Request;
use crate::upstream::ForwardError;

/// Bytes of a reply that is checked where sockets are polled: some 10 µs.
const CHECKED_HERE_BYTES_MAX: usize = 64 * 1024;

/// The parts of a request that its reply repeats or depends on.
#[derive(Clone, Copy)]
struct RequestId {
    id: u64,
    operation: Operation,
    reply: ReplyFormat,
}

/// Forwards a request with this id. Returns its reply, or the reply that it failed.
pub(crate) async fn forward_request(
    server: Arc<KaspaServer>,
    client: ClientId,
    id: u64,
    request: Request,
) -> OutgoingMessage {
    let request_id = RequestId { id, operation: request.operation, reply: request.reply };
    let encoding = request.encoding();
    let reply = match send(&server, client, request).await {
        Ok(reply) if reply.len() > CHECKED_HERE_BYTES_MAX => {
            let check = move || check_reply(&server, encoding, request_id, reply);
            let stopping = |_| Err(ForwardError::new("the node stops"));
            spawn_blocking(check).await.unwrap_or_else(stopping)
        }
        reply => reply.and_then(|reply| check_reply(&server, encoding, request_id, reply)),
    };
    reply.unwrap_or_else(|error| {
        let error = ServerError::Text(error.to_string());
        let RequestId { id, operation, reply } = request_id;
        to_message(reply.into(), encode_failure(reply, id, operation, &error))
    })
}

async fn send(rpc: &KaspaRpc, client: ClientId, request: Request) -> Result<Bytes, ForwardError> {
    let limit_ms = rpc.settings.forward_timeout_ms;
    let encoding = request.encoding();
    let operation = request.operation;
    let reply = rpc.forward.forward(client, encoding, operation, request.into_bytes());
    let reply = timeout(Duration::from_millis(limit_ms), reply).await;
    reply.unwrap_or_else(|_| {
        let text = format!("the upstream node did not answer within {limit_ms} ms");
        Err(ForwardError::new(text))
    })
}

fn check_reply(
    rpc: &KaspaRpc,
    encoding: Encoding,
    request_id: RequestId,
    reply: Bytes,
) -> Result<OutgoingMessage, ForwardError> {
    let RequestId { id, operation, reply: format } = request_id;
    let invalid = || ForwardError::new("the upstream node sent an invalid reply");
    match encoding {
        Encoding::Borsh => {
            let mut frame = Vec::from(reply);
            if !replace_borsh_id(&mut frame, id) {
                return Err(invalid());
            }
            let adapted = adapt_borsh(rpc, id, operation, &frame);
            Ok(OutgoingMessage::Binary(adapted.unwrap_or(frame)))
        }
        Encoding::Json => {
            let text = String::from_utf8(reply.into()).map_err(|_| invalid())?;
            let adapted = adapt_json(rpc, id, operation, &text);
            let adapted = adapted.map(String::from_utf8).transpose().map_err(|_| invalid())?;
            let text = adapted.unwrap_or(text);
            match (format, operation) {
                (ReplyFormat::Protobuf { field }, Operation::Method(method)) => {
                    translate(ProtobufReply { id, field }, method, &text)
                }
                _ => Ok(OutgoingMessage::Text(text)),
            }
        }
    }
}

/// Translates a reply in JSON to protobuf.
fn translate(
    reply: ProtobufReply,
    method: Method,
    json: &str,
) -> Result<OutgoingMessage, ForwardError> {
    let translated = encode_protobuf_reply(reply, method, json);
    translated.map(OutgoingMessage::Binary).map_err(ForwardError::new)
}
