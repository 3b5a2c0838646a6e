//! A socket that closes the connection of a client that does not read, or hardly reads. It also counts bytes,
//! and observes the budget of a poll.
//!
//! Without it, a client that never reads its response would occupy its connection and the memory of the
//! response forever: TCP has no timeout while the peer is alive.
//! Bounds: from the first write that has to wait, the client must take [`PROGRESS_BYTES`], or all that is
//! offered, within the time limit, and then again. A few bytes now and then are not enough. One poll of the
//! connection reads and writes as much as [`crate::poll_budget`] allows. A larger write, and the rest of one that had
//! to wait, need a grant of the yield queue.
//! A connection that is closed before its client has sent all of a request lingers ([`LINGER_TIMEOUT`],
//! [`LINGER_IDLE_TIMEOUT`], [`DRAIN_BYTES_MAX`]): it sends its end, and reads until the client ends, too. Otherwise the
//! system would reset the connection, and the client would lose the response with the reason. A connection that lingers
//! counts as any other: against the limit of all, and the share of its address.
//! A connection that ends in the middle of a body that only its end delimits is reset instead.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use crate::head_progress::HeadProgress;
use crate::http_metrics::{HttpCounters, HttpEvent};
use crate::poll_budget;
use crate::yield_queue::YieldSlot;

/// Bytes that a client must take within the time limit, unless it takes everything: 2 KB a second at 30
/// seconds.
pub(crate) const PROGRESS_BYTES: usize = 64 * 1024;

/// Maximum time that a closed connection waits for its client to end. A shorter time resets slow clients that still
/// send.
const LINGER_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time that a closed connection waits for a byte. A client that has read its response ends in a round trip.
const LINGER_IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes that are read and dropped from a client whose connection is closed: many times a program or an account.
/// Clients such as Node's fetch lose the response if the connection is reset while they send.
pub const DRAIN_BYTES_MAX: usize = 64 << 20;

/// Bytes that are drained at once.
const DRAIN_BUFFER_BYTES: usize = 16 * 1024;

/// Parts of a write that are passed to the system in one call; the rest waits for the next.
const PARTS_MAX: usize = 64;

/// State that a socket shares with the task that serves it.
pub(crate) struct SocketControl {
    pub(crate) yield_slot: YieldSlot,
    /// Whether the connection lingers when it is closed.
    pub(crate) lingers: AtomicBool,
    /// The head that the connection reads or waits for.
    pub(crate) head_progress: HeadProgress,
    /// Whether a body without a length is being sent: the end of the connection is its end.
    pub(crate) sends_until_close: AtomicBool,
}

impl SocketControl {
    pub(crate) fn new(yield_slot: YieldSlot) -> Self {
        Self {
            yield_slot,
            lingers: AtomicBool::new(false),
            head_progress: HeadProgress::default(),
            sends_until_close: AtomicBool::new(false),
        }
    }
}

/// A socket whose writes fail when too little of them could be written within `timeout`.
pub(crate) struct WriteTimeout<IO> {
    socket: IO,
    timeout: Duration,
    metrics: Arc<HttpCounters>,
    /// None in tests: then writes are not limited.
    control: Option<Arc<SocketControl>>,
    /// The last write was limited, or had to wait: the next one needs a grant.
    needs_grant: bool,
    draining: Option<Draining>,
    /// Runs from the first write that waits until enough is taken.
    waiting: Option<Pin<Box<Sleep>>>,
    /// Bytes that the client took since `waiting` started.
    taken: usize,
}

/// A connection that lingers.
struct Draining {
    left: usize,
    end: Instant,
    /// The end, or the time limit of the next byte.
    until: Pin<Box<Sleep>>,
}

impl<IO> WriteTimeout<IO> {
    pub(crate) fn new(socket: IO, timeout: Duration, metrics: Arc<HttpCounters>) -> Self {
        let control = None;
        let draining = None;
        Self {
            socket,
            timeout,
            metrics,
            control,
            needs_grant: false,
            draining,
            waiting: None,
            taken: 0,
        }
    }

    /// Makes the stream observe the budget of each poll.
    pub(crate) fn with_control(self, control: &Arc<SocketControl>) -> Self {
        Self { control: Some(Arc::clone(control)), ..self }
    }

    /// Returns how many of `total` bytes may be written now.
    fn poll_write_left(&mut self, cx: &mut Context<'_>, total: usize) -> Poll<usize> {
        let Some(control) = &self.control else { return Poll::Ready(usize::MAX) };
        ready!(control.yield_slot.poll_write(cx, total, self.needs_grant));
        self.needs_grant = false;
        Poll::Ready(poll_budget::write_left())
    }

    /// Counts a write. Of `total` bytes, `offered` were passed to the system.
    fn record_write(
        &mut self,
        (total, offered): (usize, usize),
        written: &Poll<io::Result<usize>>,
    ) {
        self.needs_grant = match written {
            Poll::Pending => true,
            Poll::Ready(Ok(bytes)) => {
                poll_budget::charge_written(*bytes);
                // Bytes that the system did not accept wait for the client and not for the queue.
                *bytes == offered && offered < total
            }
            Poll::Ready(Err(_)) => false,
        };
    }

    fn check_progress(
        &mut self,
        cx: &mut Context<'_>,
        offered: usize,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(result) = &written {
            if let Ok(bytes) = result {
                self.metrics.add(HttpEvent::BytesOut, *bytes as u64);
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

impl WriteTimeout<TcpStream> {
    /// Makes the end of a body that is not complete an abort: a client that reads until the end of the connection
    /// would take the part that it has for the whole (RFC 9112, section 8).
    pub(crate) fn reset_if_incomplete(&self) {
        let sends_until_close =
            |control: &Arc<SocketControl>| control.sends_until_close.load(Ordering::Relaxed);
        if self.control.as_ref().is_some_and(sends_until_close) {
            // It only fails on a socket that is closed already. Closing the socket then sends RST and no FIN.
            let _ = SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
        }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for WriteTimeout<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(control) = &self.control {
            ready!(control.yield_slot.poll_budget(cx));
        }
        let before = into.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, into);
        let bytes = into.filled().len() - before;
        poll_budget::charge(bytes);
        if bytes > 0 {
            self.metrics.add(HttpEvent::BytesIn, bytes as u64);
            if let Some(control) = &self.control {
                control.head_progress.begin();
            }
        }
        read
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WriteTimeout<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let left = ready!(self.poll_write_left(cx, from.len()));
        let offered = from.get(..left).unwrap_or(from);
        let written = Pin::new(&mut self.socket).poll_write(cx, offered);
        self.record_write((from.len(), offered.len()), &written);
        self.check_progress(cx, offered.len(), written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let total = from.iter().map(|part| part.len()).sum();
        let left = ready!(self.poll_write_left(cx, total));
        let (parts, count, offered) = cut(from, left);
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, &parts[..count]);
        self.record_write((total, offered), &written);
        self.check_progress(cx, offered, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.draining.is_none() {
            ready!(Pin::new(&mut self.socket).poll_shutdown(cx))?;
            if let Some(control) = &self.control {
                // The client has the whole body.
                control.sends_until_close.store(false, Ordering::Relaxed);
            }
            let lingers = |control: &Arc<SocketControl>| control.lingers.load(Ordering::Relaxed);
            if !self.control.as_ref().is_some_and(lingers) {
                return Poll::Ready(Ok(()));
            }
        }
        let mut draining = self.draining.take().unwrap_or_else(Draining::new);
        let drained = draining.poll(self.as_mut(), cx);
        if drained.is_pending() {
            self.draining = Some(draining);
        }
        drained.map(Ok)
    }
}

impl Draining {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            left: DRAIN_BYTES_MAX,
            end: now + LINGER_TIMEOUT,
            until: Box::pin(tokio::time::sleep_until(now + LINGER_IDLE_TIMEOUT)),
        }
    }

    /// Ready when the client has ended, or a limit is reached.
    fn poll<IO: AsyncRead + Unpin>(
        &mut self,
        mut socket: Pin<&mut WriteTimeout<IO>>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        // On the stack: many connections may linger, and most of them read nothing.
        let mut buffer = [MaybeUninit::<u8>::uninit(); DRAIN_BUFFER_BYTES];
        while self.until.as_mut().poll(cx).is_pending() {
            let mut into = ReadBuf::uninit(&mut buffer);
            let read = ready!(socket.as_mut().poll_read(cx, &mut into));
            let bytes = into.filled().len();
            let left = self.left.checked_sub(bytes).filter(|_| bytes > 0 && read.is_ok());
            match left {
                Some(left) => self.left = left,
                None => break,
            }
            let idle = Instant::now() + LINGER_IDLE_TIMEOUT;
            self.until.as_mut().reset(idle.min(self.end));
        }
        Poll::Ready(())
    }
}

/// The first `left` bytes of a write: their parts, how many these are, and how many bytes.
fn cut<'s>(
    from: &'s [io::IoSlice<'_>],
    left: usize,
) -> ([io::IoSlice<'s>; PARTS_MAX], usize, usize) {
    let mut parts = [io::IoSlice::new(&[]); PARTS_MAX];
    let mut count = 0;
    let mut offered = 0;
    for (into, part) in parts.iter_mut().zip(from) {
        if offered == left {
            break;
        }
        let part = part.get(..left - offered).unwrap_or(part);
        *into = io::IoSlice::new(part);
        (count, offered) = (count + 1, offered + part.len());
    }
    (parts, count, offered)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::time::{Interval, MissedTickBehavior, interval};

    use super::*;

    /// A client that takes `bytes` bytes at each tick.
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

    impl AsyncRead for Slow {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
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

    /// Writes `offered` bytes to a client that takes `bytes` every 5 ms, with a time limit of 50 ms; returns
    /// the outcome and how many bytes it took.
    async fn write(offered: usize, bytes: usize) -> (io::Result<()>, usize) {
        let slow = Slow::new(5, bytes);
        let metrics = Arc::new(HttpCounters::new());
        let mut socket = WriteTimeout::new(slow, Duration::from_millis(50), metrics);
        let written = socket.write_all(&vec![0; offered]).await;
        (written, socket.socket.taken)
    }

    #[tokio::test]
    async fn a_client_that_takes_a_byte_now_and_then_times_out() {
        let (written, taken) = write(1_000, 1).await;
        let err = written.expect_err("five seconds for 1,000 bytes");
        assert_eq!(err.kind(), io::ErrorKind::TimedOut);
        assert!(taken < 100, "{taken}");
    }

    #[tokio::test]
    async fn a_client_that_is_slow_but_reads_gets_all() {
        let offered = PROGRESS_BYTES * 10;
        let bytes = PROGRESS_BYTES / 4;
        // 200 ms in all, with enough progress every 20 ms.
        let (written, taken) = write(offered, bytes).await;
        written.expect("it makes progress");
        assert_eq!(taken, offered);
    }

    #[tokio::test]
    async fn the_rest_of_a_response_may_be_short() {
        let slow = Slow::new(30, 10);
        let metrics = Arc::new(HttpCounters::new());
        let mut socket = WriteTimeout::new(slow, Duration::from_millis(100), metrics);
        for _ in 0..8 {
            socket.write_all(b"all of it").await.expect("each is taken in time");
        }
        assert_eq!(socket.socket.taken, 8 * 9);
    }

    #[test]
    fn a_connection_that_lingers_has_no_buffer() {
        assert!(size_of::<Draining>() <= 4 * size_of::<u64>(), "{}", size_of::<Draining>());
    }

    /// The parts of a write that go to the system at once, as texts.
    fn cut_texts(parts: &[&'static str], left: usize) -> (Vec<String>, usize) {
        let from: Vec<_> = parts.iter().map(|part| io::IoSlice::new(part.as_bytes())).collect();
        let (parts, count, offered) = cut(&from, left);
        let text = |part: &io::IoSlice<'_>| String::from_utf8_lossy(part).into_owned();
        (parts[..count].iter().map(text).collect(), offered)
    }

    #[test]
    fn a_write_is_cut_where_the_budget_ends() {
        let cut = |left| cut_texts(&["abc", "", "de", "fgh"], left);
        assert_eq!(cut(0), (vec![], 0));
        assert_eq!(cut(2), (vec!["ab".to_owned()], 2));
        assert_eq!(cut(4).1, 4);
        assert_eq!(cut(4).0.concat(), "abcd");
        assert_eq!((cut(8).1, cut(usize::MAX).1), (8, 8));
        assert_eq!(cut(usize::MAX).0.concat(), "abcdefgh");
        assert_eq!(cut_texts(&["x"; 200], usize::MAX).1, PARTS_MAX);
    }

    #[tokio::test]
    async fn a_connection_with_much_to_write_yields_to_others() {
        use std::sync::atomic::AtomicUsize;

        use clients::ClientId;

        use crate::poll_budget::{Budgeted, GRANT_UNITS, UNITS};
        use crate::yield_queue::{GRANTS_PER_THREAD, YieldQueue};

        const BYTES: usize = 4 * 1024 * 1024;
        let metrics = Arc::new(HttpCounters::new());
        let queue = Arc::new(YieldQueue::new(Arc::clone(&metrics), 1));
        let resuming = tokio::spawn(Arc::clone(&queue).run());
        let taken = Arc::new(AtomicUsize::new(0));
        let writing = |client| {
            let yield_slot = YieldSlot::new(&queue, ClientId(client));
            let control = Arc::new(SocketControl::new(yield_slot));
            let socket = Counting(Arc::clone(&taken));
            let socket = WriteTimeout::new(socket, Duration::from_secs(30), Arc::clone(&metrics));
            let mut socket = socket.with_control(&control);
            let bytes = vec![0; BYTES];
            let mut written = 0;
            tokio::spawn(Budgeted::new(std::future::poll_fn(move |cx| {
                // As hyper does, to see whether the client has disconnected.
                let read = Pin::new(&mut socket).poll_read(cx, &mut ReadBuf::new(&mut [0; 8]));
                assert!(read.is_pending());
                while written < BYTES {
                    let parts = [io::IoSlice::new(&bytes[written..])];
                    let write = Pin::new(&mut socket).poll_write_vectored(cx, &parts);
                    written += ready!(write).expect("it takes all");
                }
                Poll::Ready(())
            })))
        };
        let writers: Vec<_> = (0..8).map(writing).collect();
        let mut most = 0;
        let mut seen = 0;
        while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
            tokio::task::yield_now().await;
            let now = taken.load(Ordering::Relaxed);
            most = most.max(now - seen);
            seen = now;
        }
        assert_eq!(taken.load(Ordering::Relaxed), 8 * BYTES);
        // Each may have the budget of a fresh poll, and all of them share the grants of a round.
        let most_allowed = 8 * UNITS + GRANTS_PER_THREAD * GRANT_UNITS;
        assert!(most <= most_allowed, "{most} bytes without a pause");
        resuming.abort();
    }

    /// A client that takes everything.
    struct Counting(Arc<std::sync::atomic::AtomicUsize>);

    impl AsyncRead for Counting {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Counting {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            from: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.0.fetch_add(from.len(), Ordering::Relaxed);
            Poll::Ready(Ok(from.len()))
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            from: &[io::IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let all = from.iter().flat_map(|part| part.to_vec()).collect::<Vec<_>>();
            self.poll_write(cx, &all)
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }
}
