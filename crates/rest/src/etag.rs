//! Strong `ETag`s, and the condition `If-None-Match` (RFC 9110, 8.8.3 and 13.1.2).

use hyper::header::{self, HeaderMap, HeaderValue};

/// A strong `ETag` of the first half of a hash.
pub(crate) fn etag(hash: &[u8]) -> HeaderValue {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = Vec::with_capacity(2 * hash.len() + 2);
    text.push(b'"');
    for byte in hash {
        text.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    text.push(b'"');
    HeaderValue::try_from(text).unwrap_or_else(|_| unreachable!("hexadecimal in quotes"))
}

/// The `ETag` of bytes as they are sent.
pub(crate) fn hash_etag(bytes: &[u8]) -> HeaderValue {
    etag(&blake3::hash(bytes).as_bytes()[..16])
}

/// Whether `If-None-Match` matches the `ETag`, `*` included.
pub(crate) fn matches_if_none_match(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    if_none_match(headers).any(|tag| tag == b"*" || is_same(tag, etag.as_bytes()))
}

/// Whether `If-None-Match` lists the `ETag`.
pub(crate) fn lists_etag(headers: &HeaderMap, etag: &[u8]) -> bool {
    if_none_match(headers).any(|tag| is_same(tag, etag))
}

/// Whether a value of `If-None-Match` is the `ETag`, by the weak comparison.
fn is_same(tag: &[u8], etag: &[u8]) -> bool {
    tag.strip_prefix(b"W/").unwrap_or(tag) == etag
}

/// The values of `If-None-Match`. A part of a value with a comma in it is never an `ETag` of this node.
fn if_none_match(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let values = headers.get_all(header::IF_NONE_MATCH).iter();
    values.flat_map(|it| it.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_in_any_line_beside_any_other() {
        let etag = etag(&[0x1f; 2]);
        let cases: &[(&[u8], bool)] = &[
            (b"\"1f1f\"", true),
            (b"W/\"1f1f\"", true),
            (b"*", true),
            (b"\"a\", \"1f1f\"", true),
            (b"\"\xe4\",\"1f1f\" ", true),
            (b"", false),
            (b"1f1f", false),
            (b"\"1f1f\"\"", false),
        ];
        for (line, is_found) in cases {
            let mut headers = HeaderMap::new();
            headers.append(header::IF_NONE_MATCH, HeaderValue::from_static("\"other\""));
            let line = HeaderValue::from_bytes(line).expect("a header");
            headers.append(header::IF_NONE_MATCH, line.clone());
            assert_eq!(matches_if_none_match(&headers, &etag), *is_found, "{line:?}");
            let is_listed = *is_found && line != "*";
            assert_eq!(lists_etag(&headers, etag.as_bytes()), is_listed, "{line:?}");
        }
    }
}
