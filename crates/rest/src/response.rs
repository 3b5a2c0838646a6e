//! A response with its headers: slot and commitment, `ETag`, 304.
//!
//! Not here: the response of a route of one method (`value`), the comparison of `ETag`s (`etag`).

use bytes::Bytes;
use http_server::ResponseBody;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use jsonrpc::Api;
use ledger::{Commitment, Slot};

use crate::etag::{hash_etag, matches_if_none_match};
use crate::headers::{
    COMMITMENT, IMMUTABLE, JSON, REVALIDATE, SLOT, VARY, commitment_name, slot_value,
};
use crate::params::Params;
use crate::request_context::RequestContext;
use crate::route::{ResponseKind, Route, ValueResponse};

/// The slot and commitment at which a response is true.
#[derive(Clone, Copy, Debug)]
pub struct ResponseContext {
    /// Slot of the state that was read.
    pub slot: Slot,
    /// Commitment level of the state that was read.
    pub commitment: Commitment,
    /// Whether the response will never change.
    pub is_immutable: bool,
}

impl ResponseContext {
    /// The context of a value of the state at this slot.
    pub(crate) fn for_state(slot: Slot, commitment: Commitment) -> Self {
        Self { slot, commitment, is_immutable: false }
    }

    /// The context of a value that belongs to a slot. At and below the root, only the final chain has blocks.
    pub(crate) fn for_object(
        slot: Slot,
        commitment: Commitment,
        find_root: impl FnOnce() -> Slot,
    ) -> Self {
        let is_immutable = commitment == Commitment::Finalized || slot <= find_root();
        let commitment = if is_immutable { Commitment::Finalized } else { commitment };
        Self { slot, commitment, is_immutable }
    }
}

/// The commitment of a request: the parameter `commitment`. Default: finalized.
pub(crate) fn requested_commitment(params: &Params) -> Commitment {
    match params.text("commitment") {
        Some("processed") => Commitment::Processed,
        Some("confirmed") => Commitment::Confirmed,
        _ => Commitment::Finalized,
    }
}

/// The commitment of the state that a route reads for a request.
pub(crate) fn route_commitment(route: &Route, params: &Params) -> Commitment {
    match &route.response {
        ResponseKind::Custom(custom) => custom.commitment,
        ResponseKind::Value(ValueResponse { commitment: Some(commitment), .. }) => *commitment,
        ResponseKind::Value(_) | ResponseKind::Composite => requested_commitment(params),
        // Its response is of no state.
        ResponseKind::Accepted(_) => Commitment::Processed,
    }
}

/// Returns a response with a complete and short body in JSON, uncompressed, or 304 if the client has it.
pub fn json_response<A: Api>(
    context: &RequestContext<'_, A>,
    body: Vec<u8>,
    response_context: ResponseContext,
) -> Response<ResponseBody> {
    short_response(context, body, JSON, response_context)
}

/// Returns a response with a complete and short body, uncompressed, or 304 if the client has it.
pub fn short_response<A: Api>(
    context: &RequestContext<'_, A>,
    body: Vec<u8>,
    media: HeaderValue,
    response_context: ResponseContext,
) -> Response<ResponseBody> {
    let etag = hash_etag(&body);
    let mut response = with_etag(context, Bytes::from(body).into(), media, Some(etag));
    write_context_headers(response.headers_mut(), response_context);
    response
}

/// A response, or 304 if the client has it.
pub(crate) fn with_etag<A: Api>(
    context: &RequestContext<'_, A>,
    body: ResponseBody,
    media: HeaderValue,
    etag: Option<HeaderValue>,
) -> Response<ResponseBody> {
    let is_match = context.is_read
        && etag.as_ref().is_some_and(|etag| matches_if_none_match(context.headers, etag));
    let mut response = if is_match { not_modified() } else { with_content_type(body, media) };
    if let Some(etag) = etag {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

pub(crate) fn with_content_type(body: ResponseBody, media: HeaderValue) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

pub(crate) fn not_modified() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::default());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

pub(crate) fn write_context_headers(headers: &mut HeaderMap, context: ResponseContext) {
    headers.insert(SLOT, slot_value(context.slot));
    headers.insert(COMMITMENT, HeaderValue::from_static(commitment_name(context.commitment)));
    let cache = if context.is_immutable { IMMUTABLE } else { REVALIDATE };
    headers.insert(header::CACHE_CONTROL, cache);
    headers.insert(header::VARY, VARY);
}
