//! Names of headers of this interface, and values that many responses share.

use hyper::header::{HeaderName, HeaderValue};
use ledger::{Commitment, Slot};

/// The slot at which a response is true.
pub(crate) const SLOT: HeaderName = HeaderName::from_static("hydrant-slot");
/// The commitment level of that slot.
pub(crate) const COMMITMENT: HeaderName = HeaderName::from_static("hydrant-commitment");
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

/// The value of a header with a slot. `HeaderValue::from` allocates twice, this once.
pub(crate) fn slot_value(slot: Slot) -> HeaderValue {
    HeaderValue::from_str(itoa::Buffer::new().format(slot))
        .unwrap_or_else(|_| unreachable!("decimal digits"))
}

/// The name of a commitment in the API.
pub(crate) fn commitment_name(commitment: Commitment) -> &'static str {
    match commitment {
        Commitment::Processed => "processed",
        Commitment::Confirmed => "confirmed",
        Commitment::Finalized => "finalized",
    }
}
