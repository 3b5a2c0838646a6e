//! A response that is computed once, in every coding: the OpenAPI document, the explorer page, the files of a web page.

use bytes::Bytes;
use http_server::{ContentEncoding, ResponseBody};
use hyper::Response;
use hyper::header::{self, HeaderMap, HeaderValue};

use crate::etag::{hash_etag, matches_if_none_match};
use crate::headers::{IMMUTABLE, REVALIDATE, VARY};
use crate::response::{not_modified, with_content_type};

/// A response that is computed once, with an `ETag` for each of its codings.
#[derive(Debug)]
pub struct StaticResponse {
    media: &'static str,
    cache_control: HeaderValue,
    plain: Representation,
    compressed: Vec<Representation>,
}

#[derive(Debug)]
struct Representation {
    coding: ContentEncoding,
    body: Bytes,
    etag: HeaderValue,
}

impl Representation {
    fn new(coding: ContentEncoding, body: Bytes) -> Self {
        let etag = hash_etag(&body);
        Self { coding, body, etag }
    }
}

impl StaticResponse {
    /// A response in every coding. Compressing takes about a millisecond for 100 KB.
    pub fn new(media: &'static str, body: &[u8]) -> Self {
        let codings = [ContentEncoding::Gzip, ContentEncoding::Zstd].into_iter();
        let compressed = codings.filter_map(|coding| {
            let body = http_server::encode_all(coding, body).ok()?;
            Some(Representation::new(coding, body.into()))
        });
        let compressed = compressed.collect();
        Self { compressed, ..Self::plain(media, body.to_vec()) }
    }

    /// A response that is not compressed: some microseconds for a few kilobytes.
    pub fn plain(media: &'static str, body: Vec<u8>) -> Self {
        let plain = Representation::new(ContentEncoding::Plain, body.into());
        Self { media, cache_control: REVALIDATE, plain, compressed: Vec::new() }
    }

    /// Returns the response of a path that never changes: clients do not revalidate it.
    #[must_use]
    pub fn immutable(self) -> Self {
        Self { cache_control: IMMUTABLE, ..self }
    }

    /// The response to a request with these headers: 304 if the client has it.
    pub fn respond(&self, headers: &HeaderMap) -> Response<ResponseBody> {
        let preferred = ContentEncoding::negotiate(headers);
        let found = self.compressed.iter().find(|it| it.coding == preferred);
        let Representation { coding, body, etag } = found.unwrap_or(&self.plain);
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
        headers.insert(header::CACHE_CONTROL, self.cache_control.clone());
        headers.insert(header::VARY, VARY);
        response
    }
}
