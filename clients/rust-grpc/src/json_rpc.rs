//! One JSON-RPC call over a connection of its own.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The result of a call to the node in `HYDRANT_RPC_URL`.
pub(crate) async fn call(method: &str, params: Value) -> Result<Value> {
    let url = std::env::var("HYDRANT_RPC_URL").context("HYDRANT_RPC_URL")?;
    let address = url.strip_prefix("http://").context("an http URL")?;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let request = format!(
        "POST / HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut socket = TcpStream::connect(address).await?;
    socket.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    socket.read_to_string(&mut response).await?;
    let (_, body) = response.split_once("\r\n\r\n").context("a response")?;
    let response: Value = serde_json::from_str(body)?;
    ensure!(response["error"].is_null(), "{method}: {}", response["error"]);
    Ok(response["result"].clone())
}
