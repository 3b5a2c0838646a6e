//! A result for a door other than JSON-RPC: the value alone, and what is told beside it.
//!
//! In: a reply to the id `null`, in parts, as its maker writes them. Out: the value in it, without envelope
//! and context, or what a [`Shaper`] makes of it. It runs where the reply is made: on the CPU pool, but
//! for what is answered where the socket is polled, which is short.
//! Bounds: [`Want::hold_bytes_max`] are held back so that their hash is known before the first of them
//! goes; what is longer is streamed, and named by its [`crate::stamp`]. What a shaper holds, it bounds itself.

use hyper::header::{HeaderName, HeaderValue};
use ledger::Slot;
use serde::Deserialize;
use serde_json::Value;

use crate::compress::Coding;
use crate::error::RpcError;
use crate::methods::PREFIX;
use crate::stamp::Stamp;

/// What ends a reply to the id `null`.
const TAIL: &[u8] = b",\"id\":null}\n";

/// What precedes the context of a result that has one.
const CONTEXT: &[u8] = br#"{"context":"#;

/// What stands between a context and its value.
const VALUE: &[u8] = br#","value":"#;

/// So much of a value is told before it is sent: its first members.
pub(crate) const BEGINNING_BYTES: usize = 512;

/// How a result is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Want {
    /// What it is compressed with, if it is long enough.
    pub coding: Coding,
    /// So many bytes, as they are sent, are held back until their hash is known.
    pub hold_bytes_max: usize,
    /// Makes something else of the value.
    pub shaper: Option<MakeShaper>,
}

/// Makes a shaper for one result; the number is what it is to know.
#[derive(Clone, Copy, Debug)]
pub struct MakeShaper(pub fn(usize) -> Box<dyn Shaper>, pub usize);

/// Makes of a value, which is JSON, what a door sends instead. It must not block; a part is some 100 KB.
pub trait Shaper: Send {
    /// Takes a part of the value, or its last part, and appends what can be sent.
    ///
    /// Errors: only as long as nothing was appended, or before the last part.
    fn take(&mut self, part: &[u8], is_last: bool, out: &mut Vec<u8>) -> Result<(), RpcError>;

    /// What is to be told beside it, after the last part. What is made before it is held until then.
    fn beside(&mut self) -> Vec<(HeaderName, HeaderValue)>;
}

/// What is known of a result before any of it is sent.
#[derive(Debug, Default)]
pub struct Told {
    /// The slot of its context, if it has one.
    pub slot: Option<Slot>,
    /// The value's first bytes as JSON; all of it if it is short.
    pub beginning: Vec<u8>,
    /// Of the bytes that are sent, or, if they are too many to wait for, of all that they are made of:
    /// of equal ones the bytes are the same. None if that is not known.
    pub hash: Option<[u8; 16]>,
    /// What a shaper said.
    pub beside: Vec<(HeaderName, HeaderValue)>,
    /// There is no value.
    pub(crate) err: Option<RpcError>,
}

/// Makes the bare value of one reply.
pub(crate) struct Bare {
    hold_bytes_max: usize,
    shaper: Option<Box<dyn Shaper>>,
    told: Told,
    /// Whether the beginning of the reply was seen.
    has_begun: bool,
    /// The last bytes so far, which are not of the value if they are the last of all.
    tail: Vec<u8>,
    /// How many those are.
    cut: usize,
    /// Nothing more comes of it: it was refused.
    is_over: bool,
    hasher: blake3::Hasher,
    hashed: usize,
    /// What stands for the hash of what is too long.
    stamp: Option<Stamp>,
    is_told: bool,
}

impl Bare {
    pub(crate) fn new(want: Want) -> Self {
        Self {
            hold_bytes_max: want.hold_bytes_max,
            shaper: want.shaper.map(|MakeShaper(make, with)| make(with)),
            told: Told::default(),
            has_begun: false,
            tail: Vec::new(),
            cut: TAIL.len(),
            is_over: false,
            hasher: blake3::Hasher::new(),
            hashed: 0,
            stamp: None,
            is_told: false,
        }
    }

    /// Makes all of a reply that is there; its bytes are not coded.
    pub(crate) fn whole(want: Want, reply: Vec<u8>) -> (Vec<u8>, Told) {
        let mut bare = Self::new(want);
        let value = bare.take(reply, true);
        bare.sends(&value);
        let told = bare.tell(true).map(|told| *told);
        (value, told.unwrap_or_default())
    }

    /// Takes a part of a reply; gives what is to be sent of it, before it is coded.
    pub(crate) fn take(&mut self, mut part: Vec<u8>, is_last: bool) -> Vec<u8> {
        if self.is_over {
            return Vec::new();
        }
        if !self.has_begun {
            self.has_begun = true;
            match self.begin(&part) {
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
        let missing = BEGINNING_BYTES - self.told.beginning.len();
        self.told.beginning.extend(part.iter().take(missing));
        let Some(shaper) = &mut self.shaper else { return part };
        let mut out = Vec::new();
        match shaper.take(&part, is_last, &mut out) {
            Ok(()) => out,
            Err(err) => self.refuse(err),
        }
    }

    /// Counts bytes that are going to be sent, as they are coded.
    pub(crate) fn sends(&mut self, bytes: &[u8]) {
        self.hashed += bytes.len();
        if self.hashed <= self.hold_bytes_max {
            self.hasher.update(bytes);
        }
    }

    /// What is told of the value if it becomes too long to be hashed.
    pub(crate) fn stamp(&mut self, stamp: Option<Stamp>) {
        self.stamp = stamp;
    }

    /// Whether what was made is held back.
    pub(crate) fn holds(&self) -> bool {
        !self.is_told
    }

    /// What is told before the first bytes, once: when all of it is made, or it has become too long.
    pub(crate) fn tell(&mut self, is_last: bool) -> Option<Box<Told>> {
        let is_too_long = self.hashed > self.hold_bytes_max && self.shaper.is_none();
        if self.is_told || !(is_last || is_too_long) {
            return None;
        }
        self.is_told = true;
        let mut told = std::mem::take(&mut self.told);
        let is_hashed = self.hashed <= self.hold_bytes_max;
        told.hash = if is_hashed { Some(short(&self.hasher)) } else { self.stamp };
        told.beside = self.shaper.as_mut().map(|shaper| shaper.beside()).unwrap_or_default();
        Some(Box::new(told))
    }

    /// Reads what precedes the value; how many bytes that is.
    fn begin(&mut self, reply: &[u8]) -> Result<usize, RpcError> {
        let Some(result) = reply.strip_prefix(PREFIX) else { return Err(refusal(reply)) };
        let (slot, context_len) = context(result);
        self.told.slot = slot;
        if slot.is_some() {
            self.cut += 1; // the brace around context and value
        }
        Ok(PREFIX.len() + context_len)
    }

    fn refuse(&mut self, err: RpcError) -> Vec<u8> {
        self.is_over = true;
        self.told.err = Some(err);
        Vec::new()
    }
}

/// Half of a hash: as many bits as nobody finds two of by chance.
pub(crate) fn short(hasher: &blake3::Hasher) -> [u8; 16] {
    let mut half = [0; 16];
    hasher.finalize_xof().fill(&mut half);
    half
}

/// The slot in `{"context":…,"value":`, and how many bytes that is; none if a result begins otherwise.
pub(crate) fn context(result: &[u8]) -> (Option<Slot>, usize) {
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
    fn take(reply: &str, size: usize, hold_bytes_max: usize) -> (Told, String) {
        let mut bare = Bare::new(Want { hold_bytes_max, ..Want::default() });
        let (first, rest) = reply.as_bytes().split_at(reply.len().min(100));
        let mut parts = vec![first];
        parts.extend(rest.chunks(size));
        let (mut told, mut value) = (None, Vec::new());
        for (at, part) in parts.iter().enumerate() {
            let is_last = at + 1 == parts.len();
            let made = bare.take(part.to_vec(), is_last);
            bare.sends(&made);
            value.extend(made);
            told = bare.tell(is_last).or(told);
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
                let (told, made) = take(&reply, size, 10_000);
                assert_eq!((told.slot, made.as_str()), (context, value.as_str()), "{size}");
                let hash = blake3::hash(value.as_bytes());
                assert_eq!(told.hash.expect("it is short"), hash.as_bytes()[..16]);
                assert_eq!(told.beginning, value.as_bytes()[..BEGINNING_BYTES]);
                assert_eq!(take(&reply, size, 99).0.hash, None, "it is too long");
            }
        }
    }

    #[test]
    fn an_error_is_told_as_one() {
        let reply = r#"{"jsonrpc":"2.0","error":{"code":-32004,"message":"no"},"id":null}"#;
        let (made, told) = Bare::whole(Want::default(), reply.as_bytes().to_vec());
        assert!(made.is_empty());
        assert_eq!(told.err, Some(RpcError::new(-32004, "no")));
    }
}
