//! Yellowstone gRPC (proto 14): the updates of a Solana ledger, as Geyser's plugin serves them.
//!
//! In: the ledger's events ([`GrpcEventSink`]), and calls over HTTP/2. Out: updates that match the filters of each
//! client.
//! Shape: the publisher makes updates of events; the broker finds the filters that match, in one index for all clients,
//! encodes each distinct message once, and puts it into the clients' queues; the connections of `grpc_server` send them.
//! Bounds: [`Config`]: connections, subscriptions, filters, queues, and the log for `from_slot`. A client that is too
//! slow is closed.
//! Invariant: the ledger never waits for a client, and publishing costs the matches.
//! Not here: execution (`localnet`), connections, credentials and the rates of requests (`grpc_server`).
#![forbid(unsafe_code)]

mod broker;
mod clock;
mod compressing;
mod config;
mod convert;
mod counters;
mod data_slices;
mod delivery;
#[cfg(test)]
mod delivery_test;
mod encode;
mod filter;
mod filter_index;
pub mod fuzzing;
mod gossip;
mod gossip_table;
mod ids;
mod index;
mod indexed_set;
mod line_limit;
mod log;
mod metrics;
mod node;
mod publish_cost;
mod publisher;
mod queue;
mod request_reader;
mod response_body;
mod server;
mod service;
mod shared_predicates;
mod shares;
mod stream;
mod update;

pub use config::Config;
pub use gossip_table::GossipTable;
pub use grpc_server::{Security, StartError, TlsAcceptor, TlsHandshake, TlsStream};
pub use metrics::GrpcMetrics;
pub use node::{GrpcNode, LedgerReader, NewestBlock};
pub use publisher::GrpcEventSink;
pub use server::{KeyCloser, Server};
pub use yellowstone_grpc_proto::geyser::SubscribeUpdateContactInfoNode as ContactInfo;
