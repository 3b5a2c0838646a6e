//! A result for an interface other than JSON-RPC: the value only, with its metadata.
//!
//! In: a value in parts, and its context; as JSON, or raw. Out: the same bytes, or the output of a [`BodyTransform`].
//! It runs where the value is computed: on the CPU pool, or where the socket is polled if the value is short.
//! Bounds: up to [`ResponseOptions::etag_buffer_bytes_max`] bytes are buffered, so that their hash is known
//! before the first of them is sent. A longer value is streamed, and has the validator of [`response_cache`]. A
//! transform bounds its own memory.

use http_server::ContentEncoding;
use hyper::header::{HeaderName, HeaderValue};
use ledger::Slot;
use response_cache::{CachedResponse, META_PREFIX_BYTES, ResultContext, Validator, short_hash};

use crate::envelope::ResponseText;
use crate::error::RpcError;
use crate::method_output::{CompleteValue, RawValue};

/// Options for a result.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseOptions {
    /// Encoding, if the value is long enough.
    pub coding: ContentEncoding,
    /// Encoded bytes that are buffered until their hash is known.
    pub etag_buffer_bytes_max: usize,
    /// Whether the method returns raw bytes, if it has them ([`ResponseMeta::raw_fields`]).
    pub wants_raw: bool,
    /// Transforms the value.
    pub transform: Option<BodyTransformFactory>,
}

/// Makes a transform for one result, with a parameter for it.
#[derive(Clone, Copy, Debug)]
pub struct BodyTransformFactory(pub fn(usize) -> Box<dyn BodyTransform>, pub usize);

/// Transforms a value, which is JSON, into the body of another interface. It must not block; a part has about
/// 100 KB.
pub trait BodyTransform: Send {
    /// Processes a part of the value, or its last part, and appends the bytes that can be sent.
    ///
    /// Errors: only before the last part, or while nothing was appended.
    fn transform_part(
        &mut self,
        part: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), RpcError>;

    /// Headers for the response, after the last part. All output is buffered until then.
    fn extra_headers(&mut self) -> Vec<(HeaderName, HeaderValue)>;
}

/// Metadata of a result, before any of it is sent.
#[derive(Clone, Debug, Default)]
pub struct ResponseMeta {
    /// The slot of its context, if it has one.
    pub slot: Option<Slot>,
    /// The value's first bytes as JSON; the whole value if it is short. Empty for a raw value.
    pub prefix: Vec<u8>,
    /// Hash of the encoded bytes. If they are too many to buffer, a validator of everything that they depend
    /// on: if it is equal, the bytes are. `None` if it is not known.
    pub etag: Option<[u8; 16]>,
    /// The JSON around the bytes of a raw value. `None` for a value as JSON.
    pub raw_fields: Option<Vec<(&'static str, String)>>,
    /// Headers of the transform.
    pub extra_headers: Vec<(HeaderName, HeaderValue)>,
    /// An error in place of the value.
    pub(crate) err: Option<RpcError>,
}

impl ResponseMeta {
    /// Metadata of a cached value, with `slot` as its slot.
    pub(crate) fn from_cached(cached: &CachedResponse, slot: Slot) -> Self {
        Self {
            slot: cached.context_at(slot).map(|context| context.slot()),
            prefix: cached.prefix().to_vec(),
            etag: Some(cached.etag()),
            ..Self::default()
        }
    }
}

/// Writes the value of one response.
pub(crate) struct ValueWriter {
    etag_buffer_bytes_max: usize,
    transform: Option<Box<dyn BodyTransform>>,
    meta: ResponseMeta,
    /// It was refused: there is no more output.
    is_over: bool,
    hasher: blake3::Hasher,
    hashed: usize,
    /// Validator of a value that is too long to be hashed.
    validator: Option<Validator>,
    is_meta_sent: bool,
}

impl ValueWriter {
    pub(crate) fn new(options: ResponseOptions) -> Self {
        Self {
            etag_buffer_bytes_max: options.etag_buffer_bytes_max,
            transform: options.transform.map(|BodyTransformFactory(make, param)| make(param)),
            meta: ResponseMeta::default(),
            is_over: false,
            hasher: blake3::Hasher::new(),
            hashed: 0,
            validator: None,
            is_meta_sent: false,
        }
    }

    /// Writes a complete value, which is not encoded, or the error that replaces it.
    pub(crate) fn write_whole(
        options: ResponseOptions,
        result: Result<CompleteValue, RpcError>,
    ) -> (ResponseText, ResponseMeta) {
        let mut writer = Self::new(options);
        let value = match result {
            Ok(CompleteValue::Raw(RawValue { slot, fields, bytes })) => {
                writer.start_raw(slot, fields);
                Vec::from(bytes).into()
            }
            Ok(CompleteValue::Json(context, value)) => {
                writer.set_context(context);
                match writer.transform {
                    None => {
                        writer.record_prefix(value.as_bytes());
                        value.into_text()
                    }
                    Some(_) => writer.write_part(value.as_bytes().to_vec(), true).into(),
                }
            }
            Err(err) => {
                writer.refuse(err);
                Vec::new().into()
            }
        };
        writer.record_sent(value.as_bytes());
        let meta = writer.take_meta(true).map(|meta| *meta);
        (value, meta.unwrap_or_default())
    }

    /// Sets the context of the value, before its first part.
    pub(crate) fn set_context(&mut self, context: Option<ResultContext>) {
        self.meta.slot = context.map(|context| context.slot());
    }

    /// Sets the JSON around a raw value, before its first part.
    pub(crate) fn start_raw(&mut self, slot: Slot, fields: Vec<(&'static str, String)>) {
        self.meta.slot = Some(slot);
        self.meta.raw_fields = Some(fields);
    }

    /// Replaces the value by an error, before anything of it was sent.
    pub(crate) fn refuse(&mut self, err: RpcError) {
        self.is_over = true;
        self.meta.err = Some(err);
    }

    /// Processes a part of a value; returns the bytes to be encoded and sent.
    pub(crate) fn write_part(&mut self, part: Vec<u8>, is_last: bool) -> Vec<u8> {
        if self.is_over {
            return Vec::new();
        }
        if self.meta.raw_fields.is_some() {
            return part;
        }
        self.record_prefix(&part);
        let Some(transform) = &mut self.transform else { return part };
        let mut out = Vec::new();
        match transform.transform_part(&part, is_last, &mut out) {
            Ok(()) => out,
            Err(err) => {
                self.refuse(err);
                Vec::new()
            }
        }
    }

    fn record_prefix(&mut self, part: &[u8]) {
        let missing = META_PREFIX_BYTES - self.meta.prefix.len();
        self.meta.prefix.extend(part.iter().take(missing));
    }

    /// Hashes encoded bytes that will be sent.
    pub(crate) fn record_sent(&mut self, bytes: &[u8]) {
        self.hashed += bytes.len();
        if self.hashed <= self.etag_buffer_bytes_max {
            self.hasher.update(bytes);
        }
    }

    /// Sets the validator for a value that becomes too long to be hashed.
    pub(crate) fn set_validator(&mut self, validator: Option<Validator>) {
        self.validator = validator;
    }

    /// Whether the output is still buffered.
    pub(crate) fn is_buffering(&self) -> bool {
        !self.is_meta_sent
    }

    /// The metadata, once: when the value is complete, or has become too long to be buffered.
    pub(crate) fn take_meta(&mut self, is_last: bool) -> Option<Box<ResponseMeta>> {
        let is_too_long = self.hashed > self.etag_buffer_bytes_max && self.transform.is_none();
        if self.is_meta_sent || !(is_last || is_too_long) {
            return None;
        }
        self.is_meta_sent = true;
        let mut meta = std::mem::take(&mut self.meta);
        let is_hashed = self.hashed <= self.etag_buffer_bytes_max;
        meta.etag = if is_hashed { Some(short_hash(&self.hasher)) } else { self.validator };
        meta.extra_headers =
            self.transform.as_mut().map(|transform| transform.extra_headers()).unwrap_or_default();
        Some(Box::new(meta))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes a value in parts of `size` bytes; returns the metadata and the value.
    fn write(value: &str, size: usize, etag_buffer_bytes_max: usize) -> (ResponseMeta, String) {
        let options = ResponseOptions { etag_buffer_bytes_max, ..ResponseOptions::default() };
        let mut writer = ValueWriter::new(options);
        let parts: Vec<_> = value.as_bytes().chunks(size).collect();
        let mut meta = None;
        let mut written = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let is_last = at + 1 == parts.len();
            let part = writer.write_part(part.to_vec(), is_last);
            writer.record_sent(&part);
            written.extend(part);
            meta = writer.take_meta(is_last).or(meta);
        }
        (*meta.expect("metadata is sent once"), String::from_utf8(written).expect("text"))
    }

    #[test]
    fn a_value_is_hashed_if_it_is_short_for_any_part_size() {
        let list: String = (0..500).map(|n| format!("{n},")).collect();
        let value = format!("[{list}0]");
        for size in [1, 2, 7, 13, 1_000, 10_000] {
            let (meta, written) = write(&value, size, 10_000);
            assert_eq!(written, value, "{size}");
            let hash = blake3::hash(value.as_bytes());
            assert_eq!(meta.etag.expect("it is short"), hash.as_bytes()[..16]);
            assert_eq!(meta.prefix, value.as_bytes()[..META_PREFIX_BYTES]);
            assert_eq!(write(&value, size, 99).0.etag, None, "too long to be hashed");
        }
    }

    #[test]
    fn a_raw_value_has_fields_and_no_prefix() {
        // It looks like JSON, and is none.
        let raw = |bytes| {
            let fields = vec![("owner", "abc".to_owned())];
            Ok(CompleteValue::Raw(RawValue { slot: 5, fields, bytes: bytes::Bytes::from(bytes) }))
        };
        let options = ResponseOptions { wants_raw: true, ..ResponseOptions::default() };
        let (value, meta) = ValueWriter::write_whole(options, raw("null"));
        assert_eq!((value.as_bytes(), meta.prefix), (&b"null"[..], Vec::new()));
        assert_eq!(
            (meta.slot, meta.raw_fields),
            (Some(5), Some(vec![("owner", "abc".to_owned())]))
        );
    }

    #[test]
    fn an_error_is_reported_as_one() {
        let err = RpcError::new(-32004, "no");
        let (value, meta) = ValueWriter::write_whole(ResponseOptions::default(), Err(err.clone()));
        assert!(value.as_bytes().is_empty());
        assert_eq!(meta.err, Some(err));
    }
}
