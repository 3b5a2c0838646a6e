//! Which requests may call dangerous methods: those that spend or change what others rely on, such as a faucet's.
//!
//! A browser lets every web page send requests to a node on the same machine. So a page of another origin may read, but
//! it may not call these methods unless its origin is listed. Neither may a page whose name was changed to lead to the
//! node after it was loaded (DNS rebinding): its `Host` is a name that is not the node's.
//! Allowed: a request without `Origin`, unless its `Sec-Fetch-Site` says that a page of another site sent it; a page of
//! the node itself; a page that a program on the same machine serves (`http://localhost:3000`) if the node is addressed
//! there as well; a listed origin.
//! A `Host` is allowed if it is an address, `localhost`, a name without a dot, which no site can have, or a name that
//! the operator gave to the node.
//! Cost: some nanoseconds for a program that names the node by its IPv4 address.

use std::net::IpAddr;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::cors::{AllowedOrigins, host_name, is_address, is_local_name, split_origin};

/// The site of the page that sent a request, compared with the node's. Browsers send it, and pages cannot change it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Its values for a page of the node, and for a user who typed the address.
const OWN_SITES: [&[u8]; 2] = [b"same-origin", b"none"];

/// Whether a request may call dangerous methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageAccess {
    /// It may.
    #[default]
    Full,
    /// It comes from a web page of another origin. Fix: list the origin (`--allow-origin`).
    ForeignOrigin,
    /// It names the node by a name that may belong to another site. Fix: give the name to the node (`--allow-host`).
    ForeignHost,
}

impl PageAccess {
    /// The access of a request with these headers.
    pub fn from_headers(allowed: &AllowedOrigins, headers: &HeaderMap) -> Self {
        let host = headers.get(header::HOST);
        let is_foreign = |origin: &HeaderValue| {
            !allowed.is_listed(origin)
                && !allowed.is_own(origin, host)
                && !is_same_machine(origin, host)
        };
        let mut origins = headers.get_all(header::ORIGIN).iter();
        // The origin of a page that hides it is not known.
        let hides_origin = !headers.contains_key(header::ORIGIN) && names_other_site(headers);
        if origins.any(is_foreign) || hides_origin && is_foreign(&HeaderValue::from_static("null"))
        {
            return Self::ForeignOrigin;
        }
        match host {
            Some(host) if !is_known_host(allowed, host) => Self::ForeignHost,
            Some(_) | None => Self::Full,
        }
    }
}

/// Whether the browser says that a page of another site sent the request.
fn names_other_site(headers: &HeaderMap) -> bool {
    let is_own =
        |site: &HeaderValue| OWN_SITES.iter().any(|own| site.as_bytes().eq_ignore_ascii_case(own));
    headers.get_all(FETCH_SITE).iter().any(|site| !is_own(site))
}

fn is_known_host(allowed: &AllowedOrigins, host: &HeaderValue) -> bool {
    // Nothing but an IPv4 address, or a bracket, begins or ends like this: browsers reject a name whose last part is a
    // number.
    let bytes = host.as_bytes();
    let begins_with_digit = bytes.first().is_some_and(u8::is_ascii_digit);
    if begins_with_digit && bytes.iter().all(|byte| byte.is_ascii_digit() || b".:".contains(byte)) {
        return true;
    }
    let Some(name) = host.to_str().ok().and_then(host_name) else { return false };
    !name.contains('.') || is_local_name(&name) || is_address(&name) || allowed.has_host(&name)
}

/// Whether the page and the node are both addressed on the machine of the browser.
fn is_same_machine(origin: &HeaderValue, host: Option<&HeaderValue>) -> bool {
    let page = split_origin(origin).map(|(_, host)| host);
    let node = host.and_then(|host| host.to_str().ok());
    page.is_some_and(is_loopback) && node.is_some_and(is_loopback)
}

fn is_loopback(host: &str) -> bool {
    let Some(name) = host_name(host) else { return false };
    is_local_name(&name) || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(
        allowed: &AllowedOrigins,
        origin: Option<&'static str>,
        host: &'static str,
    ) -> PageAccess {
        let mut headers = HeaderMap::new();
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
        }
        headers.insert(header::HOST, HeaderValue::from_static(host));
        PageAccess::from_headers(allowed, &headers)
    }

    fn allowed(origins: &[&str], hosts: &[&str]) -> AllowedOrigins {
        let owned = |texts: &[&str]| texts.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        let allowed = AllowedOrigins::new(&owned(origins)).expect("origins");
        allowed.with_hosts(&owned(hosts)).expect("names")
    }

    #[test]
    fn a_program_has_access_by_every_name_that_no_site_can_have() {
        let none = AllowedOrigins::default();
        for host in [
            "127.0.0.1:8899",
            "10.0.0.7",
            "[::1]:8899",
            "localhost:8899",
            "LOCALHOST",
            "node.localhost:8899",
            "validator:8899",
        ] {
            assert_eq!(access(&none, None, host), PageAccess::Full, "{host}");
        }
        assert_eq!(PageAccess::from_headers(&none, &HeaderMap::new()), PageAccess::Full);
        for host in [
            "evil.example:8899",
            "evil.example.:8899",
            "127.0.0.1.evil.example",
            "[::1].evil.example",
            "[::1]evil:8899",
            "a@b.c",
            "",
            ":8899",
        ] {
            assert_eq!(access(&none, None, host), PageAccess::ForeignHost, "{host}");
        }
        let named = allowed(&[], &["node.example"]);
        assert_eq!(access(&named, None, "Node.Example:8899"), PageAccess::Full);
        assert_eq!(access(&named, None, "evil.example:8899"), PageAccess::ForeignHost);
        assert_eq!(access(&allowed(&[], &["*"]), None, "evil.example"), PageAccess::Full);
    }

    #[test]
    fn a_page_of_another_site_has_no_access_by_any_name() {
        let none = AllowedOrigins::default();
        for (origin, host) in [
            ("https://evil.example", "127.0.0.1:8899"),
            ("https://evil.example", "localhost:8899"),
            ("null", "127.0.0.1:8899"),
            ("", "127.0.0.1:8899"),
            ("file://", "127.0.0.1:8899"),
            // Its name leads to the node now.
            ("http://evil.example:8899", "evil.example:8899"),
            ("http://evil:8899", "evil:8899"),
            ("http://localhost.evil.example:8899", "127.0.0.1:8899"),
            // A page of the user's machine, and a node that is elsewhere.
            ("http://localhost:3000", "10.0.0.7:8899"),
        ] {
            assert_eq!(access(&none, Some(origin), host), PageAccess::ForeignOrigin, "{origin}");
        }
        let mut two = HeaderMap::new();
        two.append(header::HOST, HeaderValue::from_static("127.0.0.1:8899"));
        two.append(header::ORIGIN, HeaderValue::from_static("http://127.0.0.1:8899"));
        two.append(header::ORIGIN, HeaderValue::from_static("https://evil.example"));
        assert_eq!(PageAccess::from_headers(&none, &two), PageAccess::ForeignOrigin);
    }

    #[test]
    fn a_page_without_an_origin_is_known_by_its_site() {
        let access = |allowed: &AllowedOrigins, site, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:8899"));
            headers.append(FETCH_SITE, HeaderValue::from_static(site));
            headers.extend(origin.map(|it| (header::ORIGIN, HeaderValue::from_static(it))));
            PageAccess::from_headers(allowed, &headers)
        };
        let none = AllowedOrigins::default();
        for site in ["cross-site", "same-site", "CROSS-SITE", "", "other"] {
            assert_eq!(access(&none, site, None), PageAccess::ForeignOrigin, "{site}");
        }
        for site in ["same-origin", "none", "None"] {
            assert_eq!(access(&none, site, None), PageAccess::Full, "{site}");
        }
        assert_eq!(access(&allowed(&["*"], &[]), "cross-site", None), PageAccess::Full);
        // The origin says more than the site.
        let app = allowed(&["https://app.example"], &[]);
        let listed = Some("https://app.example");
        assert_eq!(access(&app, "cross-site", listed), PageAccess::Full);
        assert_eq!(access(&app, "cross-site", None), PageAccess::ForeignOrigin);
        let local = Some("http://localhost:3000");
        assert_eq!(access(&none, "cross-site", local), PageAccess::Full);
    }

    #[test]
    fn pages_of_the_node_of_its_machine_and_of_listed_origins_have_access() {
        let none = AllowedOrigins::default();
        for (origin, host) in [
            ("http://127.0.0.1:8899", "127.0.0.1:8899"),
            ("http://10.0.0.7:8899", "10.0.0.7:8899"),
            ("http://localhost:3000", "127.0.0.1:8899"),
            ("http://127.0.0.1:5173", "localhost:8899"),
            ("http://app.localhost:5173", "[::1]:8899"),
        ] {
            assert_eq!(access(&none, Some(origin), host), PageAccess::Full, "{origin}");
        }
        let app = allowed(&["https://app.example"], &[]);
        assert_eq!(access(&app, Some("https://app.example"), "10.0.0.7:8899"), PageAccess::Full);
        let any = allowed(&["*"], &[]);
        assert_eq!(access(&any, Some("https://evil.example"), "10.0.0.7"), PageAccess::Full);
        let rebound = access(&any, Some("http://evil.example"), "evil.example");
        assert_eq!(rebound, PageAccess::ForeignHost);
        let named = allowed(&[], &["node.example"]);
        assert_eq!(access(&named, Some("https://node.example"), "node.example"), PageAccess::Full);
    }
}
