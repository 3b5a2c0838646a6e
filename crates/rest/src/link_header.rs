//! The way to the next page: `Link: <…>; rel="next"`, the same request with the page's key as `cursor`.

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};

use crate::params::Params;
use crate::transform::CURSOR;

/// What a page begins with if there is another one.
const KEY: &[u8] = br#"{"paginationKey":""#;

/// The link of a page, by its first bytes or by what was told beside it; none for the last page, and for
/// what was posted, since its body is no part of an address.
pub(crate) fn next_page_link(
    uri: &Uri,
    args: &Params,
    beginning: &[u8],
    beside: &[(HeaderName, HeaderValue)],
) -> Option<HeaderValue> {
    let told = beside.iter().find(|(name, _)| *name == CURSOR);
    let key = match told {
        Some((_, key)) => key.as_bytes(),
        None => beginning.strip_prefix(KEY)?.split(|byte| *byte == b'"').next()?,
    };
    if args.is_posted() {
        return None;
    }
    // A key is base58, and everything else stood in the request's own URI.
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
    fn the_next_page_is_the_same_request_from_there_on() {
        let args = Params::default();
        let link = |uri: &'static str, beginning: &[u8]| {
            next_page_link(&Uri::from_static(uri), &args, beginning, &[])
                .map(|link| link.to_str().expect("text").to_owned())
        };
        let page: &[u8] = br#"{"paginationKey":"abc","accounts":["#;
        for (uri, wanted) in [
            ("/v1/x", "</v1/x?cursor=abc>; rel=\"next\""),
            ("/v1/x?limit=5&cursor=old", "</v1/x?limit=5&cursor=abc>; rel=\"next\""),
            ("/v1/x?cursor=old&limit=5", "</v1/x?limit=5&cursor=abc>; rel=\"next\""),
        ] {
            assert_eq!(link(uri, page).as_deref(), Some(wanted));
        }
        assert_eq!(link("/v1/x", br#"{"paginationKey":null,"accounts":["#), None);
        let told = [(CURSOR, HeaderValue::from_static("def"))];
        let uri = Uri::from_static("/v1/x?limit=2");
        let told = next_page_link(&uri, &args, b"[", &told).expect("a link");
        assert_eq!(told, "</v1/x?limit=2&cursor=def>; rel=\"next\"");
    }
}
