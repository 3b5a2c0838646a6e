//! Names of headers of this interface, and values that many responses share. Those with the slot of a response are in
//! [`jsonrpc::slot_headers`].

use hyper::header::{HeaderName, HeaderValue};

pub(crate) use jsonrpc::slot_headers::{COMMITMENT, SLOT, commitment_name, slot_value};

/// The newest verified slot when the response was sent.
pub(crate) const VERIFIED_SLOT: HeaderName = HeaderName::from_static("hydrant-verified-slot");
/// The level of that slot's verification.
pub(crate) const VERIFIED_LEVEL: HeaderName = HeaderName::from_static("hydrant-verified-level");

/// The internal header with the cursor of the next page, which a body transform may add. It is replaced by a `Link`
/// before the response is sent.
pub const CURSOR: HeaderName = HeaderName::from_static("hydrant-cursor");

pub(crate) const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");
pub(crate) const IMMUTABLE: HeaderValue =
    HeaderValue::from_static("public, max-age=31536000, immutable");
pub(crate) const VARY: HeaderValue = HeaderValue::from_static("accept, accept-encoding");
/// The media type of JSON.
pub const JSON_MEDIA: &str = "application/json";
pub(crate) const JSON: HeaderValue = HeaderValue::from_static(JSON_MEDIA);
