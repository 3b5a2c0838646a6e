//! A ledger's subscriptions on the serving layer: the names of its calls, and what runs them.
//!
//! Shape: a call runs at once, where the socket is polled, and must take microseconds. What takes longer is a
//! [`SessionTask`] on the CPU pool: a long message, a binary message, conflated notifications, or a call of a method
//! that is not cheap.
//! Not here: publishing, which the API does through [`websocket::Server::subscriptions`].

use std::sync::Arc;

use subscriptions::{Conflated, SubscriptionId};
use tokio_tungstenite::tungstenite::{Bytes, Utf8Bytes};
use websocket::{ConflatableItems, SessionTask};

use super::json_rpc_protocol::{PubSubServer, Session};
use super::subscription_types::SubscriptionTypes;
use crate::method_output::MethodResult;
use crate::params::Params;

/// The calls of an API over WebSocket.
pub trait SubscriptionApi: SubscriptionTypes {
    /// The work of a message that does not run where the socket is polled.
    type Task: SessionTask<Items = Self::Items>;

    /// The names of all calls, each with the execution path that metrics show for it.
    const METHODS: &'static [(&'static str, &'static str)];

    /// The methods whose messages may be long. A text must name one of them within its first
    /// `message_bytes_max` bytes.
    const LONG_METHODS: &'static [&'static str] = &[];

    /// The first byte of a binary message in a format of the API's own, which may be long too. Any other binary message
    /// is read as text.
    const BINARY_MARKER: Option<u8> = None;

    /// Whether a method ends subscriptions. No rate limit refuses it.
    fn is_unsubscribe(method: &str) -> bool;

    /// Runs a call. Cost: microseconds.
    fn run_call(
        pubsub: &PubSubServer<Self>,
        session: &Session<Self>,
        method: &str,
        params: Params<'_>,
    ) -> MethodResult;

    /// Notifies of matching events that came before the subscription. Runs `Config::hold_ms` after the reply, if the
    /// subscription was made on hold. Cost: microseconds.
    fn catch_up(_: &PubSubServer<Self>, _: &Session<Self>, _: SubscriptionId) {}

    /// Whether a text is for [`Self::text_task`]. True for each that is longer than `message_bytes_max`.
    fn needs_task(text: &str, message_bytes_max: usize) -> bool;

    /// The task of a text message. It charges the client's rate limit itself ([`Session::admit`]).
    fn text_task(
        pubsub: &Arc<PubSubServer<Self>>,
        session: &Arc<Session<Self>>,
        text: Utf8Bytes,
    ) -> Self::Task;

    /// The task of a binary message that begins with [`Self::BINARY_MARKER`]. `None`: the message is ignored.
    fn binary_task(
        _pubsub: &Arc<PubSubServer<Self>>,
        _session: &Arc<Session<Self>>,
        _message: Bytes,
    ) -> Option<Self::Task> {
        None
    }

    /// Returns the task that sends the conflated notifications of a slow client. `None` if there is nothing to send.
    fn conflated_task(
        _pubsub: &Arc<PubSubServer<Self>>,
        _session: &Arc<Session<Self>>,
        _conflated: Conflated<<Self::Items as ConflatableItems>::State>,
    ) -> Option<Self::Task> {
        None
    }
}
