//! The rules of a kaspad in safe mode. The upstream is not in safe mode, so they are applied here.
//!
//! The texts are kaspad's. As there, a transaction that may be an orphan is submitted as one that may not.

use bytes::{Bytes, BytesMut};
use kaspa::{Method, Operation, ServerError};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::request::{Message, Request};

const UNAVAILABLE: &str =
    "Method unavailable in safe mode. Run the node with --unsaferpc argument.";

/// The largest window of estimateNetworkHashesPerSecond.
const WINDOW_BLOCKS_MAX: u32 = 10_000;

/// Returns the request that is forwarded in safe mode, or its error. Cost: the length of the message.
pub(crate) fn apply_safe_mode(request: Request) -> Result<Request, ServerError> {
    let Operation::Method(method) = request.operation else { return Ok(request) };
    match method {
        Method::Shutdown
        | Method::Ban
        | Method::Unban
        | Method::AddPeer
        | Method::ResolveFinalityConflict => Err(ServerError::Text(UNAVAILABLE.to_owned())),
        Method::EstimateNetworkHashesPerSecond => {
            let blocks = window_size(&request)?;
            if blocks <= WINDOW_BLOCKS_MAX {
                return Ok(request);
            }
            Err(ServerError::Text(format!(
                "Requested window size {blocks} is larger than max {WINDOW_BLOCKS_MAX} allowed in \
                 RPC safe mode."
            )))
        }
        Method::SubmitTransaction => forbid_orphans(request),
        _ => Ok(request),
    }
}

fn window_size(request: &Request) -> Result<u32, ServerError> {
    match request.message() {
        Message::Borsh(_) => {
            request.borsh()?.window_size().map_err(|_| ServerError::InvalidPayload)
        }
        Message::Json(_) => request.json()?.window_size().map_err(|_| ServerError::InvalidParams),
    }
}

/// Clears allowOrphan.
fn forbid_orphans(request: Request) -> Result<Request, ServerError> {
    match request.message() {
        Message::Borsh(frame) => {
            let parsed = request.borsh()?;
            let offset = parsed.allow_orphan_offset().map_err(|_| ServerError::InvalidPayload)?;
            let at = frame.len() - parsed.payload.len() + offset;
            if frame.get(at) == Some(&0) {
                return Ok(request);
            }
            let mut changed = BytesMut::from(&frame[..]);
            changed[at] = 0;
            Ok(request.with_message(Message::Borsh(changed.freeze())))
        }
        Message::Json(_) => {
            let changed = request.json()?.encode_without_orphans(request.id.unwrap_or_default());
            let Some(changed) = changed.map_err(|_| ServerError::InvalidParams)? else {
                return Ok(request);
            };
            let changed = Utf8Bytes::try_from(Bytes::from(changed));
            let changed = changed.map_err(|_| ServerError::InvalidParams)?;
            Ok(request.with_message(Message::Json(changed)))
        }
    }
}
