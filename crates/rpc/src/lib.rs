//! JSON-RPC over HTTP and PubSub over WebSocket, as Agave 4.2 serves them.
//!
//! In: bytes of clients. Out: responses, each read from one view of [`chain_solana::Reader`] and history, and
//! transactions for [`chain_solana::TransactionSender`].
//! Invariant: a thread that polls sockets does at most microseconds of a method's work. More work runs on
//! [`pool::Pool`]. If the pool is full, the client gets an error at once.
//! Not here: state and index (`query`), execution (`localnet`), configuration files (`hydrant`).

mod api;
mod body;
mod buf_list;
mod cache_lookup;
mod cached_response;
mod catch_panic;
mod client_id;
pub mod commitment;
mod config;
mod content_encoding;
mod cors;
mod custom_error;
mod dependencies;
mod dispatch;
pub mod envelope;
pub mod error;
mod etag;
mod fast_config;
mod fast_parse;
mod fd_reserve;
pub mod fuzzing;
mod head;
mod health;
mod http_config;
mod http_context;
mod http_service;
mod ip_connection_limit;
mod ledger_metrics;
mod ledger_versions;
mod memory_budget;
mod memory_usage;
mod method_client;
mod methods;
pub mod metrics;
mod offload;
pub mod params;
mod poll_budget;
pub mod pubsub;
mod rate_limited_body;
mod request_body;
mod request_context;
mod request_id;
mod response_channel;
mod result_context;
mod rpc_service;
mod serve;
mod server;
mod server_context;
mod solana_api;
mod status_endpoints;
mod streamed_body;
mod task;
mod value_response;
mod websocket_handshake;
mod write_timeout;
mod yield_queue;

pub use crate::metrics::Metrics;
pub use api::{Api, Execution, InlineBudget, MethodResult, MethodSpec, Server};
pub use body::ResponseBody;
pub use buf_list::BufList;
pub use cached_response::ResponseCache;
pub use config::{Config, ConfigError};
pub use content_encoding::{ContentEncoding, encode_all, parse_qvalue};
pub use cors::{AllowedOrigins, NoOrigin};
pub use dispatch::handle_blocking;
pub use health::{Health, Status};
pub use http_context::HttpContext;
pub use memory_usage::NodeMemory;
pub use method_client::{MethodClient, MethodResponse};
pub use methods::{MethodOutput, api_version, required_index_keys};
pub use request_id::RequestId;
pub use rpc_service::{HttpApi, HttpApiRequest};
pub use serve::serve;
pub use server::{Listeners, Socket, WebSocketHandler};
pub use server_context::{ServerContext, SystemClock};
pub use solana_api::{SolanaApi, SolanaServer, SolanaServerParts};
pub use value_response::{BodyTransform, BodyTransformFactory, ResponseMeta, ResponseOptions};
