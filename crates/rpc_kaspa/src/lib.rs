//! wRPC of a Kaspa node, in Borsh and in JSON, and the messages of its gRPC, over a chain that is followed.
//!
//! Shape: [`KaspaRpc::serve`] makes the server of all connections. A [`KaspaPort`] serves the connections of one port,
//! in one [`kaspa::Encoding`], and [`PortService`] its requests over HTTP. A stream of gRPC is a connection in
//! [`MessageFormat::Protobuf`]. Requests about UTXOs, balances and supply are answered from the chain; the others are
//! forwarded to a kaspad ([`Forward`]). [`start_publisher`] takes the chain's events and the kaspad's notifications,
//! and notifies subscribers. [`KaspaApi`] has the methods that kaspad lacks, for JSON-RPC and REST. A connection in
//! JSON also has the methods of `address_changes`.
//! Bounds: those of `websocket::Config`, and [`Settings`]. A list of UTXOs is made in parts of 64 KiB.
//! Invariant: a request is forwarded only if its operation is known and each count and length in it is backed by bytes:
//! kaspad closes a connection at an unknown operation, and allocates by the counts that it reads.
//! Not here: the chain (`chain_kaspa`), messages (`kaspa`), connections and frames (`websocket`), streams of HTTP/2
//! (`grpc_kaspa`), the upstream.
#![forbid(unsafe_code)]

mod address_changes;
mod address_cursor;
mod address_scan;
mod api;
mod balance_list;
mod call;
mod changed_utxos;
mod client_subscriptions;
mod entry_totals;
mod forwarding;
mod kaspa_rpc;
mod list_writer;
mod message_format;
mod messages;
mod methods;
mod node_replies;
mod port_service;
mod proof_headers;
mod protocol;
mod publisher;
mod publisher_thread;
mod read_deadline;
mod recent_blocks;
mod registration;
mod request;
mod request_metrics;
mod safe_mode;
mod scope_task;
mod session_state;
mod status_pages;
mod subscription;
mod task;
mod upstream;
mod utxo_list;
mod utxo_notification;

pub use api::{KaspaApi, rest_limits};
pub use kaspa_rpc::{KaspaRpc, KaspaServer, KaspaSession, NoItems, Settings};
pub use message_format::MessageFormat;
pub use port_service::{PortService, PortUrls};
pub use proof_headers::write_proof_headers;
pub use protocol::KaspaPort;
pub use publisher::Publisher;
pub use publisher_thread::{PublisherInput, start_publisher};
pub use request_metrics::RequestMetrics;
pub use session_state::SessionState;
pub use status_pages::StatusPages;
pub use subscription::Subscription;
pub use task::KaspaTask;
pub use upstream::{Forward, ForwardError, ForwardFuture};
