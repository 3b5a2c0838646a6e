//! kaspad's gRPC (`protowire.RPC/MessageStream`) over a chain that is followed.
//!
//! Shape: a stream is a session of `rpc_kaspa`, like a connection of wRPC: one call at a time, and the notifications of
//! its subscriptions. `session_io` is the connection that the session sees: it turns the messages of the stream into
//! frames of WebSocket, and frames into messages. Neither is copied more than once. Calls of a client are answered in
//! their order; kaspad answers calls of different methods at the same time.
//! Bounds: those of connections and requests (`grpc_server::Config`), and those of sessions (`websocket::Config`): queues,
//! messages, the time in which a client must read. In addition, [`OUTGOING_BYTES_MAX`] of a stream wait for HTTP/2.
//! Not here: the handling of messages (`rpc_kaspa`), their fields (`kaspa`), connections of HTTP/2 (`grpc_server`).
#![forbid(unsafe_code)]

mod end_status;
mod incoming_requests;
mod outgoing;
mod response_body;
mod server;
mod server_frames;
mod service;
mod session_io;
mod starting_server;

pub use outgoing::OUTGOING_BYTES_MAX;
pub use server::KaspaGrpcServer;
pub use starting_server::StartingGrpcServer;
