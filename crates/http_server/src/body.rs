//! The body of a response: complete bytes, or chunks as they are produced.
//!
//! The body of a client with a byte rate is sent at that rate ([`RateLimitedBody`]), whatever its kind.
//! Invariant: a body whose task failed ends in an error, so that its client sees that it is truncated: the last
//! chunk is not sent, and the connection is closed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};

use crate::buf_list::BufList;
use crate::poll_budget::GRANT_UNITS;
use crate::rate_limited_body::RateLimitedBody;

/// Bytes of a cached response that are handed to the connection at once, in whole parts: one write grant. They are
/// not copied. How many of them one poll writes is decided by the socket (`write_timeout`).
const CHUNK_BYTES: usize = GRANT_UNITS;

/// The body of a response.
pub struct ResponseBody {
    kind: BodyKind,
    rate_limited: Option<Box<RateLimitedBody>>,
}

enum BodyKind {
    Whole(Bytes),
    /// Complete parts in order, and the bytes that are left.
    Parts(std::vec::IntoIter<Bytes>, u64),
    Streamed(Box<dyn ChunkSource>),
}

/// A body that is produced in chunks.
pub trait ChunkSource: Send {
    /// The next chunk. An error means that the body is truncated.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>>;

    /// Whether the last chunk was returned.
    fn is_over(&self) -> bool;
}

impl ResponseBody {
    /// A body that `source` produces, at the rate of its client if it has one.
    pub fn streamed(source: Box<dyn ChunkSource>, rate: Option<Box<RateLimitedBody>>) -> Self {
        Self { kind: BodyKind::Streamed(source), rate_limited: rate }
    }

    /// A complete body in parts, at the rate of its client if it has one.
    pub fn from_parts(parts: Vec<Bytes>, rate: Option<Box<RateLimitedBody>>) -> Self {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        Self { kind: BodyKind::Parts(parts.into_iter(), bytes), rate_limited: rate }
    }

    /// Bytes that are sent at once, which the caller must count against the client's byte rate. Other bodies
    /// are counted while they are sent.
    pub fn immediate_bytes(&self) -> usize {
        match &self.kind {
            BodyKind::Whole(bytes) => bytes.len(),
            BodyKind::Parts(..) | BodyKind::Streamed(_) => 0,
        }
    }

    /// Returns the parts that are left of a body whose parts are complete; `None` if it is produced in chunks.
    pub fn complete_parts(&self) -> Option<&[Bytes]> {
        match &self.kind {
            BodyKind::Whole(bytes) => Some(std::slice::from_ref(bytes)),
            BodyKind::Parts(parts, _) => Some(parts.as_slice()),
            BodyKind::Streamed(_) => None,
        }
    }

    fn pending_bytes(&self) -> Option<usize> {
        self.rate_limited.as_ref()?.pending_bytes()
    }
}

impl Default for ResponseBody {
    fn default() -> Self {
        Bytes::new().into()
    }
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        Self { kind: BodyKind::Whole(bytes), rate_limited: None }
    }
}

impl Body for ResponseBody {
    type Data = BufList;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<BufList>>>> {
        let Self { kind, rate_limited } = &mut *self;
        let chunk = match rate_limited {
            None => kind.poll(cx),
            Some(rate_limited) => rate_limited.poll(cx, |cx| kind.poll(cx)),
        };
        chunk.map_ok(Frame::data)
    }

    fn is_end_stream(&self) -> bool {
        self.pending_bytes().is_none()
            && match &self.kind {
                BodyKind::Whole(bytes) => bytes.is_empty(),
                BodyKind::Parts(_, left) => *left == 0,
                BodyKind::Streamed(source) => source.is_over(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodyKind::Parts(_, left) => {
                SizeHint::with_exact(*left + self.pending_bytes().unwrap_or_default() as u64)
            }
            BodyKind::Streamed(_) => SizeHint::default(),
        }
    }
}

impl BodyKind {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<BufList>>> {
        match self {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(std::mem::take(bytes).into()))),
            Self::Parts(_, 0) => Poll::Ready(None),
            Self::Parts(parts, left) => {
                let mut chunk = BufList::default();
                while let Some(part) = parts.as_slice().first()
                    && (chunk.remaining() == 0 || chunk.remaining() + part.len() <= CHUNK_BYTES)
                {
                    parts.next().into_iter().for_each(|part| chunk.push(part));
                }
                *left -= chunk.remaining() as u64;
                Poll::Ready(Some(Ok(chunk)))
            }
            Self::Streamed(source) => {
                source.poll_chunk(cx).map(|chunk| chunk.map(|chunk| chunk.map(BufList::from)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;

    use clients::{ClientId, Limits, RateLimiter};
    use cpu_pool::Pool;

    use super::*;
    use crate::wall_clock::wall_clock;

    #[test]
    fn a_client_that_reads_a_long_cached_response_at_its_rate_may_send_more_requests_meanwhile() {
        let clock = Arc::new(wall_clock());
        let pool =
            Arc::new(Pool::new(cpu_pool::Config::default(), clock, || {}).expect("a thread"));
        let limits = Limits { requests_per_s: 0, bytes_per_s: 1_000_000 };
        let clients = Arc::new(RateLimiter::new(limits));
        let client = ClientId(1);
        // 1.2 MB to each of two connections of the client: the rate of one second at once, the rest later.
        let read = || {
            let parts: Vec<_> = (0..8).map(|n| Bytes::from(vec![n; 150_000])).collect();
            let whole = parts.concat();
            let kind = BodyKind::Parts(parts.into_iter(), whole.len() as u64);
            let mut body =
                ResponseBody { kind, rate_limited: RateLimitedBody::new(&clients, &pool, client) };
            let clients = &clients;
            let pool = &pool;
            async move {
                let mut read = Vec::new();
                while !body.is_end_stream() {
                    let left = (whole.len() - read.len()) as u64;
                    assert_eq!(body.size_hint().exact(), Some(left));
                    let frame = poll_fn(|cx| {
                        let frame = Pin::new(&mut body).poll_frame(cx);
                        assert_eq!(clients.admit(client, 1, pool.now()), Ok(()));
                        frame
                    });
                    let frame = frame.await.expect("a frame").expect("no error");
                    let mut chunk = frame.into_data().ok().expect("bytes");
                    read.extend_from_slice(&chunk.copy_to_bytes(chunk.remaining()));
                }
                assert!(read == whole);
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let started = pool.now();
        runtime.expect("a runtime").block_on(async { tokio::join!(read(), read()) });
        let took = pool.now() - started;
        assert!(
            took.as_millis() >= 1_300,
            "2.4 MB at 1 MB a second, one of them at once: {took:?}"
        );
    }
}
