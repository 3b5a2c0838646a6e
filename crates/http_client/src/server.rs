//! The server that a URL names, without the parts of the URL that may be a secret.
//!
//! Providers put keys into the user, the path or the query. So errors, logs and responses show a [`Server`], and never
//! a URL that an operator configured.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A scheme or host that is not valid.
const UNKNOWN: &str = "?";

/// Scheme, host and port of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    scheme: String,
    host: String,
    port: Option<u16>,
}

impl Server {
    /// Parses `[SCHEME://][USER@]HOST[:PORT][/PATH][?QUERY]`. Without a scheme it is `http`. A host that is not valid
    /// becomes `?`.
    pub fn from_url(url: &str) -> Self {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+');
        let scheme = if is_scheme { scheme.to_ascii_lowercase() } else { UNKNOWN.to_owned() };
        let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
        let split = address.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        let (host, port) = split.map_or((address, Some(None)), |(host, port)| {
            (host, if port.is_empty() { Some(None) } else { port.parse().ok().map(Some) })
        });
        let is_host = |host: &&str| {
            let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            address.map_or_else(
                || {
                    !host.is_empty()
                        && host.chars().all(|it| it.is_alphanumeric() || "-._".contains(it))
                },
                |address| address.parse::<Ipv6Addr>().is_ok(),
            )
        };
        match port {
            Some(port) => {
                let host = Some(host).filter(is_host).unwrap_or(UNKNOWN).to_lowercase();
                Self { scheme, host, port }
            }
            // A password with a slash may look like a port.
            None => Self { scheme, host: UNKNOWN.to_owned(), port: None },
        }
    }

    /// Whether the scheme, the host and the port are valid.
    pub fn is_valid(&self) -> bool {
        self.scheme != UNKNOWN && self.host != UNKNOWN
    }

    /// Whether both are the same host and port. Names are not resolved, except that `localhost` is the loopback
    /// address.
    pub fn is_same(&self, other: &Self) -> bool {
        self.canonical_host() == other.canonical_host() && self.port() == other.port()
    }

    /// Returns the port, or the default one of the scheme.
    fn port(&self) -> u16 {
        let default = if self.scheme == "https" { 443 } else { 80 };
        self.port.unwrap_or(default)
    }

    fn canonical_host(&self) -> String {
        let host = self.host.trim_end_matches('.');
        if host == "localhost" {
            return "127.0.0.1".to_owned();
        }
        match host.trim_matches(['[', ']']).parse::<IpAddr>().map(|address| address.to_canonical())
        {
            Ok(IpAddr::V6(address)) if address.is_loopback() => "127.0.0.1".to_owned(),
            Ok(address) => address.to_string(),
            Err(_) => host.to_owned(),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, host, port } = self;
        match port {
            Some(port) => write!(f, "{scheme}://{host}:{port}"),
            None => write!(f, "{scheme}://{host}"),
        }
    }
}

/// Replaces each URL in a text by its server. A URL ends at white space or at a quotation mark.
pub fn redact_urls(text: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let is_scheme = |it: &char| it.is_ascii_alphanumeric() || *it == '+';
        let scheme_bytes = rest[..at].chars().rev().take_while(is_scheme).count();
        let start = at - scheme_bytes;
        let url = &rest[start..];
        let is_end = |it: char| it.is_whitespace() || "\"'`<>".contains(it);
        let (url, tail) = url.split_at(url.find(is_end).unwrap_or(url.len()));
        redacted.push_str(&rest[..start]);
        redacted.push_str(&Server::from_url(url).to_string());
        rest = tail;
    }
    redacted.push_str(rest);
    redacted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_nothing_of_the_secret_parts_of_its_url() {
        for (url, server) in [
            ("https://rpc.example/key/abc?api-key=s", "https://rpc.example"),
            ("http://user:pass@127.0.0.1:8899", "http://127.0.0.1:8899"),
            ("HTTPS://user@H.Example:443#s", "https://h.example:443"),
            ("https://key@a@h", "https://h"),
            ("rpc.example:80/abc", "http://rpc.example:80"),
            ("http://[::1]:7?k=s", "http://[::1]:7"),
            ("http://user:pa/ss@h", "http://?"),
            ("http://h\\key", "http://h"),
            ("http://key secret", "http://?"),
            ("se/cret://h", "?://h"),
            ("http:///key", "http://?"),
            ("http://", "http://?"),
            ("http://[::1", "http://?:1"),
            ("http://[::1:7", "http://?:7"),
            ("http://a:b:7", "http://?:7"),
            ("http://127.0.0.1:99999", "http://?"),
        ] {
            let parsed = Server::from_url(url);
            assert_eq!(parsed.to_string(), server, "{url}");
            assert_eq!(parsed.is_valid(), !server.contains('?'), "{url}");
        }
    }

    #[test]
    fn one_server_has_many_urls() {
        let is_same = |a: &str, b: &str| Server::from_url(a).is_same(&Server::from_url(b));
        for (a, b) in [
            ("http://h", "http://h:80"),
            ("http://h:80/", "http://H./key?token=s"),
            ("https://h", "http://u:p@h:443"),
            ("http://localhost:1", "http://127.0.0.1:1"),
            ("http://[::1]:1", "http://[0:0::1]:1"),
            ("http://localhost:1", "http://[::1]:1"),
            ("http://[::ffff:10.0.0.1]:1", "http://10.0.0.1:1"),
        ] {
            assert!(is_same(a, b), "{a} {b}");
        }
        for (a, b) in [
            ("http://h", "https://h"),
            ("http://h:1", "http://h:2"),
            ("http://a.h", "http://h"),
            ("http://127.0.0.1:1", "http://127.0.0.2:1"),
        ] {
            assert!(!is_same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn urls_in_a_text_are_redacted() {
        let text =
            "line 2\n2 | source = \"http://u:p@h:1/KEY?k=1\"\n  | invalid `https://h/KEY`, ä://";
        let redacted = redact_urls(text);
        assert_eq!(redacted, "line 2\n2 | source = \"http://h:1\"\n  | invalid `https://h`, ä://?");
        assert_eq!(redact_urls("no url: a/b"), "no url: a/b");
    }
}
