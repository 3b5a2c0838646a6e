//! A page from a list of signatures, made while the list is computed.
//!
//! In: JSON, in parts. Out: the body, and the cursor of the next page. It runs on the CPU pool, where the list is
//! computed.
//! Bounds: a page of 1,000 signatures with memos, 4 MiB.

use hyper::header::{HeaderName, HeaderValue};
use jsonrpc::error::RpcError;
use jsonrpc::{BodyTransform, BodyTransformFactory};
use rest::CURSOR;
use serde::Deserialize;

/// Bytes of a list of signatures that are buffered to find the last one. 1,000 with memos are less.
const SIGNATURES_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A page from a list of signatures. It is followed by another one if it has `limit` of them.
pub(crate) fn signature_page(limit: usize) -> BodyTransformFactory {
    BodyTransformFactory(
        |limit| Box::new(SignaturePage { limit, list: Vec::new(), next: None }),
        limit,
    )
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
        let mut transform = new(arg);
        let mut out = Vec::new();
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
