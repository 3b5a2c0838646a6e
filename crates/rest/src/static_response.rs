//! A response that is computed once, in every coding: the OpenAPI document, the explorer page.

use bytes::Bytes;
use http_server::{ContentEncoding, ResponseBody};
use hyper::Response;
use hyper::header::{self, HeaderMap, HeaderValue};
use jsonrpc::error::RpcError;

use crate::error::ApiError;
use crate::etag::{etag_of_bytes, matches_if_none_match};
use crate::headers::{REVALIDATE, VARY};
use crate::response::{not_modified, with_content_type};

/// A response that is computed once, in every coding.
#[derive(Debug)]
pub(crate) struct StaticResponse {
    media: &'static str,
    representations: Vec<(ContentEncoding, Bytes, HeaderValue)>,
}

impl StaticResponse {
    pub(crate) fn new(media: &'static str, body: &[u8]) -> Self {
        let codings =
            [ContentEncoding::Plain, ContentEncoding::Gzip, ContentEncoding::Zstd].into_iter();
        let representations = codings.filter_map(|coding| {
            let bytes = http_server::encode_all(coding, body).ok()?;
            let etag = etag_of_bytes(&bytes);
            Some((coding, bytes.into(), etag))
        });
        Self { media, representations: representations.collect() }
    }

    /// The response to a request with these headers.
    pub(crate) fn respond(&self, headers: &HeaderMap) -> Result<Response<ResponseBody>, ApiError> {
        let preferred = ContentEncoding::negotiate(headers);
        let found = self.representations.iter().find(|(coding, ..)| *coding == preferred);
        let (coding, body, etag) =
            found.or_else(|| self.representations.first()).ok_or_else(RpcError::internal)?;
        let mut response = if matches_if_none_match(headers, etag) {
            not_modified()
        } else {
            let mut response =
                with_content_type(body.clone().into(), HeaderValue::from_static(self.media));
            if let Some(coding) = coding.header() {
                response.headers_mut().insert(header::CONTENT_ENCODING, coding);
            }
            response
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, etag.clone());
        headers.insert(header::CACHE_CONTROL, REVALIDATE);
        headers.insert(header::VARY, VARY);
        Ok(response)
    }
}
