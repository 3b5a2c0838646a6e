//! Checks the head of a request before anything else of it is read.
//!
//! In: URI and headers. Out: nothing, or why the request is refused, with its HTTP status.
//! Bounds: `Config::uri_bytes_max` of a URI; `Config::list_header_bytes_max` of each header that is parsed as a
//! list, all its lines together. So parsing them takes microseconds. The head as a whole is bounded where it is
//! parsed (`Config::head_bytes_max`).
//! Not here: checks of hyper before it passes a request on; `docs/operations.md` lists them.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{StatusCode, Uri};

use crate::http_config::HttpConfig;

/// Headers that are parsed as lists.
const LISTS: [HeaderName; 6] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::ACCESS_CONTROL_REQUEST_HEADERS,
    header::CONNECTION,
    header::IF_NONE_MATCH,
    header::UPGRADE,
];

/// Characters of an invalid value that a message repeats.
const QUOTED_CHARS_MAX: usize = 64;

/// Why a request is refused because of its head. The connection is closed after it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeadError {
    /// Fix: send long parameters in the body of a POST.
    #[error("the URI has {bytes} bytes, at most {limit} are allowed (rpc.uri_bytes_max)")]
    UriTooLong { bytes: usize, limit: usize },
    /// Fix: send fewer values.
    #[error("the header {name} has {bytes} bytes, at most {limit} are allowed")]
    HeaderTooLong { name: HeaderName, bytes: usize, limit: usize },
    /// A proxy and the node could interpret such a request differently.
    #[error("{count} Host headers: only one is allowed")]
    Hosts { count: usize },
    /// Fix: send the body without this encoding.
    #[error("Content-Encoding {0}: a body must not be encoded (identity)")]
    ContentEncoding(String),
    /// Fix: send the body without this encoding.
    #[error("Transfer-Encoding {0}: only chunked is supported")]
    TransferEncoding(String),
    /// Fix: send the request to another node.
    #[error("draining: the node ends, and takes no more requests")]
    Draining,
    /// Fix: allow the origin.
    #[error("Origin {0} may not send requests to this node (--allow-origin)")]
    Origin(String),
}

impl HeadError {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::UriTooLong { .. } => StatusCode::URI_TOO_LONG,
            Self::HeaderTooLong { .. } => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Hosts { .. } => StatusCode::BAD_REQUEST,
            Self::ContentEncoding(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TransferEncoding(_) => StatusCode::NOT_IMPLEMENTED,
            Self::Draining => StatusCode::SERVICE_UNAVAILABLE,
            Self::Origin(_) => StatusCode::FORBIDDEN,
        }
    }
}

/// Approximate length of a head.
pub(crate) fn bytes(uri: &Uri, headers: &HeaderMap) -> usize {
    let line_bytes = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    uri_bytes(uri) + headers.iter().map(line_bytes).sum::<usize>()
}

/// Checks a head of `bytes` bytes.
pub(crate) fn check(
    config: &HttpConfig,
    uri: &Uri,
    headers: &HeaderMap,
    bytes: usize,
) -> Result<(), HeadError> {
    // Nearly every head is so short that none of its parts can be too long.
    if bytes > config.uri_bytes_max.min(config.list_header_bytes_max) {
        check_sizes(config, uri, headers)?;
    }
    let count = headers.get_all(header::HOST).iter().count();
    if count > 1 {
        return Err(HeadError::Hosts { count });
    }
    if let Some(coding) = other_than(headers, &header::TRANSFER_ENCODING, "chunked") {
        return Err(HeadError::TransferEncoding(coding));
    }
    if let Some(coding) = other_than(headers, &header::CONTENT_ENCODING, "identity") {
        return Err(HeadError::ContentEncoding(coding));
    }
    config.allowed_origins.check(headers).map_err(|origin| HeadError::Origin(quoted(origin)))
}

fn check_sizes(config: &HttpConfig, uri: &Uri, headers: &HeaderMap) -> Result<(), HeadError> {
    let bytes = uri_bytes(uri);
    let limit = config.uri_bytes_max;
    if bytes > limit {
        return Err(HeadError::UriTooLong { bytes, limit });
    }
    let limit = config.list_header_bytes_max;
    for name in LISTS {
        let bytes = headers.get_all(&name).iter().map(HeaderValue::len).sum();
        if bytes > limit {
            return Err(HeadError::HeaderTooLong { name, bytes, limit });
        }
    }
    Ok(())
}

fn uri_bytes(uri: &Uri) -> usize {
    let authority = uri.authority().map_or(0, |authority| authority.as_str().len());
    authority + uri.path_and_query().map_or(0, |path| path.as_str().len())
}

/// The first value of a header that is not `known`.
fn other_than(headers: &HeaderMap, name: &HeaderName, known: &str) -> Option<String> {
    let is_known = |value: &&HeaderValue| value.as_bytes().eq_ignore_ascii_case(known.as_bytes());
    headers.get_all(name).iter().find(|value| !is_known(value)).map(quoted)
}

/// A value as a message quotes it.
fn quoted(value: &HeaderValue) -> String {
    let text = String::from_utf8_lossy(value.as_bytes());
    let beginning: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    let rest = if beginning.len() < text.len() { "…" } else { "" };
    format!("{beginning:?}{rest}")
}
