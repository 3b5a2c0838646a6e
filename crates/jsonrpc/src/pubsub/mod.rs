//! Subscriptions in JSON-RPC over WebSocket, for any ledger.
//!
//! In: a [`SubscriptionApi`], which says what a subscription is and runs its calls. Out: the protocol of a
//! [`websocket::Server`]: replies, and the notifications that the API publishes to [`PubSubServer`]'s subscriptions.
//! Shape: a call runs where the socket is polled, or as a [`websocket::SessionTask`] on the CPU pool.
//! Not here: connections, frames, queues and limits (`websocket`), matching (`subscriptions`), kinds of subscriptions.

mod calls;
mod json_rpc_protocol;
mod protocol;
mod subscription_api;
mod subscription_types;

pub use calls::{handle_message, subscribe_error, unsubscribe};
pub use json_rpc_protocol::{JsonRpcProtocol, PubSubServer, Session, add_metrics, record_call};
pub use subscription_api::SubscriptionApi;
pub use subscription_types::SubscriptionTypes;
