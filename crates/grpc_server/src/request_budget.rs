//! The work that a client may cause: one request at a time, and a number of calls and of bytes a second.
//!
//! Shape: bytes are charged as they are received. A stream whose client is beyond its rate is not read, so HTTP/2 stops
//! the client once the window is full: neither receiving nor decoding costs more than the rate, and a frame of each
//! stream.
//! Bounds: [`BYTES_PER_S`] of each client, after decompression, and `Config::request_cost_bytes_min` for a short request.
//! A client beyond them waits; nothing is refused. `Config::calls_per_s` of each client, and as many refusals of calls
//! that would wait too long. As many new connections, and as many health checks, of each address: a load balancer makes
//! them from an address that it shares with its clients, and their calls must not delay it. [`READ_BYTES_PER_S`] of each
//! address. A lock for each client that has a subscription.
//! Not here: the waits of calls (`call_rate`) and of reads (`read_rate`).

use std::sync::{Arc, Weak};
use std::time::Duration;

use clients::{ClientId, Limits, RateLimiter};
use foldhash::HashMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::Config;
use crate::counters::{Event, ServerCounters};

/// Bytes of a client a second, decoded; one second's worth may come at once. Decoding, compiling and indexing them
/// takes up to a fifth of a second. A larger value lets a client delay the requests of others more.
pub(crate) const BYTES_PER_S: u64 = 8 << 20;
/// Bytes that are read from all connections of an address a second; one second's worth may come at once. With a larger
/// value, PINGs of one client delay the others more. It is above [`BYTES_PER_S`], so that a client with long requests
/// reaches that limit first, and a proxy may forward the requests of several API keys.
pub(crate) const READ_BYTES_PER_S: u64 = 16 << 20;
/// Bytes that a shorter read counts as. A larger value delays clients that acknowledge many small messages.
const READ_COST_BYTES_MIN: u64 = 256;
/// Time that a call waits at most because its client exceeds its rate. With a larger value, a client learns later that
/// it makes too many calls, and more of its calls wait.
pub(crate) const CALL_WAIT_MAX: Duration = Duration::from_secs(2);
/// Time that the refusal of a call waits at most because its client has too many of them. A larger value lets more of
/// them wait; a smaller one ends connections of clients with fewer calls at once.
pub(crate) const REFUSAL_WAIT_MAX: Duration = Duration::from_secs(10);
/// Number of locks above which those of clients that have left are removed.
const LOCKS_MIN: usize = 64;

/// The lock of a client. Each of its requests takes the lock while it is handled.
pub type ClientLock = Arc<tokio::sync::Mutex<()>>;

/// The rates and the locks of all clients.
pub struct RequestBudget {
    limiter: RateLimiter,
    /// The rates of new connections, by address.
    connections: RateLimiter,
    /// The rates of health checks, by address.
    health_checks: RateLimiter,
    /// The cost of a short request.
    cost_bytes_min: usize,
    started: Instant,
    locks: Mutex<ClientLocks>,
}

#[derive(Default)]
struct ClientLocks {
    by_client: HashMap<ClientId, Weak<tokio::sync::Mutex<()>>>,
    /// The number above which they are pruned next.
    prune_above: usize,
}

impl RequestBudget {
    pub(crate) fn new(config: &Config) -> Self {
        let calls = Limits { requests_per_s: config.calls_per_s, ..Limits::default() };
        Self {
            limiter: RateLimiter::new(Limits { bytes_per_s: BYTES_PER_S, ..calls }),
            connections: RateLimiter::new(calls),
            health_checks: RateLimiter::new(calls),
            cost_bytes_min: config.request_cost_bytes_min,
            started: Instant::now(),
            locks: Mutex::default(),
        }
    }

    /// Returns the lock that all requests of a client share.
    pub fn client_lock(&self, client: ClientId) -> ClientLock {
        let locks = &mut *self.locks.lock();
        if let Some(lock) = locks.by_client.get(&client).and_then(Weak::upgrade) {
            return lock;
        }
        if locks.by_client.len() >= locks.prune_above {
            locks.by_client.retain(|_, lock| lock.strong_count() > 0);
            locks.prune_above = LOCKS_MIN.max(2 * locks.by_client.len());
        }
        let lock = ClientLock::default();
        locks.by_client.insert(client, Arc::downgrade(&lock));
        lock
    }

    /// Charges a call. Returns the time until it is due.
    ///
    /// Errors: that time is longer than [`CALL_WAIT_MAX`]. Nothing is charged.
    pub(crate) fn charge_call(&self, client: ClientId) -> Result<Duration, Duration> {
        self.limiter.reserve_request(client, CALL_WAIT_MAX, self.now())
    }

    /// Charges a new connection to its address. Returns the time until it is due.
    ///
    /// Errors: those of [`Self::charge_call`].
    pub(crate) fn charge_connection(&self, address: ClientId) -> Result<Duration, Duration> {
        self.connections.reserve_request(address, CALL_WAIT_MAX, self.now())
    }

    /// Charges a health check to its address. Returns the time until it is due.
    ///
    /// Errors: those of [`Self::charge_call`].
    pub(crate) fn charge_health_check(&self, address: ClientId) -> Result<Duration, Duration> {
        self.health_checks.reserve_request(address, CALL_WAIT_MAX, self.now())
    }

    /// Charges the refusal of a call that would wait too long. Refusals have a rate of their own, as high as that of
    /// calls: they do not delay the calls that are served. Returns the time until it is due.
    ///
    /// Errors: that time is longer than [`REFUSAL_WAIT_MAX`]. Nothing is charged.
    pub(crate) fn charge_refusal(&self, client: ClientId) -> Result<Duration, Duration> {
        self.limiter.reserve_request(client.background(), REFUSAL_WAIT_MAX, self.now())
    }

    /// Charges the bytes of one read of a connection to its address. Returns the time until they are due, before which
    /// the connection must not be read.
    pub(crate) fn charge_read(&self, address: ClientId, bytes: usize) -> Duration {
        let bytes = (bytes as u64).max(READ_COST_BYTES_MIN);
        // The limiter counts at `BYTES_PER_S`.
        let cost = bytes * BYTES_PER_S / READ_BYTES_PER_S;
        // Reads have an allowance of their own: the bytes of requests are charged to the other one as well.
        let charged = self.limiter.reserve_bytes(address.background(), cost, self.now());
        let (Ok(delay) | Err(delay)) = charged;
        delay
    }

    /// Charges bytes that were received. Returns the time until they are due, before which no more must be read.
    pub(crate) fn charge_received(&self, client: ClientId, bytes: usize) -> Duration {
        let charged = self.limiter.reserve_bytes(client, bytes as u64, self.now());
        // Beyond the longest delay, the client waits that long and is not charged.
        let (Ok(delay) | Err(delay)) = charged;
        delay
    }

    /// Charges a request of less than `Config::request_cost_bytes_min` the difference, because that is the least cost of
    /// a request. Waits until its client is within its rate.
    pub async fn wait_until_due(&self, client: ClientId, bytes: usize, counters: &ServerCounters) {
        let cost = self.cost_bytes_min.saturating_sub(bytes) as u64;
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
    pub fn charge(&self, client: ClientId, bytes: usize) {
        self.limiter.charge_bytes(client, bytes as u64, self.now());
    }

    /// Returns the time since the start.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }
}
