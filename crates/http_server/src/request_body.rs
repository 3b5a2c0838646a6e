//! Reads the body of a request.
//!
//! Bounds: `Config::body_bytes_max` bytes within `Config::body_timeout_ms`; all large bodies together as in
//! `large_bodies`. A body that is too long is refused as soon as its length is known.

use std::future::poll_fn;
use std::pin::pin;
use std::str::Utf8Error;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use clients::ClientId;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

use crate::body::ResponseBody;
use crate::http_context::HttpContext;
use crate::http_metrics::{HttpCounters, HttpEvent};
use crate::large_bodies::Exhausted;
use crate::responses::text_response;

/// A body that is not read yet.
pub struct RequestBody {
    body: Incoming,
    client: ClientId,
    context: Arc<HttpContext>,
}

impl RequestBody {
    pub(crate) fn new(body: Incoming, client: ClientId, context: Arc<HttpContext>) -> Self {
        Self { body, client, context }
    }

    /// Reads it whole. The rest of a body that is too long is not read: the connection must be closed after the
    /// response, and lingers (`write_timeout`).
    pub async fn read(self) -> Result<Bytes, BodyError> {
        let Self { mut body, client, context } = self;
        let config = &context.config;
        let bytes_max = config.body_bytes_max;
        let timeout_ms = config.body_timeout_ms;
        if body.is_end_stream() {
            return Ok(Bytes::new());
        }
        if body.size_hint().lower() > bytes_max as u64 {
            return Err(BodyError::TooLarge { bytes_max });
        }
        let mut reading = pin!(async {
            let mut collected = Vec::new();
            let mut reservation = None;
            let mut partial = PartialBody { metrics: &context.metrics, bytes: 0 };
            while let Some(frame) = body.frame().await {
                let Ok(chunk) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
                if collected.len() + chunk.len() > bytes_max {
                    return Err(BodyError::TooLarge { bytes_max });
                }
                // Nearly every body is one chunk, which is not copied.
                if collected.is_empty() && body.is_end_stream() {
                    return Ok(chunk);
                }
                // It grows with what has arrived, so a client that only announces a long body takes no memory for it.
                append_chunk(&mut collected, &chunk, bytes_max);
                let capacity = collected.capacity();
                context.large_bodies.grow(client, capacity, &mut reservation)?;
                if reservation.is_none() {
                    partial.set((capacity + config.read_buffer_bytes_max()) as u64);
                }
            }
            let collected = Bytes::from(collected);
            Ok(match reservation {
                None => collected,
                Some(reservation) => reservation.attach(collected),
            })
        });
        // Nearly every body arrives together with its head, and needs no timer.
        if let Poll::Ready(read) = poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await {
            return read;
        }
        let read = tokio::time::timeout(Duration::from_millis(timeout_ms), reading).await;
        read.unwrap_or(Err(BodyError::TooSlow { timeout_ms }))
    }
}

/// Appends a chunk. The capacity doubles as it is used up, but does not exceed `bytes_max`, the longest body: otherwise
/// a long body could take the memory of two (`large_bodies`).
fn append_chunk(collected: &mut Vec<u8>, chunk: &[u8], bytes_max: usize) {
    let len = collected.len() + chunk.len();
    if len > collected.capacity() {
        let capacity = collected.capacity().saturating_mul(2).min(bytes_max).max(len);
        collected.reserve_exact(capacity - collected.len());
    }
    collected.extend_from_slice(chunk);
}

/// Why a body was not read.
#[derive(Debug)]
pub enum BodyError {
    /// It is longer than allowed. The connection must be closed.
    TooLarge {
        /// Bytes that are allowed.
        bytes_max: usize,
    },
    /// It did not arrive in time. The connection must be closed.
    TooSlow {
        /// Milliseconds that were allowed.
        timeout_ms: u64,
    },
    /// Other large bodies have the memory for it. The connection must be closed.
    TooManyLarge {
        /// Bytes that all large bodies may have together.
        bytes_max: u64,
    },
    /// It is not text.
    Utf8(Utf8Error),
    /// The connection failed.
    Broken,
}

impl From<Exhausted> for BodyError {
    fn from(Exhausted { bytes_max }: Exhausted) -> Self {
        Self::TooManyLarge { bytes_max }
    }
}

impl BodyError {
    /// The status and the text of the refusal.
    pub fn into_status_and_text(self) -> (StatusCode, String) {
        match self {
            Self::TooLarge { bytes_max } => (
                StatusCode::PAYLOAD_TOO_LARGE,
                format!(
                    "request body size exceeds allowed maximum: {bytes_max} bytes (rpc.body_bytes_max)\n"
                ),
            ),
            Self::TooSlow { timeout_ms } => (
                StatusCode::REQUEST_TIMEOUT,
                format!("request body took longer than {timeout_ms} ms (rpc.body_timeout_ms)\n"),
            ),
            Self::TooManyLarge { bytes_max } => (
                StatusCode::SERVICE_UNAVAILABLE,
                format!(
                    "the large request bodies in memory have {bytes_max} bytes, or those of this client half of \
                     that: retry later\n"
                ),
            ),
            Self::Utf8(err) => (
                StatusCode::BAD_REQUEST,
                format!("utf-8 encoding error at byte {} in request body", err.valid_up_to()),
            ),
            Self::Broken => (StatusCode::BAD_REQUEST, "request body is broken\n".to_owned()),
        }
    }

    /// The refusal as plain text.
    pub fn into_response(self) -> Response<ResponseBody> {
        let (status, message) = self.into_status_and_text();
        let is_exhausted = status == StatusCode::SERVICE_UNAVAILABLE;
        let closes = is_exhausted
            || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE);
        let mut response = text_response(status, message);
        let headers = response.headers_mut();
        if closes {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if is_exhausted {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// Counts the memory of a body that is not complete, including the read buffer of its connection.
struct PartialBody<'a> {
    metrics: &'a HttpCounters,
    bytes: u64,
}

impl PartialBody<'_> {
    fn set(&mut self, bytes: u64) {
        let grown = bytes.saturating_sub(self.bytes);
        self.bytes += grown;
        self.metrics.add(HttpEvent::BodyStarted, grown);
    }
}

impl Drop for PartialBody<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.metrics.add(HttpEvent::BodyEnded, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_of_a_body_is_as_long_as_the_longest_body() {
        const BYTES_MAX: usize = 100_000;
        let mut collected = Vec::new();
        let mut reallocations = 0;
        while collected.len() < BYTES_MAX {
            let before = collected.capacity();
            append_chunk(&mut collected, &[7; 1_000], BYTES_MAX);
            reallocations += usize::from(collected.capacity() > before);
        }
        assert_eq!(collected.capacity(), BYTES_MAX);
        assert_eq!(reallocations, 8, "the capacity doubles");
        assert!(collected.iter().all(|byte| *byte == 7));
    }
}
