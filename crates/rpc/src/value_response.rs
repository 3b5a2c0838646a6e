//! A result for an interface other than JSON-RPC: the value only, with its metadata.
//!
//! In: a response to the id `null`, in parts. Out: the value in it, without envelope and context, or the output
//! of a [`BodyTransform`]. It runs where the response is computed: on the CPU pool, or where the socket is
//! polled if the response is short.
//! Bounds: up to [`ResponseOptions::etag_buffer_bytes_max`] bytes are buffered, so that their hash is known
//! before the first of them is sent. A longer value is streamed, and has the validator of [`crate::etag`]. A
//! transform bounds its own memory.

use hyper::header::{HeaderName, HeaderValue};
use ledger::Slot;
use serde::Deserialize;
use serde_json::Value;

use crate::content_encoding::ContentEncoding;
use crate::error::RpcError;
use crate::etag::Validator;
use crate::methods::PREFIX;

/// End of a response to the id `null`.
const TAIL: &[u8] = b",\"id\":null}\n";

/// Start of a result that has a context.
const CONTEXT: &[u8] = br#"{"context":"#;

/// Text between a context and its value.
const VALUE: &[u8] = br#","value":"#;

/// Bytes of a value that are in its metadata: its first members.
pub(crate) const META_PREFIX_BYTES: usize = 512;

/// Options for a result.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseOptions {
    /// Encoding, if the value is long enough.
    pub coding: ContentEncoding,
    /// Encoded bytes that are buffered until their hash is known.
    pub etag_buffer_bytes_max: usize,
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
#[derive(Debug, Default)]
pub struct ResponseMeta {
    /// The slot of its context, if it has one.
    pub slot: Option<Slot>,
    /// The value's first bytes as JSON; the whole value if it is short.
    pub prefix: Vec<u8>,
    /// Hash of the encoded bytes. If they are too many to buffer, a validator of everything that they depend
    /// on: if it is equal, the bytes are. `None` if it is not known.
    pub etag: Option<[u8; 16]>,
    /// Headers of the transform.
    pub extra_headers: Vec<(HeaderName, HeaderValue)>,
    /// There is no value, but this error.
    pub(crate) err: Option<RpcError>,
}

/// Extracts the value of one response.
pub(crate) struct ValueWriter {
    etag_buffer_bytes_max: usize,
    transform: Option<Box<dyn BodyTransform>>,
    meta: ResponseMeta,
    /// Whether the start of the response was parsed.
    has_started: bool,
    /// The last bytes so far. They are not part of the value if the response ends with them.
    tail: Vec<u8>,
    /// Length of what follows the value, which `tail` holds back.
    cut: usize,
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
            has_started: false,
            tail: Vec::new(),
            cut: TAIL.len(),
            is_over: false,
            hasher: blake3::Hasher::new(),
            hashed: 0,
            validator: None,
            is_meta_sent: false,
        }
    }

    /// Extracts the value of a complete response, which is not encoded.
    pub(crate) fn extract_whole(
        options: ResponseOptions,
        response: Vec<u8>,
    ) -> (Vec<u8>, ResponseMeta) {
        let mut value_writer = Self::new(options);
        let value = value_writer.extract_value(response, true);
        value_writer.record_sent(&value);
        let meta = value_writer.take_meta(true).map(|meta| *meta);
        (value, meta.unwrap_or_default())
    }

    /// Processes a part of a response; returns the bytes to be encoded and sent.
    pub(crate) fn extract_value(&mut self, mut part: Vec<u8>, is_last: bool) -> Vec<u8> {
        if self.is_over {
            return Vec::new();
        }
        if !self.has_started {
            self.has_started = true;
            match self.parse_envelope(&part) {
                Ok(bytes) => drop(part.drain(..bytes)),
                Err(err) => return self.refuse(err),
            }
        }
        if !self.tail.is_empty() {
            part.splice(..0, self.tail.drain(..));
        }
        self.tail = part.split_off(part.len().saturating_sub(self.cut));
        if is_last {
            self.tail.clear();
        }
        let missing = META_PREFIX_BYTES - self.meta.prefix.len();
        self.meta.prefix.extend(part.iter().take(missing));
        let Some(transform) = &mut self.transform else { return part };
        let mut out = Vec::new();
        match transform.transform_part(&part, is_last, &mut out) {
            Ok(()) => out,
            Err(err) => self.refuse(err),
        }
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

    /// Parses what precedes the value; returns its length.
    fn parse_envelope(&mut self, response: &[u8]) -> Result<usize, RpcError> {
        let Some(result) = response.strip_prefix(PREFIX) else { return Err(refusal(response)) };
        let (slot, context_len) = parse_context(result);
        self.meta.slot = slot;
        if slot.is_some() {
            self.cut += 1; // the closing brace after the value
        }
        Ok(PREFIX.len() + context_len)
    }

    fn refuse(&mut self, err: RpcError) -> Vec<u8> {
        self.is_over = true;
        self.meta.err = Some(err);
        Vec::new()
    }
}

/// The first half of a hash: 128 bits, at which no two values collide by chance.
pub(crate) fn short_hash(hasher: &blake3::Hasher) -> [u8; 16] {
    let mut half = [0; 16];
    hasher.finalize_xof().fill(&mut half);
    half
}

/// The slot in `{"context":…,"value":`, and the length of that text; `None` and 0 if the result starts
/// otherwise.
pub(crate) fn parse_context(result: &[u8]) -> (Option<Slot>, usize) {
    #[derive(Deserialize)]
    struct Context {
        slot: Slot,
    }
    let parse = || {
        let rest = result.strip_prefix(CONTEXT)?;
        let mut contexts = serde_json::Deserializer::from_slice(rest).into_iter::<Context>();
        let slot = contexts.next()?.ok()?.slot;
        let at = contexts.byte_offset();
        rest.get(at..)?.starts_with(VALUE).then_some((slot, CONTEXT.len() + at + VALUE.len()))
    };
    parse().map_or((None, 0), |(slot, bytes)| (Some(slot), bytes))
}

/// The error of a response.
fn refusal(response: &[u8]) -> RpcError {
    #[derive(Deserialize)]
    struct Refusal {
        error: Parts,
    }
    #[derive(Deserialize)]
    struct Parts {
        code: i64,
        message: String,
        data: Option<Value>,
    }
    match serde_json::from_slice(response) {
        Ok(Refusal { error: Parts { code, message, data } }) => RpcError { code, message, data },
        Err(_) => RpcError::internal(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes a response in parts of `size` bytes after its start; returns the metadata and the value.
    fn extract(
        response: &str,
        size: usize,
        etag_buffer_bytes_max: usize,
    ) -> (ResponseMeta, String) {
        let mut value_writer = ValueWriter::new(ResponseOptions {
            etag_buffer_bytes_max,
            ..ResponseOptions::default()
        });
        let (first, rest) = response.as_bytes().split_at(response.len().min(100));
        let mut parts = vec![first];
        parts.extend(rest.chunks(size));
        let (mut meta, mut value) = (None, Vec::new());
        for (at, part) in parts.iter().enumerate() {
            let is_last = at + 1 == parts.len();
            let extracted = value_writer.extract_value(part.to_vec(), is_last);
            value_writer.record_sent(&extracted);
            value.extend(extracted);
            meta = value_writer.take_meta(is_last).or(meta);
        }
        (*meta.expect("metadata is sent once"), String::from_utf8(value).expect("text"))
    }

    #[test]
    fn envelope_and_context_are_removed_for_any_part_size() {
        let list: String = (0..500).map(|n| format!("{n},")).collect();
        let value = format!("[{list}0]");
        for context in [None, Some(123)] {
            let result = match context {
                None => value.clone(),
                Some(slot) => {
                    format!(r#"{{"context":{{"slot":{slot},"a":"b"}},"value":{value}}}"#)
                }
            };
            let response = format!("{{\"jsonrpc\":\"2.0\",\"result\":{result},\"id\":null}}\n");
            for size in [1, 2, 7, 13, 1_000] {
                let (meta, extracted) = extract(&response, size, 10_000);
                assert_eq!((meta.slot, extracted.as_str()), (context, value.as_str()), "{size}");
                let hash = blake3::hash(value.as_bytes());
                assert_eq!(meta.etag.expect("it is short"), hash.as_bytes()[..16]);
                assert_eq!(meta.prefix, value.as_bytes()[..META_PREFIX_BYTES]);
                assert_eq!(extract(&response, size, 99).0.etag, None, "too long to be hashed");
            }
        }
    }

    #[test]
    fn an_error_is_reported_as_one() {
        let response = r#"{"jsonrpc":"2.0","error":{"code":-32004,"message":"no"},"id":null}"#;
        let (value, meta) =
            ValueWriter::extract_whole(ResponseOptions::default(), response.as_bytes().to_vec());
        assert!(value.is_empty());
        assert_eq!(meta.err, Some(RpcError::new(-32004, "no")));
    }
}
