//! Everything that a method may read or do, in one place.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chain_solana::{ClusterInfo, Faucet, History, Reader, Simulator, TransactionSender};
use pool::{ClientId, Pool, RateLimited, RateLimiter};

use crate::metrics::Metrics;
use crate::{Config, Health, ResponseCache};

/// The node that methods work on.
pub struct Node {
    /// Facts that never change while the node runs.
    pub cluster: Arc<ClusterInfo>,
    /// Accounts and block facts, at each commitment.
    pub reader: Reader,
    /// Blocks, transactions, signatures by address.
    pub history: Arc<History>,
    /// Receives transactions.
    pub transaction_sender: Arc<dyn TransactionSender>,
    /// Simulates transactions.
    pub simulator: Arc<dyn Simulator>,
    /// Pays airdrops. `None` if the ledger has no faucet.
    pub faucet: Option<Arc<dyn Faucet>>,
    /// Runs all work that is not cheap.
    pub pool: Arc<Pool>,
    /// Cached responses.
    pub response_cache: Arc<ResponseCache>,
    /// Requests and bytes of each client, with their limits.
    pub clients: Arc<RateLimiter>,
    /// Health of the ledger, as `getHealth` and `GET /health` report it.
    pub health: Arc<Health>,
    /// Counts of requests and responses.
    pub metrics: Arc<Metrics>,
    /// Limits.
    pub config: Config,
}

impl Node {
    /// The same node, with accounts and block facts fixed at the current view for as long as it lives: for
    /// several methods whose results must come from one view. History and health are not fixed. Cost: some
    /// counters.
    pub fn pinned(&self) -> Self {
        Self {
            cluster: Arc::clone(&self.cluster),
            reader: self.reader.pinned(),
            history: Arc::clone(&self.history),
            transaction_sender: Arc::clone(&self.transaction_sender),
            simulator: Arc::clone(&self.simulator),
            faucet: self.faucet.clone(),
            pool: Arc::clone(&self.pool),
            response_cache: Arc::clone(&self.response_cache),
            clients: Arc::clone(&self.clients),
            health: Arc::clone(&self.health),
            metrics: Arc::clone(&self.metrics),
            config: self.config.clone(),
        }
    }

    /// Checks the progress of the ledger, and logs how many slow requests were not logged. Must be called
    /// several times a second; [`crate::serve`] does that.
    pub fn poll_health(&self) {
        let (views, now) = (self.reader.views(), self.pool.now());
        let slots = [&views.processed, &views.confirmed, &views.finalized];
        self.health.observe(now, slots.map(|view| view.block().slot));
        let left_out = self.metrics.slow_log.take_unreported(now);
        if left_out > 0 {
            tracing::warn!(left_out, "slow requests were not logged");
        }
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

impl pool::Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
