//! JSON-RPC and pages over HTTP/1.1, one connection for each call: enough for comparisons.
//!
//! Not here: the connection and its time limits (`http_client`).

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::rig::http_client::{Request, Response, exchange};

/// Calls a method. The response has `result` or `error`.
pub(crate) fn call(address: SocketAddr, method: &str, params: &Value) -> Result<Value> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let response = exchange(address, &Request::post_json(&body)).and_then(read_body);
    let response = response.with_context(|| format!("the response to {method}"))?;
    let mut response: Value =
        serde_json::from_slice(&response).with_context(|| format!("the response to {method}"))?;
    // The envelope differs in the order of its keys only.
    if let Value::Object(fields) = &mut response {
        fields.retain(|key, _| key == "result" || key == "error");
    }
    Ok(response)
}

/// Sends a body of any form. Returns the status and the body of the response.
pub(crate) fn post(address: SocketAddr, body: &str) -> Result<(u16, String)> {
    let response = exchange(address, &Request::post_json(body))?;
    Ok((response.status, String::from_utf8_lossy(&response.body).into_owned()))
}

/// Returns the body of the page at `path`.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<String> {
    let body = read_body(exchange(address, &Request::get(path))?)?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

fn read_body(response: Response) -> Result<Vec<u8>> {
    ensure!(response.status == 200, "status {}", response.status);
    Ok(response.body)
}
