//! Forwards the calls of clients to the upstream over a few shared connections, after a check of each request.
//!
//! In: the messages of clients, one at a time. Out: the replies of the upstream, with the ids of the clients.
//! Shape: a request is checked before it is queued (`request`). Two queues for each encoding, one of them for slow
//! methods, have some connections each (`call_queue`). A connection sends one request at a time, as kaspad runs only one.
//! Long messages are checked and copied on other threads (`long_message`).
//! Bounds: [`ForwarderConfig`]: connections, calls that wait, calls of one client, bytes of requests and of replies,
//! time. A call above a limit is refused.
//! Invariant: nothing is sent that would make kaspad close a connection, or reserve memory by a length that the request
//! does not have.
//! Not here: subscriptions, kaspad's safe mode, and the methods that need no upstream (`rpc_kaspa`).

mod byte_budget;
mod call_queue;
mod config;
mod error;
mod forwarder;
mod metrics;
mod request;

pub use self::config::{CallLimits, ForwarderConfig};
pub use self::error::ForwardError;
pub use self::forwarder::Forwarder;
