//! The server's address, and the bytes of requests.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::tls::Tls;
use crate::{HttpClientError, Server};

/// Bytes of an API key.
const API_KEY_BYTES_MAX: usize = 256;

/// A server: its addresses, host, path and TLS configuration, and the API key that it wants.
#[derive(Clone)]
pub struct Endpoint {
    /// At least one.
    addresses: Arc<[SocketAddr]>,
    /// Index of the address that accepted the last connection. All connections, also those of
    /// clones, use it while it accepts them.
    preferred: Arc<AtomicUsize>,
    host: String,
    path: String,
    tls: Option<Tls>,
    api_key: Option<ApiKey>,
}

/// An API key, which no log shows.
#[derive(Clone)]
struct ApiKey(Arc<str>);

/// The path may have a secret, as the API key is one.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addresses, host, .. } = self;
        f.debug_struct("Endpoint")
            .field("addresses", addresses)
            .field("host", host)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Parses `http[s]://HOST[:PORT][/PATH][?QUERY]`. The default port is 80 or 443. A name is
    /// resolved; the first of its addresses that accepts connections is used. With https the server
    /// needs a certificate that this machine trusts.
    pub fn parse(url: &str) -> Result<Self, HttpClientError> {
        Self::parse_trusting(url, None)
    }

    /// Parses a URL. With https the server needs a certificate of the PEM file `ca`, if there is
    /// one.
    pub fn parse_trusting(url: &str, ca: Option<&Path>) -> Result<Self, HttpClientError> {
        let url_error =
            |why: &str| HttpClientError::Url { server: Server::from_url(url), why: why.to_owned() };
        let (rest, port, is_https) = match url.split_once("://") {
            None => (url, 80, false),
            Some(("http", rest)) => (rest, 80, false),
            Some(("https", rest)) => (rest, 443, true),
            Some(_) => return Err(url_error("only http and https are supported")),
        };
        // The fragment is for the display of the response.
        let rest = rest.split('#').next().unwrap_or_default();
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if host.contains('@') {
            return Err(url_error("a URL with a user or a password is not supported"));
        }
        let split = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        let name = split.map_or(host, |(name, _)| name);
        let with_port = split.map_or_else(|| format!("{host}:{port}"), |_| host.to_owned());
        let addresses = with_port.to_socket_addrs().map_err(|err| url_error(&err.to_string()))?;
        let addresses: Arc<[SocketAddr]> = addresses.collect();
        if addresses.is_empty() {
            return Err(url_error("the name has no address"));
        }
        // The path `/` may be left out, also before a query.
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let tls = is_https.then(|| Tls::new(name.trim_matches(['[', ']']), ca)).transpose()?;
        let host = host.to_owned();
        let api_key = None;
        Ok(Self { addresses, preferred: Arc::default(), host, path, tls, api_key })
    }

    /// Adds an API key, which each request has in the header `x-api-key`.
    ///
    /// Errors: it is empty, longer than a key may be, or has characters that a header cannot have. The error does not
    /// have it.
    pub fn with_api_key(self, key: &str) -> Result<Self, HttpClientError> {
        let is_valid = (1..=API_KEY_BYTES_MAX).contains(&key.len())
            && key.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_valid {
            return Err(HttpClientError::ApiKey { bytes_max: API_KEY_BYTES_MAX });
        }
        Ok(Self { api_key: Some(ApiKey(key.into())), ..self })
    }

    /// Creates an endpoint of one server's addresses, at least one.
    fn from_addresses(addresses: &[SocketAddr]) -> Self {
        let host = addresses[0].to_string();
        let path = "/".to_owned();
        let addresses = addresses.into();
        let preferred = Arc::default();
        Self { addresses, preferred, host, path, tls: None, api_key: None }
    }

    /// The server's name, for the operator.
    pub fn server(&self) -> Server {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Server::from_url(&format!("{scheme}://{}", self.host))
    }

    /// All addresses with their indices, in the order in which they are tried.
    pub(crate) fn addresses(&self) -> impl ExactSizeIterator<Item = (usize, SocketAddr)> {
        let count = self.addresses.len();
        let first = self.preferred.load(Ordering::Relaxed);
        (0..count).map(move |nth| (first + nth) % count).map(|index| (index, self.addresses[index]))
    }

    /// Stores the index of the address that accepted a connection.
    pub(crate) fn prefer(&self, index: usize) {
        self.preferred.store(index, Ordering::Relaxed);
    }

    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// The bytes of a JSON-RPC request.
    pub fn call(&self, method: &str, params: &Value) -> Vec<u8> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.body(&body.to_string())
    }

    /// The bytes of a POST of JSON to the URL's own path.
    pub fn body(&self, body: &str) -> Vec<u8> {
        self.request("POST", &self.path, Some(body))
    }

    /// The bytes of a POST of JSON to a path.
    pub fn post(&self, path: &str, body: &str) -> Vec<u8> {
        self.request("POST", path, Some(body))
    }

    /// The bytes of any request. A body is JSON.
    pub fn request(&self, method: &str, path: &str, body: Option<&str>) -> Vec<u8> {
        self.request_with(method, path, &[], body)
    }

    /// Makes a request with additional headers.
    pub fn request_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Vec<u8> {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.host);
        if let Some(ApiKey(key)) = &self.api_key {
            text.push_str(&format!("x-api-key: {key}\r\n"));
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        let length = body.map(str::len);
        if let Some(length) = length {
            text.push_str("Content-Type: application/json\r\n");
            text.push_str(&format!("Content-Length: {length}\r\n"));
        }
        text.push_str("\r\n");
        text.push_str(body.unwrap_or_default());
        text.into_bytes()
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self::from_addresses(&[address])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;
    use crate::testing::{respond, serve};

    fn parts(url: &str) -> (String, String, String) {
        let endpoint = Endpoint::parse(url).expect("a URL");
        (endpoint.addresses[0].to_string(), endpoint.host, endpoint.path)
    }

    #[test]
    fn a_url_is_parsed_into_address_host_and_path() {
        let of = |address: &str, host: &str, path: &str| {
            (address.to_owned(), host.to_owned(), path.to_owned())
        };
        assert_eq!(parts("http://127.0.0.1:8899"), of("127.0.0.1:8899", "127.0.0.1:8899", "/"));
        assert_eq!(parts("127.0.0.1:1/x/y"), of("127.0.0.1:1", "127.0.0.1:1", "/x/y"));
        assert_eq!(parts("http://127.0.0.1/"), of("127.0.0.1:80", "127.0.0.1", "/"));
        assert_eq!(parts("http://[::1]:7/k?key=1"), of("[::1]:7", "[::1]:7", "/k?key=1"));
        let root = of("127.0.0.1:7", "127.0.0.1:7", "/?key=a/b");
        assert_eq!(parts("http://127.0.0.1:7?key=a/b#c"), root);
    }

    #[test]
    fn the_first_address_of_a_name_that_accepts_connections_is_used() {
        // The port was in use and is closed, as `localhost` may be closed on ::1.
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let closed = listener.local_addr().expect("it is bound");
        drop(listener);
        let listening = serve(|_, socket| respond(socket, 200, r#"{"result":7}"#));
        let endpoint = Endpoint::from_addresses(&[closed, listening]);
        let mut client = Client::open(endpoint.clone()).expect("one of them listens");
        assert_eq!(client.call("height", &json!([])).expect("a response"), 7);
        let order = |endpoint: &Endpoint| endpoint.addresses().map(|it| it.1).collect::<Vec<_>>();
        assert_eq!(order(&endpoint), [listening, closed], "the next connection tries it first");
        match Client::open(Endpoint::from_addresses(&[closed, closed]))
            .err()
            .expect("no server listens")
        {
            HttpClientError::Connect { address, .. } => assert_eq!(address, closed),
            err => panic!("{err}"),
        }
    }

    #[test]
    fn localhost_is_tried_on_all_its_addresses() {
        let listening = serve(|_, socket| respond(socket, 200, r#"{"result":7}"#));
        let url = format!("http://localhost:{}?key=1", listening.port());
        let mut client = Client::open(Endpoint::parse(&url).expect("a URL")).expect("it listens");
        assert_eq!(client.call("height", &json!([])).expect("a response"), 7);
    }

    #[test]
    fn a_url_that_is_not_http_is_refused_with_the_valid_form() {
        let err = Endpoint::parse("ws://127.0.0.1:1/KEY").expect_err("WebSocket").to_string();
        assert!(err.contains("only http") && err.contains("http[s]://HOST"), "{err}");
        assert!(err.starts_with("ws://127.0.0.1:1: "), "{err}");
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://u:secret@127.0.0.1:1/KEY");
            let err = Endpoint::parse(&url).expect_err("it has a password").to_string();
            assert!(
                err.starts_with(&format!("{scheme}://127.0.0.1:1: a URL with a user")),
                "{err}"
            );
            assert!(!err.contains("secret") && !err.contains("KEY"), "{err}");
        }
        let endpoint = Endpoint::parse("http://127.0.0.1:1/KEY").expect("a URL");
        assert!(!format!("{endpoint:?}").contains("KEY"));
        for url in ["http://user:KEY@127.0.0.1", "http://user:KEY@127.0.0.1:1/KEY"] {
            let err = Endpoint::parse(url).expect_err("a password").to_string();
            assert!(err.contains("password is not supported") && !err.contains("KEY"), "{err}");
        }
    }

    #[test]
    fn a_request_says_how_long_its_body_is() {
        let endpoint = Endpoint::parse("http://127.0.0.1:1/rpc").expect("a URL");
        let text = String::from_utf8(endpoint.body("{}")).expect("text");
        assert!(text.starts_with("POST /rpc HTTP/1.1\r\nHost: 127.0.0.1:1\r\n"), "{text}");
        assert!(text.ends_with("Content-Length: 2\r\n\r\n{}"), "{text}");
        assert_eq!(
            endpoint.request("GET", "/a", None),
            b"GET /a HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n"
        );
    }

    #[test]
    fn a_key_is_in_every_request_and_in_no_log() {
        let endpoint = Endpoint::parse("http://127.0.0.1:1/rpc").expect("a URL");
        let with_key = endpoint.clone().with_api_key("hyd_0123").expect("a key");
        let text = |request: Vec<u8>| String::from_utf8(request).expect("text");
        for request in [
            with_key.body("{}"),
            with_key.post("/a", "{}"),
            with_key.call("a", &json!([])),
            with_key.request_with("GET", "/a", &[("a", "b")], None),
        ] {
            let request = text(request);
            assert!(request.contains("\r\nx-api-key: hyd_0123\r\n"), "{request}");
        }
        assert!(!format!("{with_key:?}").contains("hyd_0123"));
        for wrong in ["", "a b", "a\r\nHost: b", "ä", &"x".repeat(257)] {
            let err = endpoint.clone().with_api_key(wrong).expect_err("no key").to_string();
            assert!(
                err.contains("1 to 256") && (wrong.is_empty() || !err.contains(wrong)),
                "{err}"
            );
        }
    }
}
