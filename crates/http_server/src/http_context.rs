//! What every connection has: limits, counters, the drain, and the certificate if there is one.

use std::sync::{Arc, OnceLock};

use crate::drain::Drain;
use crate::http_config::HttpConfig;
use crate::http_metrics::HttpCounters;
use crate::tls::Tls;

/// Limits and counters of HTTP, and how it ends.
pub struct HttpContext {
    /// Limits.
    pub config: HttpConfig,
    /// Counts of connections, bytes and responses.
    pub metrics: Arc<HttpCounters>,
    /// The end of the server.
    pub drain: Drain,
    /// Set before the server starts, if it speaks TLS only.
    pub tls: OnceLock<Arc<Tls>>,
}

impl HttpContext {
    /// The context of a server without TLS.
    pub fn new(config: HttpConfig, metrics: Arc<HttpCounters>) -> Self {
        Self { config, metrics, drain: Drain::default(), tls: OnceLock::new() }
    }
}
