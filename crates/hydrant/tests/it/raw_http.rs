//! HTTP by hand: requests with any head, and connections that stay open or stop in between.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::world::WAIT_TIMEOUT;

/// A connection with a time limit for each read.
pub(crate) fn connect(address: SocketAddr) -> Result<TcpStream> {
    let socket = TcpStream::connect(address).context("connect")?;
    socket.set_read_timeout(Some(WAIT_TIMEOUT))?;
    Ok(socket)
}

/// Sends a request, and reads until the other side closes.
pub(crate) fn exchange(mut socket: impl Read + Write, request: &str) -> Result<String> {
    socket.write_all(request.as_bytes()).context("send")?;
    let mut response = Vec::new();
    socket.read_to_end(&mut response).context("receive")?;
    Ok(String::from_utf8_lossy(&response).into_owned())
}

/// The text of a POST of JSON-RPC with further lines of its head. The connection is closed after the response.
pub(crate) fn post_text(head: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST / HTTP/1.1\r\n{head}Connection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The text of a GET. The connection is closed after the response.
pub(crate) fn get_text(path: &str, head: &str) -> String {
    format!("GET {path} HTTP/1.1\r\n{head}Connection: close\r\n\r\n")
}

/// A GET on a connection of its own.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<String> {
    exchange(connect(address)?, &get_text(path, &format!("Host: {address}\r\n")))
}

/// Returns the body of a response with a head.
pub(crate) fn body(response: &str) -> Result<&str> {
    Ok(response.split_once("\r\n\r\n").context("a response with a body")?.1)
}
