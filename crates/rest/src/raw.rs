//! Bytes as they are, out of the JSON that a method made: an account's data, a transaction.
//!
//! In: JSON with one value `["…","base64"]`. It is decoded piece by piece; what stands around it goes into
//! headers. Bounds: the largest account, 10 MiB.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use rpc::ResultParts;
use rpc::error::RpcError;
use serde_json::Value;

use crate::answer::Held;
use crate::error::Problem;

/// Nothing is larger: 10 MiB in base64, and what stands around it.
const JSON_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Members of an account that become headers.
const HEADERS: &[(&str, &str)] = &[
    ("lamports", "hydrant-lamports"),
    ("owner", "hydrant-owner"),
    ("executable", "hydrant-executable"),
    ("space", "hydrant-space"),
];

/// Bytes, and what is told beside them.
pub(crate) struct Raw {
    pub(crate) bytes: Bytes,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

/// Reads all of a result.
pub(crate) async fn read(mut parts: ResultParts) -> Result<Raw, Problem> {
    const OPEN: &[u8] = b"[\"";
    let mut held = Held::take(&mut parts, JSON_BYTES_MAX).await?;
    let mut decoder = Decoder::default();
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    let mut state = State::Head;
    while let Some(piece) = held.pieces.pop_front() {
        let mut rest = &piece[..];
        if state == State::Head {
            // A transaction's and an account's begin within the first piece.
            let at = rest.windows(2).position(|it| it == OPEN).ok_or_else(RpcError::internal)?;
            let (before, after) = rest.split_at(at + OPEN.len());
            (head, rest, state) = (before.to_vec(), after, State::Text);
        }
        if state == State::Text {
            let text_len = rest.iter().position(|byte| *byte == b'"').unwrap_or(rest.len());
            let (text, after) = rest.split_at(text_len);
            decoder.push(text)?;
            rest = after;
            state = if rest.is_empty() { State::Text } else { State::Tail };
        }
        tail.extend_from_slice(rest);
        tokio::task::yield_now().await;
    }
    let around: Value =
        serde_json::from_slice(&[head, tail].concat()).map_err(|_| RpcError::internal())?;
    let headers = HEADERS.iter().filter_map(|(member, name)| {
        let text = match around.get(member)? {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        Some((HeaderName::from_static(name), HeaderValue::from_str(&text).ok()?))
    });
    Ok(Raw { bytes: decoder.finish()?.into(), headers: headers.collect() })
}

#[derive(PartialEq, Eq)]
enum State {
    Head,
    Text,
    Tail,
}

/// Decodes base64 that comes in pieces.
#[derive(Default)]
struct Decoder {
    bytes: Vec<u8>,
    /// Up to three characters that wait for their fourth.
    waiting: Vec<u8>,
}

impl Decoder {
    fn push(&mut self, text: &[u8]) -> Result<(), RpcError> {
        let missing = if self.waiting.is_empty() { 0 } else { 4 - self.waiting.len() };
        let (first, text) = text.split_at(missing.min(text.len()));
        self.waiting.extend_from_slice(first);
        if self.waiting.len() == 4 {
            let four = std::mem::take(&mut self.waiting);
            self.decode(&four)?;
        }
        let (fours, rest) = text.split_at(text.len() - text.len() % 4);
        self.decode(fours)?;
        self.waiting.extend_from_slice(rest);
        Ok(())
    }

    fn decode(&mut self, fours: &[u8]) -> Result<(), RpcError> {
        BASE64_STANDARD.decode_vec(fours, &mut self.bytes).map_err(|_| RpcError::internal())
    }

    fn finish(self) -> Result<Vec<u8>, RpcError> {
        if self.waiting.is_empty() { Ok(self.bytes) } else { Err(RpcError::internal()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_in_pieces_is_what_it_was() {
        let data: Vec<u8> = (0..=255).collect();
        let text = BASE64_STANDARD.encode(&data);
        for size in 1..20 {
            let mut decoder = Decoder::default();
            for piece in text.as_bytes().chunks(size) {
                decoder.push(piece).expect("base64");
            }
            assert_eq!(decoder.finish().expect("whole"), data, "pieces of {size}");
        }
    }
}
