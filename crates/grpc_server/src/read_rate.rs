//! The rate at which the connections of an address are read. Frames that belong to no request or call, such as PING,
//! SETTINGS and WINDOW_UPDATE, are not charged elsewhere.
//!
//! In: the bytes of each read of a socket. Out: whether the next read is due.
//! Shape: the bytes are charged to the address of the connection. The connection is not read until they are due, so TCP
//! stops the client; it is written as before. Nor is it read while its excess calls delay that. A connection that always has more bytes yields after some, so that one of
//! another client is read between its reads.
//! Bounds: [`READ_BYTES_PER_S`](crate::request_budget::READ_BYTES_PER_S) of each address, and one read of each connection.
//! Not here: the rates of requests and calls (`request_budget`), and which calls are excess (`excess_calls`).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use clients::ClientId;
use tokio::time::Sleep;

use crate::excess_calls::ExcessCalls;
use crate::server_state::ServerState;

/// Bytes that a connection reads before its task yields: some 1,000 PINGs. A larger value delays the other connections
/// more, a smaller one costs more polls of a connection with long requests.
const YIELD_BYTES: usize = 16 << 10;

/// The reads of one connection.
pub(crate) struct ReadRate {
    state: Arc<ServerState>,
    address: ClientId,
    /// The calls that delay the reads.
    excess_calls: Arc<ExcessCalls>,
    /// Ends when the next read is due.
    pause: Option<Pin<Box<Sleep>>>,
    /// Bytes that were read since the task of the connection yielded.
    unyielded_bytes: usize,
}

impl ReadRate {
    /// Creates the rate of a connection from this address.
    pub(crate) fn new(state: Arc<ServerState>, address: ClientId) -> Self {
        Self { state, address, excess_calls: Arc::default(), pause: None, unyielded_bytes: 0 }
    }

    /// Sets the excess calls of the connection, which delay its reads.
    pub(crate) fn with_excess_calls(self, excess_calls: Arc<ExcessCalls>) -> Self {
        Self { excess_calls, ..self }
    }

    /// Waits until the next read is due.
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
        if self.unyielded_bytes < YIELD_BYTES {
            return Poll::Ready(());
        }
        self.unyielded_bytes = 0;
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Charges the bytes of a read.
    pub(crate) fn charge(&mut self, bytes: usize) {
        self.unyielded_bytes += bytes;
        let delay = self.state.request_budget.charge_read(self.address, bytes);
        self.pause = (!delay.is_zero()).then(|| Box::pin(tokio::time::sleep(delay)));
    }

    /// Records that the socket has no more bytes, so that the task of the connection yields.
    pub(crate) fn record_empty(&mut self) {
        self.unyielded_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};
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
                loop {
                    poll_fn(|context| rate.poll_due(context)).await;
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
            honest.record_empty();
        }
        let seconds = started.elapsed().as_secs_f64();
        let due = ((1.0 + seconds) * READ_BYTES_PER_S as f64) as usize + CONNECTIONS * READ_BYTES;
        let read = read.load(Ordering::Relaxed);
        assert!((due / 2..=due).contains(&read), "{read} bytes, {due} are due");
    }

    #[tokio::test]
    async fn a_connection_that_always_has_more_bytes_yields() {
        let mut rate = ReadRate::new(state(), HOSTILE);
        let mut context = Context::from_waker(Waker::noop());
        let mut reads = || {
            let mut reads = 0;
            while rate.poll_due(&mut context).is_ready() {
                rate.charge(READ_BYTES);
                reads += 1;
            }
            reads
        };
        assert_eq!([reads(), reads()], [YIELD_BYTES / READ_BYTES; 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn short_reads_count_for_more_than_their_bytes() {
        const PING_BYTES: usize = 17;
        let mut rate = ReadRate::new(state(), HOSTILE);
        let mut context = Context::from_waker(Waker::noop());
        let mut reads = 0;
        while rate.poll_due(&mut context).is_ready() {
            rate.charge(PING_BYTES);
            rate.record_empty();
            reads += 1;
        }
        let expected = READ_BYTES_PER_S as usize / 256;
        assert!((expected - 2..=expected + 2).contains(&reads), "{reads} reads");
    }
}
