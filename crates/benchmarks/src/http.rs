//! Requests to an address, and the connection that they go over: those of `loadgen`.

use std::net::SocketAddr;

pub(crate) use ::loadgen::Connection;
use ::loadgen::Endpoint;
use serde_json::Value;

/// The bytes of a JSON-RPC request.
pub(crate) fn call(address: SocketAddr, method: &str, params: &Value) -> Vec<u8> {
    Endpoint::from(address).call(method, params)
}

/// The bytes of a POST of JSON.
pub(crate) fn post(address: SocketAddr, path: &str, body: &str) -> Vec<u8> {
    Endpoint::from(address).post(path, body)
}
