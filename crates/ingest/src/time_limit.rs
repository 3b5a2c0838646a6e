//! The time limit of an operation on the log.
//!
//! Each kind of log has limits of its own. This one applies to all of them: an operation that would never end is a
//! failure, and the plan continues.
//! Invariant: an append may be in the log although its time is over, so its outcome is unknown.
//! Not here: requests to the store of snapshots, which have limits by size (`depot`).

use std::time::Duration;

use crate::plan::{Action, AppendFailure, Outcome};

/// Time limit without a transfer. It is above that of several requests to the log, each of 20 s by default.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(90);
/// Rate that an append needs at least. A smaller value allows slower networks, and delays the end of a stuck append.
const BYTES_PER_SECOND_MIN: u64 = 1 << 20;

/// The time limit of one operation.
#[derive(Clone, Debug)]
pub(crate) struct TimeLimit {
    pub(crate) limit: Duration,
    /// The outcome of the operation once its time is over.
    pub(crate) outcome: Outcome,
}

/// An operation had no outcome in time.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{log_name}: no response to an operation within {limit:?}")]
pub(crate) struct LimitExceeded {
    log_name: String,
    limit: Duration,
}

impl TimeLimit {
    /// Returns the limit of an operation on the log. `None` for actions without one.
    pub(crate) fn for_action(action: &Action) -> Option<Self> {
        let mut limit = OPERATION_TIMEOUT;
        let outcome = match action {
            Action::CheckLog => Outcome::LogChecked(Err(())),
            Action::FindGeneration => Outcome::GenerationFound(Err(())),
            Action::OpenGeneration(_) => Outcome::GenerationOpened(Err(())),
            Action::CreateGeneration(_) => Outcome::GenerationCreated(Err(())),
            Action::ReadTail => Outcome::TailRead(Err(())),
            Action::Read(_) => Outcome::ReaderOpened(Err(())),
            Action::Append(batch) => {
                let bytes: u64 = batch.messages.iter().map(|it| it.payload.len() as u64).sum();
                limit += Duration::from_secs(bytes / BYTES_PER_SECOND_MIN);
                Outcome::Appended(Err(AppendFailure::Unknown))
            }
            Action::CheckChain
            | Action::RetainView
            | Action::WriteSnapshot(_)
            | Action::Wait(_)
            | Action::Stop => return None,
        };
        Some(Self { limit, outcome })
    }

    /// Returns the error of an operation on this log that took longer.
    pub(crate) fn to_error(&self, log_name: &str) -> LimitExceeded {
        LimitExceeded { log_name: log_name.to_owned(), limit: self.limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_that_is_given_up_is_a_failure() {
        let limit = TimeLimit::for_action(&Action::ReadTail).expect("it is about the log");
        assert!(matches!(limit.outcome, Outcome::TailRead(Err(()))));
        let text = limit.to_error("nats://a:4222").to_string();
        assert_eq!(text, "nats://a:4222: no response to an operation within 90s");
        for action in [Action::CheckChain, Action::RetainView, Action::Wait(None), Action::Stop] {
            assert!(TimeLimit::for_action(&action).is_none(), "{action:?}");
        }
    }
}
