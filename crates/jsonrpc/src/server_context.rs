//! State that every server has, whatever ledger it serves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clients::{ClientId, RateLimited, RateLimiter};
use cpu_pool::Pool;
use http_server::{Authenticator, HttpConfig, HttpContext, RateLimitedBody, ResponseBody};
use ledger::Commitment;
use response_cache::{LedgerVersions, ResponseCache};

use crate::config::Config;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::response_channel::{BodyChunk, ResponseReceiver};
use crate::slot_waits::SlotWaits;
use crate::streamed_body::StreamedBody;

/// The parts of a server that know no ledger. Clones share them.
#[derive(Clone)]
pub struct ServerContext {
    /// Limits and counters of HTTP.
    pub http: Arc<HttpContext>,
    /// Runs all work that is not cheap.
    pub pool: Arc<Pool>,
    /// Requests and bytes of each client, with their limits.
    pub clients: Arc<RateLimiter>,
    /// Cached responses.
    pub response_cache: Arc<ResponseCache>,
    /// Counts of requests and responses.
    pub metrics: Arc<Metrics>,
    /// Health of the ledger, as `GET /health` reports it.
    pub health: Arc<Health>,
    /// Calls that wait for a slot.
    pub slot_waits: Arc<SlotWaits>,
    /// Limits.
    pub config: Config,
}

/// The parts from which a [`ServerContext`] is made.
pub struct ServerParts {
    /// Limits of HTTP.
    pub http: HttpConfig,
    /// Limits of JSON-RPC.
    pub config: Config,
    /// Runs all work that is not cheap.
    pub pool: Arc<Pool>,
    /// Requests and bytes of each client, with their limits, and with the API keys if clients need one.
    pub clients: Arc<RateLimiter>,
    /// Cached responses.
    pub response_cache: Arc<ResponseCache>,
    /// Counts of requests and responses.
    pub metrics: Arc<Metrics>,
    /// Health of the ledger.
    pub health: Arc<Health>,
}

impl ServerContext {
    /// Creates the state of a server. Its clients are recognised by their API keys if `parts.clients` has some.
    pub fn new(parts: ServerParts) -> Self {
        let ServerParts { http, config, pool, clients, response_cache, metrics, health } = parts;
        let keys = clients.api_keys().map(Arc::clone);
        let authenticator = keys.map(|keys| Authenticator::new(keys, Arc::clone(&pool)));
        let http = HttpContext::new(http, Arc::clone(metrics.http()));
        let http = Arc::new(http.with_authenticator(authenticator));
        let slot_waits = Arc::new(SlotWaits::new(&config));
        Self { http, pool, clients, response_cache, metrics, health, slot_waits, config }
    }

    /// Whether the node ends, or has announced its end.
    pub fn is_draining(&self) -> bool {
        self.health.has_announced_end() || self.http.drain.has_begun()
    }

    /// Checks the progress of the ledger, and logs how many slow requests were not logged. Must be called
    /// several times a second; `serve` does that.
    pub fn poll_health(&self, ledger: &dyn LedgerVersions) {
        let levels = [Commitment::Processed, Commitment::Confirmed, Commitment::Finalized];
        let now = self.pool.now();
        self.health.observe(now, levels.map(|level| ledger.version_and_slot(level).1));
        let left_out = self.metrics.slow_log.take_unreported(now);
        if left_out > 0 {
            tracing::warn!(left_out, "slow requests were not logged");
        }
    }

    /// A cached body in parts, counted against the client's byte rate as they are sent.
    pub(crate) fn cached_body(&self, client: ClientId, parts: Vec<Bytes>) -> ResponseBody {
        ResponseBody::from_parts(parts, self.body_rate(client))
    }

    /// A body of a stream of chunks, counted against the client's byte rate as they are sent.
    pub(crate) fn streamed_body(
        &self,
        client: ClientId,
        first: BodyChunk,
        rest: ResponseReceiver,
    ) -> ResponseBody {
        ResponseBody::streamed(Box::new(StreamedBody::new(first, rest)), self.body_rate(client))
    }

    fn body_rate(&self, client: ClientId) -> Option<Box<RateLimitedBody>> {
        RateLimitedBody::new(&self.clients, &self.pool, client)
    }

    /// Whether a request that took this long is logged.
    pub(crate) fn is_slow(&self, took: Duration) -> bool {
        let limit_ms = self.config.slow_request_ms;
        limit_ms > 0 && took >= Duration::from_millis(limit_ms)
    }

    /// Counts bytes that are sent to a client.
    pub(crate) fn charge(&self, client: ClientId, bytes: usize) {
        if self.clients.limits_bytes() {
            self.clients.charge_bytes(client, bytes as u64, self.pool.now());
        }
    }

    /// Whether a client may read `/metrics`, which has the names of all API keys if there are some.
    pub(crate) fn may_read_metrics(&self, client: ClientId) -> bool {
        self.clients.api_keys().is_none_or(|keys| keys.may_read_metrics(client.caller()))
    }

    /// Counts requests against the client's rate limit; an error if they exceed it.
    pub(crate) fn admit(&self, client: ClientId, requests: usize) -> Result<(), RateLimited> {
        if self.clients.is_enabled() {
            let requests = u32::try_from(requests).unwrap_or(u32::MAX);
            return self.clients.admit(client, requests, self.pool.now());
        }
        Ok(())
    }
}

/// Time for [`Pool`]: the system's monotonic clock, from 0 at its creation.
pub struct SystemClock(Instant);

impl SystemClock {
    /// A clock that starts at 0 now.
    #[expect(clippy::disallowed_methods, reason = "where time enters the pool")]
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl cpu_pool::Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
