//! An HTTP client that sends exactly the bytes that a test passes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

/// Much longer than any test waits. Only a bug reaches it.
pub const IO_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection, and the bytes read after the last response.
pub struct Client {
    socket: TcpStream,
    read: Vec<u8>,
}

/// A response.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as text. Invalid UTF-8 is replaced.
    pub body: String,
    /// The body as bytes, without the framing of chunks.
    pub bytes: Vec<u8>,
}

impl Response {
    /// Returns the first header with this name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(key, _)| key == name);
        found.next().map(|(_, value)| value.as_str())
    }

    /// Parses the body, which must be JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|err| panic!("a JSON body, not {:?}: {err}", self.body))
    }
}

/// Connects from another address of the loopback network.
pub fn connect_stream_from(ip: [u8; 4], server: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let connected = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from((ip, 0))).expect("all of 127.0.0.0/8 is here");
        tokio::time::timeout(IO_TIMEOUT, socket.connect(server)).await
    });
    let socket = connected.expect("it is accepted in time").expect("connect");
    let socket = socket.into_std().expect("a socket");
    socket.set_nonblocking(false).expect("it waits");
    socket.set_read_timeout(Some(IO_TIMEOUT)).expect("a timeout");
    socket.set_write_timeout(Some(IO_TIMEOUT)).expect("a timeout");
    socket
}

impl Client {
    /// Connects to a server.
    pub fn connect(server: SocketAddr) -> Self {
        let socket = TcpStream::connect_timeout(&server, IO_TIMEOUT).expect("connect");
        socket.set_read_timeout(Some(IO_TIMEOUT)).expect("a timeout");
        socket.set_write_timeout(Some(IO_TIMEOUT)).expect("a timeout");
        Self { socket, read: Vec::new() }
    }

    /// A connection from another address of the loopback network.
    pub fn connect_from(ip: [u8; 4], server: SocketAddr) -> Self {
        Self { socket: connect_stream_from(ip, server), read: Vec::new() }
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).expect("send");
    }

    /// The next response; panics if the server closes instead.
    pub fn receive(&mut self) -> Response {
        self.try_receive().expect("a response, not the end")
    }

    /// The next response, or `None` if the server closed.
    pub fn try_receive(&mut self) -> Option<Response> {
        loop {
            // A long body in chunks is parsed once its end has arrived, not again for every chunk.
            let may_be_whole = self.read.len() < 1 << 20 || self.read.ends_with(b"0\r\n\r\n");
            if may_be_whole && let Some((response, used)) = parse(&self.read) {
                self.read.drain(..used);
                return Some(response);
            }
            if self.read_more() == 0 {
                let start = &self.read[..self.read.len().min(500)];
                assert!(self.read.is_empty(), "half a response: {:?}", text(start));
                return None;
            }
        }
    }

    /// Reads until the server closes; what it sent until then.
    pub fn receive_all(&mut self) -> Vec<u8> {
        while self.read_more() > 0 {}
        std::mem::take(&mut self.read)
    }

    /// Reads until the buffer has at least `bytes` bytes.
    pub fn read_at_least(&mut self, bytes: usize) {
        while self.read.len() < bytes && self.read_more() > 0 {}
    }

    /// Reads some bytes and discards them. Returns their number.
    pub fn skip(&mut self) -> usize {
        self.read.clear();
        self.read_more()
    }

    fn read_more(&mut self) -> usize {
        let mut buffer = [0; 16 * 1024];
        let bytes = match self.socket.read(&mut buffer) {
            Ok(bytes) => bytes,
            // The peer has closed the connection, with or without a FIN.
            Err(err) if err.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(err) => panic!("read: {err}"),
        };
        self.read.extend_from_slice(&buffer[..bytes]);
        bytes
    }

    /// Posts a body as JSON and receives the response.
    pub fn post(&mut self, body: &str) -> Response {
        self.send(post(body));
        self.receive()
    }

    /// Calls a method and returns the whole response.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.post(&body.to_string()).json()
    }

    /// Calls a method that must succeed and returns its result.
    pub fn result(&mut self, method: &str, params: Value) -> Value {
        let mut reply = self.call(method, params);
        assert!(reply.get("error").is_none(), "{method}: {reply}");
        reply["result"].take()
    }

    /// Calls a method that must fail and returns code and message.
    pub fn error(&mut self, method: &str, params: Value) -> (i64, String) {
        let reply = self.call(method, params);
        let err = reply.get("error").unwrap_or_else(|| panic!("an error, not {reply}"));
        let message = err["message"].as_str().expect("a message").to_owned();
        (err["code"].as_i64().expect("a code"), message)
    }
}

/// A request that posts JSON.
pub fn post(body: &str) -> String {
    let length = body.len();
    format!(
        "POST / HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// The response at the start of `read`, and its length in bytes.
fn parse(read: &[u8]) -> Option<(Response, usize)> {
    let head_end = read.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&read[..head_end]).expect("a header is text");
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().expect("a status");
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let is_chunked =
        headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let (bytes, used) = if is_chunked {
        dechunk(&read[head_end..])?
    } else {
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length: usize = length.map_or(0, |(_, value)| value.parse().expect("a length"));
        (read.get(head_end..head_end + length)?.to_vec(), length)
    };
    Some((Response { status, headers, body: text(&bytes), bytes }, head_end + used))
}

/// The body of a chunked message, and its length on the wire; `None` if its last chunk is missing.
fn dechunk(read: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let line = read.get(at..)?.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&read[at..at + line]).expect("a size is text");
        let size = usize::from_str_radix(size, 16).expect("a size in hexadecimal");
        at += line + 2;
        body.extend_from_slice(read.get(at..at + size)?);
        at += size + 2;
        if size == 0 {
            return (at <= read.len()).then_some((body, at));
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
