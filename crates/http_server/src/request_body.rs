//! Reads the body of a request.
//!
//! Bounds: `Config::body_bytes_max` bytes within `Config::body_timeout_ms`. A body that is too long is refused as soon
//! as its length is known.

use std::future::poll_fn;
use std::pin::pin;
use std::str::Utf8Error;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

use crate::body::ResponseBody;
use crate::http_context::HttpContext;
use crate::http_metrics::{HttpCounters, HttpEvent};
use crate::responses::text_response;

/// A body that is not read yet.
pub struct RequestBody {
    body: Incoming,
    context: Arc<HttpContext>,
}

impl RequestBody {
    pub(crate) fn new(body: Incoming, context: Arc<HttpContext>) -> Self {
        Self { body, context }
    }

    /// Reads it whole. The rest of a body that is too long is not read: the connection must be closed after the
    /// response, and lingers (`write_timeout`).
    pub async fn read(self) -> Result<Bytes, BodyError> {
        let Self { mut body, context } = self;
        let config = &context.config;
        let (bytes_max, timeout_ms) = (config.body_bytes_max, config.body_timeout_ms);
        if body.size_hint().lower() > bytes_max as u64 {
            return Err(BodyError::TooLarge { bytes_max });
        }
        let mut reading = pin!(async {
            let mut collected = BytesMut::new();
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
                collected.extend_from_slice(&chunk);
                partial.set((collected.capacity() + config.read_buffer_bytes_max()) as u64);
            }
            Ok(collected.freeze())
        });
        // Nearly every body arrives together with its head, and needs no timer.
        if let Poll::Ready(read) = poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await {
            return read;
        }
        let read = tokio::time::timeout(Duration::from_millis(timeout_ms), reading).await;
        read.unwrap_or(Err(BodyError::TooSlow { timeout_ms }))
    }
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
    /// It is not text.
    Utf8(Utf8Error),
    /// The connection failed.
    Broken,
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
        let closes = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE);
        let mut response = text_response(status, message);
        if closes {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
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
