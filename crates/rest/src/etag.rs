//! Strong `ETag`s, and the condition `If-None-Match` (RFC 9110, 8.8.3 and 13.1.2).

use hyper::header::{self, HeaderMap, HeaderValue};

/// A strong `ETag` of the first half of a hash.
pub(crate) fn etag(hash: &[u8]) -> HeaderValue {
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::from_str(&format!("\"{digits}\""))
        .unwrap_or_else(|_| unreachable!("hexadecimal in quotes"))
}

/// The `ETag` of bytes as they are sent.
pub(crate) fn etag_of_bytes(bytes: &[u8]) -> HeaderValue {
    etag(&blake3::hash(bytes).as_bytes()[..16])
}

/// Whether `If-None-Match` matches the `ETag`, `*` included.
pub(crate) fn matches_if_none_match(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    if_none_match(headers).any(|tag| tag == "*") || lists_etag(headers, etag.as_bytes())
}

/// Whether `If-None-Match` lists the `ETag`.
pub(crate) fn lists_etag(headers: &HeaderMap, etag: &[u8]) -> bool {
    if_none_match(headers).any(|tag| tag.strip_prefix("W/").unwrap_or(tag).as_bytes() == etag)
}

/// The values of `If-None-Match`.
fn if_none_match(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::IF_NONE_MATCH).iter();
    values.filter_map(|it| it.to_str().ok()).flat_map(|it| it.split(',')).map(str::trim)
}
