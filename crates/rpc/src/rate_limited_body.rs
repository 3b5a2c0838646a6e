//! The pace of an answer whose client has a share of bytes (`pool.clients.bytes_per_s`).
//!
//! In: the answer's bytes, as they come. Out: the same, cut into pieces that are a part of a second's worth, each at
//! the moment that [`RateLimiter::reserve_bytes`] gives it; who makes them waits meanwhile, since nobody takes what he made. What
//! is not sent yet is not the client's debt, but for one piece of each answer.
//! Bounds: what came at once is held. It waits with a timer, and is not polled meanwhile.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use pool::{ClientId, Pool, RateLimiter};
use tokio::time::Sleep;

use crate::buf_list::BufList;

/// The pace of one answer.
pub(crate) struct RateLimitedBody {
    clients: Arc<RateLimiter>,
    pool: Arc<Pool>,
    client: ClientId,
    pending: Option<PendingChunk>,
    /// What came and is not counted yet.
    rest: BufList,
}

struct PendingChunk {
    chunk: BufList,
    /// None if it goes at once.
    until: Option<Pin<Box<Sleep>>>,
    /// If not, it is asked again then.
    is_counted: bool,
}

impl RateLimitedBody {
    /// For an answer to a client; none if bytes are not counted.
    pub(crate) fn new(
        clients: &Arc<RateLimiter>,
        pool: &Arc<Pool>,
        client: ClientId,
    ) -> Option<Box<Self>> {
        let (clients, pool) = (Arc::clone(clients), Arc::clone(pool));
        let (held, rest) = (None, BufList::default());
        clients
            .limits_bytes()
            .then(|| Box::new(Self { clients, pool, client, pending: held, rest }))
    }

    /// The bytes that came and wait for their moment.
    pub(crate) fn pending_bytes(&self) -> Option<usize> {
        let held = self.pending.as_ref().map(|held| held.chunk.remaining());
        let bytes = held.unwrap_or_default() + self.rest.remaining();
        (held.is_some() || bytes > 0).then_some(bytes)
    }

    /// Gives the next bytes at their moment; `poll_next` is asked for them. The end, or an error, comes at once.
    pub(crate) fn poll<E>(
        &mut self,
        cx: &mut Context<'_>,
        poll_next: impl FnOnce(&mut Context<'_>) -> Poll<Option<Result<BufList, E>>>,
    ) -> Poll<Option<Result<BufList, E>>> {
        let mut held = match self.pending.take() {
            Some(held) => held,
            None => {
                if !self.rest.has_remaining() {
                    match ready!(poll_next(cx)) {
                        Some(Ok(chunk)) => self.rest = chunk,
                        end => return Poll::Ready(end),
                    }
                }
                let piece = self.rest.split_to(self.clients.max_reservation_bytes());
                self.count(piece)
            }
        };
        loop {
            if held.until.as_mut().is_some_and(|until| until.as_mut().poll(cx).is_pending()) {
                self.pending = Some(held);
                return Poll::Pending;
            }
            if held.is_counted {
                return Poll::Ready(Some(Ok(held.chunk)));
            }
            held = self.count(held.chunk);
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
    use pool::Limits;

    use super::*;
    use crate::SystemClock;

    #[test]
    fn chunks_of_two_responses_go_at_their_clients_rate_without_polling() {
        let clock = Arc::new(SystemClock::new());
        let pool = Pool::new(pool::Config::default(), clock, || {}).expect("a thread");
        let pool = Arc::new(pool);
        let limits = Limits { requests_per_s: 0, bytes_per_s: 1_000_000 };
        let clients = Arc::new(RateLimiter::new(limits));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        // Each is a second's worth, in ten parts, which go in two pieces each.
        let answer = || {
            let mut pace =
                RateLimitedBody::new(&clients, &pool, ClientId(1)).expect("bytes are counted");
            let (mut left, mut polls, mut bytes) = (10, 0, 0);
            async move {
                let mut next = |_: &mut Context<'_>| {
                    let next = (left > 0).then(|| Bytes::from_static(&[0; 100_000]).into());
                    left -= 1;
                    Poll::Ready(next.map(Ok::<BufList, Infallible>))
                };
                while let Some(Ok(chunk)) = poll_fn(|cx| {
                    polls += 1;
                    pace.poll(cx, &mut next)
                })
                .await
                {
                    bytes += chunk.remaining();
                }
                (bytes, polls)
            }
        };
        let began = pool.now();
        let both = async { tokio::join!(answer(), answer()) };
        let answers: [(usize, usize); 2] = runtime.expect("a runtime").block_on(both).into();
        let took = pool.now() - began;
        assert!(took >= Duration::from_millis(900), "two seconds' worth, one at once: {took:?}");
        for (bytes, polls) in answers {
            assert_eq!(bytes, 1_000_000);
            // What the other waits for wakes both.
            assert!(polls <= 21 + 2 * 40, "{polls}");
        }
        // Who has no share is not held up.
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
