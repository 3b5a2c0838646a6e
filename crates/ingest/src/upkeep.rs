//! The upkeep of a log by its ingesters. The leader removes messages and generations that no reader needs, searches for
//! faults that replicas report, and writes a snapshot if no replica did, or if readers need one behind a damage. An
//! ingester that does not lead reports a block of the leader that differs from its own.
//!
//! Shape: at each interval, when a term starts, and earlier after a failure, a task reads the log and the store: a
//! round (`round_pace`). The driver takes its [`UpkeepFindings`]: reports go to the plan, and a due snapshot is started
//! with the current final view.
//! Bounds: one round, one snapshot and one report at a time, one report for each interval, and pauses between snapshots
//! that readers need (`snapshot_pace`). The view of a snapshot retains the versions of accounts that are replaced
//! meanwhile.
//! Not here: the search for reports (`report_search`), the reaction to one (`plan`), the content of a snapshot
//! (`ledger_snapshots`).

use std::sync::Arc;
use std::time::Duration;

use chain_solana::View;
use cluster_snapshot::fault_reports::FaultReport;
use ledger::Slot;
use replicated_log::{Log, LogSpace, Tail};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use crate::ledger_snapshots::{LedgerSnapshotError, LedgerSnapshots, UsableSnapshot};
use crate::notices::ErrorLines;
use crate::old_generations::OldGenerations;
use crate::plan::{FollowedLog, LoggedBlock};
use crate::report_search::{ReportSearch, SearchedLog};
use crate::round_pace::RoundPace;
use crate::snapshot_pace::{SnapshotCause, SnapshotPace};

/// Part of the log's age limit after which a snapshot is due. Replicas write theirs after an eighth.
const SNAPSHOT_AGE_DIVISOR: u32 = 4;
/// Part of the age limit after which a snapshot is due that a replica has reported to need.
const AWAITED_AGE_DIVISOR: u32 = 8;

/// The settings of a leader's tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpkeepConfig {
    /// Interval between the starts of two rounds.
    pub(crate) interval: Duration,
    /// Age at which the log removes messages.
    pub(crate) max_age: Duration,
}

/// The tasks of a leader.
pub(crate) struct Upkeep {
    interval: Duration,
    context: UpkeepContext,
    round_pace: RoundPace,
    round: Option<JoinHandle<UpkeepFindings>>,
    /// The block of the snapshot, or `None` if it was not written.
    snapshot: Option<JoinHandle<Option<LoggedBlock>>>,
    pace: SnapshotPace,
    /// The report that is being stored.
    report: Option<JoinHandle<()>>,
    reported_at: Option<Instant>,
    old_generations: OldGenerations,
    reports: ReportSearch,
    /// The oldest message of the log in the last round.
    first: u64,
}

/// The end of a task.
pub(crate) enum UpkeepEvent {
    Findings(UpkeepFindings),
    /// A snapshot of this block was written.
    Snapshot(LoggedBlock),
    SnapshotFailed,
}

/// The result of a task.
enum EndedTask {
    Round(Result<UpkeepFindings, JoinError>),
    Snapshot(Result<Option<LoggedBlock>, JoinError>),
}

/// The log, the store and the settings that each task uses.
#[derive(Clone)]
pub(crate) struct UpkeepContext {
    pub(crate) space: Arc<dyn LogSpace>,
    pub(crate) snapshots: LedgerSnapshots,
    pub(crate) lines: ErrorLines,
    /// Age at which the log removes messages.
    pub(crate) max_age: Duration,
    /// The time in milliseconds since 1970.
    pub(crate) unix_ms: fn() -> u64,
}

/// The result of a round.
#[derive(Debug, Default)]
pub(crate) struct UpkeepFindings {
    /// Faults of replicas in the followed generation.
    pub(crate) reports: ReportSearch,
    /// The newest snapshot from which readers can follow the generation.
    pub(crate) newest: Option<UsableSnapshot>,
    pub(crate) due: Option<DueSnapshot>,
    /// The term of this ingester in which the snapshots were listed. `None` if the list failed.
    pub(crate) listed_in_term: Option<u64>,
    first: u64,
    old_generations: OldGenerations,
}

/// Readers need a newer snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DueSnapshot {
    /// The generation of the log.
    pub(crate) generation: u64,
    /// The slot of the newest one.
    pub(crate) newest: Option<Slot>,
}

impl Upkeep {
    /// Starts no task yet. Rounds start an interval apart, except the first one of a term, and one after a failure.
    pub(crate) fn new(interval: Duration, context: UpkeepContext) -> Self {
        Self {
            interval,
            context,
            round_pace: RoundPace::new(interval),
            round: None,
            snapshot: None,
            pace: SnapshotPace::new(interval),
            report: None,
            reported_at: None,
            old_generations: OldGenerations::default(),
            reports: ReportSearch::default(),
            first: 0,
        }
    }

    /// Starts a round for the log that this ingester leads, if one is due.
    pub(crate) fn start_round_if_due(
        &mut self,
        log: &Arc<dyn Log>,
        followed: &FollowedLog,
        awaits_snapshot: bool,
    ) {
        let now = Instant::now();
        if self.round.is_some() || !self.round_pace.is_due(now, followed.term) {
            return;
        }
        self.round_pace.note_start(now, followed.term);
        if self.old_generations.followed != followed.generation {
            self.old_generations = OldGenerations::before(followed.generation);
        }
        let round = UpkeepRound {
            context: self.context.clone(),
            log: Arc::clone(log),
            term: followed.term,
            needed_from: followed.needed_after + 1,
            old_generations: self.old_generations,
            reports: self.reports.clone(),
            snapshot_age: match awaits_snapshot {
                true => self.context.max_age / AWAITED_AGE_DIVISOR,
                false => self.context.max_age / SNAPSHOT_AGE_DIVISOR,
            },
        };
        self.round = Some(tokio::spawn(round.run()));
    }

    /// Whether a task is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.round.is_some() || self.snapshot.is_some()
    }

    /// Waits for the end of a task. Cancel safe.
    pub(crate) async fn next_event(&mut self) -> UpkeepEvent {
        let ended = tokio::select! {
            ended = wait_for_task(&mut self.round) => EndedTask::Round(ended),
            ended = wait_for_task(&mut self.snapshot) => EndedTask::Snapshot(ended),
        };
        match ended {
            EndedTask::Round(ended) => UpkeepEvent::Findings(self.end_round(ended)),
            EndedTask::Snapshot(ended) => self.end_snapshot(ended),
        }
    }

    fn end_round(&mut self, ended: Result<UpkeepFindings, JoinError>) -> UpkeepFindings {
        let findings = match ended {
            Ok(findings) => {
                self.old_generations = findings.old_generations;
                self.reports = findings.reports.clone();
                self.first = findings.first;
                findings
            }
            Err(err) => {
                tracing::error!(%err, "a round of the log's upkeep panicked");
                UpkeepFindings::default()
            }
        };
        self.round_pace.note_end(Instant::now(), findings.listed_in_term.is_some());
        findings
    }

    fn end_snapshot(&mut self, ended: Result<Option<LoggedBlock>, JoinError>) -> UpkeepEvent {
        let written = ended.unwrap_or_else(|err| {
            tracing::error!(%err, "the writing of a snapshot panicked");
            None
        });
        self.pace.note_snapshot_end(Instant::now(), written.is_some());
        written.map_or(UpkeepEvent::SnapshotFailed, UpkeepEvent::Snapshot)
    }

    /// Whether a snapshot is being written.
    pub(crate) fn is_writing(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Whether a snapshot that readers need can be started: none is being written, and the pause after the one before
    /// is over.
    pub(crate) fn is_ready_to_write(&self) -> bool {
        !self.is_writing() && self.pace.can_start_needed_snapshot(Instant::now())
    }

    /// Writes a snapshot of a block of the log, and removes old ones.
    pub(crate) fn start_snapshot(&mut self, view: View, block: LoggedBlock, cause: SnapshotCause) {
        self.pace.note_snapshot_start(Instant::now(), cause);
        let context = self.context.clone();
        let first = self.first;
        self.snapshot = Some(tokio::spawn(async move {
            let written = context.write_snapshot(&view, block, cause).await;
            if let Err(err) = written {
                context.lines.report(&err);
                return None;
            }
            if let Err(err) = context.remove_old_snapshots(block.generation, first).await {
                context.lines.report(&err);
            }
            Some(block)
        }));
    }

    /// Whether a report can be stored: the interval since the one before has passed, and that one is not being stored.
    pub(crate) fn is_ready_to_report(&self) -> bool {
        let is_busy = self.report.as_ref().is_some_and(|report| !report.is_finished());
        !is_busy && self.reported_at.is_none_or(|at| Instant::now() >= at + self.interval)
    }

    /// Stores a report for the leader.
    pub(crate) fn start_report(&mut self, report: FaultReport) {
        let UpkeepContext { snapshots, lines, .. } = self.context.clone();
        self.reported_at = Some(Instant::now());
        self.report = Some(tokio::spawn(async move {
            let stored = snapshots.depot.put_new(&report.key(), report.to_text().into()).await;
            if let Err(err) = stored {
                lines.report(&err);
            }
        }));
    }

    /// Ends the snapshot that is being written: its generation ends.
    pub(crate) fn stop_snapshot(&mut self) {
        if let Some(snapshot) = self.snapshot.take() {
            snapshot.abort();
        }
    }

    /// Ends all tasks.
    pub(crate) fn stop(&mut self) {
        self.stop_snapshot();
        if let Some(round) = self.round.take() {
            round.abort();
        }
        if let Some(report) = self.report.take() {
            report.abort();
        }
    }
}

impl UpkeepContext {
    async fn write_snapshot(
        &self,
        view: &View,
        block: LoggedBlock,
        cause: SnapshotCause,
    ) -> Result<(), LedgerSnapshotError> {
        let LoggedBlock { generation, position, name, .. } = block;
        let slot = name.slot;
        match cause {
            SnapshotCause::Age => {
                tracing::info!(
                    generation,
                    slot,
                    "no replica writes snapshots: the leader writes one"
                );
            }
            SnapshotCause::Damage => tracing::warn!(
                generation,
                slot,
                position,
                "a snapshot of a block behind the damage is being written"
            ),
        }
        self.snapshots.write(view, block, (self.unix_ms)()).await?;
        tracing::info!(generation, slot, "a snapshot was written");
        Ok(())
    }

    /// Removes the snapshots that no replica needs. `first` is the oldest message of the log.
    async fn remove_old_snapshots(
        &self,
        generation: u64,
        first: u64,
    ) -> Result<(), LedgerSnapshotError> {
        // The limit is several times the time in which a replica loads a snapshot.
        let retained_age = self.max_age;
        let now_ms = (self.unix_ms)();
        let removed = self.snapshots.remove_old(generation, first, retained_age, now_ms).await?;
        tracing::debug!(removed, "objects of old snapshots were removed");
        Ok(())
    }

    /// Whether a snapshot was made less than `age` ago. A time that is far in the future is wrong.
    fn is_young(&self, made_at_ms: u64, age: Duration) -> bool {
        u128::from((self.unix_ms)().abs_diff(made_at_ms)) < age.as_millis()
    }
}

/// One pass over the log and the store.
struct UpkeepRound {
    context: UpkeepContext,
    log: Arc<dyn Log>,
    term: u64,
    /// The oldest message that an ingester needs at its start.
    needed_from: u64,
    old_generations: OldGenerations,
    reports: ReportSearch,
    /// Age of the newest snapshot at which another one is due.
    snapshot_age: Duration,
}

impl UpkeepRound {
    /// Removes old objects, and finds snapshots and reports. Errors are logged, and tried again in the next round.
    async fn run(mut self) -> UpkeepFindings {
        let lines = &self.context.lines;
        match self.log.remove_old(self.needed_from).await {
            Ok(0) => {}
            Ok(removed) => tracing::debug!(removed, "old objects of the log were removed"),
            Err(err) => lines.report(&err),
        }
        let UpkeepContext { space, max_age, unix_ms, .. } = &self.context;
        let removal = self.old_generations.remove_aged(&**space, &*self.log, *max_age, unix_ms());
        let old_generations = removal.await.unwrap_or_else(|err| {
            lines.report(&err);
            self.old_generations
        });
        let mut findings = UpkeepFindings { old_generations, ..UpkeepFindings::default() };
        match self.log.tail().await {
            Ok(tail) => {
                findings.first = tail.first;
                self.find_snapshots(&tail, &mut findings).await;
                self.search_reports(tail).await;
            }
            Err(err) => lines.report(&err),
        }
        findings.reports = self.reports;
        findings
    }

    async fn search_reports(&mut self, tail: Tail) {
        let UpkeepContext { snapshots, lines, .. } = &self.context;
        let searched = SearchedLog {
            depot: &snapshots.depot,
            cluster: &snapshots.cluster,
            log: &*self.log,
            generation: self.old_generations.followed,
            tail,
        };
        self.reports.search(&searched, lines).await;
    }

    async fn find_snapshots(&self, tail: &Tail, findings: &mut UpkeepFindings) {
        let generation = self.old_generations.followed;
        let UpkeepContext { snapshots, lines, .. } = &self.context;
        let found = match snapshots.find_usable(generation, tail.first).await {
            Ok(found) => found,
            Err(err) => return lines.report(&err),
        };
        let age = self.snapshot_age;
        let is_due = found.is_none_or(|found| !self.context.is_young(found.made_at_ms, age));
        let newest = found.map(|found| found.slot);
        findings.newest = found;
        findings.listed_in_term = Some(self.term);
        findings.due = is_due.then_some(DueSnapshot { generation, newest });
    }
}

/// Waits for a task, and removes it. Cancel safe.
async fn wait_for_task<T>(task: &mut Option<JoinHandle<T>>) -> Result<T, JoinError> {
    let ended = match task {
        Some(running) => running.await,
        None => std::future::pending().await,
    };
    *task = None;
    ended
}
