//! The work of the leader besides appends: it removes messages and generations that no reader needs, looks for faults
//! that replicas report, and writes a snapshot if no replica did.
//!
//! Shape: a task looks at the log and at the store at each interval. The driver takes its [`Findings`]: reports go to
//! the plan, and a due snapshot is started with the final view of that moment.
//! Bounds: one look and one snapshot at a time, [`REPORTS_MAX`] reports. The view of a snapshot retains the versions of
//! accounts that are replaced meanwhile.
//! Not here: the reaction to a report (`plan`), the content of a snapshot (`ledger_snapshots`).

use std::sync::Arc;
use std::time::Duration;

use chain_solana::View;
use cluster_snapshot::fault_reports::{
    FAULT_REPORT_BYTES_MAX, FaultReport, fault_report_dir, parse_fault_report_key,
};
use depot::{Depot, DepotError};
use ledger::Slot;
use replicated_log::{Log, LogError, LogSpace};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::ledger_snapshots::{LedgerSnapshotError, LedgerSnapshots};
use crate::notices::ErrorLines;
use crate::old_generations::OldGenerations;
use crate::plan::{FollowedLog, LoggedBlock};

/// Reports of one look. Replicas that stop at the same message write one.
const REPORTS_MAX: usize = 100;
/// Part of the log's age limit after which a snapshot is due. Replicas write theirs after an eighth.
const SNAPSHOT_AGE_DIVISOR: u32 = 4;

/// The settings of a leader's tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpkeepConfig {
    /// Interval of the looks.
    pub(crate) interval: Duration,
    /// Age at which the log removes messages.
    pub(crate) max_age: Duration,
}

/// The tasks of a leader.
pub(crate) struct Upkeep {
    interval: Duration,
    sources: Sources,
    looked_at: Option<Instant>,
    look: Option<JoinHandle<Findings>>,
    snapshot: Option<JoinHandle<()>>,
    old_generations: OldGenerations,
}

/// The log and the store, as a task needs them.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) space: Arc<dyn LogSpace>,
    pub(crate) snapshots: LedgerSnapshots,
    pub(crate) lines: ErrorLines,
    /// Age at which the log removes messages.
    pub(crate) max_age: Duration,
    /// The time in milliseconds since 1970.
    pub(crate) unix_ms: fn() -> u64,
}

/// The result of a look.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Faults of replicas in the followed generation.
    pub(crate) reports: Vec<FaultReport>,
    pub(crate) due: Option<DueSnapshot>,
    old_generations: OldGenerations,
}

/// Readers need a newer snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DueSnapshot {
    /// The generation of the log.
    pub(crate) generation: u64,
    /// The slot of the newest one.
    pub(crate) newest: Option<Slot>,
    /// The oldest message of the log.
    first: u64,
}

impl Upkeep {
    /// Starts no task. A look follows the one before after `interval`.
    pub(crate) fn new(interval: Duration, sources: Sources) -> Self {
        Self {
            interval,
            sources,
            looked_at: None,
            look: None,
            snapshot: None,
            old_generations: OldGenerations::default(),
        }
    }

    /// Looks at the log that this ingester leads, if the interval has passed.
    pub(crate) fn look_if_due(&mut self, log: &Arc<dyn Log>, followed: &FollowedLog) {
        let now = Instant::now();
        let is_due = self.looked_at.is_none_or(|at| now >= at + self.interval);
        if self.look.is_some() || !is_due {
            return;
        }
        self.looked_at = Some(now);
        if self.old_generations.followed != followed.generation {
            self.old_generations = OldGenerations::before(followed.generation);
        }
        let look = Look {
            sources: self.sources.clone(),
            log: Arc::clone(log),
            needed_from: followed.needed_after + 1,
            old_generations: self.old_generations,
        };
        self.look = Some(tokio::spawn(look.run()));
    }

    /// Whether a look is under way.
    pub(crate) fn is_looking(&self) -> bool {
        self.look.is_some()
    }

    /// Waits for the end of the look. Cancel safe.
    pub(crate) async fn next_findings(&mut self) -> Findings {
        let ended = match &mut self.look {
            Some(look) => look.await,
            None => std::future::pending().await,
        };
        self.look = None;
        match ended {
            Ok(findings) => {
                self.old_generations = findings.old_generations;
                findings
            }
            Err(err) => {
                tracing::error!(%err, "a look at the log panicked");
                Findings::default()
            }
        }
    }

    /// Whether a snapshot is being written.
    pub(crate) fn is_writing(&self) -> bool {
        self.snapshot.as_ref().is_some_and(|snapshot| !snapshot.is_finished())
    }

    /// Writes a snapshot of a block of the log, and removes old ones.
    pub(crate) fn start_snapshot(&mut self, view: View, block: LoggedBlock, due: DueSnapshot) {
        let sources = self.sources.clone();
        self.snapshot = Some(tokio::spawn(async move {
            if let Err(err) = sources.write_snapshot(&view, block, due).await {
                sources.lines.report(&err);
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
        if let Some(look) = self.look.take() {
            look.abort();
        }
    }
}

impl Sources {
    async fn write_snapshot(
        &self,
        view: &View,
        block: LoggedBlock,
        due: DueSnapshot,
    ) -> Result<(), LedgerSnapshotError> {
        let LoggedBlock { generation, name, .. } = block;
        let slot = name.slot;
        tracing::info!(generation, slot, "no replica writes snapshots: the leader writes one");
        self.snapshots.write(view, block, (self.unix_ms)()).await?;
        tracing::info!(generation, slot, "a snapshot was written");
        // The limit is several times the time in which a replica loads a snapshot.
        let retained_age = self.max_age;
        let now_ms = (self.unix_ms)();
        let removed =
            self.snapshots.remove_old(generation, due.first, retained_age, now_ms).await?;
        tracing::debug!(removed, "objects of old snapshots were removed");
        Ok(())
    }

    /// Whether a snapshot was made less than `age` ago. A time that is far in the future is wrong.
    fn is_young(&self, made_at_ms: u64, age: Duration) -> bool {
        u128::from((self.unix_ms)().abs_diff(made_at_ms)) < age.as_millis()
    }
}

/// One look at the log and at the store.
struct Look {
    sources: Sources,
    log: Arc<dyn Log>,
    /// The oldest message that an ingester needs at its start.
    needed_from: u64,
    old_generations: OldGenerations,
}

impl Look {
    /// Does everything that is possible now. Errors are tried again with the next look.
    async fn run(self) -> Findings {
        let lines = &self.sources.lines;
        match self.log.remove_old(self.needed_from).await {
            Ok(0) => {}
            Ok(removed) => tracing::debug!(removed, "old objects of the log were removed"),
            Err(err) => lines.report(&err),
        }
        let Sources { space, max_age, unix_ms, .. } = &self.sources;
        let removal = self.old_generations.remove_aged(&**space, &*self.log, *max_age, unix_ms());
        let old_generations = removal.await.unwrap_or_else(|err| {
            lines.report(&err);
            self.old_generations
        });
        let reports = self.find_reports().await.unwrap_or_else(|err| {
            lines.report(&err);
            Vec::new()
        });
        let due = self.find_due_snapshot().await.unwrap_or_else(|err| {
            lines.report(&err);
            None
        });
        Findings { reports, due, old_generations }
    }

    /// Finds the faults that replicas report in this generation. Removes the reports of older ones.
    async fn find_reports(&self) -> Result<Vec<FaultReport>, DepotError> {
        let depot = &self.sources.snapshots.depot;
        let mut reports = Vec::new();
        for object in depot.list(&fault_report_dir(&self.sources.snapshots.cluster)).await? {
            let Some((generation, _)) = parse_fault_report_key(&object.key) else { continue };
            if generation < self.old_generations.followed {
                depot.delete(&object.key).await?;
            } else if generation == self.old_generations.followed && reports.len() < REPORTS_MAX {
                reports.extend(read_report(depot, &object.key).await?);
            }
        }
        Ok(reports)
    }

    async fn find_due_snapshot(&self) -> Result<Option<DueSnapshot>, DueError> {
        let first = self.log.tail().await?.first;
        let found =
            self.sources.snapshots.find_usable(self.old_generations.followed, first).await?;
        let age = self.sources.max_age / SNAPSHOT_AGE_DIVISOR;
        let is_due = found.is_none_or(|found| !self.sources.is_young(found.made_at_ms, age));
        let newest = found.map(|found| found.slot);
        Ok(is_due.then_some(DueSnapshot {
            generation: self.old_generations.followed,
            newest,
            first,
        }))
    }
}

/// Why it is not known whether a snapshot is due.
#[derive(Debug, thiserror::Error)]
enum DueError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Snapshots(#[from] LedgerSnapshotError),
}

/// Reads a report. Returns `None` if it cannot be parsed, or was removed.
async fn read_report(depot: &Depot, key: &str) -> Result<Option<FaultReport>, DepotError> {
    let bytes = match depot.get(key, FAULT_REPORT_BYTES_MAX).await {
        Ok(bytes) => bytes,
        Err(DepotError::NotFound { .. }) => return Ok(None),
        Err(err) => return Err(err),
    };
    let report = std::str::from_utf8(&bytes).ok().and_then(FaultReport::parse);
    if report.is_none() {
        tracing::warn!(key, "a report of a replica cannot be read");
    }
    Ok(report)
}
