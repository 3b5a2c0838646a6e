//! The metrics of an ingester.
//!
//! `hydrant_log_position`, `hydrant_log_faults_total` and `hydrant_log_losses_total` have the same meaning in a
//! replica.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{BucketBounds, Collector, Exposition, Histograms, MetricKind};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::plan::{DAMAGE_KINDS, FollowedLog, PlanCounters, REPORT_OUTCOMES, SILENCE_MAX};

/// The values of an ingester, for its metrics.
pub(crate) struct IngestStatus {
    values: Mutex<StatusValues>,
    appends: Histograms,
    lost_events: AtomicU64,
}

/// The values that the task reports.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StatusValues {
    /// `None` while no log is followed.
    pub(crate) log: Option<FollowedLog>,
    pub(crate) counters: PlanCounters,
    /// Blocks and marks that the log lacks.
    pub(crate) items: u64,
    /// The age of the oldest of them.
    pub(crate) lag: Duration,
    /// Bytes of encoded blocks.
    pub(crate) bytes: u64,
    pub(crate) dropped_blocks: u64,
    /// Whether readers need a snapshot of a block behind a damage.
    pub(crate) needs_snapshot: bool,
    /// Start of the oldest operation on the log without a response.
    pub(crate) unanswered_since: Option<Instant>,
    /// Whether this ingester appends nothing more.
    pub(crate) is_stopped: bool,
}

impl Default for IngestStatus {
    fn default() -> Self {
        Self {
            values: Mutex::default(),
            appends: Histograms::new(1, BucketBounds::LOG_LINEAR),
            lost_events: AtomicU64::new(0),
        }
    }
}

impl IngestStatus {
    pub(crate) fn set(&self, values: StatusValues) {
        *self.values.lock() = values;
    }

    /// Returns for how long the log has been silent.
    pub(crate) fn log_silence(&self) -> Option<Duration> {
        self.values.lock().log_silence()
    }

    /// Counts an append with its time, whatever its outcome.
    pub(crate) fn record_append(&self, took: Duration) {
        self.appends.record(0, took);
    }

    /// Counts a loss of events before they were encoded.
    pub(crate) fn count_lost_events(&self) {
        self.lost_events.fetch_add(1, Ordering::Relaxed);
    }
}

impl StatusValues {
    fn log_silence(&self) -> Option<Duration> {
        let silence = self.unanswered_since?.elapsed();
        (silence >= SILENCE_MAX).then_some(silence)
    }
}

impl Collector for IngestStatus {
    fn write(&self, to: &mut Exposition) {
        let values = *self.values.lock();
        write_log(to, &values);
        let help = "Time of an append until the log has confirmed or refused it.";
        let mut family = to.family("hydrant_log_append_seconds", MetricKind::Histogram, help);
        family.histogram(&[], &self.appends.histogram(0));
        write_faults(to, &values.counters);
        write_ingest(to, &values);
        write_reports(to, &values);
        write_silence(to, &values);
        let help = "Times that events of the ledger were lost because the queue was full.";
        let lost = self.lost_events.load(Ordering::Relaxed);
        to.single("hydrant_ingest_event_losses_total", MetricKind::Counter, help, lost);
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        vec![("ingest_blocks", self.values.lock().bytes)]
    }
}

fn write_log(to: &mut Exposition, values: &StatusValues) {
    let position = |value: fn(FollowedLog) -> u64| values.log.map_or(0, value);
    let help = "Position in the log of the newest whole record: the log's generation, the sequence of the record's \
                last message, the number of the record, and the writer's term.";
    let mut family = to.family("hydrant_log_position", MetricKind::Gauge, help);
    family.put(&[("of", "generation")], position(|log| log.generation));
    family.put(&[("of", "sequence")], position(|log| log.position));
    family.put(&[("of", "record")], position(|log| log.record));
    family.put(&[("of", "term")], position(|log| log.term));
    let help = "Blocks and marks of the ledger that the log lacks.";
    to.single("hydrant_ingest_pending", MetricKind::Gauge, help, values.items);
    let help = "Age of the oldest block or mark that the log lacks.";
    let lag = values.lag.as_secs_f64();
    to.single("hydrant_ingest_lag_seconds", MetricKind::Gauge, help, lag);
}

fn write_faults(to: &mut Exposition, counters: &PlanCounters) {
    let PlanCounters { fenced, unknown, full, refused, truncated, gone, damages, .. } = *counters;
    for (name, count, help) in [
        ("hydrant_log_fenced_total", fenced, "Appends that another writer was ahead of."),
        ("hydrant_log_unknown_total", unknown, "Appends without a reply."),
        ("hydrant_log_full_total", full, "Appends that a full log refused."),
        ("hydrant_log_refused_total", refused, "Appends that the log refused as invalid."),
    ] {
        to.single(name, MetricKind::Counter, help, count);
    }
    let help = "Faults of the log, by kind. Messages that were delivered again are skipped.";
    let mut family = to.family("hydrant_log_faults_total", MetricKind::Counter, help);
    for (fault, count) in DAMAGE_KINDS.into_iter().zip(damages) {
        family.put(&[("fault", fault)], count);
    }
    let help = "Losses of the log or of its messages, which outages and retention cause, too.";
    let mut family = to.family("hydrant_log_losses_total", MetricKind::Counter, help);
    for (loss, count) in [("truncated", truncated), ("gone", gone)] {
        family.put(&[("loss", loss)], count);
    }
}

fn write_ingest(to: &mut Exposition, values: &StatusValues) {
    let log = values.log;
    let leader = u8::from(log.is_some_and(|log| log.is_leader));
    let counters = values.counters;
    let help = "1 if this ingester appends to the log, 0 if another one does.";
    to.single("hydrant_ingest_leader", MetricKind::Gauge, help, leader);
    let help =
        "1 if the ingester follows a log that responds, 0 if the log is down or being opened.";
    let is_connected = log.is_some() && values.log_silence().is_none();
    to.single("hydrant_ingest_connected", MetricKind::Gauge, help, u8::from(is_connected));
    let help = "1 if the ingester has stopped, because the log is not that of its chain.";
    to.single("hydrant_ingest_stopped", MetricKind::Gauge, help, u8::from(values.is_stopped));
    let help = "The newest term of the log.";
    let term = log.map_or(0, |log| log.term);
    to.single("hydrant_ingest_term", MetricKind::Gauge, help, term);
    let help = "The generation of the log.";
    let generation = log.map_or(0, |log| log.generation);
    to.single("hydrant_ingest_generation", MetricKind::Gauge, help, generation);
    let help = "Generations that this ingester has opened.";
    let opened = counters.generations_opened;
    to.single("hydrant_ingest_generations_opened_total", MetricKind::Counter, help, opened);
    let help = "Blocks that this ingester has appended.";
    to.single("hydrant_ingest_blocks_total", MetricKind::Counter, help, counters.blocks);
    let help = "Records that this ingester has appended.";
    to.single("hydrant_ingest_records_total", MetricKind::Counter, help, counters.records);
    let help = "Blocks that were dropped before the log had them, because the queue was full.";
    let dropped = values.dropped_blocks;
    to.single("hydrant_ingest_dropped_blocks_total", MetricKind::Counter, help, dropped);
    let help = "Blocks of the log that differ from those of this ledger: in the accounts and the bank's \
                facts (state), or in results, rewards and entries only (rest).";
    let mut family = to.family("hydrant_ingest_disagreements_total", MetricKind::Counter, help);
    family.put(&[("what", "state")], counters.state_disagreements);
    family.put(&[("what", "rest")], counters.rest_disagreements);
}

fn write_reports(to: &mut Exposition, values: &StatusValues) {
    let counters = values.counters;
    let help = "Faults that replicas, and differences that other ingesters, reported while this one led, by the result \
                of the check.";
    let mut family = to.family("hydrant_ingest_reports_total", MetricKind::Counter, help);
    for (outcome, count) in REPORT_OUTCOMES.into_iter().zip(counters.reports) {
        family.put(&[("outcome", outcome)], count);
    }
    let help = "Damages of its own log behind which this ingester continued to append.";
    let passed = counters.passed_damages;
    to.single("hydrant_ingest_passed_damages_total", MetricKind::Counter, help, passed);
    let help = "1 if readers need a snapshot of a block behind a damage of the log, until this ingester or a replica \
                has written it.";
    let needs_snapshot = u8::from(values.needs_snapshot);
    to.single("hydrant_ingest_snapshot_needed", MetricKind::Gauge, help, needs_snapshot);
}

fn write_silence(to: &mut Exposition, values: &StatusValues) {
    let help = "Time since the start of the oldest operation without a response of the log, once it is above 10 s; \
                else 0.";
    let silence = values.log_silence().map_or(0.0, |silence| silence.as_secs_f64());
    to.single("hydrant_ingest_log_silence_seconds", MetricKind::Gauge, help, silence);
    let help = "Times that operations on the log failed for more than 10 s without a response.";
    let silences = values.counters.silences;
    to.single("hydrant_ingest_log_silences_total", MetricKind::Counter, help, silences);
}
