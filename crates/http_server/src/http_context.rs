//! State that all connections share: limits, counters, the drain, and the certificate if there is one.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use authentication::Authenticator;
use clients::{ClientShares, ShareNames};
use tokio::sync::Semaphore;

use crate::drain::Drain;
use crate::http_config::HttpConfig;
use crate::http_metrics::HttpCounters;
use crate::large_bodies::LargeBodies;
use crate::tls::Tls;
use crate::yield_queue::YieldQueue;

/// Connections of an address, in refusals.
const CONNECTION_NAMES: ShareNames = ShareNames {
    clients: ["address", "addresses"],
    units: "connections",
    each_settings: "rpc.connections_per_address_max",
    all_settings: "rpc.connections_max, rpc.connections_per_address_max",
};

/// Limits and counters of HTTP, and how it ends.
pub struct HttpContext {
    /// Limits.
    pub config: HttpConfig,
    /// Counts of connections, bytes and responses.
    pub metrics: Arc<HttpCounters>,
    /// Recognises clients by their API keys; `None`: a client is its address.
    pub authenticator: Option<Authenticator>,
    /// The end of the server.
    pub drain: Drain,
    /// Set before the server starts, if it speaks TLS only.
    pub tls: OnceLock<Arc<Tls>>,
    /// Request bodies that are large.
    pub(crate) large_bodies: Arc<LargeBodies>,
    /// Permits of connections, for all servers of the context.
    pub(crate) connection_permits: Arc<Semaphore>,
    /// The connections of each address, to all servers of the context.
    pub(crate) ip_shares: Arc<ClientShares>,
    /// Connections to all servers of the context since the start.
    pub(crate) connections: Arc<AtomicU64>,
    /// Connections to all servers of the context that have more to do than one poll may. Set by the first server.
    pub(crate) yield_queue: OnceLock<Arc<YieldQueue>>,
}

impl HttpContext {
    /// The context of a server without API keys and without TLS.
    pub fn new(config: HttpConfig, metrics: Arc<HttpCounters>) -> Self {
        let authenticator = None;
        let drain = Drain::default();
        let tls = OnceLock::new();
        let large_bodies = LargeBodies::new(config.body_bytes_max, Arc::clone(&metrics));
        let large_bodies = Arc::new(large_bodies);
        let connections_max = config.connections_max;
        let permits = Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS));
        let each_max = config.connections_per_address_max;
        let ip_shares = ClientShares::new(CONNECTION_NAMES, connections_max, each_max);
        Self {
            config,
            metrics,
            authenticator,
            drain,
            tls,
            large_bodies,
            connection_permits: Arc::new(permits),
            ip_shares: Arc::new(ip_shares),
            connections: Arc::default(),
            yield_queue: OnceLock::new(),
        }
    }

    /// Sets the authenticator of API keys, if there is one.
    pub fn with_authenticator(self, authenticator: Option<Authenticator>) -> Self {
        Self { authenticator, ..self }
    }
}
