//! Subscriptions over WebSocket for any ledger: connections, messages, queues, budgets, metrics.
//!
//! In: a [`SubscriptionApi`], which says what a subscription is and runs its calls, and clients' connections
//! ([`serve_connection`]). Out: replies, and the notifications that the API publishes to
//! [`PubSubServer::subscriptions`], each encoded once for all listeners of a subscription.
//! Shape: a call runs where the socket is polled, or as a [`SessionTask`] on the CPU pool. One task of the connection
//! writes replies and notifications. A slow client is closed with a reason, or gets conflated notifications.
//! Bounds: [`Config`]. Not here: matching and queues (`subscriptions`), the upgrade from HTTP (`http_server`), any kind
//! of subscription.

mod calls;
mod collect;
mod config;
mod connection;
mod incoming_budget;
mod metrics;
mod payload;
mod pubsub_server;
mod reader;
mod session;
mod session_output;
mod session_task;
mod shared_text;
mod subscription_api;
mod subscription_types;
mod writer;

pub use calls::{handle_message, subscribe_error, unsubscribe};
pub use config::Config;
pub use connection::serve_connection;
pub use payload::{ConflatableItems, Payload, SplitPayload};
pub use pubsub_server::{PubSubServer, Stats};
pub use session::Session;
pub use session_output::SessionOutput;
pub use session_task::SessionTask;
pub use shared_text::SharedText;
pub use subscription_api::SubscriptionApi;
pub use subscription_types::SubscriptionTypes;
