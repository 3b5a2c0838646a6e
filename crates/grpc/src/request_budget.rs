//! The work that the requests of a client may cause: one request at a time, and a number of bytes a second.
//!
//! Bounds: [`BYTES_PER_S`] of each client, after decompression, and [`REQUEST_BYTES_MIN`] for a short request. A client
//! beyond them waits; nothing is refused. A turn for each client that has a subscription.

use std::sync::{Arc, Weak};
use std::time::Duration;

use clients::{ClientId, Limits, RateLimiter};
use foldhash::HashMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::counters::{Event, GrpcCounters};

/// Decoded bytes of a client a second; one second's worth may come at once. Decoding, compiling and indexing them takes
/// up to a fifth of a second. A larger value lets a client delay the requests of others more.
const BYTES_PER_S: u64 = 8 << 20;
/// The cost of a short request. A client may send 2,048 a second.
const REQUEST_BYTES_MIN: usize = 4 << 10;
/// Turns above which those of clients that have left are removed.
const TURNS_MIN: usize = 64;

/// The turn of a client, which a request holds while it is handled.
pub(crate) type Turn = Arc<tokio::sync::Mutex<()>>;

pub(crate) struct RequestBudget {
    limiter: RateLimiter,
    started: Instant,
    turns: Mutex<Turns>,
}

#[derive(Default)]
struct Turns {
    by_client: HashMap<ClientId, Weak<tokio::sync::Mutex<()>>>,
    /// The number above which they are pruned next.
    prune_above: usize,
}

impl RequestBudget {
    pub(crate) fn new() -> Self {
        let limits = Limits { requests_per_s: 0, bytes_per_s: BYTES_PER_S };
        Self { limiter: RateLimiter::new(limits), started: Instant::now(), turns: Mutex::default() }
    }

    /// Returns the turn that all requests of a client share.
    pub(crate) fn turn(&self, client: ClientId) -> Turn {
        let turns = &mut *self.turns.lock();
        if let Some(turn) = turns.by_client.get(&client).and_then(Weak::upgrade) {
            return turn;
        }
        if turns.by_client.len() >= turns.prune_above {
            turns.by_client.retain(|_, turn| turn.strong_count() > 0);
            turns.prune_above = TURNS_MIN.max(2 * turns.by_client.len());
        }
        let turn = Turn::default();
        turns.by_client.insert(client, Arc::downgrade(&turn));
        turn
    }

    /// Charges a request as it was received, and waits until it is due.
    pub(crate) async fn charge_and_wait(
        &self,
        client: ClientId,
        bytes: usize,
        counters: &GrpcCounters,
    ) {
        let cost = bytes.max(REQUEST_BYTES_MIN) as u64;
        let mut charged = self.limiter.reserve_bytes(client, cost, self.now());
        if charged != Ok(Duration::ZERO) {
            counters.record(Event::RequestDelayed);
        }
        while let Err(delay) = charged {
            tokio::time::sleep(delay).await;
            charged = self.limiter.reserve_bytes(client, cost, self.now());
        }
        if let Ok(delay) = charged
            && !delay.is_zero()
        {
            tokio::time::sleep(delay).await;
        }
    }

    /// Charges the bytes that a request gained by decompression.
    pub(crate) fn charge(&self, client: ClientId, bytes: usize) {
        self.limiter.charge_bytes(client, bytes as u64, self.now());
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}
