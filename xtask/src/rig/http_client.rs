//! HTTP/1.1 for comparisons and for load: responses with headers and status, and connections that serve many requests.
//!
//! Bounds: a time limit for each read and write, [`TIMEOUT`] unless the caller has another one.
//! Not here: JSON-RPC (`json_rpc`), TLS, redirects.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Time limit for a server that sends no bytes.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Statuses of responses that never have a body: 204 No Content and 304 Not Modified.
const BODILESS: [u16; 2] = [204, 304];

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn get(path: &str) -> Self {
        Self { method: "GET", path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn put(path: &str, body: &[u8]) -> Self {
        Self { method: "PUT", body: body.to_vec(), ..Self::get(path) }
    }

    /// A call of JSON-RPC.
    pub(crate) fn post_json(body: &str) -> Self {
        let request = Self { method: "POST", body: body.as_bytes().to_vec(), ..Self::get("/") };
        request.with_header("content-type", "application/json".to_owned())
    }

    #[must_use]
    pub(crate) fn with_header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    fn to_bytes(&self, host: SocketAddr) -> Vec<u8> {
        let Self { method, path, headers, body } = self;
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        [head.into_bytes(), body.clone()].concat()
    }
}

/// A whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The progress of an incomplete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    NotBegun,
    Begun,
}

/// Sends one request on a connection of its own.
pub(crate) fn exchange(address: SocketAddr, request: &Request) -> Result<Response> {
    exchange_within(address, request, TIMEOUT)
}

/// Sends one request on a connection of its own, with a time limit for each read and write.
pub(crate) fn exchange_within(
    address: SocketAddr,
    request: &Request,
    timeout: Duration,
) -> Result<Response> {
    let mut connection = Connection::open_within(address, timeout)?;
    let request = request.clone().with_header("connection", "close".to_owned());
    connection.exchange(&request).map_err(|failure| failure.error)
}

/// A connection for any number of requests.
pub(crate) struct Connection {
    address: SocketAddr,
    socket: BufReader<TcpStream>,
}

/// A request without a whole response.
#[derive(Debug)]
pub(crate) struct ExchangeFailure {
    pub(crate) progress: Progress,
    pub(crate) error: anyhow::Error,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        Self::open_within(address, TIMEOUT)
    }

    fn open_within(address: SocketAddr, timeout: Duration) -> Result<Self> {
        let socket = TcpStream::connect_timeout(&address, timeout)?;
        socket.set_read_timeout(Some(timeout))?;
        socket.set_write_timeout(Some(timeout))?;
        socket.set_nodelay(true)?;
        Ok(Self { address, socket: BufReader::new(socket) })
    }

    /// Sends a request and reads its response. After a failure the connection is of no use.
    pub(crate) fn exchange(&mut self, request: &Request) -> Result<Response, ExchangeFailure> {
        let has_begun = self.send_and_wait(request);
        has_begun.map_err(|error| ExchangeFailure { progress: Progress::NotBegun, error })?;
        self.read_response().map_err(|error| ExchangeFailure { progress: Progress::Begun, error })
    }

    /// Sends a request, and waits for the first byte of its response.
    fn send_and_wait(&mut self, request: &Request) -> Result<()> {
        let bytes = request.to_bytes(self.address);
        self.socket.get_mut().write_all(&bytes)?;
        ensure!(!self.socket.fill_buf()?.is_empty(), "the connection was closed");
        Ok(())
    }

    fn read_response(&mut self) -> Result<Response> {
        let status = self.read_line()?;
        let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.context("no status")?;
        let mut headers = Vec::new();
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').context("a header without a colon")?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut response = Response { status, headers, body: Vec::new() };
        let is_chunked = response.header("transfer-encoding").is_some_and(|it| it == "chunked");
        response.body = match response.header("content-length") {
            _ if is_chunked => self.read_chunks()?,
            Some(length) => self.read_bytes(length.parse().context("the length of a body")?)?,
            None if BODILESS.contains(&status) => Vec::new(),
            None => self.read_to_end()?,
        };
        Ok(response)
    }

    fn read_chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.read_line()?;
            let size = line.split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size, 16).context("the size of a chunk")?;
            body.extend(self.read_bytes(size)?);
            ensure!(self.read_line()?.is_empty(), "no end of a chunk");
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn read_bytes(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.socket.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads a body without a length, which ends with the connection.
    fn read_to_end(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.socket.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.socket.read_line(&mut line)?;
        ensure!(line.ends_with('\n'), "the connection was closed within a head");
        Ok(line.trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A server that sends these bytes to its only client.
    fn serve(reply: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let _ = socket.read(&mut request).unwrap();
            socket.write_all(reply).unwrap();
        });
        address
    }

    #[test]
    fn headers_status_and_all_kinds_of_bodies_are_read() {
        let reply = b"HTTP/1.1 409 Conflict\r\nHydrant-Slot: 7\r\nContent-Length: 3\r\n\r\nabc";
        let response = exchange(serve(reply), &Request::get("/")).unwrap();
        assert_eq!((response.status, response.header("hydrant-slot")), (409, Some("7")));
        assert_eq!(response.body, b"abc");
        let reply = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        let response = exchange(serve(reply), &Request::post_json("{}")).unwrap();
        assert_eq!(response.body, b"abcde");
        let reply = b"HTTP/1.0 200 OK\r\n\r\nabc";
        assert_eq!(exchange(serve(reply), &Request::get("/")).unwrap().body, b"abc");
        let reply = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabc\r\n";
        assert!(exchange(serve(reply), &Request::get("/")).is_err());
    }

    #[test]
    fn a_cut_response_is_distinguished_from_none() {
        let progress = |reply: &'static [u8]| {
            let mut connection = Connection::open(serve(reply)).unwrap();
            connection.exchange(&Request::get("/")).unwrap_err().progress
        };
        assert_eq!(progress(b""), Progress::NotBegun);
        assert_eq!(progress(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"), Progress::Begun);
        assert_eq!(progress(b"HTTP/1.1 200"), Progress::Begun);
    }
}
