//! JSON-RPC 2.0 over HTTP, and subscriptions over WebSocket, for any ledger: envelope, dispatch, batches, tasks of the
//! CPU pool, connections of subscribers, metrics.
//!
//! In: an [`Api`], which is a table of methods, and bytes of clients. Out: responses. A method returns a value
//! ([`MethodOutput`]); this crate writes the envelope around it, or sends the value alone to another interface
//! ([`MethodClient`]).
//! Invariant: a thread that polls sockets does at most microseconds of a method's work. More work runs on
//! [`cpu_pool::Pool`]. If the pool is full, the client gets an error at once.
//! Not here: methods, any chain, sockets ([`http_server`]), what is cached ([`response_cache`]).

mod api;
mod catch_panic;
mod config;
mod dispatch;
pub mod envelope;
pub mod error;
mod fast_parse;
mod health;
mod incremental;
mod json_scanner;
mod method_client;
mod method_output;
pub mod metrics;
mod offload;
pub mod params;
mod planned_call;
pub mod pubsub;
mod request;
mod request_context;
mod response_channel;
mod rpc_service;
mod serve;
mod server_context;
pub mod slot_headers;
mod slot_waits;
#[cfg(test)]
mod slot_waits_tests;
mod state_slots;
mod status_endpoints;
mod streamed_body;
mod task;
mod trace_parent;
mod value_response;

pub use crate::metrics::Metrics;
pub use api::{Api, Execution, FindDependencies, InlineBudget, MethodSpec, Preparation, Server};
pub use catch_panic::catch_panic;
pub use config::Config;
pub use dispatch::{WatchedCall, handle_blocking};
pub use health::{Health, Status};
pub use incremental::{IncrementalQuery, VISITS, run_incremental};
pub use json_scanner::JsonScanner;
pub use method_client::{MethodClient, MethodResponse};
pub use method_output::{
    ListTemplate, MethodOutput, MethodResult, OutputBody, RawValue, StreamState, StreamedResult,
    not_json, write_json, write_number,
};
pub use offload::INLINE_BODY_BYTES_MAX;
pub use rpc_service::{HttpApi, HttpApiRequest, HttpApiResponse};
pub use serve::serve;
pub use server_context::{ServerContext, ServerParts, SystemClock};
pub use slot_waits::SlotWaits;
pub use state_slots::StateRequest;
pub use trace_parent::TraceParent;
pub use value_response::{BodyTransform, BodyTransformFactory, ResponseMeta, ResponseOptions};
