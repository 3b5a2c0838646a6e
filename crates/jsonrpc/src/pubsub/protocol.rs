//! From a WebSocket message to a call or a task of the API.
//!
//! A text, or a binary message that the API does not read itself, is JSON-RPC: Agave reads a binary message as text.

use std::sync::Arc;

use subscriptions::{Conflated, SubscriptionId};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use websocket::{
    ConflatableItems, IncomingMessage, MessageBound, MessageKind, OutgoingMessage, Protocol, Reply,
};

use super::calls;
use super::json_rpc_protocol::{JsonRpcProtocol, PubSubServer, Session};
use super::subscription_api::SubscriptionApi;

impl<A: SubscriptionApi> JsonRpcProtocol<A> {
    /// The protocol of an API.
    pub fn new(api: A) -> Self {
        Self::with_methods(api, A::METHODS)
    }
}

impl<A: SubscriptionApi> Protocol for JsonRpcProtocol<A> {
    type Task = A::Task;

    fn message_bound(kind: MessageKind, prefix: &[u8]) -> MessageBound {
        if kind == MessageKind::Binary && has_marker::<A>(prefix) {
            return MessageBound::Long;
        }
        let text = String::from_utf8_lossy(prefix);
        match A::LONG_METHODS.iter().any(|method| text.contains(method)) {
            true => MessageBound::Long,
            false => MessageBound::Short,
        }
    }

    fn handle_message(
        pubsub: &Arc<PubSubServer<A>>,
        session: &Arc<Session<A>>,
        message: IncomingMessage,
    ) -> Reply<A::Task> {
        let text = match message {
            IncomingMessage::Text(text) => text,
            IncomingMessage::Binary(bytes) if has_marker::<A>(&bytes) => {
                return A::binary_task(pubsub, session, bytes).map_or(Reply::Nothing, Reply::Task);
            }
            IncomingMessage::Binary(bytes) => match Utf8Bytes::try_from(bytes) {
                Ok(text) => text,
                Err(_) => return Reply::not_utf8(),
            },
        };
        if A::needs_task(&text, pubsub.config().message_bytes_max) {
            return Reply::Task(A::text_task(pubsub, session, text));
        }
        let Some(reply) = calls::handle_message(pubsub, session, &text) else {
            return Reply::Nothing;
        };
        let Ok(reply) = String::from_utf8(reply) else {
            unreachable!("replies are written as JSON")
        };
        Reply::Message(OutgoingMessage::Text(reply))
    }

    fn notification_suffix(subscription: SubscriptionId, sequence: u64) -> Vec<u8> {
        format!(r#","sequence":{sequence},"subscription":{}}}}}"#, subscription.0).into_bytes()
    }

    fn catch_up(pubsub: &PubSubServer<A>, session: &Session<A>, subscription: SubscriptionId) {
        A::catch_up(pubsub, session, subscription);
    }

    fn conflated_task(
        pubsub: &Arc<PubSubServer<A>>,
        session: &Arc<Session<A>>,
        conflated: Conflated<<A::Items as ConflatableItems>::State>,
    ) -> Option<A::Task> {
        A::conflated_task(pubsub, session, conflated)
    }
}

/// Whether a binary message is in a format of the API's own.
fn has_marker<A: SubscriptionApi>(message: &[u8]) -> bool {
    A::BINARY_MARKER.is_some_and(|marker| message.first() == Some(&marker))
}
