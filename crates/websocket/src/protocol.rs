//! A protocol over WebSocket: what a message means, and the reply to it.
//!
//! Shape: [`Protocol::handle_message`] runs where the socket is polled, and must take microseconds. What takes longer
//! is a [`SessionTask`] on the CPU pool.
//! Not here: publishing, which the protocol does through [`Server::subscriptions`].

use std::pin::Pin;
use std::sync::Arc;

use subscriptions::{Conflated, SubscriptionId};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::message::{IncomingMessage, MessageBound, MessageKind, NOT_UTF8, OutgoingMessage};
use crate::payload::ConflatableItems;
use crate::protocol_types::ProtocolTypes;
use crate::server::Server;
use crate::session::Session;
use crate::session_task::SessionTask;

/// What a connection does with a message.
pub enum Reply<T> {
    /// Nothing: the message needs no reply.
    Nothing,
    /// Writes a message.
    Message(OutgoingMessage),
    /// Runs a task, and writes its outputs. No other message is read from the client meanwhile.
    Task(T),
    /// Waits for the reply of another server. No other message is read from the client meanwhile. The protocol limits
    /// the time. The future is dropped when the connection ends. A server that is shut down writes the reply before it
    /// closes the connection.
    Future(Pin<Box<dyn Future<Output = Self> + Send>>),
    /// Closes the connection.
    Close(CloseCode, String),
}

impl<T> Reply<T> {
    /// Closes the connection (1007): a binary message was to be a text, and is not UTF-8.
    pub fn not_utf8() -> Self {
        Self::Close(CloseCode::Invalid, NOT_UTF8.to_owned())
    }
}

/// A protocol over WebSocket.
pub trait Protocol: ProtocolTypes {
    /// The work of a message that does not run where the socket is polled.
    type Task: SessionTask<Items = Self::Items>;

    /// Returns the bound of a message that is over `Config::message_bytes_max`, from its first `message_bytes_max`
    /// bytes.
    fn message_bound(kind: MessageKind, prefix: &[u8]) -> MessageBound;

    /// Handles a whole message. Cost: microseconds, so a message over `Config::message_bytes_max` is for a task, or for a
    /// future that reads it on another thread. It charges the client's rate limit itself ([`Session::admit`]). If it
    /// panics, the connection is closed (1011).
    fn handle_message(
        server: &Arc<Server<Self>>,
        session: &Arc<Session<Self>>,
        message: IncomingMessage,
    ) -> Reply<Self::Task>;

    /// Returns the task that gets the parts of a message ([`MessageBound::Streamed`], [`SessionTask::push_part`]).
    /// `None`: the message is discarded. If the task ends before the last part, the rest is discarded.
    fn stream_task(
        _server: &Arc<Server<Self>>,
        _session: &Arc<Session<Self>>,
        _kind: MessageKind,
    ) -> Option<Self::Task> {
        None
    }

    /// Returns the end of a notification whose beginning all its listeners share ([`crate::SplitPayload`]). `sequence`
    /// counts the listener's notifications of the subscription from 0. Empty: the beginning is the whole notification.
    fn notification_suffix(_subscription: SubscriptionId, _sequence: u64) -> Vec<u8> {
        Vec::new()
    }

    /// Returns whether the client's pings are read while a call runs. `false` for a session whose stream is not a
    /// WebSocket, and has no pings of its client.
    fn has_pings(_session: &Session<Self>) -> bool {
        true
    }

    /// Notifies of matching events that came before the subscription. Runs `Config::hold_ms` after the reply, if the
    /// subscription was made on hold. Cost: microseconds.
    fn catch_up(_: &Server<Self>, _: &Session<Self>, _: SubscriptionId) {}

    /// Returns the task that sends the conflated notifications of a slow client. `None` if there is nothing to send.
    fn conflated_task(
        _server: &Arc<Server<Self>>,
        _session: &Arc<Session<Self>>,
        _conflated: Conflated<<Self::Items as ConflatableItems>::State>,
    ) -> Option<Self::Task> {
        None
    }
}
