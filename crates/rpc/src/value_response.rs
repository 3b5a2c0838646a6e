//! A result for a door other than JSON-RPC: the value alone, and what is told beside it.
//!
//! In: a reply to the id `null`, in parts, as its maker writes them. Out: the value in it, without envelope
//! and context, or what a [`BodyTransform`] makes of it. It runs where the reply is made: on the CPU pool, but
//! for what is answered where the socket is polled, which is short.
//! Bounds: [`ResponseOptions::etag_buffer_bytes_max`] are held back so that their hash is known before the first of them
//! goes; what is longer is streamed, and named by its [`crate::stamp`]. What a shaper holds, it bounds itself.

use hyper::header::{HeaderName, HeaderValue};
use ledger::Slot;
use serde::Deserialize;
use serde_json::Value;

use crate::content_encoding::ContentEncoding;
use crate::error::RpcError;
use crate::etag::Validator;
use crate::methods::PREFIX;

/// What ends a reply to the id `null`.
const TAIL: &[u8] = b",\"id\":null}\n";

/// What precedes the context of a result that has one.
const CONTEXT: &[u8] = br#"{"context":"#;

/// What stands between a context and its value.
const VALUE: &[u8] = br#","value":"#;

/// So much of a value is told before it is sent: its first members.
pub(crate) const META_PREFIX_BYTES: usize = 512;

/// How a result is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseOptions {
    /// What it is compressed with, if it is long enough.
    pub coding: ContentEncoding,
    /// So many bytes, as they are sent, are held back until their hash is known.
    pub etag_buffer_bytes_max: usize,
    /// Makes something else of the value.
    pub transform: Option<BodyTransformFactory>,
}

/// Makes a shaper for one result; the number is what it is to know.
#[derive(Clone, Copy, Debug)]
pub struct BodyTransformFactory(pub fn(usize) -> Box<dyn BodyTransform>, pub usize);

/// Makes of a value, which is JSON, what a door sends instead. It must not block; a part is some 100 KB.
pub trait BodyTransform: Send {
    /// Takes a part of the value, or its last part, and appends what can be sent.
    ///
    /// Errors: only as long as nothing was appended, or before the last part.
    fn transform_part(
        &mut self,
        part: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), RpcError>;

    /// What is to be told beside it, after the last part. What is made before it is held until then.
    fn extra_headers(&mut self) -> Vec<(HeaderName, HeaderValue)>;
}

/// What is known of a result before any of it is sent.
#[derive(Debug, Default)]
pub struct ResponseMeta {
    /// The slot of its context, if it has one.
    pub slot: Option<Slot>,
    /// The value's first bytes as JSON; all of it if it is short.
    pub prefix: Vec<u8>,
    /// Of the bytes that are sent, or, if they are too many to wait for, of all that they are made of:
    /// of equal ones the bytes are the same. None if that is not known.
    pub etag: Option<[u8; 16]>,
    /// What a shaper said.
    pub extra_headers: Vec<(HeaderName, HeaderValue)>,
    /// There is no value.
    pub(crate) err: Option<RpcError>,
}

/// Makes the bare value of one reply.
pub(crate) struct ValueWriter {
    etag_buffer_bytes_max: usize,
    transform: Option<Box<dyn BodyTransform>>,
    meta: ResponseMeta,
    /// Whether the beginning of the reply was seen.
    has_started: bool,
    /// The last bytes so far, which are not of the value if they are the last of all.
    tail: Vec<u8>,
    /// How many those are.
    cut: usize,
    /// Nothing more comes of it: it was refused.
    is_over: bool,
    hasher: blake3::Hasher,
    hashed: usize,
    /// What stands for the hash of what is too long.
    validator: Option<Validator>,
    is_meta_sent: bool,
}

impl ValueWriter {
    pub(crate) fn new(want: ResponseOptions) -> Self {
        Self {
            etag_buffer_bytes_max: want.etag_buffer_bytes_max,
            transform: want.transform.map(|BodyTransformFactory(make, with)| make(with)),
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

    /// Makes all of a reply that is there; its bytes are not coded.
    pub(crate) fn extract_whole(want: ResponseOptions, reply: Vec<u8>) -> (Vec<u8>, ResponseMeta) {
        let mut bare = Self::new(want);
        let value = bare.extract_value(reply, true);
        bare.record_sent(&value);
        let told = bare.take_meta(true).map(|told| *told);
        (value, told.unwrap_or_default())
    }

    /// Takes a part of a reply; gives what is to be sent of it, before it is coded.
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
        let Some(shaper) = &mut self.transform else { return part };
        let mut out = Vec::new();
        match shaper.transform_part(&part, is_last, &mut out) {
            Ok(()) => out,
            Err(err) => self.refuse(err),
        }
    }

    /// Counts bytes that are going to be sent, as they are coded.
    pub(crate) fn record_sent(&mut self, bytes: &[u8]) {
        self.hashed += bytes.len();
        if self.hashed <= self.etag_buffer_bytes_max {
            self.hasher.update(bytes);
        }
    }

    /// What is told of the value if it becomes too long to be hashed.
    pub(crate) fn set_validator(&mut self, stamp: Option<Validator>) {
        self.validator = stamp;
    }

    /// Whether what was made is held back.
    pub(crate) fn is_buffering(&self) -> bool {
        !self.is_meta_sent
    }

    /// What is told before the first bytes, once: when all of it is made, or it has become too long.
    pub(crate) fn take_meta(&mut self, is_last: bool) -> Option<Box<ResponseMeta>> {
        let is_too_long = self.hashed > self.etag_buffer_bytes_max && self.transform.is_none();
        if self.is_meta_sent || !(is_last || is_too_long) {
            return None;
        }
        self.is_meta_sent = true;
        let mut told = std::mem::take(&mut self.meta);
        let is_hashed = self.hashed <= self.etag_buffer_bytes_max;
        told.etag = if is_hashed { Some(short_hash(&self.hasher)) } else { self.validator };
        told.extra_headers =
            self.transform.as_mut().map(|shaper| shaper.extra_headers()).unwrap_or_default();
        Some(Box::new(told))
    }

    /// Reads what precedes the value; how many bytes that is.
    fn parse_envelope(&mut self, reply: &[u8]) -> Result<usize, RpcError> {
        let Some(result) = reply.strip_prefix(PREFIX) else { return Err(refusal(reply)) };
        let (slot, context_len) = parse_context(result);
        self.meta.slot = slot;
        if slot.is_some() {
            self.cut += 1; // the brace around context and value
        }
        Ok(PREFIX.len() + context_len)
    }

    fn refuse(&mut self, err: RpcError) -> Vec<u8> {
        self.is_over = true;
        self.meta.err = Some(err);
        Vec::new()
    }
}

/// Half of a hash: as many bits as nobody finds two of by chance.
pub(crate) fn short_hash(hasher: &blake3::Hasher) -> [u8; 16] {
    let mut half = [0; 16];
    hasher.finalize_xof().fill(&mut half);
    half
}

/// The slot in `{"context":…,"value":`, and how many bytes that is; none if a result begins otherwise.
pub(crate) fn parse_context(result: &[u8]) -> (Option<Slot>, usize) {
    #[derive(Deserialize)]
    struct Context {
        slot: Slot,
    }
    let read = || {
        let rest = result.strip_prefix(CONTEXT)?;
        let mut contexts = serde_json::Deserializer::from_slice(rest).into_iter::<Context>();
        let slot = contexts.next()?.ok()?.slot;
        let at = contexts.byte_offset();
        rest.get(at..)?.starts_with(VALUE).then_some((slot, CONTEXT.len() + at + VALUE.len()))
    };
    read().map_or((None, 0), |(slot, bytes)| (Some(slot), bytes))
}

/// The error in a reply.
fn refusal(reply: &[u8]) -> RpcError {
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
    match serde_json::from_slice(reply) {
        Ok(Refusal { error: Parts { code, message, data } }) => RpcError { code, message, data },
        Err(_) => RpcError::internal(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a reply in parts of `size` once its beginning is whole; what is told, and the value.
    fn extract(reply: &str, size: usize, hold_bytes_max: usize) -> (ResponseMeta, String) {
        let mut bare = ValueWriter::new(ResponseOptions {
            etag_buffer_bytes_max: hold_bytes_max,
            ..ResponseOptions::default()
        });
        let (first, rest) = reply.as_bytes().split_at(reply.len().min(100));
        let mut parts = vec![first];
        parts.extend(rest.chunks(size));
        let (mut told, mut value) = (None, Vec::new());
        for (at, part) in parts.iter().enumerate() {
            let is_last = at + 1 == parts.len();
            let made = bare.extract_value(part.to_vec(), is_last);
            bare.record_sent(&made);
            value.extend(made);
            told = bare.take_meta(is_last).or(told);
        }
        (*told.expect("it is told once"), String::from_utf8(value).expect("text"))
    }

    #[test]
    fn envelope_and_context_are_taken_away_however_it_is_cut() {
        let list: String = (0..500).map(|n| format!("{n},")).collect();
        let value = format!("[{list}0]");
        for context in [None, Some(123)] {
            let result = match context {
                None => value.clone(),
                Some(slot) => {
                    format!(r#"{{"context":{{"slot":{slot},"a":"b"}},"value":{value}}}"#)
                }
            };
            let reply = format!("{{\"jsonrpc\":\"2.0\",\"result\":{result},\"id\":null}}\n");
            for size in [1, 2, 7, 13, 1_000] {
                let (told, made) = extract(&reply, size, 10_000);
                assert_eq!((told.slot, made.as_str()), (context, value.as_str()), "{size}");
                let hash = blake3::hash(value.as_bytes());
                assert_eq!(told.etag.expect("it is short"), hash.as_bytes()[..16]);
                assert_eq!(told.prefix, value.as_bytes()[..META_PREFIX_BYTES]);
                assert_eq!(extract(&reply, size, 99).0.etag, None, "it is too long");
            }
        }
    }

    #[test]
    fn an_error_is_reported_as_one() {
        let reply = r#"{"jsonrpc":"2.0","error":{"code":-32004,"message":"no"},"id":null}"#;
        let (made, told) =
            ValueWriter::extract_whole(ResponseOptions::default(), reply.as_bytes().to_vec());
        assert!(made.is_empty());
        assert_eq!(told.err, Some(RpcError::new(-32004, "no")));
    }
}
