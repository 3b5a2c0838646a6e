//! A page of UTXOs from the result of its method: the list alone, and a header that leads to the next page.
//!
//! Bounds: a page of 1,000 UTXOs is buffered, half a megabyte. It runs on the CPU pool, where the page is computed.

use hyper::header::{HeaderName, HeaderValue};
use jsonrpc::error::RpcError;
use jsonrpc::{BodyTransform, BodyTransformFactory};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::position_headers::NEXT_PAGE;

/// Makes the transform of a page.
pub(crate) fn utxo_page() -> BodyTransformFactory {
    BodyTransformFactory(|_| Box::new(UtxoPage { result: Vec::new(), next: None }), 0)
}

struct UtxoPage {
    result: Vec<u8>,
    next: Option<String>,
}

/// The result of `restGetUtxoPage`.
#[derive(Deserialize)]
struct PageResult<'a> {
    next: Option<String>,
    #[serde(borrow)]
    utxos: &'a RawValue,
}

impl BodyTransform for UtxoPage {
    fn transform_part(
        &mut self,
        part: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), RpcError> {
        self.result.extend_from_slice(part);
        if !is_last {
            return Ok(());
        }
        let page: PageResult<'_> =
            serde_json::from_slice(&self.result).map_err(|_| RpcError::internal())?;
        out.extend_from_slice(page.utxos.get().as_bytes());
        self.next = page.next;
        Ok(())
    }

    fn extra_headers(&mut self) -> Vec<(HeaderName, HeaderValue)> {
        let next = self.next.as_deref().and_then(|next| HeaderValue::from_str(next).ok());
        next.map(|next| (NEXT_PAGE, next)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_the_list_and_a_header() {
        for (result, next) in [
            (r#"{"next":"0a","utxos":[{"a":1},{"a":2}]}"#, Some("0a")),
            (r#"{"next":null,"utxos":[{"a":1},{"a":2}]}"#, None),
        ] {
            for part_len in [1, 7, 1_000] {
                let BodyTransformFactory(new, param) = utxo_page();
                let mut transform = new(param);
                let mut out = Vec::new();
                let parts: Vec<&[u8]> = result.as_bytes().chunks(part_len).collect();
                for (at, part) in parts.iter().enumerate() {
                    let is_last = at + 1 == parts.len();
                    transform.transform_part(part, is_last, &mut out).expect("a page");
                }
                assert_eq!(out, br#"[{"a":1},{"a":2}]"#);
                let headers = transform.extra_headers();
                let value = headers.first().map(|(_, value)| value.to_str().expect("text"));
                assert_eq!(value, next);
            }
        }
    }
}
