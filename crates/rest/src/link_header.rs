//! The link to the next page: `Link: <…>; rel="next"`, the same request with the page's key as `cursor`.

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};

use crate::headers::CURSOR;
use crate::params::Params;

/// The start of a page that is not the last one.
const KEY: &[u8] = br#"{"paginationKey":""#;

/// The link from a page to the next, by its first bytes or its extra headers. None for the last page and for a
/// POST, because its body is not part of the URI.
pub(crate) fn next_page_link(
    uri: &Uri,
    params: &Params,
    prefix: &[u8],
    extra_headers: &[(HeaderName, HeaderValue)],
) -> Option<HeaderValue> {
    let cursor = extra_headers.iter().find(|(name, _)| *name == CURSOR);
    let key = match cursor {
        Some((_, key)) => key.as_bytes(),
        None => prefix.strip_prefix(KEY)?.split(|byte| *byte == b'"').next()?,
    };
    if params.is_posted() {
        return None;
    }
    // A key is base58, and the rest is copied from the request's URI.
    let key = std::str::from_utf8(key).ok()?;
    let others = uri.query().unwrap_or_default().split('&');
    let others = others.filter(|pair| !pair.is_empty() && !pair.starts_with("cursor="));
    let query: String = others.map(|pair| format!("{pair}&")).collect();
    let path = uri.path();
    HeaderValue::from_str(&format!("<{path}?{query}cursor={key}>; rel=\"next\"")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_the_same_request_with_another_cursor() {
        let params = Params::default();
        let link = |uri: &'static str, prefix: &[u8]| {
            next_page_link(&Uri::from_static(uri), &params, prefix, &[])
                .map(|link| link.to_str().expect("text").to_owned())
        };
        let page: &[u8] = br#"{"paginationKey":"abc","accounts":["#;
        for (uri, expected) in [
            ("/v1/x", "</v1/x?cursor=abc>; rel=\"next\""),
            ("/v1/x?limit=5&cursor=old", "</v1/x?limit=5&cursor=abc>; rel=\"next\""),
            ("/v1/x?cursor=old&limit=5", "</v1/x?limit=5&cursor=abc>; rel=\"next\""),
        ] {
            assert_eq!(link(uri, page).as_deref(), Some(expected));
        }
        assert_eq!(link("/v1/x", br#"{"paginationKey":null,"accounts":["#), None);
        let cursor = [(CURSOR, HeaderValue::from_static("def"))];
        let uri = Uri::from_static("/v1/x?limit=2");
        let link = next_page_link(&uri, &params, b"[", &cursor).expect("a link");
        assert_eq!(link, "</v1/x?limit=2&cursor=def>; rel=\"next\"");
    }
}
