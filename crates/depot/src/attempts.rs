//! The attempts of one request: which failures are retried, and when the request fails.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::config::DepotConfig;
use crate::error::DepotError;
use crate::metrics::{DepotMetrics, Operation};
use crate::request::Failure;

/// The context of a request: equal for all requests of a depot.
pub(crate) struct RequestContext {
    /// The URL without user and password.
    name: String,
    pub(crate) config: DepotConfig,
    pub(crate) metrics: Arc<DepotMetrics>,
}

/// The attempts of one request.
pub(crate) struct Attempts<'a> {
    context: &'a RequestContext,
    operation: Operation,
    key: &'a str,
    made: u32,
    began: Instant,
}

impl RequestContext {
    pub(crate) fn new(name: String, config: DepotConfig) -> Self {
        Self { name, config, metrics: Arc::new(DepotMetrics::new()) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Name of an object in errors.
    pub(crate) fn object(&self, key: &str) -> String {
        format!("{}/{key}", self.name)
    }
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(context: &'a RequestContext, operation: Operation, key: &'a str) -> Self {
        Self { context, operation, key, made: 0, began: Instant::now() }
    }

    /// Makes an attempt with the time limit of a transfer of `bytes`. After a timeout it is unknown whether it was applied.
    pub(crate) async fn run<T>(
        &mut self,
        bytes: u64,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.made += 1;
        self.context.metrics.count_request(self.operation);
        let limit: Duration = self.context.config.timeout(bytes);
        let timeout = || Failure::Temporary(format!("no answer within {limit:?}"));
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(timeout()))
    }

    /// Counts the attempts from zero again, because the last one made progress.
    pub(crate) fn restart_count(&mut self) {
        self.made = 0;
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    ///
    /// The failure is final, or there were as many attempts as the configuration allows.
    pub(crate) async fn wait_after(&mut self, failure: Failure) -> Result<(), DepotError> {
        let config = &self.context.config;
        let reason = match failure {
            Failure::NotFound => {
                return Err(DepotError::NotFound { object: self.context.object(self.key) });
            }
            Failure::TooLong { bytes, bytes_max } => {
                let object = self.context.object(self.key);
                return Err(DepotError::TooLong { object, bytes, bytes_max });
            }
            Failure::Full(reason) => {
                self.context.metrics.count_failure(self.operation);
                return Err(DepotError::Full { object: self.context.object(self.key), reason });
            }
            Failure::Exists => return Err(self.fail("exists".to_owned())),
            Failure::Final(reason) => return Err(self.fail(reason)),
            Failure::Temporary(reason) => reason,
        };
        if self.made > config.retries_max {
            return Err(self.fail(reason));
        }
        let operation = self.operation.name();
        tracing::debug!(operation, key = self.key, reason, "the request is sent again");
        self.context.metrics.count_retry(self.operation);
        tokio::time::sleep(config.backoff(self.made)).await;
        Ok(())
    }

    /// The error of the request.
    fn fail(&self, reason: String) -> DepotError {
        self.context.metrics.count_failure(self.operation);
        DepotError::Failed {
            operation: self.operation.name(),
            object: self.context.object(self.key),
            reason,
            attempts: self.made,
            elapsed: self.began.elapsed(),
        }
    }
}
