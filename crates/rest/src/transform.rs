//! Transforms of a result while it is computed: the raw bytes of an account or a transaction, and a page from a list
//! of signatures.
//!
//! In: JSON, in parts. Out: the body, and extra headers. A transform runs on the CPU pool, except for responses that
//! are short enough to be computed inline, on the IO thread.
//! Bounds: the largest account, 10 MiB; a page of 1,000 signatures with memos, 4 MiB.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{HeaderName, HeaderValue};
use jsonrpc::error::RpcError;
use jsonrpc::{BodyTransform, BodyTransformFactory};
use serde::Deserialize;
use serde_json::Value;

/// Bytes of a list of signatures that are buffered to find the last one. 1,000 with memos are less.
const SIGNATURES_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The internal header with the cursor of the next page. It is replaced by a `Link` before the response is sent.
pub(crate) const CURSOR: HeaderName = HeaderName::from_static("hydrant-cursor");

/// Members of an account that become headers.
const HEADERS: &[(&str, &str)] = &[
    ("lamports", "hydrant-lamports"),
    ("owner", "hydrant-owner"),
    ("executable", "hydrant-executable"),
    ("space", "hydrant-space"),
];

/// Raw bytes, from JSON with one value `["…","base64"]`. The members around it become headers.
pub(crate) const RAW_BYTES: BodyTransformFactory =
    BodyTransformFactory(|_| Box::new(RawBytes::default()), 0);

/// A page from a list of signatures. It is followed by another one if it has `limit` of them.
pub(crate) fn signature_page(limit: usize) -> BodyTransformFactory {
    BodyTransformFactory(
        |limit| Box::new(SignaturePage { limit, list: Vec::new(), next: None }),
        limit,
    )
}

#[derive(Default)]
struct RawBytes {
    state: State,
    /// The JSON around the base64 text, without it.
    envelope: Vec<u8>,
    /// Up to three characters of an incomplete group of four.
    pending: Vec<u8>,
}

#[derive(Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Text,
    Tail,
}

impl RawBytes {
    fn decode(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), RpcError> {
        let missing = if self.pending.is_empty() { 0 } else { 4 - self.pending.len() };
        let (first, text) = text.split_at(missing.min(text.len()));
        self.pending.extend_from_slice(first);
        if self.pending.len() == 4 {
            decode(&std::mem::take(&mut self.pending), out)?;
        }
        let (fours, rest) = text.split_at(text.len() - text.len() % 4);
        decode(fours, out)?;
        self.pending.extend_from_slice(rest);
        Ok(())
    }
}

impl BodyTransform for RawBytes {
    fn transform_part(
        &mut self,
        part: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), RpcError> {
        const OPEN: &[u8] = b"[\"";
        if self.state == State::Head && part == b"null" {
            return Ok(()); // not found: the caller checks the prefix
        }
        let mut rest = part;
        if self.state == State::Head {
            // The text of an account or a transaction starts within the first part.
            let at = rest.windows(2).position(|it| it == OPEN).ok_or_else(RpcError::internal)?;
            let (before, after) = rest.split_at(at + OPEN.len());
            self.envelope = before.to_vec();
            (rest, self.state) = (after, State::Text);
        }
        if self.state == State::Text {
            let text_len = rest.iter().position(|byte| *byte == b'"').unwrap_or(rest.len());
            let (text, after) = rest.split_at(text_len);
            self.decode(text, out)?;
            rest = after;
            self.state = if rest.is_empty() { State::Text } else { State::Tail };
        }
        self.envelope.extend_from_slice(rest);
        let is_complete = self.pending.is_empty() && self.state == State::Tail;
        if is_last && !is_complete { Err(RpcError::internal()) } else { Ok(()) }
    }

    fn extra_headers(&mut self) -> Vec<(HeaderName, HeaderValue)> {
        let envelope: Value = serde_json::from_slice(&self.envelope).unwrap_or_default();
        let headers = HEADERS.iter().filter_map(|(member, name)| {
            let text = match envelope.get(member)? {
                Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            Some((HeaderName::from_static(name), HeaderValue::from_str(&text).ok()?))
        });
        headers.collect()
    }
}

fn decode(fours: &[u8], out: &mut Vec<u8>) -> Result<(), RpcError> {
    BASE64_STANDARD.decode_vec(fours, out).map_err(|_| RpcError::internal())
}

struct SignaturePage {
    limit: usize,
    list: Vec<u8>,
    next: Option<String>,
}

impl BodyTransform for SignaturePage {
    fn transform_part(
        &mut self,
        part: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), RpcError> {
        #[derive(Deserialize)]
        struct Entry<'a> {
            signature: &'a str,
        }
        self.list.extend_from_slice(part);
        if self.list.len() > SIGNATURES_BYTES_MAX {
            let message = "the page is too long; set a lower limit";
            return Err(RpcError::invalid_request(message));
        }
        if !is_last {
            return Ok(());
        }
        let entries: Vec<Entry<'_>> =
            serde_json::from_slice(&self.list).map_err(|_| RpcError::internal())?;
        let next = entries.last().filter(|_| entries.len() >= self.limit);
        self.next = next.map(|last| last.signature.to_owned());
        let next = serde_json::to_vec(&self.next).map_err(|_| RpcError::internal())?;
        out.extend_from_slice(br#"{"paginationKey":"#);
        out.extend_from_slice(&next);
        out.extend_from_slice(br#","transactions":"#);
        out.extend_from_slice(&self.list);
        out.push(b'}');
        Ok(())
    }

    fn extra_headers(&mut self) -> Vec<(HeaderName, HeaderValue)> {
        let next = self.next.as_deref().and_then(|next| HeaderValue::from_str(next).ok());
        next.map(|next| (CURSOR, next)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transform(
        factory: BodyTransformFactory,
        json: &str,
        part_len: usize,
    ) -> Result<(Vec<u8>, String), RpcError> {
        let BodyTransformFactory(new, arg) = factory;
        let (mut transform, mut out) = (new(arg), Vec::new());
        let (head, rest) = json.as_bytes().split_at(json.len().min(40));
        let parts: Vec<&[u8]> = std::iter::once(head).chain(rest.chunks(part_len)).collect();
        for (index, part) in parts.iter().enumerate() {
            transform.transform_part(part, index + 1 == parts.len(), &mut out)?;
        }
        let headers = transform.extra_headers();
        let headers = headers
            .iter()
            .map(|(name, value)| format!("{name}: {} ", value.to_str().expect("text")));
        Ok((out, headers.collect()))
    }

    #[test]
    fn data_in_parts_is_decoded() {
        let data: Vec<u8> = (0..=255).collect();
        let text = BASE64_STANDARD.encode(&data);
        let json =
            format!(r#"{{"lamports":7,"data":["{text}","base64"],"owner":"abc","space":256}}"#);
        for part_len in 1..20 {
            let (bytes, headers) = transform(RAW_BYTES, &json, part_len).expect("complete JSON");
            assert_eq!(bytes, data, "parts of {part_len}");
            assert_eq!(headers, "hydrant-lamports: 7 hydrant-owner: abc hydrant-space: 256 ");
        }
        assert!(transform(RAW_BYTES, r#"{"data":["AAA"#, 9).is_err(), "truncated JSON");
    }

    #[test]
    fn a_full_page_of_signatures_has_a_cursor() {
        let list = r#"[{"signature":"aaa","slot":1},{"signature":"bbb","slot":1}]"#;
        let page = |limit| {
            let (body, headers) = transform(signature_page(limit), list, 7).expect("a list");
            (String::from_utf8(body).expect("text"), headers)
        };
        let expected = |next: &str| format!(r#"{{"paginationKey":{next},"transactions":{list}}}"#);
        assert_eq!(page(3), (expected("null"), String::new()));
        assert_eq!(page(2), (expected(r#""bbb""#), "hydrant-cursor: bbb ".to_owned()));
    }
}
