//! A gRPC server over HTTP/2 for any service: connections, TLS, credentials, calls and requests within rates, refusals,
//! health.
//!
//! In: a [`Service`], which handles the calls. Out: its responses.
//! Shape: [`PreparedServer`] starts the threads, and serves a listener. Each call of an admitted client goes to the
//! service ([`Call`]); the requests of a stream are read with [`Requests`]. [`Sending`] counts the bytes of a response
//! until they are written, and [`StatusTimer`] ends a connection whose client does not read the end of a stream.
//! Bounds: [`Config`]: connections, streams, requests. A client has a share of each ([`Shares`]).
//! Invariant: a client that does not read or write holds memory within its bounds, and delays no other client.
//! Not here: the messages of a service, queues of its clients.
#![forbid(unsafe_code)]

mod access;
mod budget;
mod call;
mod call_activity;
mod call_rate;
#[cfg(test)]
mod call_rate_test;
mod compression;
mod config;
mod connection;
mod connection_context;
mod counters;
mod dispatcher;
mod excess_calls;
mod go_away;
mod guarded_body;
mod health;
mod message_buffer;
mod method;
mod metrics;
mod read_rate;
mod refusal;
mod request_body;
mod request_budget;
mod requests;
#[cfg(test)]
mod requests_test;
mod sending;
mod server;
mod server_state;
mod shares;
mod socket;
mod start_error;
mod status_timer;
mod stream_permits;
mod tls;
mod token;
mod transport;
mod unread_streams;
#[cfg(test)]
mod unread_streams_test;

pub use budget::QueueBudget;
pub use call::Call;
pub use call_activity::{CallActivity, OpenCall};
pub use compression::{Compression, ENCODING_HEADER, HEAD_BYTES, encode_head};
pub use config::Config;
pub use connection_context::ConnectionContext;
pub use counters::{Event, ServerCounters};
pub use dispatcher::Service;
pub use message_buffer::Blocks;
pub use metrics::{Refusals, ServerMetrics};
pub use refusal::{Refusal, RefusedCall};
pub use request_body::{CALL_BYTES_MAX, RequestBody};
pub use request_budget::{ClientLock, RequestBudget};
pub use requests::{EncodedRequest, Requests};
pub use sending::{Count, Sending};
pub use server::{PreparedServer, Security, Server, check_token_file};
pub use server_state::ServerState;
pub use shares::{Shares, client_names, grow_share};
pub use start_error::StartError;
pub use status_timer::{StatusTimer, StreamId};
pub use stream_permits::{Revocation, StreamClient, StreamPermits};
pub use tls::{TlsAcceptor, TlsHandshake, TlsStream};
pub use unread_streams::UnreadStreams;
