//! The task that runs the plan: it reads the log all the time, and has one other operation under way.
//!
//! Shape: [`Driver::run`] waits for own events, messages, the outcome of the operation and the plan's time. Each goes
//! into the plan, and the plan's next action is started.
//! Bounds: an operation on the log without an outcome fails after its time limit (`time_limit`).
//! Not here: decisions (`plan`), the operations (`operations`).

mod operations;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use replicated_log::{Log, LogError, LogReader, LogSpace, ReadError, StoredMessage};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use crate::ledger_snapshots::{LedgerSnapshots, view_key};
use crate::notices::{ErrorLines, log_notice};
use crate::own_chain::OwnEvent;
use crate::plan::{Action, Input, KnownSnapshot, Now, Outcome, Plan, ReadFailure};
use crate::snapshot_pace::SnapshotCause;
use crate::status::{IngestStatus, StatusValues};
use crate::time_limit::TimeLimit;
use crate::upkeep::{
    DueSnapshot, Upkeep, UpkeepConfig, UpkeepContext, UpkeepEvent, UpkeepFindings,
};

/// Own events that are handled before the next operation is planned.
const EVENTS_AT_ONCE: usize = 64;

/// Runs a plan.
pub(crate) struct Driver {
    pub(crate) plan: Plan,
    pub(crate) space: Arc<dyn LogSpace>,
    pub(crate) snapshots: LedgerSnapshots,
    pub(crate) upkeep: UpkeepConfig,
    pub(crate) status: Arc<IngestStatus>,
    pub(crate) allow_data_loss: bool,
    /// The servers of the log, for lines about their silence.
    pub(crate) log_name: Arc<str>,
    /// Time limit of the last appends.
    pub(crate) drain: Duration,
    /// The time in milliseconds since 1970.
    pub(crate) unix_ms: fn() -> u64,
}

/// An operation that is under way.
type Operation = BoxFuture<'static, FinishedOperation>;

/// The result of an operation. Its handles are the driver's.
enum FinishedOperation {
    Outcome(Outcome),
    Log(Result<Arc<dyn Log>, LogError>),
    Reader(Result<Box<dyn LogReader>, LogError>),
}

/// The operations of a driver, and its position in time.
struct RunningDriver {
    driver: Driver,
    started_at: Instant,
    operation: Option<Operation>,
    log: Option<Arc<dyn Log>>,
    reader: Option<Box<dyn LogReader>>,
    upkeep: Upkeep,
    is_stopped: bool,
    lines: ErrorLines,
}

/// An input of the task.
enum DriverInput {
    Own(Option<OwnEvent>),
    Finished(FinishedOperation),
    Message(Result<StoredMessage, ReadError>),
    Upkeep(UpkeepEvent),
    Time,
    End,
}

impl Driver {
    /// Runs until the ledger has ended and everything is appended, until the drain that follows `end` is over, or
    /// until this ingester cannot serve the log.
    pub(crate) async fn run(self, mut own: mpsc::Receiver<OwnEvent>, end: oneshot::Receiver<()>) {
        let lines = ErrorLines::default();
        let context = UpkeepContext {
            space: Arc::clone(&self.space),
            snapshots: self.snapshots.clone(),
            lines: lines.clone(),
            max_age: self.upkeep.max_age,
            unix_ms: self.unix_ms,
        };
        let mut running = RunningDriver {
            upkeep: Upkeep::new(self.upkeep.interval, context),
            driver: self,
            started_at: Instant::now(),
            operation: None,
            log: None,
            reader: None,
            is_stopped: false,
            lines,
        };
        let mut end = pin!(end);
        let mut drain_until: Option<Instant> = None;
        let mut has_ledger = true;
        loop {
            let wait_until = running.start_next();
            running.update_status();
            running.start_upkeep_if_due();
            running.start_needed_snapshot();
            running.report_difference();
            let is_drained = !has_ledger && running.driver.plan.is_drained();
            if is_drained || running.is_stopped {
                break;
            }
            let input = tokio::select! {
                event = own.recv(), if has_ledger => DriverInput::Own(event),
                finished = wait_for_operation(&mut running.operation),
                    if running.operation.is_some() =>
                {
                    DriverInput::Finished(finished)
                }
                message = next_message(&mut running.reader), if running.reader.is_some() => {
                    DriverInput::Message(message)
                }
                event = running.upkeep.next_event(), if running.upkeep.is_busy() => {
                    DriverInput::Upkeep(event)
                }
                () = wait_for_time(wait_until) => DriverInput::Time,
                () = wait_for_time(drain_until) => break,
                _ = &mut end, if drain_until.is_none() => DriverInput::End,
            };
            match input {
                DriverInput::Own(Some(event)) => running.handle_own(event, &mut own),
                DriverInput::Own(None) => has_ledger = false,
                DriverInput::Finished(finished) => running.finish_operation(finished),
                DriverInput::Message(message) => running.handle_message(message),
                DriverInput::Upkeep(event) => running.handle_upkeep(event),
                DriverInput::Time => {}
                DriverInput::End => drain_until = Some(Instant::now() + running.driver.drain),
            }
        }
        running.update_status();
        running.log_end();
    }
}

/// Waits for the operation, and removes it.
async fn wait_for_operation(operation: &mut Option<Operation>) -> FinishedOperation {
    let finished = match operation {
        Some(running) => running.await,
        None => std::future::pending().await,
    };
    *operation = None;
    finished
}

async fn next_message(reader: &mut Option<Box<dyn LogReader>>) -> Result<StoredMessage, ReadError> {
    match reader {
        Some(reader) => reader.next().await,
        None => std::future::pending().await,
    }
}

async fn wait_for_time(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

impl RunningDriver {
    fn now(&self) -> Now {
        Now { elapsed: self.started_at.elapsed(), unix_ms: (self.driver.unix_ms)() }
    }

    /// Starts the next operation, if none is under way. Returns the time at which the plan has another one.
    fn start_next(&mut self) -> Option<Instant> {
        if self.operation.is_some() {
            return None;
        }
        let now = self.now();
        let action = self.driver.plan.next_action(now);
        self.log_notices();
        let limit = TimeLimit::for_action(&action);
        match action {
            Action::Wait(None) => return None,
            Action::Wait(Some(until)) => return self.started_at.checked_add(until),
            Action::Stop => self.is_stopped = true,
            Action::Read(after) => self.start_reader(after),
            other => self.operation = Some(self.create_operation(other, now)),
        }
        if let Some(limit) = limit {
            self.limit_operation(limit);
        }
        None
    }

    /// Ends the operation with a failure if it has no outcome in time.
    fn limit_operation(&mut self, limit: TimeLimit) {
        let Some(operation) = self.operation.take() else { return };
        let lines = self.lines.clone();
        let log_name = Arc::clone(&self.driver.log_name);
        self.operation = Some(Box::pin(async move {
            match timeout(limit.limit, operation).await {
                Ok(finished) => finished,
                Err(_) => {
                    lines.report(&limit.to_error(&log_name));
                    FinishedOperation::Outcome(limit.outcome)
                }
            }
        }));
    }

    fn finish_operation(&mut self, finished: FinishedOperation) {
        let lines = self.lines.clone();
        let outcome = match finished {
            FinishedOperation::Outcome(outcome) => outcome,
            FinishedOperation::Log(opened) => {
                self.reader = None;
                let opened = opened.map_err(|err| lines.report(&err));
                Outcome::GenerationOpened(opened.map(|log| self.log = Some(log)))
            }
            FinishedOperation::Reader(opened) => {
                let opened = opened.map_err(|err| lines.report(&err));
                Outcome::ReaderOpened(opened.map(|reader| self.reader = Some(reader)))
            }
        };
        let now = self.now();
        self.driver.plan.handle(Input::Done(outcome), now);
    }

    fn handle_own(&mut self, first: OwnEvent, own: &mut mpsc::Receiver<OwnEvent>) {
        let now = self.now();
        self.driver.plan.handle(Input::Own(first), now);
        for _ in 1..EVENTS_AT_ONCE {
            let Ok(event) = own.try_recv() else { return };
            self.driver.plan.handle(Input::Own(event), now);
        }
    }

    fn handle_message(&mut self, message: Result<StoredMessage, ReadError>) {
        let now = self.now();
        let input = match message {
            Ok(message) => Input::Message(message),
            Err(err) => {
                self.reader = None;
                self.lines.report(&err);
                Input::ReadFailed(match err {
                    ReadError::Truncated { wanted, .. } => ReadFailure::Truncated { wanted },
                    ReadError::Gone => ReadFailure::Gone,
                    ReadError::Damaged { sequence, .. }
                    | ReadError::Missing { wanted: sequence, .. } => {
                        ReadFailure::Damaged { sequence }
                    }
                    ReadError::Log(_) => ReadFailure::Failed,
                })
            }
        };
        self.driver.plan.handle(input, now);
    }

    fn update_status(&self) {
        let now = self.now();
        let plan = &self.driver.plan;
        let own = plan.own();
        let oldest = own.items().next().map(|item| item.received);
        self.driver.status.set(StatusValues {
            log: plan.followed_log(),
            counters: plan.counters(),
            items: own.item_count() as u64,
            lag: oldest.map_or(Duration::ZERO, |oldest| now.elapsed.saturating_sub(oldest)),
            bytes: own.bytes() as u64,
            dropped_blocks: own.dropped_blocks(),
            needs_snapshot: plan.needed_snapshot().is_some(),
            unanswered_since: self.find_unanswered(),
            is_stopped: self.is_stopped,
        });
    }

    /// Returns the start of the oldest operation on the log without a response.
    fn find_unanswered(&self) -> Option<Instant> {
        let since = self.driver.plan.unanswered_since()?;
        self.started_at.checked_add(since)
    }

    /// Starts a round of upkeep if this ingester leads, and a round is due.
    fn start_upkeep_if_due(&mut self) {
        let plan = &self.driver.plan;
        let followed = plan.followed_log().filter(|followed| followed.is_leader);
        if let (Some(followed), Some(log)) = (followed, &self.log) {
            self.upkeep.start_round_if_due(log, &followed, plan.awaits_snapshot());
        }
    }

    fn handle_upkeep(&mut self, event: UpkeepEvent) {
        match event {
            UpkeepEvent::Findings(findings) => self.handle_findings(&findings),
            UpkeepEvent::Snapshot(block) => self.note_snapshot(block.generation, block.position),
            // It is tried again.
            UpkeepEvent::SnapshotFailed => {}
        }
    }

    fn handle_findings(&mut self, findings: &UpkeepFindings) {
        let now = self.now();
        // Reports from before it need no other one.
        if let Some(newest) = findings.newest {
            self.note_snapshot(newest.generation, newest.position);
        }
        if let Some(term) = findings.listed_in_term {
            self.driver.plan.handle(Input::SnapshotsListed { term }, now);
        }
        // Differences that other ingesters report say whether a replica is right.
        for is_difference in [true, false] {
            let reports = findings.reports.checked_reports();
            for report in reports.filter(|report| report.is_difference() == is_difference) {
                self.driver.plan.handle(Input::Reported(report), now);
            }
        }
        if let Some(due) = findings.due {
            self.start_due_snapshot(due);
        }
    }

    fn note_snapshot(&mut self, generation: u64, position: u64) {
        let now = self.now();
        self.driver.plan.handle(Input::Snapshot(KnownSnapshot { generation, position }), now);
    }

    /// Has a snapshot of the final view written, if readers need one and the block is behind the damage.
    fn start_needed_snapshot(&mut self) {
        let Some(after) = self.driver.plan.needed_snapshot() else { return };
        if !self.upkeep.is_ready_to_write() {
            return;
        }
        let view = self.driver.snapshots.final_view();
        let block = self.driver.plan.find_logged_block(&view_key(&view));
        if let Some(block) = block.filter(|block| block.position > after) {
            self.upkeep.start_snapshot(view, block, SnapshotCause::Damage);
        }
    }

    /// Reports a block of the leader that differs from the own one.
    fn report_difference(&mut self) {
        if !self.upkeep.is_ready_to_report() {
            return;
        }
        let Some(difference) = self.driver.plan.take_difference() else { return };
        let cluster = &self.driver.snapshots.cluster;
        let report = difference.to_report(cluster, (self.driver.unix_ms)());
        self.upkeep.start_report(report);
    }

    /// Has a snapshot of the final view written, if the log has its block.
    fn start_due_snapshot(&mut self, due: DueSnapshot) {
        if self.upkeep.is_writing() {
            return;
        }
        let view = self.driver.snapshots.final_view();
        let key = view_key(&view);
        let block = self.driver.plan.find_logged_block(&key);
        let block =
            block.filter(|block| block.generation == due.generation && Some(key.slot) > due.newest);
        if let Some(block) = block {
            self.upkeep.start_snapshot(view, block, SnapshotCause::Age);
        }
    }

    fn log_notices(&mut self) {
        for notice in self.driver.plan.take_notices() {
            log_notice(&notice, &self.driver.log_name);
        }
    }

    fn log_end(&mut self) {
        self.log_notices();
        self.upkeep.stop();
        let items = self.driver.plan.own().item_count();
        if items > 0 && !self.is_stopped {
            tracing::warn!(items, "the log lacks blocks or marks of this ledger at its end");
        }
    }
}
