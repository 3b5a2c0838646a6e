//! The head of a request, checked before anything of the request is read any further.
//!
//! In: URI and headers. Out: nothing, or why the request is refused, with its HTTP status.
//! Bounds: `Config::uri_bytes_max` of a URI; `Config::list_header_bytes_max` of each header that is read as a list,
//! all its lines together. So reading them takes microseconds. The head as a whole is bounded where it is parsed
//! (`Config::head_bytes_max`).
//! Not here: what hyper decides by itself before it hands a request over; `docs/operations.md` lists it.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{StatusCode, Uri};

use crate::Config;

/// Headers that are read as lists.
const LISTS: [HeaderName; 6] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::ACCESS_CONTROL_REQUEST_HEADERS,
    header::CONNECTION,
    header::IF_NONE_MATCH,
    header::UPGRADE,
];

/// What of a wrong value a message repeats.
const QUOTED_CHARS_MAX: usize = 64;

/// Why a request is refused by its head. After it the connection is closed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeadError {
    /// Fix: send what is long in the body of a POST.
    #[error("the URI has {bytes} bytes, at most {limit} may it have (rpc.uri_bytes_max)")]
    UriTooLong { bytes: usize, limit: usize },
    /// Fix: send fewer values.
    #[error(
        "the header {name} has {bytes} bytes, at most {limit} may it have \
         (rpc.list_header_bytes_max)"
    )]
    HeaderTooLong { name: HeaderName, bytes: usize, limit: usize },
    /// Two programs could understand such a request differently.
    #[error("{count} Host headers: one may be sent")]
    Hosts { count: usize },
    /// Fix: send the body as it is.
    #[error("Content-Encoding {0}: a body is read as it is (identity)")]
    ContentEncoding(String),
    /// Fix: send the body as it is.
    #[error("Transfer-Encoding {0}: chunked is the only one that is read")]
    TransferEncoding(String),
    /// Fix: allow the origin.
    #[error("Origin {0} may not ask this node (--allow-origin)")]
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
            Self::Origin(_) => StatusCode::FORBIDDEN,
        }
    }
}

/// How many bytes a head has, about.
pub(crate) fn bytes(uri: &Uri, headers: &HeaderMap) -> usize {
    let of_line = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    uri_bytes(uri) + headers.iter().map(of_line).sum::<usize>()
}

/// Checks a head of `bytes` bytes.
pub(crate) fn check(
    config: &Config,
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

fn check_sizes(config: &Config, uri: &Uri, headers: &HeaderMap) -> Result<(), HeadError> {
    let (bytes, limit) = (uri_bytes(uri), config.uri_bytes_max);
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

/// The first value of a header that is not the one that is known.
fn other_than(headers: &HeaderMap, name: &HeaderName, known: &str) -> Option<String> {
    let is_known = |value: &&HeaderValue| value.as_bytes().eq_ignore_ascii_case(known.as_bytes());
    headers.get_all(name).iter().find(|value| !is_known(value)).map(quoted)
}

/// A value for a message.
fn quoted(value: &HeaderValue) -> String {
    let text = String::from_utf8_lossy(value.as_bytes());
    let begin: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    let rest = if begin.len() < text.len() { "…" } else { "" };
    format!("{begin:?}{rest}")
}
