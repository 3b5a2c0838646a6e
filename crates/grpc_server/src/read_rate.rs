//! The rate at which the connections of an address are read. Frames that belong to no request or call, such as PING,
//! SETTINGS and WINDOW_UPDATE, are not charged elsewhere.
//!
//! In: the bytes of each read of a socket. Out: whether the next read is due.
//! Shape: the bytes are charged to the address of the connection. The connection is not read until they are due, so TCP
//! stops the client; it is written as before. Nor is it read while its excess calls delay that. In one poll of its task
//! a connection reads up to a bound, so that one of another client is read between its reads. HTTP/2 reads again after
//! each call that it accepts, so the end of a read does not show the end of the poll: the task starts each one
//! ([`PolledBytes`]).
//! Bounds: [`READ_BYTES_PER_S`](crate::request_budget::READ_BYTES_PER_S) of each address, and one read of each
//! connection.
//! Not here: the rates of requests and calls (`request_budget`), and which calls are excess (`excess_calls`).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use clients::ClientId;
use tokio::time::Sleep;

use crate::excess_calls::ExcessCalls;
use crate::server_state::ServerState;

/// Bytes that a connection reads before its task yields: some 1,000 PINGs. A larger value delays the other connections
/// more, a smaller one costs more polls of a connection with long requests.
const YIELD_BYTES: usize = 16 << 10;

/// Bytes that a connection has read in one poll of its task. Only that task uses them; the number is atomic because the
/// `Arc` that the task and the reads share must be `Send`, which needs `Sync`.
#[derive(Default)]
pub(crate) struct PolledBytes(AtomicUsize);

impl PolledBytes {
    /// Starts a poll of the task, in which nothing was read.
    pub(crate) fn start_poll(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The reads of one connection.
pub(crate) struct ReadRate {
    state: Arc<ServerState>,
    address: ClientId,
    /// The calls that delay the reads.
    excess_calls: Arc<ExcessCalls>,
    /// Ends when the next read is due.
    pause: Option<Pin<Box<Sleep>>>,
    polled_bytes: Arc<PolledBytes>,
}

impl ReadRate {
    /// Creates the rate of a connection from this address.
    pub(crate) fn new(state: Arc<ServerState>, address: ClientId) -> Self {
        Self {
            state,
            address,
            excess_calls: Arc::default(),
            pause: None,
            polled_bytes: Arc::default(),
        }
    }

    /// Sets the excess calls of the connection, which delay its reads.
    pub(crate) fn with_excess_calls(self, excess_calls: Arc<ExcessCalls>) -> Self {
        Self { excess_calls, ..self }
    }

    /// Returns the bytes of the current poll, for the task that polls the connection.
    pub(crate) fn polled_bytes(&self) -> Arc<PolledBytes> {
        Arc::clone(&self.polled_bytes)
    }

    /// Waits until the next read is due. Pending until the next poll of the task if this one has read enough.
    pub(crate) fn poll_due(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            let delay = self.excess_calls.read_delay(self.state.request_budget.now());
            if delay.is_zero() {
                break;
            }
            self.pause = Some(Box::pin(tokio::time::sleep(delay)));
        }
        if self.polled_bytes.0.load(Ordering::Relaxed) < YIELD_BYTES {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Charges the bytes of a read.
    pub(crate) fn charge(&mut self, bytes: usize) {
        self.polled_bytes.0.fetch_add(bytes, Ordering::Relaxed);
        let delay = self.state.request_budget.charge_read(self.address, bytes);
        self.pause = (!delay.is_zero()).then(|| Box::pin(tokio::time::sleep(delay)));
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Waker;
    use std::time::Duration;

    use tokio::task::JoinSet;
    use tokio::time::Instant;

    use super::*;
    use crate::config::Config;
    use crate::request_budget::READ_BYTES_PER_S;

    const HOSTILE: ClientId = ClientId(1);
    const HONEST: ClientId = ClientId(2);
    const READ_BYTES: usize = 8 << 10;

    fn state() -> Arc<ServerState> {
        Arc::new(ServerState::new(Config::default()))
    }

    #[tokio::test(start_paused = true)]
    async fn connections_of_one_address_are_read_at_one_rate() {
        const CONNECTIONS: usize = 50;
        let state = state();
        let started = Instant::now();
        let read = Arc::new(AtomicUsize::new(0));
        let mut connections = JoinSet::<()>::new();
        for _ in 0..CONNECTIONS {
            let mut rate = ReadRate::new(Arc::clone(&state), HOSTILE);
            let read = Arc::clone(&read);
            connections.spawn(async move {
                let polled_bytes = rate.polled_bytes();
                loop {
                    poll_fn(|context| {
                        polled_bytes.start_poll();
                        rate.poll_due(context)
                    })
                    .await;
                    rate.charge(READ_BYTES);
                    read.fetch_add(READ_BYTES, Ordering::Relaxed);
                }
            });
        }
        let mut honest = ReadRate::new(Arc::clone(&state), HONEST);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(honest.poll_due(&mut context).is_ready(), "the honest client is read");
            honest.charge(100);
        }
        let seconds = started.elapsed().as_secs_f64();
        let due = ((1.0 + seconds) * READ_BYTES_PER_S as f64) as usize + CONNECTIONS * READ_BYTES;
        let read = read.load(Ordering::Relaxed);
        assert!((due / 2..=due).contains(&read), "{read} bytes, {due} are due");
    }

    #[tokio::test]
    async fn a_connection_that_always_has_more_bytes_yields() {
        let mut rate = ReadRate::new(state(), HOSTILE);
        let polled_bytes = rate.polled_bytes();
        let mut context = Context::from_waker(Waker::noop());
        let mut reads = || {
            let mut reads = 0;
            while rate.poll_due(&mut context).is_ready() {
                rate.charge(READ_BYTES);
                reads += 1;
            }
            reads
        };
        for _ in 0..2 {
            polled_bytes.start_poll();
            assert_eq!(reads(), YIELD_BYTES / READ_BYTES);
            assert_eq!(reads(), 0, "HTTP/2 reads again in the same poll, after it accepted a call");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn short_reads_count_for_more_than_their_bytes() {
        const PING_BYTES: usize = 17;
        let mut rate = ReadRate::new(state(), HOSTILE);
        let polled_bytes = rate.polled_bytes();
        let mut context = Context::from_waker(Waker::noop());
        let mut reads = 0;
        while rate.poll_due(&mut context).is_ready() {
            rate.charge(PING_BYTES);
            polled_bytes.start_poll();
            reads += 1;
        }
        let expected = READ_BYTES_PER_S as usize / 256;
        assert!((expected - 2..=expected + 2).contains(&reads), "{reads} reads");
    }
}
