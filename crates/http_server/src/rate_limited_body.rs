//! Sends a body at the byte rate of its client (`pool.clients.bytes_per_s`).
//!
//! In: the bytes of the body. Out: the same bytes in chunks of a fraction of a second's worth, each at the time
//! that [`RateLimiter::reserve_bytes`] assigns to it. The task that produces the body waits meanwhile, because
//! its chunks are not received. Unsent bytes do not count against the client, except for one chunk of each
//! response.
//! Bounds: it buffers what it received at once. It waits on a timer, and is not polled meanwhile.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use clients::{ClientId, RateLimiter};
use cpu_pool::Pool;
use tokio::time::Sleep;

use crate::buf_list::BufList;

/// The rate limit of one body.
pub struct RateLimitedBody {
    clients: Arc<RateLimiter>,
    pool: Arc<Pool>,
    client: ClientId,
    pending: Option<PendingChunk>,
    /// Bytes that were received and are not counted yet.
    rest: BufList,
}

struct PendingChunk {
    chunk: BufList,
    /// None if it is sent at once.
    until: Option<Pin<Box<Sleep>>>,
    /// If false, the reservation is tried again after `until`.
    is_counted: bool,
}

impl RateLimitedBody {
    /// For a body to a client; `None` if bytes are not limited.
    pub fn new(
        clients: &Arc<RateLimiter>,
        pool: &Arc<Pool>,
        client: ClientId,
    ) -> Option<Box<Self>> {
        let clients = Arc::clone(clients);
        let pool = Arc::clone(pool);
        let pending = None;
        let rest = BufList::default();
        let is_limited = clients.limits_bytes() && clients.bytes_per_s(client) > 0;
        is_limited.then(|| Box::new(Self { clients, pool, client, pending, rest }))
    }

    /// Bytes that were received and wait to be sent.
    pub(crate) fn pending_bytes(&self) -> Option<usize> {
        let pending = self.pending.as_ref().map(|pending| pending.chunk.remaining());
        let bytes = pending.unwrap_or_default() + self.rest.remaining();
        (pending.is_some() || bytes > 0).then_some(bytes)
    }

    /// The next bytes, when they may be sent; they come from `poll_next`. The end, or an error, is returned at
    /// once.
    pub(crate) fn poll<E>(
        &mut self,
        cx: &mut Context<'_>,
        poll_next: impl FnOnce(&mut Context<'_>) -> Poll<Option<Result<BufList, E>>>,
    ) -> Poll<Option<Result<BufList, E>>> {
        let mut pending = match self.pending.take() {
            Some(pending) => pending,
            None => {
                if !self.rest.has_remaining() {
                    match ready!(poll_next(cx)) {
                        Some(Ok(chunk)) => self.rest = chunk,
                        end => return Poll::Ready(end),
                    }
                }
                let chunk = self.rest.split_to(self.clients.max_reservation_bytes(self.client));
                self.count(chunk)
            }
        };
        loop {
            if pending.until.as_mut().is_some_and(|until| until.as_mut().poll(cx).is_pending()) {
                self.pending = Some(pending);
                return Poll::Pending;
            }
            if pending.is_counted {
                return Poll::Ready(Some(Ok(pending.chunk)));
            }
            pending = self.count(pending.chunk);
        }
    }

    fn count(&self, chunk: BufList) -> PendingChunk {
        let counted =
            self.clients.reserve_bytes(self.client, chunk.remaining() as u64, self.pool.now());
        let (wait, is_counted) = match counted {
            Ok(wait) => (wait, true),
            Err(again) => (again, false),
        };
        let until = (!wait.is_zero()).then(|| Box::pin(tokio::time::sleep(wait)));
        PendingChunk { chunk, until, is_counted }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;
    use std::time::Duration;

    use bytes::Bytes;
    use clients::Limits;

    use super::*;
    use crate::wall_clock::wall_clock;

    #[test]
    fn chunks_of_two_responses_go_at_their_clients_rate_without_polling() {
        let clock = Arc::new(wall_clock());
        let pool = Pool::new(cpu_pool::Config::default(), clock, || {}).expect("a thread");
        let pool = Arc::new(pool);
        let limits = Limits { requests_per_s: 0, bytes_per_s: 1_000_000 };
        let clients = Arc::new(RateLimiter::new(limits));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        // Each body is a second's worth, in ten parts, which are sent in two chunks each.
        let read = || {
            let mut body =
                RateLimitedBody::new(&clients, &pool, ClientId(1)).expect("bytes are counted");
            let mut left = 10;
            let mut polls = 0;
            let mut bytes = 0;
            async move {
                let mut next = |_: &mut Context<'_>| {
                    let next = (left > 0).then(|| Bytes::from_static(&[0; 100_000]).into());
                    left -= 1;
                    Poll::Ready(next.map(Ok::<BufList, Infallible>))
                };
                while let Some(Ok(chunk)) = poll_fn(|cx| {
                    polls += 1;
                    body.poll(cx, &mut next)
                })
                .await
                {
                    bytes += chunk.remaining();
                }
                (bytes, polls)
            }
        };
        let started = pool.now();
        let both = async { tokio::join!(read(), read()) };
        let reads: [(usize, usize); 2] = runtime.expect("a runtime").block_on(both).into();
        let took = pool.now() - started;
        assert!(
            took >= Duration::from_millis(900),
            "2 MB at 1 MB a second, one of them at once: {took:?}"
        );
        for (bytes, polls) in reads {
            assert_eq!(bytes, 1_000_000);
            // The timer of one wakes both.
            assert!(polls <= 21 + 2 * 40, "{polls}");
        }
        // A client without a limit is not delayed.
        assert!(
            RateLimitedBody::new(
                &Arc::new(RateLimiter::new(Limits::default())),
                &pool,
                ClientId(1)
            )
            .is_none()
        );
    }
}
