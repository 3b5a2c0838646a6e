//! The JSON-RPC of an upstream that a fork should survive: a TCP server with scripted responses.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use solana_pubkey::Pubkey;

/// The response of a hostile upstream to a request for accounts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HostileResponse {
    Body(&'static str),
    Raw(&'static str),
    /// A response that does not end.
    Flood,
    /// No response, on an open connection.
    Stall,
    /// Status 429 for the first requests, and then an account.
    Limited,
    /// Another cluster on the next connection.
    OtherCluster,
    /// An account for a request that names [`SERVED_KEY`], and no response to one that names another address.
    StallOthers,
    /// An error whose message has a megabyte.
    LongError,
}

/// The address that [`HostileResponse::StallOthers`] serves.
pub(crate) const SERVED_KEY: Pubkey = Pubkey::new_from_array([9; 32]);

const UNKNOWN_METHOD: &str =
    r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#;

const GENESIS: &str = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d";
const ACCOUNT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"context":{"slot":1000},"value":[{"lamports":7,"owner":"11111111111111111111111111111111","executable":false,"rentEpoch":0,"data":["","base64"],"space":0}]}}"#;

/// An upstream whose start is as it should be, and whose accounts are not. Each connection is one request.
pub(crate) fn hostile(response: HostileResponse) -> Result<String> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let url = format!("http://{}/secret-key", listener.local_addr()?);
    let asked = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let asked = Arc::clone(&asked);
            std::thread::spawn(move || serve(socket, response, &asked));
        }
    });
    Ok(url)
}

/// Serves a connection until it is closed, by either side.
fn serve(mut socket: TcpStream, response: HostileResponse, asked: &AtomicUsize) -> Result<()> {
    loop {
        let request = read_request(&mut socket)?;
        let ok =
            |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if request.contains("getGenesisHash") {
            let is_other = matches!(response, HostileResponse::OtherCluster)
                && asked.load(Ordering::Relaxed) > 0;
            let genesis = if is_other { "11111111111111111111111111111111" } else { GENESIS };
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{genesis}"}}"#);
            socket.write_all(ok(&body).as_bytes())?;
            continue;
        }
        if request.contains("getSlot") {
            socket.write_all(ok(r#"{"jsonrpc":"2.0","id":1,"result":1000}"#).as_bytes())?;
            asked.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let count = asked.fetch_add(1, Ordering::Relaxed);
        let is_start = request.contains("Sysvar");
        match response {
            HostileResponse::StallOthers | HostileResponse::LongError if is_start => {
                socket.write_all(ok(UNKNOWN_METHOD).as_bytes())?;
            }
            HostileResponse::StallOthers if request.contains(&SERVED_KEY.to_string()) => {
                socket.write_all(ok(ACCOUNT).as_bytes())?;
            }
            HostileResponse::LongError => {
                let message = "x".repeat(1 << 20);
                let error = json!({ "code": -32602, "message": message });
                let body = json!({ "jsonrpc": "2.0", "id": 1, "error": error }).to_string();
                socket.write_all(ok(&body).as_bytes())?;
            }
            HostileResponse::Body(body) => socket.write_all(ok(body).as_bytes())?,
            HostileResponse::Raw(bytes) => {
                socket.write_all(bytes.as_bytes())?;
                return Ok(());
            }
            HostileResponse::Flood => {
                socket.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                loop {
                    socket.write_all(b"10000\r\n")?;
                    socket.write_all(&[b' '; 0x10000])?;
                    socket.write_all(b"\r\n")?;
                }
            }
            HostileResponse::Stall | HostileResponse::StallOthers => {
                socket.read_to_end(&mut Vec::new())?;
                return Ok(());
            }
            HostileResponse::Limited if count < 3 => {
                socket.write_all(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n")?;
            }
            HostileResponse::Limited | HostileResponse::OtherCluster => {
                socket.write_all(ok(ACCOUNT).as_bytes())?
            }
        }
    }
}

/// A request with its whole body.
fn read_request(socket: &mut TcpStream) -> Result<String> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let read = socket.read(&mut chunk)?;
        ensure!(read > 0, "the connection is closed");
        bytes.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
        });
        if body.len() >= length.context("a length")?? {
            return Ok(text.into_owned());
        }
    }
}
