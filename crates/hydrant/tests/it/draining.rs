//! The end of a real node: what runs is finished, everything else is refused, and a second signal cuts it.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use solana_pubkey::Pubkey;
use tempfile::TempDir;
use testkit::node::{Node, NodeCommand};

use crate::node::HYDRANT;
use crate::raw_http::{body, connect, exchange, get, post_text};
use crate::world::{WAIT_TIMEOUT, wait_until};

/// Accounts of 10 MiB: together more than the buffers of two sockets.
const ACCOUNTS: u8 = 3;
const ACCOUNT_BYTES: usize = 10 << 20;

struct Draining {
    node: Node,
    _files: TempDir,
}

fn owner() -> String {
    Pubkey::new_from_array([77; 32]).to_string()
}

impl Draining {
    /// A node with accounts whose list is a long response.
    fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// Starts a node with further flags.
    fn start_with(flags: &[&str]) -> Result<Self> {
        let files = TempDir::new()?;
        for n in 1..=ACCOUNTS {
            let address = Pubkey::new_from_array([n; 32]).to_string();
            let account = json!({
                "pubkey": address,
                "account": {
                    "lamports": 1_000_000_000_000_u64,
                    "data": [BASE64_STANDARD.encode(vec![n; ACCOUNT_BYTES]), "base64"],
                    "owner": owner(),
                    "executable": false,
                    "rentEpoch": u64::MAX,
                    "space": ACCOUNT_BYTES,
                },
            });
            fs::write(files.path().join(format!("{address}.json")), account.to_string())?;
        }
        let node = NodeCommand::dev(Command::new(HYDRANT))
            .args(["--log", "--drain-seconds", "3600", "--account-dir"])
            .args([files.path()])
            .args(flags)
            .logged()
            .start()?;
        Ok(Self { node, _files: files })
    }

    /// Requests the list of all accounts, and reads only the first bytes of the response.
    fn start_long_response(&self) -> Result<(TcpStream, Vec<u8>)> {
        self.start_long_response_over("HTTP/1.1")
    }

    /// Requests the list over a version of HTTP, and reads its first bytes.
    fn start_long_response_over(&self, version: &str) -> Result<(TcpStream, Vec<u8>)> {
        let mut socket = connect(self.node.rpc)?;
        let params = json!([owner(), { "encoding": "base64", "commitment": "processed" }]);
        let request = json!({
            "jsonrpc": "2.0", "id": 1, "method": "getProgramAccounts", "params": params,
        });
        let request = post_text("Host: a\r\n", &request).replacen("HTTP/1.1", version, 1);
        socket.write_all(request.as_bytes())?;
        let mut first = vec![0; 15];
        socket.read_exact(&mut first)?;
        let expected = format!("{version} 200 OK");
        ensure!(first == expected.as_bytes(), "{}", String::from_utf8_lossy(&first));
        Ok((socket, first))
    }

    fn signal(&self) -> Result<()> {
        let kill = Command::new("kill").arg(self.node.pid().to_string()).status()?;
        ensure!(kill.success(), "kill: {kill}");
        Ok(())
    }

    fn wait_for_drain(&self) -> Result<String> {
        wait_until("the drain", WAIT_TIMEOUT, || {
            let ready = get(self.node.rpc, "/ready")?;
            Ok(ready.starts_with("HTTP/1.1 503 ").then_some(ready))
        })
    }

    fn end(&mut self) -> Result<ExitStatus> {
        wait_until("the node's end", WAIT_TIMEOUT, || Ok(self.node.process().try_wait()?))
    }
}

/// A WebSocket whose handshake is complete.
fn open_websocket(node: &Node) -> Result<TcpStream> {
    let mut socket = connect(node.ws)?;
    write!(
        socket,
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).context("the head of the handshake")?;
        head.extend(byte);
    }
    ensure!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    Ok(socket)
}

#[test]
fn a_request_that_runs_is_finished_while_new_ones_are_refused() -> Result<()> {
    let mut draining = Draining::start()?;
    let mut websocket = open_websocket(&draining.node)?;
    let (mut running, mut response) = draining.start_long_response()?;
    draining.signal()?;
    let ready = draining.wait_for_drain()?;
    ensure!(body(&ready)? == "draining\n", "{ready}");
    let head = ready.to_ascii_lowercase();
    ensure!(head.contains("\r\nretry-after: 1\r\n") && head.contains("\r\nconnection: close\r\n"));
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "getSlot" });
    let refused = exchange(connect(draining.node.rpc)?, &post_text("Host: a\r\n", &request))?;
    ensure!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("draining"), "{refused}");
    let rest = get(draining.node.rpc, "/v1/node")?;
    ensure!(rest.starts_with("HTTP/1.1 503 ") && rest.contains("\"draining\""), "{rest}");
    let metrics = get(draining.node.rpc, "/metrics")?;
    ensure!(metrics.contains("\nhydrant_http_draining 1\n"), "{metrics}");
    // The close frame: 1001.
    let mut frames = Vec::new();
    websocket.read_to_end(&mut frames).context("the end of the WebSocket")?;
    let close = frames.windows(4).find(|frame| frame[0] == 0x88 && frame[2..] == [0x03, 0xe9]);
    ensure!(close.is_some(), "{frames:x?}");
    ensure!(draining.node.process().try_wait()?.is_none(), "a request runs");
    running.read_to_end(&mut response)?;
    let response = String::from_utf8(response)?;
    let json = decode_body(&response)?;
    let accounts = json["result"].as_array().context("a list")?;
    ensure!(accounts.len() == usize::from(ACCOUNTS), "{} accounts", accounts.len());
    ensure!(draining.end()?.code() == Some(0));
    Ok(())
}

/// The JSON of a chunked response.
fn decode_body(response: &str) -> Result<Value> {
    let mut rest = body(response)?;
    let mut text = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n").context("the size of a chunk")?;
        let size = usize::from_str_radix(size, 16)?;
        if size == 0 {
            return Ok(serde_json::from_str(&text)?);
        }
        text.push_str(after.get(..size).context("a whole chunk")?);
        rest = after.get(size + 2..).context("the next chunk")?;
    }
}

#[test]
fn a_second_signal_ends_the_node_at_once() -> Result<()> {
    let mut draining = Draining::start()?;
    let (running, _) = draining.start_long_response()?;
    draining.signal()?;
    draining.wait_for_drain()?;
    ensure!(draining.node.process().try_wait()?.is_none(), "a request runs");
    draining.signal()?;
    ensure!(draining.end()?.code() == Some(0));
    drop(running);
    Ok(())
}

#[test]
fn a_body_over_http_1_0_is_complete_or_ends_in_a_reset() -> Result<()> {
    let mut draining = Draining::start()?;
    let (mut whole, mut response) = draining.start_long_response_over("HTTP/1.0")?;
    whole.read_to_end(&mut response).context("the end of a complete body")?;
    let response = String::from_utf8(response)?;
    let json: Value = serde_json::from_str(body(&response)?)?;
    ensure!(json["result"].as_array().map(Vec::len) == Some(usize::from(ACCOUNTS)));
    let (mut cut, mut response) = draining.start_long_response_over("HTTP/1.0")?;
    draining.signal()?;
    draining.wait_for_drain()?;
    draining.signal()?;
    ensure!(draining.end()?.code() == Some(0));
    let end = cut.read_to_end(&mut response).map_err(|err| err.kind());
    ensure!(end == Err(ErrorKind::ConnectionReset), "{end:?} after {} bytes", response.len());
    Ok(())
}

#[test]
fn an_announced_end_is_served_until_its_delay_is_over() -> Result<()> {
    let mut draining = Draining::start_with(&["--drain-delay", "3600"])?;
    let address = draining.node.rpc;
    let call = |method: &str| -> Result<Value> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method });
        let response = exchange(connect(address)?, &post_text("Host: a\r\n", &request))?;
        ensure!(response.starts_with("HTTP/1.1 200 "), "{method}: {response}");
        Ok(serde_json::from_str(body(&response)?)?)
    };
    ensure!(call("getHealth")?["result"] == "ok");
    draining.signal()?;
    let ready = draining.wait_for_drain()?;
    ensure!(body(&ready)? == "draining\n", "{ready}");
    let health = get(address, "/health")?;
    ensure!(health.starts_with("HTTP/1.1 503 ") && body(&health)? == "draining", "{health}");
    let health = call("getHealth")?;
    ensure!(health["error"]["code"] == -32005, "{health}");
    ensure!(health["error"]["data"]["draining"] == true, "{health}");
    ensure!(get(address, "/metrics")?.contains("\nhydrant_ready 0\n"));
    // Everything else is served, on new connections too.
    ensure!(call("getSlot")?["result"].is_u64());
    ensure!(get(address, "/v1/node")?.starts_with("HTTP/1.1 200 "));
    let websocket = open_websocket(&draining.node)?;
    ensure!(draining.node.process().try_wait()?.is_none(), "the delay is not over");
    draining.signal()?;
    ensure!(draining.end()?.code() == Some(0), "a second signal ends the delay");
    drop(websocket);
    Ok(())
}
