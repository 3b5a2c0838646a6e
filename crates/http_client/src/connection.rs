//! A minimal HTTP/1.1 client: one request, one response, the same connection.
//!
//! Shape: a response has a length or comes in chunks. Responses to HEAD, and 204 and 304, have no
//! body whatever their headers say. A short body is borrowed from the read buffer.
//! Bounds: the caller sets how many bytes of a body are stored; the rest is read and dropped.
//! Not here: redirects, compression, TLS (`tls`).

use std::io;

use crate::socket::{ConnectTimeouts, Socket};
use crate::{Endpoint, HttpClientError};

/// Bytes to reserve for a read: at first, and for a body that is known to be long.
const READ_BYTES: usize = 16 * 1024;
const READ_BYTES_LONG: usize = 256 * 1024;

/// Maximum length of a head or of a chunk's line.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A connection that is kept alive.
pub struct Connection {
    socket: Socket,
    /// Bytes read; those before `at` have been used.
    buffer: Vec<u8>,
    at: usize,
    /// The head of the last response.
    head: Vec<u8>,
    /// The first bytes of a body that did not stay in `buffer`.
    body: Vec<u8>,
    body_bytes_max: usize,
    is_usable: bool,
}

/// A response. Its head and body are borrowed from the connection.
#[derive(Debug)]
pub struct HttpResponse<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The body, or its first bytes.
    pub body: &'a [u8],
    /// Length of the whole body, or of what was received of it.
    pub body_bytes: u64,
    head: &'a [u8],
}

impl<'a> HttpResponse<'a> {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let mut lines = self.head.split(|byte| *byte == b'\n');
        lines.find_map(|line| value_of(line, name.as_bytes())?.strip_prefix(':')).map(str::trim)
    }
}

impl Connection {
    /// Connects. Bodies are stored completely.
    pub async fn open(endpoint: impl Into<Endpoint>) -> Result<Self, HttpClientError> {
        Self::open_with_body_limit(endpoint, usize::MAX).await
    }

    /// Connects. Up to `body_bytes_max` bytes of a body are stored.
    pub async fn open_with_body_limit(
        endpoint: impl Into<Endpoint>,
        body_bytes_max: usize,
    ) -> Result<Self, HttpClientError> {
        let socket = Socket::connect(&endpoint.into(), ConnectTimeouts::default()).await?;
        let buffer = Vec::with_capacity(READ_BYTES);
        let head = Vec::new();
        let body = Vec::new();
        Ok(Self { socket, buffer, at: 0, head, body, body_bytes_max, is_usable: true })
    }

    /// Whether another request can be sent: the last response was received completely, and the
    /// server does not close the connection.
    pub fn is_usable(&self) -> bool {
        self.is_usable
    }

    /// Sends a request and waits for the whole response.
    pub async fn exchange(&mut self, request: &[u8]) -> Result<HttpResponse<'_>, HttpClientError> {
        let head = self.send_request(request).await?;
        let status = head.status;
        match head.body {
            BodyLength::Bytes(bytes) if bytes <= self.body_bytes_max => {
                while self.buffer.len() - self.at < bytes {
                    self.read(bytes - (self.buffer.len() - self.at)).await?;
                }
                self.is_usable = !head.closes;
                let body = &self.buffer[self.at..self.at + bytes];
                Ok(HttpResponse { status, body, body_bytes: bytes as u64, head: &self.head })
            }
            length => {
                let body_bytes = self.drain(length, u64::MAX).await?;
                self.is_usable = !head.closes;
                Ok(HttpResponse { status, body: &self.body, body_bytes, head: &self.head })
            }
        }
    }

    /// Sends a request and waits for the whole response, whose body must fit the limit of the connection. Otherwise
    /// returns [`HttpClientError::BodyTooLong`] without reading the rest, and the connection is unusable afterwards.
    pub async fn exchange_bounded(
        &mut self,
        request: &[u8],
    ) -> Result<HttpResponse<'_>, HttpClientError> {
        let head = self.send_request(request).await?;
        let bytes_max = self.body_bytes_max;
        let too_long = || HttpClientError::BodyTooLong { bytes_max };
        let body_bytes = match head.body {
            BodyLength::Bytes(bytes) if bytes > bytes_max => return Err(too_long()),
            length => self.drain(length, (bytes_max as u64).saturating_add(1)).await?,
        };
        if body_bytes > bytes_max as u64 {
            return Err(too_long());
        }
        self.is_usable = !head.closes;
        Ok(HttpResponse { status: head.status, body: &self.body, body_bytes, head: &self.head })
    }

    /// Sends a request and reads at least `bytes` bytes of the body, or all of it if it is shorter.
    /// The connection is unusable afterwards.
    pub async fn exchange_prefix(
        &mut self,
        request: &[u8],
        bytes: u64,
    ) -> Result<HttpResponse<'_>, HttpClientError> {
        let head = self.send_request(request).await?;
        let body_bytes = self.drain(head.body, bytes).await?;
        Ok(HttpResponse { status: head.status, body: &self.body, body_bytes, head: &self.head })
    }

    /// Sends a request and passes the body to `sink` as it arrives, whatever its length. Returns the status, and
    /// the value of `location` if the response has one. `started` gets the length of the body, if it is known.
    /// The body of a response whose status is not 200 is not passed on, and the connection is then closed.
    pub async fn exchange_into(
        &mut self,
        request: &[u8],
        mut started: impl FnMut(Option<u64>),
        mut sink: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(u16, Option<String>), HttpClientError> {
        let head = self.send_request(request).await?;
        let location =
            HttpResponse { status: head.status, body: &[], body_bytes: 0, head: &self.head };
        let location = location.header("location").map(str::to_owned);
        if head.status != 200 {
            return Ok((head.status, location));
        }
        let BodyLength::Bytes(bytes) = head.body else {
            started(None);
            loop {
                let chunk = self.chunk_bytes().await?;
                self.skip_into(chunk, &mut sink).await?;
                self.line().await?;
                if chunk == 0 {
                    self.is_usable = !head.closes;
                    return Ok((head.status, location));
                }
            }
        };
        started(Some(bytes as u64));
        self.skip_into(bytes as u64, &mut sink).await?;
        self.is_usable = !head.closes;
        Ok((head.status, location))
    }

    /// Consumes `bytes` bytes and passes them on.
    async fn skip_into(
        &mut self,
        bytes: u64,
        sink: &mut impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), HttpClientError> {
        let mut left = bytes;
        loop {
            let unread = &self.buffer[self.at..];
            let available = unread.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            sink(&unread[..available]).map_err(HttpClientError::Sink)?;
            self.at += available;
            left -= available as u64;
            if left == 0 {
                return Ok(());
            }
            self.compact();
            self.read(READ_BYTES_LONG).await?;
        }
    }

    async fn send_request(&mut self, request: &[u8]) -> Result<Head, HttpClientError> {
        self.is_usable = false;
        self.socket.send(request).await.map_err(HttpClientError::Broken)?;
        self.buffer.clear();
        self.body.clear();
        self.at = 0;
        let is_head = request.starts_with(b"HEAD ");
        let head = loop {
            if let Some(head) = Head::parse(&self.buffer, is_head)? {
                break head;
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(HttpClientError::Http("a head without end"));
            }
            self.read(READ_BYTES).await?;
        };
        self.head.clear();
        self.head.extend_from_slice(&self.buffer[..head.bytes]);
        self.at = head.bytes;
        Ok(head)
    }

    /// Reads a body up to `bytes_max` bytes and stores its first bytes. Returns the number of bytes
    /// read.
    async fn drain(&mut self, length: BodyLength, bytes_max: u64) -> Result<u64, HttpClientError> {
        if let BodyLength::Bytes(bytes) = length {
            return self.skip((bytes as u64).min(bytes_max)).await;
        }
        let mut total = 0;
        while total < bytes_max {
            let chunk = self.chunk_bytes().await?;
            let left = bytes_max - total;
            total += self.skip(chunk.min(left)).await?;
            if chunk > left {
                break;
            }
            if !self.line().await?.is_empty() {
                return Err(HttpClientError::Http(if chunk == 0 {
                    "trailers"
                } else {
                    "a chunk longer than its length"
                }));
            }
            if chunk == 0 {
                break;
            }
        }
        Ok(total)
    }

    async fn chunk_bytes(&mut self) -> Result<u64, HttpClientError> {
        let line = self.line().await?;
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
        let digits = std::str::from_utf8(digits).ok().map(str::trim);
        let bytes = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        bytes.ok_or(HttpClientError::Http("a chunk without a length"))
    }

    /// Consumes `bytes` bytes and stores them in `body` up to its limit.
    async fn skip(&mut self, bytes: u64) -> Result<u64, HttpClientError> {
        let mut left = bytes;
        loop {
            let available =
                (self.buffer.len() - self.at).min(usize::try_from(left).unwrap_or(usize::MAX));
            let stored =
                available.min(self.body_bytes_max - self.body.len().min(self.body_bytes_max));
            self.body.extend_from_slice(&self.buffer[self.at..self.at + stored]);
            self.at += available;
            left -= available as u64;
            if left == 0 {
                return Ok(bytes);
            }
            self.compact();
            self.read(READ_BYTES_LONG).await?;
        }
    }

    /// The next line, without its end.
    async fn line(&mut self) -> Result<Vec<u8>, HttpClientError> {
        loop {
            let unread = &self.buffer[self.at..];
            if let Some(end) = unread.windows(2).position(|window| window == b"\r\n") {
                let line = unread[..end].to_vec();
                self.at += end + 2;
                return Ok(line);
            }
            if unread.len() > HEAD_BYTES_MAX {
                return Err(HttpClientError::Http("a line without end"));
            }
            self.compact();
            self.read(READ_BYTES).await?;
        }
    }

    fn compact(&mut self) {
        self.buffer.drain(..self.at);
        self.at = 0;
    }

    async fn read(&mut self, bytes: usize) -> Result<(), HttpClientError> {
        self.buffer.reserve(bytes.clamp(READ_BYTES, READ_BYTES_LONG));
        match self.socket.receive(&mut self.buffer).await {
            Ok(0) => Err(HttpClientError::Broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(()),
            Err(err) => Err(HttpClientError::Broken(err)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyLength {
    Bytes(usize),
    InChunks,
}

/// The used fields of a response's head.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    bytes: usize,
    body: BodyLength,
    closes: bool,
}

impl Head {
    /// Returns `None` while the head is incomplete. A response to HEAD has the length that GET
    /// would have, and no body.
    fn parse(buffer: &[u8], is_head: bool) -> Result<Option<Self>, HttpClientError> {
        let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") else {
            return Ok(None);
        };
        let head = &buffer[..end];
        let status = head.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
        let status = status.and_then(|digits| digits.parse().ok());
        let status = status.ok_or(HttpClientError::Http("no status"))?;
        let mut body = None;
        let mut closes = false;
        for line in head.split(|byte| *byte == b'\n') {
            if let Some(length) = value_of(line, b"content-length:") {
                let bytes = length.parse().map_err(|_| HttpClientError::Http("no length"))?;
                body = Some(BodyLength::Bytes(bytes));
            } else if let Some(coding) = value_of(line, b"transfer-encoding:") {
                if coding.eq_ignore_ascii_case("chunked") {
                    body = Some(BodyLength::InChunks);
                }
            } else if let Some(option) = value_of(line, b"connection:") {
                closes = option.eq_ignore_ascii_case("close");
            }
        }
        if is_head || status == 204 || status == 304 {
            body = Some(BodyLength::Bytes(0));
        }
        let body = body.ok_or(HttpClientError::Http("neither a length nor chunks"))?;
        Ok(Some(Self { status, bytes: end + 4, body, closes }))
    }
}

/// The value of a line that starts with `name`, in any case.
fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let start = line.get(..name.len())?;
    if !start.eq_ignore_ascii_case(name) {
        return None;
    }
    std::str::from_utf8(&line[name.len()..]).ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::{block_on, serve};

    /// Longer than any response takes.
    const TIMEOUT: Duration = Duration::from_secs(20);

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nconnection: close\r\n\r\nhello";
        for end in 0..whole.len() - 5 {
            assert_eq!(Head::parse(&whole[..end], false).expect("no error yet"), None);
        }
        let body = BodyLength::Bytes(12);
        let head = Head { status: 200, bytes: whole.len() - 5, body, closes: true };
        assert_eq!(Head::parse(whole, false).expect("a head"), Some(head));
    }

    #[test]
    fn a_response_without_an_end_is_an_error() {
        assert!(Head::parse(b"HTTP/1.1 200 OK\r\nserver: x\r\n\r\n", false).is_err());
    }

    /// Sends two requests on a connection that stores up to `body_bytes_max` bytes. Returns the
    /// responses.
    fn exchanged(response: &'static [u8], body_bytes_max: usize) -> Vec<(u16, String, u64)> {
        let address = serve(move |_, socket| std::io::Write::write_all(socket, response).is_ok());
        block_on(async {
            let mut connection = Connection::open_with_body_limit(address, body_bytes_max)
                .await
                .expect("it listens");
            let mut responses = Vec::new();
            for _ in 0..2 {
                let response = connection.exchange(b"x").await.expect("a response");
                let body = String::from_utf8(response.body.to_vec()).expect("text");
                responses.push((response.status, body, response.body_bytes));
            }
            responses
        })
    }

    const SIZED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world";
    const CHUNKED: &[u8] = b"HTTP/1.1 429 No\r\nTransfer-Encoding: chunked\r\n\r\n\
        6;a=b\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n";

    #[test]
    fn bodies_are_read_whole_and_stored_up_to_the_limit() {
        let twice =
            |response: (u16, &str, u64)| vec![(response.0, response.1.to_owned(), response.2); 2];
        assert_eq!(exchanged(SIZED, usize::MAX), twice((200, "hello world", 11)));
        assert_eq!(exchanged(SIZED, 4), twice((200, "hell", 11)));
        assert_eq!(exchanged(CHUNKED, usize::MAX), twice((429, "hello world", 11)));
        assert_eq!(exchanged(CHUNKED, 7), twice((429, "hello w", 11)));
    }

    #[test]
    fn a_body_over_the_limit_is_refused_without_reading_it() {
        // No body of these is ever complete.
        const ENDLESS: &[&[u8]] = &[
            b"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhello world",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n3\r\nlo \r\n5\r\nworld\r\n",
        ];
        for response in ENDLESS {
            let address = serve(|_, socket| std::io::Write::write_all(socket, response).is_ok());
            block_on(async {
                let mut connection =
                    Connection::open_with_body_limit(address, 5).await.expect("it listens");
                let exchange = tokio::time::timeout(TIMEOUT, connection.exchange_bounded(b"x"));
                let err = exchange.await.expect("it does not wait").expect_err("it is too long");
                assert_eq!(err.to_string(), "the response has more than 5 bytes");
                assert!(!connection.is_usable());
            });
        }
        for response in [SIZED, CHUNKED] {
            let address = serve(|_, socket| std::io::Write::write_all(socket, response).is_ok());
            block_on(async {
                let mut connection =
                    Connection::open_with_body_limit(address, 11).await.expect("it listens");
                for _ in 0..2 {
                    let response = connection.exchange_bounded(b"x").await.expect("it fits");
                    assert_eq!((response.body, response.body_bytes), (&b"hello world"[..], 11));
                }
            });
        }
    }

    #[test]
    fn a_response_without_a_body_is_complete_with_its_head() {
        // A proxy's responses, each with the length that GET would have or none, then one with a
        // body.
        let address = serve(|request, socket| {
            let response: &[u8] = match request {
                b"HEAD /a\r\n\r\n" => b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n",
                b"HEAD /b\r\n\r\n" => b"HTTP/1.1 200 OK\r\n\r\n",
                b"HEAD /c\r\n\r\n" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                b"304" => b"HTTP/1.1 304 X\r\nContent-Length: 11\r\n\r\n",
                b"204" => b"HTTP/1.1 204 X\r\nTransfer-Encoding: chunked\r\n\r\n",
                _ => SIZED,
            };
            std::io::Write::write_all(socket, response).is_ok()
        });
        block_on(async {
            let mut connection = Connection::open(address).await.expect("it listens");
            for (request, status, bytes) in [
                ("HEAD /a\r\n\r\n", 200, 0),
                ("HEAD /b\r\n\r\n", 200, 0),
                ("HEAD /c\r\n\r\n", 200, 0),
                ("304", 304, 0),
                ("204", 204, 0),
                ("GET /HEAD x", 200, 11),
            ] {
                let result = connection.exchange(request.as_bytes());
                let result = tokio::time::timeout(TIMEOUT, result).await;
                let response = result.unwrap_or_else(|_| panic!("{request}: waits for a body"));
                let response = response.expect("a response");
                assert_eq!((response.status, response.body_bytes), (status, bytes), "{request}");
            }
        });
    }

    #[test]
    fn headers_are_of_the_last_response() {
        let address = serve(|request, socket| {
            let tag: &[u8] = if request == b"1" { b"ETag:  \"a\" \r\n" } else { b"" };
            let response = [b"HTTP/1.1 200 OK\r\n", tag, b"Content-Length: 1\r\n\r\nx"].concat();
            std::io::Write::write_all(socket, &response).is_ok()
        });
        block_on(async {
            let mut connection = Connection::open(address).await.expect("it listens");
            let response = connection.exchange(b"1").await.expect("a response");
            assert_eq!(response.header("etag"), Some("\"a\""));
            assert_eq!(response.header("tag"), None);
            let response = connection.exchange(b"2").await.expect("a response");
            assert_eq!(response.header("etag"), None);
        });
    }

    #[test]
    fn a_connection_is_usable_after_a_whole_response_unless_the_server_closes_it() {
        let address = serve(|request, socket| {
            let response: &[u8] = match request {
                b"closing" => b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
                b"invalid" => b"HTTP/1.1 ?\r\n\r\n",
                _ => SIZED,
            };
            std::io::Write::write_all(socket, response).is_ok()
        });
        block_on(async {
            for (request, is_usable) in [("whole", true), ("closing", false), ("invalid", false)] {
                let mut connection = Connection::open(address).await.expect("it listens");
                let is_ok = connection.exchange(request.as_bytes()).await.is_ok();
                assert_eq!((is_ok, connection.is_usable()), (request != "invalid", is_usable));
            }
        });
    }

    #[test]
    fn a_prefix_is_enough_if_that_was_requested() {
        let endless = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhello";
        let address = serve(move |_, socket| std::io::Write::write_all(socket, endless).is_ok());
        block_on(async {
            let mut connection = Connection::open(address).await.expect("it listens");
            let response = connection.exchange_prefix(b"x", 5).await.expect("a beginning");
            assert_eq!(
                (response.status, response.body, response.body_bytes),
                (200, &b"hello"[..], 5)
            );
            assert!(!connection.is_usable());
        });
    }
}
