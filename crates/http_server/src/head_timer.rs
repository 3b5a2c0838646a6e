//! The timer with which hyper bounds a request's head: the wait of a connection for its next request, and the time of a
//! head from its first byte.
//!
//! The two differ by their roles. A proxy keeps connections open and sends its next request on one of them. If the node
//! closes the connection first, the request may be lost, and the proxy sends 502. So the node waits longer than the
//! usual proxies (`HttpConfig::keep_alive_ms`). The rest of a head follows its first byte soon, and so does the first
//! head of a connection (`HttpConfig::header_timeout_ms`).
//! Bounds: connections that wait count as connections, with the shares of their addresses. While the last tenth of all
//! connections is in use, a connection waits for `header_timeout_ms` only.
//! Limitation: a head that begins in the same packet as the end of the request before it counts as idle until its next
//! byte. Hyper reports neither the length of a head nor what it has buffered, so only a second parser of requests could
//! tell, and it would close idle connections wherever it disagrees with hyper: some clients send an empty line after a
//! body. Such a connection waits no longer than one that sends nothing, and has in addition its part of a head, at most
//! `HttpConfig::head_bytes_max`.
//! Cost: a connection has one timer of the runtime, which stays set from one head to the next. Setting it takes a lock
//! that all timers share, so a later deadline sets it only after it has fired: about once in the time of a wait.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::http_config::HttpConfig;
use crate::write_timeout::SocketControl;

/// The timer of one connection.
pub(crate) struct HeadTimer {
    control: Arc<SocketControl>,
    /// The permits of all connections.
    permits: Arc<Semaphore>,
    /// Free permits below which a connection waits for its next request for `header_timeout` only.
    free_permits_min: usize,
    header_timeout: Duration,
    keep_alive: Duration,
    alarm: Arc<Alarm>,
}

/// The timer of the runtime that all waits of a connection share.
struct Alarm(Mutex<Pin<Box<tokio::time::Sleep>>>);

impl HeadTimer {
    /// Creates the timer of a connection, whose permit is one of `permits`.
    pub(crate) fn new(
        config: &HttpConfig,
        permits: &Arc<Semaphore>,
        control: &Arc<SocketControl>,
    ) -> Self {
        let header_timeout = Duration::from_millis(config.header_timeout_ms);
        Self {
            control: Arc::clone(control),
            permits: Arc::clone(permits),
            free_permits_min: config.connections_max / 10,
            header_timeout,
            keep_alive: Duration::from_millis(config.keep_alive_ms),
            alarm: Arc::new(Alarm::new(header_timeout)),
        }
    }

    fn is_nearly_full(&self) -> bool {
        self.permits.available_permits() < self.free_permits_min
    }
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    /// Returns the wait for a head. `deadline` is that of a head that has begun now.
    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let waits_for_next = self.control.head_progress.begin_wait();
        let idle = match waits_for_next && !self.is_nearly_full() {
            true => self.keep_alive.saturating_sub(self.header_timeout),
            false => Duration::ZERO,
        };
        Box::pin(HeadSleep {
            control: Arc::clone(&self.control),
            alarm: Arc::clone(&self.alarm),
            header_timeout: self.header_timeout,
            has_begun: !waits_for_next,
            deadline: (deadline + idle).into(),
        })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

/// Ready when it is too late for a head.
struct HeadSleep {
    control: Arc<SocketControl>,
    alarm: Arc<Alarm>,
    header_timeout: Duration,
    /// Whether the limit of a head applies already.
    has_begun: bool,
    deadline: tokio::time::Instant,
}

impl Sleep for HeadSleep {}

impl Future for HeadSleep {
    type Output = ();

    /// Hyper polls it whenever it has read what there is, and the head is not complete.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if !this.has_begun && this.control.head_progress.has_begun() {
            this.has_begun = true;
            this.deadline = tokio::time::Instant::now() + this.header_timeout;
        }
        this.alarm.poll(this.deadline, cx)
    }
}

impl Alarm {
    /// Creates the timer of a connection whose first deadline is `first` from now, or later.
    fn new(first: Duration) -> Self {
        Self(Mutex::new(Box::pin(tokio::time::sleep(first))))
    }

    /// Ready at the deadline of the current wait.
    fn poll(&self, deadline: tokio::time::Instant, cx: &mut Context<'_>) -> Poll<()> {
        let mut sleep = self.0.lock();
        if deadline < sleep.deadline() {
            sleep.as_mut().reset(deadline);
        }
        ready!(sleep.as_mut().poll(cx));
        if sleep.deadline() < deadline {
            // It was set for an earlier wait.
            sleep.as_mut().reset(deadline);
            return sleep.as_mut().poll(cx);
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use clients::ClientId;
    use futures_util::FutureExt;

    use super::*;
    use crate::http_metrics::HttpCounters;
    use crate::yield_queue::{YieldQueue, YieldSlot};

    const HEADER_MS: u64 = 20;
    const KEEP_ALIVE_MS: u64 = 200;

    /// Waits for a head; returns after how many milliseconds it is too late. `begin` is called when hyper has polled
    /// once.
    async fn waited_ms(timer: &HeadTimer, begin: impl FnOnce()) -> u64 {
        let started = timer.now();
        let mut sleep = timer.sleep_until(started + timer.header_timeout);
        assert!((&mut sleep).now_or_never().is_none());
        begin();
        sleep.await;
        u64::try_from((timer.now() - started).as_millis()).expect("it is short")
    }

    fn timer(permits: usize) -> HeadTimer {
        let queue = Arc::new(YieldQueue::new(Arc::new(HttpCounters::new()), 1));
        HeadTimer {
            control: Arc::new(SocketControl::new(YieldSlot::new(&queue, ClientId(1)))),
            permits: Arc::new(Semaphore::new(permits)),
            free_permits_min: 10,
            header_timeout: Duration::from_millis(HEADER_MS),
            keep_alive: Duration::from_millis(KEEP_ALIVE_MS),
            alarm: Arc::new(Alarm::new(Duration::from_millis(HEADER_MS))),
        }
    }

    #[tokio::test]
    async fn an_idle_connection_waits_longer_than_a_head_may_take() {
        let timer = timer(10);
        let progress = Arc::clone(&timer.control);
        let unused = waited_ms(&timer, || ()).await;
        assert!((HEADER_MS..KEEP_ALIVE_MS).contains(&unused), "the first request: {unused} ms");
        progress.head_progress.complete();
        let idle = waited_ms(&timer, || ()).await;
        assert!(idle >= KEEP_ALIVE_MS, "between two requests: {idle} ms");
        let begun = waited_ms(&timer, || progress.head_progress.begin()).await;
        assert!((HEADER_MS..KEEP_ALIVE_MS).contains(&begun), "a head that has begun: {begun} ms");
    }

    #[tokio::test]
    async fn a_wait_outlasts_the_timer_of_the_one_before_it() {
        let timer = timer(10);
        let mut first = timer.sleep_until(timer.now() + timer.header_timeout);
        assert!((&mut first).now_or_never().is_none());
        drop(first);
        timer.control.head_progress.complete();
        let idle = waited_ms(&timer, || ()).await;
        assert!(idle >= KEEP_ALIVE_MS, "between two requests: {idle} ms");
    }

    #[tokio::test]
    async fn an_idle_connection_waits_briefly_while_connections_are_scarce() {
        let timer = timer(9);
        timer.control.head_progress.complete();
        let idle = waited_ms(&timer, || ()).await;
        assert!((HEADER_MS..KEEP_ALIVE_MS).contains(&idle), "{idle} ms");
    }
}
