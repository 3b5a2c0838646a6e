//! The attempts of one request: which failures are retried, and when the request fails.

use std::time::Duration;

use tokio::time::Instant;

use crate::DepotError;
use crate::inner::Inner;
use crate::metrics::Operation;
use crate::requests::Failure;

/// The attempts of one request.
pub(crate) struct Attempts<'a> {
    depot: &'a Inner,
    operation: Operation,
    key: &'a str,
    made: u32,
    began: Instant,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(depot: &'a Inner, operation: Operation, key: &'a str) -> Self {
        Self { depot, operation, key, made: 0, began: Instant::now() }
    }

    /// Makes an attempt with the time limit of a transfer of `bytes`. After a timeout it is unknown whether it was applied.
    pub(crate) async fn run<T>(
        &mut self,
        bytes: u64,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.made += 1;
        self.depot.metrics.count_request(self.operation);
        let limit: Duration = self.depot.config.timeout(bytes);
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
        let config = &self.depot.config;
        let reason = match failure {
            Failure::NotFound => return Err(self.depot.not_found(self.key)),
            Failure::TooLong { bytes, bytes_max } => {
                let object = self.depot.object(self.key);
                return Err(DepotError::TooLong { object, bytes, bytes_max });
            }
            Failure::Full(reason) => {
                self.depot.metrics.count_failure(self.operation);
                return Err(DepotError::Full { object: self.depot.object(self.key), reason });
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
        self.depot.metrics.count_retry(self.operation);
        tokio::time::sleep(config.backoff(self.made)).await;
        Ok(())
    }

    /// The error of the request.
    fn fail(&self, reason: String) -> DepotError {
        self.depot.metrics.count_failure(self.operation);
        DepotError::Failed {
            operation: self.operation.name(),
            object: self.depot.object(self.key),
            reason,
            attempts: self.made,
            elapsed: self.began.elapsed(),
        }
    }
}
