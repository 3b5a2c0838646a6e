//! The clients of a node by their API keys, for every server over HTTP.
//!
//! In: the head of a request. Out: its client ([`Authenticator`]), and whether it is over a limit.
//! Not here: sockets and TLS (`http_server`, `grpc_server`), the permissions of a key (`api_keys`), the wording of a
//! refusal (the servers).
#![forbid(unsafe_code)]

mod authenticator;

pub use authenticator::Authenticator;
