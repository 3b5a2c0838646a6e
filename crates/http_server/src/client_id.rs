//! The client of a request: the address that it came from, or the one that a proxy names.
//!
//! Behind a proxy ([`crate::Config::client_header`]) it is the last value of the last line of that header: the
//! one that the proxy itself wrote. The client may have written the values before it.
//! Invariant: without that header a request belongs to the proxy, whichever client sent it.

use std::net::{IpAddr, SocketAddr};

use clients::ClientId;
use hyper::header::{HeaderMap, HeaderName};

/// The client, by the address of the peer, and by the header if one is configured.
pub(crate) fn client(header: Option<&HeaderName>, peer: IpAddr, headers: &HeaderMap) -> ClientId {
    let value = header.and_then(|header| last(headers, header));
    value.map_or_else(|| ClientId::from_ip(peer), parse_client)
}

/// The address of the client, if the peer is the client or the proxy names an address.
pub(crate) fn address(
    header: Option<&HeaderName>,
    peer: IpAddr,
    headers: &HeaderMap,
) -> Option<IpAddr> {
    header.and_then(|header| last(headers, header)).map_or(Some(peer), parse_address)
}

/// The last of all values of a header.
fn last<'h>(headers: &'h HeaderMap, header: &HeaderName) -> Option<&'h [u8]> {
    let line = headers.get_all(header).iter().next_back()?.as_bytes();
    let value = line.rsplit(|byte| *byte == b',').next()?.trim_ascii();
    (!value.is_empty()).then_some(value)
}

/// An address is the same client as without the proxy.
fn parse_client(value: &[u8]) -> ClientId {
    parse_address(value).map_or_else(|| ClientId::from_name(value), ClientId::from_ip)
}

/// Some proxies add a port or brackets.
fn parse_address(value: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(value).unwrap_or_default();
    let unbracketed =
        text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let ip = unbracketed.parse::<IpAddr>().ok();
    ip.or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const HEADER: HeaderName = HeaderName::from_static("x-forwarded-for");

    /// The client behind a proxy that sends these lines of the header.
    fn client_behind_proxy(lines: &[&'static str]) -> ClientId {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(HEADER, HeaderValue::from_static(line));
        }
        client(Some(&HEADER), PROXY, &headers)
    }

    fn ip(text: &str) -> ClientId {
        ClientId::from_ip(text.parse().expect("an address"))
    }

    #[test]
    fn a_client_that_writes_the_header_itself_is_still_the_one_that_the_proxy_names() {
        let expected = ip("203.0.113.7");
        // nginx appends to the line, HAProxy appends a line.
        assert_eq!(client_behind_proxy(&["203.0.113.7"]), expected);
        assert_eq!(client_behind_proxy(&["1.1.1.1, 203.0.113.7"]), expected);
        assert_eq!(client_behind_proxy(&["1.1.1.1,2.2.2.2 ,203.0.113.7 "]), expected);
        assert_eq!(client_behind_proxy(&["1.1.1.1", "another", "203.0.113.7"]), expected);
        assert_eq!(client_behind_proxy(&["key-a"]), ClientId::from_name(b"key-a"));
        assert_eq!(client_behind_proxy(&["key-b, key-a"]), ClientId::from_name(b"key-a"));
    }

    #[test]
    fn an_address_in_a_header_is_the_client_that_it_is_without_a_proxy() {
        for text in ["2001:db8::1", "2001:db8::2", "[2001:db8::3]:443", "[2001:db8::4]"] {
            assert_eq!(client_behind_proxy(&[text]).to_string(), "2001:db8::/64", "{text}");
        }
        assert_eq!(client_behind_proxy(&["::ffff:10.0.0.1"]), ip("10.0.0.1"));
        assert_eq!(client_behind_proxy(&["10.0.0.1:50123"]), ip("10.0.0.1"));
    }

    #[test]
    fn an_empty_header_names_no_client() {
        for lines in [&[][..], &[""], &["1.1.1.1, "], &["1.1.1.1", " "]] {
            assert_eq!(client_behind_proxy(lines), ClientId::from_ip(PROXY), "{lines:?}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, HeaderValue::from_static("1.1.1.1"));
        assert_eq!(
            client(None, PROXY, &headers),
            ClientId::from_ip(PROXY),
            "no header is configured"
        );
    }
}
