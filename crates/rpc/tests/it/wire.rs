//! A client that sends exactly the bytes it is told to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

/// Far more than anything here takes; only a bug reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A connection, and what was read of it past the last response.
pub(crate) struct Client {
    socket: TcpStream,
    read: Vec<u8>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(given, _)| given == name);
        found.next().map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|err| panic!("a JSON body, not {:?}: {err}", self.body))
    }
}

impl Client {
    pub(crate) fn connect(server: SocketAddr) -> Self {
        let socket = TcpStream::connect_timeout(&server, PATIENCE).expect("connect");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        Self { socket, read: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).expect("send");
    }

    /// The next response; panics if the server closes instead.
    pub(crate) fn receive(&mut self) -> Response {
        self.try_receive().expect("a response, not the end")
    }

    /// The next response, or `None` if the server closed.
    pub(crate) fn try_receive(&mut self) -> Option<Response> {
        loop {
            if let Some((response, used)) = parse(&self.read) {
                self.read.drain(..used);
                return Some(response);
            }
            if self.read_more() == 0 {
                assert!(self.read.is_empty(), "half a response: {:?}", text(&self.read));
                return None;
            }
        }
    }

    /// Reads until the server closes; what it sent until then.
    pub(crate) fn receive_all(&mut self) -> Vec<u8> {
        while self.read_more() > 0 {}
        std::mem::take(&mut self.read)
    }

    fn read_more(&mut self) -> usize {
        let mut buffer = [0; 16 * 1024];
        let bytes = match self.socket.read(&mut buffer) {
            Ok(bytes) => bytes,
            // The peer is gone, with or without saying so.
            Err(err) if err.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(err) => panic!("read: {err}"),
        };
        self.read.extend_from_slice(&buffer[..bytes]);
        bytes
    }

    /// Posts a body as JSON and takes the response.
    pub(crate) fn post(&mut self, body: &str) -> Response {
        self.send(post(body));
        self.receive()
    }

    /// Calls a method; the whole reply.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.post(&body.to_string()).json()
    }

    /// Calls a method that must answer; its result.
    pub(crate) fn result(&mut self, method: &str, params: Value) -> Value {
        let mut reply = self.call(method, params);
        assert!(reply.get("error").is_none(), "{method}: {reply}");
        reply["result"].take()
    }

    /// Calls a method that must refuse; code and message.
    pub(crate) fn error(&mut self, method: &str, params: Value) -> (i64, String) {
        let reply = self.call(method, params);
        let err = reply.get("error").unwrap_or_else(|| panic!("an error, not {reply}"));
        let message = err["message"].as_str().expect("a message").to_owned();
        (err["code"].as_i64().expect("a code"), message)
    }
}

/// A request that posts JSON.
pub(crate) fn post(body: &str) -> String {
    let length = body.len();
    format!(
        "POST / HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// A response at the beginning of `read`, and how many bytes it has.
fn parse(read: &[u8]) -> Option<(Response, usize)> {
    let head_end = read.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&read[..head_end]).expect("a header is text");
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().expect("a status");
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, value)| value.parse().expect("a length"));
    let body = read.get(head_end..head_end + length)?;
    Some((Response { status, headers, body: text(body) }, head_end + length))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
