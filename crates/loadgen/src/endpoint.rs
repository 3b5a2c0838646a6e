//! Where requests go, and how they read on the wire.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::LoadError;
use crate::connection_io::Tls;

/// A server: its addresses, and what its URL said beside them.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// At least one.
    addresses: Arc<[SocketAddr]>,
    /// Which of them took the last connection: all go there, also those of clones, as long as it takes them.
    preferred: Arc<AtomicUsize>,
    host: String,
    path: String,
    tls: Option<Tls>,
}

impl Endpoint {
    /// The endpoint of a URL: `http[s]://HOST[:PORT][/PATH][?QUERY]`, port 80 or 443 if it says none. A name is
    /// looked up; of its addresses the first is taken that takes connections. With https a server must have a certificate that this machine trusts.
    pub fn parse(url: &str) -> Result<Self, LoadError> {
        Self::parse_trusting(url, None)
    }

    /// The same; with https a server must have a certificate from one of a PEM file, if there is one.
    pub fn parse_trusting(url: &str, ca: Option<&Path>) -> Result<Self, LoadError> {
        let wrong = |why: &str| LoadError::Url { url: url.to_owned(), why: why.to_owned() };
        let (rest, port, has_tls) = match url.split_once("://") {
            None => (url, 80, false),
            Some(("http", rest)) => (rest, 80, false),
            Some(("https", rest)) => (rest, 443, true),
            Some(_) => return Err(wrong("only http and https are spoken")),
        };
        // What is behind a # is for whoever shows the answer.
        let rest = rest.split('#').next().unwrap_or_default();
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let split = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        let name = split.map_or(host, |(name, _)| name);
        let with_port = split.map_or_else(|| format!("{host}:{port}"), |_| host.to_owned());
        let addresses = with_port.to_socket_addrs().map_err(|err| wrong(&err.to_string()))?;
        let addresses: Arc<[SocketAddr]> = addresses.collect();
        if addresses.is_empty() {
            return Err(wrong("the name has no address"));
        }
        // The root of the host may be left out, also before a query.
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let tls = has_tls.then(|| Tls::new(name.trim_matches(['[', ']']), ca)).transpose()?;
        Ok(Self { addresses, preferred: Arc::default(), host: host.to_owned(), path, tls })
    }

    /// Of one server's addresses, at least one.
    fn from_addresses(addresses: &[SocketAddr]) -> Self {
        let (host, path) = (addresses[0].to_string(), "/".to_owned());
        Self { addresses: addresses.into(), preferred: Arc::default(), host, path, tls: None }
    }

    /// All addresses in the order in which they are tried, with their places.
    pub(crate) fn addresses(&self) -> impl ExactSizeIterator<Item = (usize, SocketAddr)> {
        let (count, first) = (self.addresses.len(), self.preferred.load(Ordering::Relaxed));
        (0..count).map(move |nth| (first + nth) % count).map(|place| (place, self.addresses[place]))
    }

    /// Remembers which one took a connection.
    pub(crate) fn prefer(&self, place: usize) {
        self.preferred.store(place, Ordering::Relaxed);
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

    /// The bytes of any request; a body is JSON.
    pub fn request(&self, method: &str, path: &str, body: Option<&str>) -> Vec<u8> {
        self.request_with(method, path, &[], body)
    }

    /// The same with headers.
    pub fn request_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Vec<u8> {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.host);
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
    fn a_url_says_address_host_and_path() {
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
        // Nobody listens where somebody did, as nobody does on ::1 where `localhost` is both.
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let gone = listener.local_addr().expect("it is bound");
        drop(listener);
        let there = serve(|_, socket| respond(socket, 200, r#"{"result":7}"#));
        let endpoint = Endpoint::from_addresses(&[gone, there]);
        let mut client = Client::open(endpoint.clone()).expect("one of them listens");
        assert_eq!(client.call("getSlot", &json!([])).expect("an answer"), 7);
        let order = |endpoint: &Endpoint| endpoint.addresses().map(|it| it.1).collect::<Vec<_>>();
        assert_eq!(order(&endpoint), [there, gone], "the next goes there at once");
        match Client::open(Endpoint::from_addresses(&[gone, gone])).err().expect("nobody listens") {
            LoadError::Connect { address, .. } => assert_eq!(address, gone),
            err => panic!("{err}"),
        }
    }

    #[test]
    fn localhost_is_found_wherever_it_listens() {
        let there = serve(|_, socket| respond(socket, 200, r#"{"result":7}"#));
        let url = format!("http://localhost:{}?key=1", there.port());
        let mut client = Client::open(Endpoint::parse(&url).expect("a URL")).expect("it listens");
        assert_eq!(client.call("getSlot", &json!([])).expect("an answer"), 7);
    }

    #[test]
    fn what_is_not_http_is_refused_with_the_form() {
        let err = Endpoint::parse("ws://127.0.0.1:1").expect_err("WebSocket").to_string();
        assert!(err.contains("only http") && err.contains("http[s]://HOST"), "{err}");
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
}
