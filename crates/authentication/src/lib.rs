//! The clients of a node by their API keys, for every server over HTTP.
//!
//! In: the head of a request. Out: its client ([`Authenticator`]), and whether it is over a limit.
//! Not here: sockets and TLS (`http_server`, `grpc`), what a key may do (`api_keys`), how a refusal is worded (the servers).
#![forbid(unsafe_code)]

mod authenticator;
#[cfg(test)]
mod test_clock;

pub use authenticator::Authenticator;
