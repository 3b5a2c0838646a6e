//! The operations of the driver on the log and on the store of snapshots, one for each action of the plan.
//!
//! Input: an action. Output: a future, whose result is an input of the plan. An error is logged here.
//! Not here: time limits and the start of operations (`driver`), the upkeep of the log (`upkeep`).

use std::sync::Arc;

use replicated_log::{AppendError, Log};
use tokio::time::Instant;

use super::{FinishedOperation, Operation, RunningDriver};
use crate::batch::Batch;
use crate::config::check_durability;
use crate::notices::ErrorLines;
use crate::old_generations::create_generation;
use crate::plan::{Action, AppendFailure, Now, Outcome, SnapshotRequest};

impl RunningDriver {
    pub(super) fn create_operation(&mut self, action: Action, now: Now) -> Operation {
        let space = Arc::clone(&self.driver.space);
        let lines = self.lines.clone();
        match action {
            Action::CheckLog => {
                let allow_data_loss = self.driver.allow_data_loss;
                Box::pin(async move {
                    let checked = check_durability(&*space, allow_data_loss).await;
                    let checked = checked.map_err(|err| lines.report(&err));
                    FinishedOperation::Outcome(Outcome::LogChecked(checked))
                })
            }
            Action::CheckChain => {
                let snapshots = self.driver.snapshots.clone();
                Box::pin(async move {
                    let found = snapshots.find_snapshots().await.map_err(|err| lines.report(&err));
                    FinishedOperation::Outcome(Outcome::ChainChecked(found))
                })
            }
            Action::FindGeneration => Box::pin(async move {
                let found = space.newest_generation().await.map_err(|err| lines.report(&err));
                FinishedOperation::Outcome(Outcome::GenerationFound(found))
            }),
            Action::OpenGeneration(generation) => Box::pin(async move {
                let opened = space.open_generation(generation).await;
                FinishedOperation::Log(opened)
            }),
            Action::CreateGeneration(generation) => Box::pin(async move {
                let created = create_generation(&*space, generation).await;
                let created = created.map_err(|err| lines.report(&err));
                FinishedOperation::Outcome(Outcome::GenerationCreated(created))
            }),
            Action::ReadTail => self.with_log(|log| async move {
                let tail = log.tail().await.map_err(|err| lines.report(&err));
                Outcome::TailRead(tail)
            }),
            Action::Append(batch) => self.append(*batch),
            Action::RetainView => {
                let view = self.driver.snapshots.retain_view();
                create_finished(Outcome::ViewRetained(view))
            }
            Action::WriteSnapshot(request) => {
                self.upkeep.stop_snapshot();
                self.write_snapshot(request, now)
            }
            // These are not operations of a task.
            Action::Wait(_) | Action::Stop | Action::Read(_) => Box::pin(std::future::pending()),
        }
    }

    /// Runs an operation on the open log. The plan starts none before it is open.
    fn with_log<F>(&self, operation: impl FnOnce(Arc<dyn Log>) -> F) -> Operation
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        match self.log.clone() {
            Some(log) => {
                let outcome = operation(log);
                Box::pin(async move { FinishedOperation::Outcome(outcome.await) })
            }
            None => create_finished(Outcome::GenerationOpened(Err(()))),
        }
    }

    fn append(&self, batch: Batch) -> Operation {
        let status = Arc::clone(&self.driver.status);
        let lines = self.lines.clone();
        self.with_log(|log| async move {
            let started_at = Instant::now();
            let appended = log.append(batch.after, batch.messages).await;
            status.record_append(started_at.elapsed());
            Outcome::Appended(appended.map_err(|err| append_failure(err, &lines)))
        })
    }

    fn write_snapshot(&self, request: SnapshotRequest, now: Now) -> Operation {
        let SnapshotRequest { generation, block, .. } = request;
        let slot = block.slot;
        tracing::info!(
            generation,
            slot,
            "a snapshot for a new generation of the log is being written"
        );
        let snapshots = self.driver.snapshots.clone();
        let lines = self.lines.clone();
        Box::pin(async move {
            let written = snapshots.write_opening(request, now.unix_ms).await;
            let written = written.map_err(|err| lines.report(&err));
            FinishedOperation::Outcome(Outcome::SnapshotWritten(written))
        })
    }

    pub(super) fn start_reader(&mut self, after: u64) {
        // The old one may have messages that the plan has seen, or does not need.
        self.reader = None;
        let opening: Operation = match self.log.clone() {
            Some(log) => Box::pin(async move { FinishedOperation::Reader(log.read(after).await) }),
            None => create_finished(Outcome::ReaderOpened(Err(()))),
        };
        self.operation = Some(opening);
    }
}

/// Creates an operation that has finished.
fn create_finished(outcome: Outcome) -> Operation {
    Box::pin(std::future::ready(FinishedOperation::Outcome(outcome)))
}

fn append_failure(err: AppendError, lines: &ErrorLines) -> AppendFailure {
    match err {
        // The usual end of a leadership.
        AppendError::Fenced { last } => AppendFailure::Fenced { last },
        AppendError::Unknown(err) => {
            lines.report(&err);
            AppendFailure::Unknown
        }
        AppendError::Full(err) => {
            lines.report(&err);
            AppendFailure::Full
        }
        AppendError::Refused(err) => {
            lines.report(&err);
            AppendFailure::Refused(err.to_string())
        }
    }
}
