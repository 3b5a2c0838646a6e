//! State that all connections share: limits, counters, the drain, and the certificate if there is one.

use std::sync::{Arc, OnceLock};

use authentication::Authenticator;

use crate::drain::Drain;
use crate::http_config::HttpConfig;
use crate::http_metrics::HttpCounters;
use crate::large_bodies::LargeBodies;
use crate::tls::Tls;

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
}

impl HttpContext {
    /// The context of a server without API keys and without TLS.
    pub fn new(config: HttpConfig, metrics: Arc<HttpCounters>) -> Self {
        let authenticator = None;
        let drain = Drain::default();
        let tls = OnceLock::new();
        let large_bodies = LargeBodies::new(config.body_bytes_max, Arc::clone(&metrics));
        let large_bodies = Arc::new(large_bodies);
        Self { config, metrics, authenticator, drain, tls, large_bodies }
    }

    /// Sets the authenticator of API keys, if there is one.
    pub fn with_authenticator(self, authenticator: Option<Authenticator>) -> Self {
        Self { authenticator, ..self }
    }
}
