//! What every connection has: limits and counters.

use std::sync::Arc;

use crate::authentication::Authenticator;
use crate::http_config::HttpConfig;
use crate::http_metrics::HttpCounters;

/// Limits and counters of HTTP.
pub struct HttpContext {
    /// Limits.
    pub config: HttpConfig,
    /// Counts of connections, bytes and responses.
    pub metrics: Arc<HttpCounters>,
    /// Recognises clients by their API keys; `None`: a client is its address.
    pub authenticator: Option<Authenticator>,
}
