//! The store of a depot, with its configuration and counters.

use std::sync::Arc;

use crate::backend::Backend;
use crate::metrics::DepotMetrics;
use crate::{DepotConfig, DepotError};

/// Shared by a depot, its clones and its writers.
pub(crate) struct Inner {
    pub(crate) backend: Backend,
    /// The URL without user and password.
    pub(crate) name: String,
    pub(crate) config: DepotConfig,
    pub(crate) metrics: Arc<DepotMetrics>,
}

impl Inner {
    /// Name of an object in errors.
    pub(crate) fn object(&self, key: &str) -> String {
        format!("{}/{key}", self.name)
    }

    pub(crate) fn not_found(&self, key: &str) -> DepotError {
        DepotError::NotFound { object: self.object(key) }
    }
}
