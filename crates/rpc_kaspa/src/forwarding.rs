//! Forwards a request, and returns the reply to the client.
//!
//! A long reply is checked, and translated to protobuf, on a thread for blocking work. Requests in protobuf were translated
//! to JSON, so the upstream answers them in JSON.
//! Bounds: the time of a reply ([`crate::Settings::forward_timeout_ms`]). Its length, and the requests in flight, are
//! bounded by [`crate::Forward`], which counts a reply until its bytes are dropped. They count until the session
//! takes the output, which may be three times as long while a reply is translated to protobuf.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clients::ClientId;
use kaspa::{
    Encoding, Method, Operation, ProtobufReply, ServerError, encode_protobuf_reply,
    replace_borsh_id,
};
use tokio::task::{JoinError, spawn_blocking};
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
            let check = move |reply: &[u8]| check_reply(&server, encoding, request_id, reply);
            let stopping = |_| Err(ForwardError::new("the node stops"));
            check_on_thread(reply, check).await.unwrap_or_else(stopping)
        }
        reply => reply.and_then(|reply| check_reply(&server, encoding, request_id, &reply)),
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

/// Runs a check on a thread for blocking work. The reply is dropped when the result is taken, not before: until then
/// the output is counted by nothing else.
async fn check_on_thread<T: Send + 'static>(
    reply: Bytes,
    check: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> Result<T, JoinError> {
    let checked = reply.clone();
    let result = spawn_blocking(move || check(&checked)).await;
    drop(reply);
    result
}

fn check_reply(
    rpc: &KaspaRpc,
    encoding: Encoding,
    request_id: RequestId,
    reply: &[u8],
) -> Result<OutgoingMessage, ForwardError> {
    let RequestId { id, operation, reply: format } = request_id;
    let invalid = || ForwardError::new("the upstream node sent an invalid reply");
    match encoding {
        Encoding::Borsh => {
            let mut frame = reply.to_vec();
            if !replace_borsh_id(&mut frame, id) {
                return Err(invalid());
            }
            let adapted = adapt_borsh(rpc, id, operation, &frame);
            Ok(OutgoingMessage::Binary(adapted.unwrap_or(frame)))
        }
        Encoding::Json => {
            let text = std::str::from_utf8(reply).map_err(|_| invalid())?;
            let adapted = adapt_json(rpc, id, operation, text);
            let adapted = adapted.map(String::from_utf8).transpose().map_err(|_| invalid())?;
            match (format, operation) {
                (ReplyFormat::Protobuf { field }, Operation::Method(method)) => {
                    let text = adapted.as_deref().unwrap_or(text);
                    translate(ProtobufReply { id, field }, method, text)
                }
                _ => Ok(OutgoingMessage::Text(adapted.unwrap_or_else(|| text.to_owned()))),
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

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    use super::*;

    /// A reply that counts in a bound until it is dropped.
    struct CountedReply {
        bytes: Vec<u8>,
        _permit: Arc<()>,
    }

    impl AsRef<[u8]> for CountedReply {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    #[tokio::test]
    async fn a_reply_counts_until_its_session_takes_the_output() {
        let permit = Arc::new(());
        let reply = CountedReply { bytes: vec![7; 100_000], _permit: Arc::clone(&permit) };
        let (checked, is_checked) = mpsc::sync_channel(1);
        let check = move |reply: &[u8]| {
            let output = reply.to_vec();
            checked.send(()).expect("the test waits");
            output
        };
        let mut output = pin!(check_on_thread(Bytes::from_owner(reply), check));
        assert!(output.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        is_checked.recv().expect("it is checked");
        assert_eq!(Arc::strong_count(&permit), 2, "the session has not taken the output");
        assert!(output.await.expect("no panic") == [7; 100_000]);
        assert_eq!(Arc::strong_count(&permit), 1);
    }
}
