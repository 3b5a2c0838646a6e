//! Web pages: the origins that may send requests, and the headers that their browsers need (CORS).
//!
//! A browser sends the origin of a page with each request of the page. By default any origin is allowed, as in
//! Agave. With a list, a request of any other origin is refused before it is read, over HTTP and as a
//! WebSocket. A request without an origin is not from a web page, and is always allowed.
//! A page of the node itself is allowed as well, but only if its host is an address, `localhost`, or a name that the
//! operator gave to the node. Any other name may belong to another site (DNS rebinding).
//! Not here: which of these pages may call dangerous methods (`page_access`).

use std::net::IpAddr;
use std::sync::Arc;

use hyper::Uri;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::uri::Authority;

/// The origins that may send requests, and the names of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedOrigins {
    /// `None`: any.
    listed: Option<Arc<[HeaderValue]>>,
    /// Whether `*` was listed, so that no origin is refused anything.
    has_any: bool,
    /// Names of the node, in lower case. `*` matches any name.
    hosts: Arc<[Box<str>]>,
}

/// A text that is not the name of a host. Fix: `*`, or a name without a scheme and without a port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a host: \"*\", or for example node.example, without a port")]
pub struct NoHost(String);

/// A text that is not an origin. Fix: `*`, `null`, or a scheme, a host and a port as a browser sends them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an origin: \"*\", \"null\", or for example https://app.example:8443, without a path"
)]
pub struct NoOrigin(String);

impl AllowedOrigins {
    /// The origins of a list; any origin if the list is empty or has `*` in it.
    pub fn new(origins: &[String]) -> Result<Self, NoOrigin> {
        let listed: Vec<_> =
            origins.iter().map(|origin| parse(origin)).collect::<Result<_, _>>()?;
        let has_any = origins.iter().any(|origin| origin == "*");
        let is_limited = !listed.is_empty() && !has_any;
        let listed = is_limited.then(|| listed.into());
        Ok(Self { listed, has_any, hosts: Arc::default() })
    }

    /// Adds names under which the node may be addressed.
    pub fn with_hosts(self, names: &[String]) -> Result<Self, NoHost> {
        let hosts = names.iter().map(|name| parse_host(name)).collect::<Result<_, _>>()?;
        Ok(Self { hosts, ..self })
    }

    /// Whether a request is allowed; otherwise the origin that it names.
    pub(crate) fn check<'h>(&self, headers: &'h HeaderMap) -> Result<(), &'h HeaderValue> {
        let Some(listed) = &self.listed else { return Ok(()) };
        let is_allowed = |origin: &&HeaderValue| {
            listed.contains(*origin) || self.is_own(origin, headers.get(header::HOST))
        };
        match headers.get_all(header::ORIGIN).iter().find(|origin| !is_allowed(origin)) {
            None => Ok(()),
            Some(origin) => Err(origin),
        }
    }

    /// Whether every origin is allowed.
    pub(crate) fn are_any(&self) -> bool {
        self.listed.is_none()
    }

    /// Whether an origin was named, itself or by `*`.
    pub(crate) fn is_listed(&self, origin: &HeaderValue) -> bool {
        self.has_any || self.listed.as_ref().is_some_and(|listed| listed.contains(origin))
    }

    /// Whether an origin is that of the node itself, by a name that no other site can have.
    pub(crate) fn is_own(&self, origin: &HeaderValue, host: Option<&HeaderValue>) -> bool {
        let Some(((scheme, authority), host)) = split_origin(origin).zip(host.and_then(text))
        else {
            return false;
        };
        let Some(name) = host_name(host) else { return false };
        let is_safe = is_local_name(&name) || is_address(&name) || self.has_host(&name);
        is_safe && matches!(scheme, "http" | "https") && authority.eq_ignore_ascii_case(host)
    }

    /// Whether the operator gave this name to the node. It is in lower case.
    pub(crate) fn has_host(&self, name: &str) -> bool {
        self.hosts.iter().any(|host| **host == *name || **host == *"*")
    }
}

fn parse_host(name: &str) -> Result<Box<str>, NoHost> {
    let is_name =
        name == "*" || host_name(name).is_some_and(|host| host.eq_ignore_ascii_case(name));
    if is_name { Ok(name.to_ascii_lowercase().into()) } else { Err(NoHost(name.to_owned())) }
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

/// The scheme of an origin, and its host with the port.
pub(crate) fn split_origin(origin: &HeaderValue) -> Option<(&str, &str)> {
    text(origin)?.split_once("://")
}

/// The name or address in a host with a port, in lower case, without the brackets of IPv6 and the dot of the root.
pub(crate) fn host_name(host: &str) -> Option<String> {
    let authority = host.parse::<Authority>().ok()?;
    // The parser accepts more text after an address in brackets.
    let rest = host.strip_prefix(authority.host())?;
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if !rest.is_empty() && !rest.strip_prefix(':').is_some_and(is_port) {
        return None;
    }
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let name = name.strip_suffix('.').unwrap_or(name);
    (!name.is_empty() && !host.contains('@')).then(|| name.to_ascii_lowercase())
}

/// Whether a name in lower case always leads to the machine of the browser (RFC 6761, 6.3).
pub(crate) fn is_local_name(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

pub(crate) fn is_address(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
}

fn parse(origin: &str) -> Result<HeaderValue, NoOrigin> {
    let not_an_origin = || NoOrigin(origin.to_owned());
    if !matches!(origin, "*" | "null") {
        let uri: Uri = origin.parse().map_err(|_| not_an_origin())?;
        let (scheme, authority) =
            uri.scheme_str().zip(uri.authority()).ok_or_else(not_an_origin)?;
        // As browsers send it: nothing after the port, and no upper case.
        if origin != format!("{scheme}://{}", authority.as_str().to_ascii_lowercase()) {
            return Err(not_an_origin());
        }
    }
    HeaderValue::from_str(origin).map_err(|_| not_an_origin())
}

/// The CORS facts of a request, and the headers of its response.
pub(crate) struct CorsHeaders {
    /// The origin, if there is one.
    origin: Option<HeaderValue>,
    is_any_allowed: bool,
    is_http_api: bool,
    requested_headers: Option<HeaderValue>,
    is_preflight: bool,
}

impl CorsHeaders {
    /// From a request whose origin was checked.
    pub(crate) fn from_headers(
        allowed: &AllowedOrigins,
        headers: &HeaderMap,
        is_http_api: bool,
    ) -> Self {
        let origin = headers.get(header::ORIGIN).cloned();
        // Only a browser sends the others.
        let requested_headers =
            origin.as_ref().and_then(|_| headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS));
        Self {
            is_preflight: origin.is_some()
                && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD),
            is_any_allowed: allowed.are_any(),
            is_http_api,
            requested_headers: requested_headers.cloned(),
            origin,
        }
    }

    pub(crate) fn write(self, headers: &mut HeaderMap) {
        let any = HeaderValue::from_static("*");
        // A cache may serve the response to a page that did not send the request.
        if self.is_http_api {
            if !self.is_preflight {
                headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, any.clone());
            }
            if self.is_any_allowed {
                headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, any.clone());
            } else {
                headers.append(header::VARY, HeaderValue::from_static("origin"));
            }
        }
        let Some(origin) = self.origin else { return };
        if !self.is_http_api {
            headers.append(header::VARY, HeaderValue::from_static("origin"));
            // A page reads no header that is not listed, `Retry-After` neither. Of a preflight it reads none at all.
            if !self.is_preflight {
                headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, any.clone());
            }
        }
        let origin = if self.is_any_allowed { any } else { origin };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let methods = if self.is_http_api { "OPTIONS, GET, HEAD, POST" } else { "OPTIONS, POST" };
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
        if let Some(requested) = self.requested_headers {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, requested);
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::*;

    fn allowed(origins: &[&str]) -> AllowedOrigins {
        let origins: Vec<_> = origins.iter().map(|&it| it.to_owned()).collect();
        AllowedOrigins::new(&origins).expect("origins")
    }

    fn check(allowed: &AllowedOrigins, origin: &'static str, host: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
        headers.insert(header::HOST, HeaderValue::from_static(host));
        allowed.check(&headers).is_ok()
    }

    #[test]
    fn an_origin_that_is_not_listed_is_refused() {
        let listed = allowed(&["https://app.example", "http://localhost:5173"]);
        for (origin, is_good) in [
            ("https://app.example", true),
            ("http://localhost:5173", true),
            ("http://app.example", false),
            ("https://app.example.evil.example", false),
            ("https://app.example:444", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(check(&listed, origin, "node.example:8899"), is_good, "{origin}");
            assert!(check(&allowed(&[]), origin, "node.example:8899"));
            assert!(check(&allowed(&["*", "https://app.example"]), origin, "x"));
        }
        assert!(listed.check(&HeaderMap::new()).is_ok(), "it is not from a web page");
        assert!(check(&allowed(&["null"]), "null", "node.example"));
        let mut two = HeaderMap::new();
        two.append(header::ORIGIN, HeaderValue::from_static("https://app.example"));
        two.append(header::ORIGIN, HeaderValue::from_static("https://evil.example"));
        assert!(listed.check(&two).is_err());
    }

    #[test]
    fn a_page_of_the_node_itself_is_allowed_unless_its_name_may_be_anothers() {
        let listed = allowed(&["https://app.example"]);
        for (origin, host, is_own) in [
            ("http://127.0.0.1:8899", "127.0.0.1:8899", true),
            ("http://[::1]:8899", "[::1]:8899", true),
            ("http://localhost:8899", "localhost:8899", true),
            ("http://localhost:3000", "localhost:8899", false),
            ("http://evil.example:8899", "evil.example:8899", false),
            ("ftp://127.0.0.1:8899", "127.0.0.1:8899", false),
            ("http://127.0.0.1:8899", "evil.example", false),
        ] {
            assert_eq!(check(&listed, origin, host), is_own, "{origin} {host}");
        }
    }

    #[test]
    fn a_page_of_the_node_is_allowed_by_a_name_that_the_operator_gave_it() {
        let hosts = ["Node.example".to_owned()];
        let listed = allowed(&["https://app.example"]).with_hosts(&hosts).expect("a name");
        assert!(check(&listed, "https://node.example", "node.example"));
        assert!(check(&listed, "https://node.example:8899", "node.example:8899"));
        assert!(!check(&listed, "https://other.example", "other.example"));
        for wrong in ["https://node.example", "node.example:8899", "a@b", "", "a b"] {
            let refused = AllowedOrigins::default().with_hosts(&[wrong.to_owned()]);
            assert_eq!(refused, Err(NoHost(wrong.to_owned())));
        }
    }

    #[test]
    fn a_text_that_no_browser_sends_is_not_an_origin() {
        for wrong in ["app.example", "https://app.example/", "https://App.example", "https://", ""]
        {
            assert!(AllowedOrigins::new(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_page_may_read_the_headers_of_every_response_but_a_preflight() {
        let exposed = |is_http_api: bool, request: &[(HeaderName, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in request {
                headers.insert(name, HeaderValue::from_static(value));
            }
            let mut response = HeaderMap::new();
            CorsHeaders::from_headers(&allowed(&[]), &headers, is_http_api).write(&mut response);
            response.get(header::ACCESS_CONTROL_EXPOSE_HEADERS).map(|value| value == "*")
        };
        let origin = (header::ORIGIN, "https://a.example");
        let preflight = (header::ACCESS_CONTROL_REQUEST_METHOD, "POST");
        for is_http_api in [false, true] {
            assert_eq!(exposed(is_http_api, std::slice::from_ref(&origin)), Some(true));
            assert_eq!(exposed(is_http_api, &[origin.clone(), preflight.clone()]), None);
        }
        assert_eq!(exposed(false, &[]), None, "it is not from a web page");
    }
}
