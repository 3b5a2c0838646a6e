//! The deadline of a step with a peer, and the error after it.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::peer_error::PeerError;

/// The time at which a step must be complete.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    step: &'static str,
    limit: Duration,
    at: Instant,
}

impl Deadline {
    pub(crate) fn start(step: &'static str, limit: Duration) -> Self {
        Self { step, limit, at: Instant::now() + limit }
    }

    /// Returns the earlier of two deadlines.
    pub(crate) fn min(self, other: Self) -> Self {
        if other.at < self.at { other } else { self }
    }

    fn error(&self) -> PeerError {
        PeerError::Timeout { step: self.step, limit: self.limit }
    }

    /// Runs a step until the deadline. It is checked before the step as well: a step that is always ready would never
    /// let the timer run.
    pub(crate) async fn run<T>(
        &self,
        step: impl Future<Output = Result<T, PeerError>>,
    ) -> Result<T, PeerError> {
        if Instant::now() >= self.at {
            return Err(self.error());
        }
        timeout_at(self.at, step).await.map_err(|_| self.error())?
    }
}
