//! JSON-RPC over HTTP/1.1, one connection for each call: enough for comparisons.
//!
//! Bounds: [`TIMEOUT`] for each read and write.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// Time limit for a server that sends no bytes.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Calls a method. The response has `result` or `error`.
pub(crate) fn call(address: SocketAddr, method: &str, params: &Value) -> Result<Value> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let request = post_request(address, &body);
    let mut response: Value = serde_json::from_slice(&exchange(address, &request)?)
        .with_context(|| format!("the response to {method}"))?;
    // The envelope differs in the order of its keys only.
    if let Value::Object(fields) = &mut response {
        fields.retain(|key, _| key == "result" || key == "error");
    }
    Ok(response)
}

/// Sends a body of any form. Returns the status and the body of the response.
pub(crate) fn post(address: SocketAddr, body: &str) -> Result<(u16, String)> {
    let (head, body) = exchange_any(address, &post_request(address, body))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.context("no status")?, String::from_utf8_lossy(&body).into_owned()))
}

fn post_request(address: SocketAddr, body: &str) -> String {
    format!(
        "POST / HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Returns the body of the page at `path`.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    Ok(String::from_utf8_lossy(&exchange(address, &request)?).into_owned())
}

fn exchange(address: SocketAddr, request: &str) -> Result<Vec<u8>> {
    let (head, body) = exchange_any(address, request)?;
    ensure!(head.starts_with("http/1.1 200"), "{}", head.lines().next().unwrap_or_default());
    Ok(body)
}

/// Returns the head, in lower case, and the body of a response of any status.
fn exchange_any(address: SocketAddr, request: &str) -> Result<(String, Vec<u8>)> {
    let mut socket = TcpStream::connect_timeout(&address, TIMEOUT)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.set_write_timeout(Some(TIMEOUT))?;
    socket.write_all(request.as_bytes())?;
    let mut response = Vec::new();
    socket.read_to_end(&mut response)?;
    let end = response.windows(4).position(|at| at == b"\r\n\r\n").context("no end of headers")?;
    let head = String::from_utf8_lossy(&response[..end]).to_ascii_lowercase();
    let body = &response[end + 4..];
    let is_chunked = head.contains("transfer-encoding: chunked");
    let body = if is_chunked { unchunk(body)? } else { body.to_vec() };
    Ok((head, body))
}

fn unchunk(mut body: &[u8]) -> Result<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|at| at == b"\r\n").context("no size of a chunk")?;
        let size = std::str::from_utf8(&body[..end])?.split(';').next().unwrap_or_default();
        let size = usize::from_str_radix(size.trim(), 16).context("the size of a chunk")?;
        if size == 0 {
            return Ok(whole);
        }
        let start = end + 2;
        whole.extend_from_slice(body.get(start..start + size).context("a short chunk")?);
        body = body.get(start + size + 2..).context("no end of a chunk")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined() {
        assert_eq!(unchunk(b"3\r\nabc\r\n2;x=1\r\nde\r\n0\r\n\r\n").unwrap(), b"abcde");
        assert!(unchunk(b"5\r\nabc\r\n").is_err());
    }
}
