//! HTTP on a port of wRPC: the route of Kaspa's resolver, the state of the node, and a hint for everything else.
//!
//! A client that has a resolver's URL asks for a node of a network and an encoding
//! (`/v2/kaspa/NETWORK/tls|any/wrpc/borsh|json`). The reply names this node, by the host that the client reached. The route
//! needs no API key, because SDKs send none. A client that has one uses a resolver's URL that ends with it: the route is
//! then below `/KEY`, and the URL in the reply ends with the key. It is checked when the client connects.
//! Not here: `/health` and `/ready` (`status_pages`), connections after the upgrade to WebSocket ([`crate::KaspaPort`]).

use std::sync::Arc;

use bytes::Bytes;
use http_server::{
    ClientRefusal, HttpRequest, HttpService, NO_STORE, ResponseBody, response, text_response,
};
use hyper::header::{self, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Response, StatusCode};
use jsonrpc::ServerContext;
use kaspa::{Encoding, Network};
use serde_json::json;

use crate::kaspa_rpc::KaspaServer;
use crate::status_pages::StatusPage;

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
/// The id of this node in a resolver's reply. Clients show it.
const RESOLVER_UID: &str = "hydrant";
/// The start of the resolver's route.
const RESOLVER_ROUTE: &str = "/v2/kaspa/";
/// Characters of a segment before the route that may be an API key.
const KEY_CHARS_MIN: usize = 16;

/// The URLs of a node's wRPC ports, as its clients reach them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortUrls {
    /// The host, if clients reach the node by another one than they name in a request.
    pub host: Option<String>,
    /// The port for Borsh, if it is open.
    pub borsh: Option<u16>,
    /// The port for JSON, if it is open.
    pub json: Option<u16>,
    /// Whether the ports speak TLS.
    pub is_tls: bool,
}

/// The HTTP service of a port.
pub struct PortService {
    server: Arc<KaspaServer>,
    /// The state that all ports of the node share.
    context: Arc<ServerContext>,
    urls: PortUrls,
}

impl PortUrls {
    /// Returns the body of the resolver's reply. `None` if the path does not ask for a port of this node.
    fn resolve(&self, network: Network, path: &str, reached_host: Option<&str>) -> Option<String> {
        let ResolverPath { key, rest } = ResolverPath::parse(path)?;
        let mut parts = rest.split('/');
        let requested: Network = parts.next()?.parse().ok()?;
        let needs_tls = match parts.next()? {
            "tls" => true,
            "any" => false,
            _ => return None,
        };
        let protocol = parts.next()?;
        let encoding = match parts.next()? {
            "borsh" => Encoding::Borsh,
            "json" => Encoding::Json,
            _ => return None,
        };
        let is_whole = parts.next().is_none();
        if requested != network || protocol != "wrpc" || !is_whole || (needs_tls && !self.is_tls) {
            return None;
        }
        let port = match encoding {
            Encoding::Borsh => self.borsh?,
            Encoding::Json => self.json?,
        };
        let authority: Option<Authority> = reached_host.and_then(|host| host.parse().ok());
        let host = self.host.as_deref().or_else(|| authority.as_ref().map(Authority::host))?;
        let scheme = if self.is_tls { "wss" } else { "ws" };
        let key = key.map(|key| format!("/{key}")).unwrap_or_default();
        let url = format!("{scheme}://{host}:{port}{key}");
        Some(json!({ "uid": RESOLVER_UID, "url": url }).to_string())
    }
}

/// A path of the resolver's route.
#[derive(Debug, PartialEq, Eq)]
struct ResolverPath<'a> {
    /// The segment before the route, which may be an API key.
    key: Option<&'a str>,
    /// The part after the route's start.
    rest: &'a str,
}

impl<'a> ResolverPath<'a> {
    fn parse(path: &'a str) -> Option<Self> {
        if let Some(rest) = path.strip_prefix(RESOLVER_ROUTE) {
            return Some(Self { key: None, rest });
        }
        let (key, _) = path.strip_prefix('/')?.split_once('/')?;
        let rest = path[1 + key.len()..].strip_prefix(RESOLVER_ROUTE)?;
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let may_be_key = key.len() >= KEY_CHARS_MIN && key.bytes().all(is_allowed);
        may_be_key.then_some(Self { key: Some(key), rest })
    }
}

impl PortService {
    /// Creates the service of one of the ports.
    pub fn new(server: Arc<KaspaServer>, context: Arc<ServerContext>, urls: PortUrls) -> Self {
        Self { server, context, urls }
    }
}

impl HttpService for PortService {
    async fn handle(&self, request: HttpRequest) -> Response<ResponseBody> {
        let head = &request.head;
        let path = head.uri.path();
        if let Some(page) = StatusPage::from_request(&head.method, path) {
            return page.respond(&self.context, &self.server.chain);
        }
        let is_read = matches!(head.method, Method::GET | Method::HEAD);
        let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let resolved =
            if is_read { self.urls.resolve(self.server.network, path, host) } else { None };
        if let Some(body) = resolved {
            let mut response = response(StatusCode::OK, JSON, Bytes::from(body).into());
            // It repeats the host that this client named.
            response.headers_mut().insert(header::CACHE_CONTROL, NO_STORE);
            return response;
        }
        if ResolverPath::parse(path).is_some() {
            return text_response(StatusCode::NOT_FOUND, "no such node\n");
        }
        let hint = "wRPC is served over WebSocket: use ws:// and wss:// URLs\n";
        let mut response = text_response(StatusCode::UPGRADE_REQUIRED, hint);
        let headers = response.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        response
    }

    fn refuse(&self, _path: &str, status: StatusCode, message: &str) -> Response<ResponseBody> {
        text_response(status, format!("{message}\n"))
    }

    fn is_resource(&self, path: &str) -> bool {
        ResolverPath::parse(path).is_some()
    }

    fn is_served_while_draining(&self, path: &str) -> bool {
        StatusPage::from_path(path).is_some()
    }

    fn refuse_client(&self, _path: &str, refusal: ClientRefusal) -> Response<ResponseBody> {
        let mut response = text_response(refusal.status, format!("{}\n", refusal.message));
        if let Some(seconds) = refusal.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }

    fn is_open(&self, path: &str) -> bool {
        StatusPage::from_path(path).is_some() || ResolverPath::parse(path).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls() -> PortUrls {
        PortUrls { host: None, borsh: Some(17_510), json: None, is_tls: false }
    }

    #[test]
    fn a_resolver_names_the_host_that_the_client_reached() {
        let path = "/v2/kaspa/simnet/any/wrpc/borsh";
        let resolve =
            |urls: &PortUrls, host: Option<&str>| urls.resolve(Network::Simnet, path, host);
        let reply = |url: &str| Some(format!(r#"{{"uid":"hydrant","url":"{url}"}}"#));
        assert_eq!(resolve(&urls(), Some("node.test:80")), reply("ws://node.test:17510"));
        assert_eq!(resolve(&urls(), Some("[::1]:80")), reply("ws://[::1]:17510"));
        assert_eq!(resolve(&urls(), None), None);
        assert_eq!(resolve(&urls(), Some("\"}, \"url\":")), None);
        let proxied = PortUrls { host: Some("public.test".to_owned()), is_tls: true, ..urls() };
        assert_eq!(resolve(&proxied, Some("inner")), reply("wss://public.test:17510"));
    }

    #[test]
    fn a_url_has_the_key_with_which_it_was_requested() {
        let resolve = |segment: &str| {
            let path = format!("/{segment}/v2/kaspa/simnet/any/wrpc/borsh");
            urls().resolve(Network::Simnet, &path, Some("node.test"))
        };
        let url = "ws://node.test:17510/hyd_0123456789abcdef";
        let expected = format!(r#"{{"uid":"hydrant","url":"{url}"}}"#);
        assert_eq!(resolve("hyd_0123456789abcdef"), Some(expected));
        for segment in ["", "v1", "too-short", "hyd_0123456789\"abcdef", "a/hyd_0123456789abcdef"] {
            assert_eq!(resolve(segment), None, "{segment}");
        }
    }

    #[test]
    fn a_resolver_names_no_port_that_is_not_there() {
        let paths = [
            "/v2/kaspa/mainnet/any/wrpc/borsh",
            "/v2/kaspa/simnet/tls/wrpc/borsh",
            "/v2/kaspa/simnet/any/wrpc/json",
            "/v2/kaspa/simnet/any/grpc/borsh",
            "/v2/kaspa/simnet/any/wrpc/borsh/more",
            "/v2/kaspa/simnet/any/wrpc",
            "/v2/kaspa//any/wrpc/borsh",
            "/v1/kaspa/simnet/any/wrpc/borsh",
            "/",
        ];
        for path in paths {
            assert_eq!(urls().resolve(Network::Simnet, path, Some("node.test")), None, "{path}");
        }
    }
}
