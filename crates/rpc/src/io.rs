//! A socket that gives up on a client that does not read, or hardly, and counts its bytes.
//!
//! Without it a client that asks and never reads what it gets would hold its connection, and the
//! answer in it, for ever: TCP itself is patient as long as the peer is alive.
//! Bounds: from the first write that has to wait, [`PROGRESS_BYTES`] or all that there is must be taken within
//! the time limit, and then again. A byte now and then is none.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::metrics::{Metrics, Traffic};

/// What a client must take in a time limit, unless it takes all that there is: 2 KB a second at 30 seconds.
pub(crate) const PROGRESS_BYTES: usize = 64 * 1024;

/// A socket whose writes fail when too little of them could be written within `timeout`.
pub(crate) struct Impatient<IO> {
    socket: IO,
    timeout: Duration,
    metrics: Arc<Metrics>,
    /// Runs from the first write that waits until enough is taken.
    waiting: Option<Pin<Box<Sleep>>>,
    /// Bytes that were taken meanwhile.
    taken: usize,
}

impl<IO> Impatient<IO> {
    pub(crate) fn new(socket: IO, timeout: Duration, metrics: Arc<Metrics>) -> Self {
        Self { socket, timeout, metrics, waiting: None, taken: 0 }
    }

    fn judge(
        &mut self,
        cx: &mut Context<'_>,
        offered: usize,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(result) = &written {
            if let Ok(bytes) = result {
                self.metrics.http.add(Traffic::BytesOut, *bytes as u64);
                self.taken += bytes;
                if *bytes == offered || self.taken >= PROGRESS_BYTES {
                    (self.waiting, self.taken) = (None, 0);
                }
            }
            return written;
        }
        let timeout = self.timeout;
        let waiting = self.waiting.get_or_insert_with(|| {
            self.taken = 0;
            Box::pin(tokio::time::sleep_until(Instant::now() + timeout))
        });
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Impatient<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, into);
        let bytes = into.filled().len() - before;
        if bytes > 0 {
            self.metrics.http.add(Traffic::BytesIn, bytes as u64);
        }
        read
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Impatient<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, from);
        self.judge(cx, from.len(), written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, from);
        self.judge(cx, from.iter().map(|part| part.len()).sum(), written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::time::{Interval, MissedTickBehavior, interval};

    use super::*;

    /// A client that takes so many bytes every few milliseconds.
    struct Slow {
        every: Interval,
        bytes: usize,
        taken: usize,
    }

    impl Slow {
        fn new(every_ms: u64, bytes: usize) -> Self {
            let mut every = interval(Duration::from_millis(every_ms));
            every.set_missed_tick_behavior(MissedTickBehavior::Delay);
            Self { every, bytes, taken: 0 }
        }
    }

    impl AsyncWrite for Slow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            from: &[u8],
        ) -> Poll<io::Result<usize>> {
            ready!(self.every.poll_tick(cx));
            let bytes = self.bytes.min(from.len());
            self.taken += bytes;
            Poll::Ready(Ok(bytes))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Offers `offered` bytes to a client that takes `bytes` every 5 ms, within 50 ms; what comes of it, and how
    /// many it took.
    async fn write(offered: usize, bytes: usize) -> (io::Result<()>, usize) {
        let (slow, metrics) = (Slow::new(5, bytes), Arc::new(Metrics::new()));
        let mut socket = Impatient::new(slow, Duration::from_millis(50), metrics);
        let written = socket.write_all(&vec![0; offered]).await;
        (written, socket.socket.taken)
    }

    #[tokio::test]
    async fn a_client_that_takes_a_byte_now_and_then_is_given_up() {
        let (written, taken) = write(1_000, 1).await;
        let err = written.expect_err("it takes five seconds for so little");
        assert_eq!(err.kind(), io::ErrorKind::TimedOut);
        assert!(taken < 100, "{taken}");
    }

    #[tokio::test]
    async fn a_client_that_is_slow_but_reads_gets_all() {
        let (offered, bytes) = (PROGRESS_BYTES * 10, PROGRESS_BYTES / 4);
        // 200 ms in all, and every 20 of them enough.
        let (written, taken) = write(offered, bytes).await;
        written.expect("it goes on");
        assert_eq!(taken, offered);
    }

    #[tokio::test]
    async fn the_rest_of_an_answer_may_be_short() {
        let (slow, metrics) = (Slow::new(30, 10), Arc::new(Metrics::new()));
        let mut socket = Impatient::new(slow, Duration::from_millis(100), metrics);
        for _ in 0..8 {
            socket.write_all(b"all of it").await.expect("each is taken in time");
        }
        assert_eq!(socket.socket.taken, 8 * 9);
    }
}
