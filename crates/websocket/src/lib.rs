//! Messages and subscriptions over WebSocket, for any protocol: connections, frames, queues, budgets, close reasons.
//!
//! In: a [`Protocol`], which says what a message means, and clients' connections ([`serve_connection`]). Out: replies,
//! and the notifications that the protocol publishes to [`Server::subscriptions`], each encoded once for all listeners
//! of a subscription.
//! Shape: [`Protocol::handle_message`] gets each message of a client, text or binary, when it is whole. Its [`Reply`]
//! is a message, a future (the reply of another server), or a [`SessionTask`]: steps on the CPU pool, whose outputs are
//! written one after the other. A task may stream a long message in parts, each a frame; the next part is made when the
//! socket has accepted the one before. The next message is read when the reply has been written, so there is one call
//! at a time for each connection. Queued notifications are written while it runs, but not within a streamed message:
//! they wait for one such message at most. Pings and pongs are exchanged during both.
//! Bounds: [`Config`]. A message over the ordinary bound is read further only if the protocol says so from the
//! message's beginning ([`Protocol::message_bound`]): as a whole, or in parts for a task ([`IncomingPart`]). A slow
//! client is closed with a reason, or gets conflated notifications.
//! Not here: the content of messages, matching and queues (`subscriptions`), the upgrade from HTTP (`http_server`).

mod call_refused;
mod collect;
mod config;
mod connection;
mod connection_end;
mod counters;
mod frame_writer;
mod incoming_budget;
mod message;
mod message_reader;
mod payload;
mod protocol;
mod protocol_types;
mod pulse;
mod server;
mod session;
mod session_output;
mod session_task;
mod shared_bytes;

pub use call_refused::CallRefused;
pub use config::Config;
pub use connection::{serve_connection, serve_session};
pub use connection_end::close_frame;
pub use message::{IncomingMessage, IncomingPart, MessageBound, MessageKind, OutgoingMessage};
pub use payload::{ConflatableItems, Payload, SplitPayload};
pub use protocol::{Protocol, Reply};
pub use protocol_types::ProtocolTypes;
pub use server::{Server, Stats};
pub use session::Session;
pub use session_output::SessionOutput;
pub use session_task::SessionTask;
pub use shared_bytes::SharedBytes;
