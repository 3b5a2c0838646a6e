//! Everything that a method may read or do, in one place.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chain_solana::{ClusterInfo, History, Reader, TransactionService};
use pool::{ClientId, Pool, RateLimited, RateLimiter};

use crate::metrics::Metrics;
use crate::{Config, Health, ResponseCache};

/// The node as its methods see it.
pub struct Node {
    /// What never changes while the node runs.
    pub cluster: Arc<ClusterInfo>,
    /// Accounts and block facts, at each commitment.
    pub reader: Reader,
    /// Blocks, transactions, signatures by address.
    pub history: Arc<History>,
    /// Where transactions go in.
    pub transaction_service: Arc<dyn TransactionService>,
    /// Where whatever is not cheap runs.
    pub pool: Arc<Pool>,
    /// Answers that are still good.
    pub response_cache: Arc<ResponseCache>,
    /// What each client has had.
    pub clients: Arc<RateLimiter>,
    /// How the ledger is, as `getHealth` and `GET /health` tell.
    pub health: Arc<Health>,
    /// What was asked and answered.
    pub metrics: Arc<Metrics>,
    /// Limits.
    pub config: Config,
}

impl Node {
    /// The same node, with the accounts and block facts of this moment for as long as it lives: for several
    /// methods whose answers are to be of one view. History and health go on. Cost: some counters.
    pub fn pinned(&self) -> Self {
        Self {
            cluster: Arc::clone(&self.cluster),
            reader: self.reader.pinned(),
            history: Arc::clone(&self.history),
            transaction_service: Arc::clone(&self.transaction_service),
            pool: Arc::clone(&self.pool),
            response_cache: Arc::clone(&self.response_cache),
            clients: Arc::clone(&self.clients),
            health: Arc::clone(&self.health),
            metrics: Arc::clone(&self.metrics),
            config: self.config.clone(),
        }
    }

    /// Looks how far the ledger is, and tells what the log left out. To be done several times a second:
    /// [`crate::serve`] does.
    pub fn poll_health(&self) {
        let (views, now) = (self.reader.views(), self.pool.now());
        let slots = [&views.processed, &views.confirmed, &views.finalized];
        self.health.observe(now, slots.map(|view| view.block().slot));
        let left_out = self.metrics.slow_log.take_unreported(now);
        if left_out > 0 {
            tracing::warn!(left_out, "slow requests that were not logged");
        }
    }

    /// Whether a request that took so long is to be logged.
    pub(crate) fn is_slow(&self, took: Duration) -> bool {
        let limit_ms = self.config.slow_request_ms;
        limit_ms > 0 && took >= Duration::from_millis(limit_ms)
    }

    /// Counts bytes that go to a client.
    pub(crate) fn charge(&self, client: ClientId, bytes: usize) {
        if self.clients.limits_bytes() {
            self.clients.charge_bytes(client, bytes as u64, self.pool.now());
        }
    }

    /// Takes requests of a client's share.
    pub(crate) fn admit(&self, client: ClientId, requests: usize) -> Result<(), RateLimited> {
        if self.clients.is_enabled() {
            let requests = u32::try_from(requests).unwrap_or(u32::MAX);
            return self.clients.admit(client, requests, self.pool.now());
        }
        Ok(())
    }
}

/// Time for [`Pool`]: the system's, from its making on.
pub struct SystemClock(Instant);

impl SystemClock {
    /// Now is 0.
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
