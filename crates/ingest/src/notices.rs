//! The lines of the program's log: changes of the plan, and errors that repeat.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http_client::describe_error;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::plan::{Notice, ReportOutcome};

/// Interval of lines about an error that repeats.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Writes the line of a notice. `log_name` names the servers of the log.
pub(crate) fn log_notice(notice: &Notice, log_name: &str) {
    match notice {
        Notice::Leads { generation, term } => {
            tracing::info!(generation, term, "this ingester appends to the log");
        }
        Notice::Follows { generation, term } => {
            tracing::info!(generation, term, "another ingester appends to the log");
        }
        Notice::OpensGeneration { generation, reason } => {
            tracing::warn!(generation, %reason, "the log gets a new generation");
        }
        Notice::Generation(generation) => tracing::info!(generation, "the log is followed"),
        Notice::Disagrees { slot, what } => {
            tracing::error!(slot, what, "a block of the log differs from that of this ledger");
        }
        Notice::Damaged(damage) => tracing::error!(%damage, "the log is damaged"),
        Notice::LostLog(failure) => tracing::error!(?failure, "messages of the log are gone"),
        Notice::Reported { sequence, slot, what, outcome } => tracing::warn!(
            sequence,
            slot,
            what,
            outcome = outcome.name(),
            "{}",
            describe_report(*outcome)
        ),
        Notice::PassesDamage { sequence, end } => tracing::error!(
            sequence,
            end,
            "the log continues behind a damaged message, and readers need a snapshot behind it"
        ),
        Notice::Silent => tracing::error!(log = log_name, "the log does not respond"),
        Notice::Responds { after } => {
            tracing::info!(log = log_name, ?after, "the log responds again");
        }
        Notice::RefusedBatch(reason) => tracing::error!(reason, "the log refused an append"),
        Notice::SnapshotTooSlow { took, queue_bytes_max } => tracing::error!(
            ?took,
            queue_bytes_max,
            "blocks were dropped while the snapshot of a new generation was written: the queue is too small for the \
             size of the state"
        ),
        Notice::Full => tracing::warn!("the log takes no more messages"),
        Notice::Stopped(reason) => tracing::error!(reason, "nothing more is appended to the log"),
    }
}

/// Describes where the fault of a report is: a replica checks the content of a record after it has read others.
fn describe_report(outcome: ReportOutcome) -> &'static str {
    match outcome {
        ReportOutcome::Intact | ReportOutcome::Damaged | ReportOutcome::Removed => {
            "a replica did not get past the message after this one"
        }
        ReportOutcome::Chain | ReportOutcome::Equal => {
            "a replica refused the content of a record up to this message"
        }
        ReportOutcome::Different => {
            "a replica refused a block up to this message, and two ingesters have different blocks of this slot"
        }
        ReportOutcome::Disagreement => {
            "another ingester has a different block of this slot, whose record ends after this message"
        }
        ReportOutcome::Lasting => "a replica reported a fault that no snapshot mends",
    }
}

/// Logs errors that repeat now and then only.
#[derive(Clone, Default)]
pub(crate) struct ErrorLines(Arc<Mutex<Option<LoggedError>>>);

struct LoggedError {
    text: String,
    at: Instant,
}

impl ErrorLines {
    /// Writes the line of an error, unless the last line was the same a moment ago.
    pub(crate) fn report(&self, err: &dyn Error) {
        let text = describe_error(err);
        let now = Instant::now();
        let mut last = self.0.lock();
        let is_repeated =
            last.as_ref().is_some_and(|it| it.text == text && now < it.at + LINE_INTERVAL);
        if !is_repeated {
            tracing::warn!(err = text, "an operation failed and is repeated");
            *last = Some(LoggedError { text, at: now });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_on_which_side_of_its_message_the_fault_is() {
        for content in [ReportOutcome::Chain, ReportOutcome::Equal, ReportOutcome::Different] {
            let line = describe_report(content);
            assert!(line.contains("up to this message"), "{content:?}: {line}");
        }
        let line = describe_report(ReportOutcome::Damaged);
        assert!(line.contains("the message after this one"), "{line}");
    }
}
