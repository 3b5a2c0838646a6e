//! The progress of a replica, for `/ready`, health and metrics.
//!
//! Lag: the slots that were read and are not shown, and the messages that were not read, in slots by the mean number of
//! messages a block so far. The clocks of the machines do not matter for it.
//! Not here: the metrics as text (`status/metrics.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use follow::bank::ClusterCounters;
use ledger::Slot;
use parking_lot::Mutex;

use crate::fault::Fault;
use crate::fault_kind::FaultKind;
use crate::log_position::LogPosition;

mod metrics;
mod state;
#[cfg(test)]
mod tests;

pub use state::ReplicaState;

/// The activity of the reader of the log.
#[derive(Debug)]
enum Activity {
    Loading,
    Following,
    Unreachable,
    Broken(FaultKind),
    /// A thread of the replica has ended.
    Ended,
}

/// Why a snapshot was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadReason {
    Start,
    Truncated,
    Generation,
    Damage,
}

impl LoadReason {
    const ALL: [Self; 4] = [Self::Start, Self::Truncated, Self::Generation, Self::Damage];

    /// The reason of a jump after a fault.
    pub(crate) fn from_fault(fault: &Fault) -> Self {
        match fault {
            Fault::Truncated { .. } => Self::Truncated,
            Fault::Gone { .. } | Fault::Generation { .. } | Fault::Rewound { .. } => {
                Self::Generation
            }
            _ => Self::Damage,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Truncated => "truncated",
            Self::Generation => "generation",
            Self::Damage => "damage",
        }
    }
}

/// The limits of readiness.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadyLimits {
    pub(crate) lag_max_slots: u64,
    pub(crate) resume_slots_min: u64,
}

/// The progress of a replica. Threads share it.
#[derive(Debug)]
pub struct ReplicaStatus {
    limits: ReadyLimits,
    activity: Mutex<Activity>,
    /// Whether a snapshot to jump to was looked for, and none was found.
    lacks_snapshot: AtomicBool,
    /// Shared with the cluster that servers read.
    pub(crate) cluster: Arc<ClusterCounters>,
    pub(crate) root: AtomicU64,
    /// The slot of the snapshot after which the history starts.
    window_start: AtomicU64,
    /// Whether it was near the end of the log since it was loaded or has jumped.
    has_caught_up: AtomicBool,
    generation: AtomicU64,
    sequence: AtomicU64,
    record: AtomicU64,
    term: AtomicU64,
    pending: AtomicU64,
    messages: AtomicU64,
    /// Blocks whose records were read.
    read_blocks: AtomicU64,
    /// The newest slot whose record was read.
    read_slot: AtomicU64,
    /// Blocks that were written.
    pub(crate) blocks: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) reverted: AtomicU64,
    pub(crate) jumps: AtomicU64,
    pub(crate) unrooted: AtomicU64,
    pub(crate) hash_nanos: AtomicU64,
    /// Milliseconds from the making of the newest block's record until it was written.
    delay_ms: AtomicU64,
    pub(crate) queued_bytes: AtomicU64,
    /// Accounts that a snapshot changes, while it is compared.
    pub(crate) changes_bytes: Arc<AtomicU64>,
    /// Milliseconds since 1970 when the newest known snapshot was made; 0 if none is known.
    snapshot_made_at_ms: AtomicU64,
    pub(crate) written_snapshots: AtomicU64,
    pub(crate) failed_snapshots: AtomicU64,
    load_ms: AtomicU64,
    loads: [AtomicU64; LoadReason::ALL.len()],
    /// By [`FaultKind::ALL`].
    faults: [AtomicU64; FaultKind::ALL.len()],
    last_fault: Mutex<Option<String>>,
}

impl ReplicaStatus {
    pub(crate) fn new(limits: ReadyLimits) -> Self {
        Self {
            limits,
            activity: Mutex::new(Activity::Loading),
            lacks_snapshot: AtomicBool::new(false),
            cluster: Arc::default(),
            root: AtomicU64::default(),
            window_start: AtomicU64::default(),
            has_caught_up: AtomicBool::default(),
            generation: AtomicU64::default(),
            sequence: AtomicU64::default(),
            record: AtomicU64::default(),
            term: AtomicU64::default(),
            pending: AtomicU64::default(),
            messages: AtomicU64::default(),
            read_blocks: AtomicU64::default(),
            read_slot: AtomicU64::default(),
            blocks: AtomicU64::default(),
            skipped: AtomicU64::default(),
            reverted: AtomicU64::default(),
            jumps: AtomicU64::default(),
            unrooted: AtomicU64::default(),
            hash_nanos: AtomicU64::default(),
            delay_ms: AtomicU64::default(),
            queued_bytes: AtomicU64::default(),
            changes_bytes: Arc::default(),
            snapshot_made_at_ms: AtomicU64::default(),
            written_snapshots: AtomicU64::default(),
            failed_snapshots: AtomicU64::default(),
            load_ms: AtomicU64::default(),
            loads: Default::default(),
            faults: std::array::from_fn(|_| AtomicU64::default()),
            last_fault: Mutex::default(),
        }
    }

    /// Returns the state.
    pub fn state(&self) -> ReplicaState {
        match &*self.activity.lock() {
            Activity::Loading => ReplicaState::Loading,
            Activity::Unreachable => ReplicaState::Unreachable,
            Activity::Broken(_) | Activity::Ended => ReplicaState::Broken,
            Activity::Following if self.is_near_end() => ReplicaState::Ready,
            Activity::Following if self.has_caught_up.load(Ordering::Relaxed) => {
                ReplicaState::Behind
            }
            Activity::Following => ReplicaState::CatchingUp,
        }
    }

    /// Returns why the replica should get no requests, or `None` if it is ready. The text can be public: it
    /// only has the names of states and faults. [`Self::last_fault`] and the program's log have hosts, buckets and
    /// paths.
    pub fn not_ready_reason(&self) -> Option<String> {
        let state = self.state();
        if state == ReplicaState::Ready {
            let window = self.resume_slots();
            let min = self.limits.resume_slots_min;
            return (window < min)
                .then(|| format!("subscribers can resume {window} slots, {min} are required"));
        }
        let mut reason = state.name().replace('_', " ");
        match &*self.activity.lock() {
            Activity::Broken(kind) => reason = format!("{reason}: {}", kind.name()),
            Activity::Ended => reason = format!("{reason}: a thread has ended"),
            Activity::Loading | Activity::Following | Activity::Unreachable => {}
        }
        if self.lacks_snapshot.load(Ordering::Relaxed) {
            reason = format!("{reason}; no snapshot to jump to");
        }
        if matches!(state, ReplicaState::CatchingUp | ReplicaState::Behind) {
            let lag = self.lag_slots();
            let max = self.limits.lag_max_slots;
            reason = format!("{reason}: about {lag} slots, at most {max} are allowed");
        }
        Some(reason)
    }

    /// Returns about how many slots of the log are not shown.
    pub fn lag_slots(&self) -> u64 {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let queued = get(&self.read_slot).saturating_sub(self.processed_slot());
        let pending = u128::from(get(&self.pending));
        // A block and its marks are at least two messages.
        let blocks = u128::from(get(&self.read_blocks).max(1));
        let messages = u128::from(get(&self.messages).max(2));
        let unread = (pending * blocks).div_ceil(messages);
        queued.saturating_add(u64::try_from(unread).unwrap_or(u64::MAX))
    }

    /// Returns the seconds from the making of the newest block's record until it was written here, by the clocks of two
    /// machines.
    fn lag_seconds(&self) -> f64 {
        self.delay_ms.load(Ordering::Relaxed) as f64 / 1_000.0
    }

    /// Returns the slot of the processed tip.
    pub fn processed_slot(&self) -> Slot {
        self.cluster.processed.load(Ordering::Relaxed)
    }

    /// Returns the slot of the root.
    pub fn root(&self) -> Slot {
        self.root.load(Ordering::Relaxed)
    }

    /// Returns the generation of the log that is read.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Returns the sequence of the last message of the newest whole record.
    pub fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }

    /// Returns the number of messages after the last one that was read.
    pub fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    /// Returns the number of jumps since the start.
    pub fn jumps(&self) -> u64 {
        self.jumps.load(Ordering::Relaxed)
    }

    /// Returns how often a fault of this kind was found.
    pub fn faults(&self, kind: FaultKind) -> u64 {
        self.fault_counter(kind).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    /// Returns the counter of a kind. Each one has a counter.
    fn fault_counter(&self, kind: FaultKind) -> Option<&AtomicU64> {
        self.faults.get(kind as usize)
    }

    /// Returns a description of the last fault, with the servers and objects that it names.
    pub fn last_fault(&self) -> Option<String> {
        self.last_fault.lock().clone()
    }

    /// Returns the number of snapshots that were written since the start.
    pub fn written_snapshots(&self) -> u64 {
        self.written_snapshots.load(Ordering::Relaxed)
    }

    fn is_near_end(&self) -> bool {
        self.lag_slots() <= self.limits.lag_max_slots
    }

    fn resume_slots(&self) -> u64 {
        self.processed_slot().saturating_sub(self.window_start.load(Ordering::Relaxed))
    }

    pub(crate) fn set_loading(&self) {
        *self.activity.lock() = Activity::Loading;
    }

    pub(crate) fn set_following(&self) {
        *self.activity.lock() = Activity::Following;
        self.lacks_snapshot.store(false, Ordering::Relaxed);
    }

    /// No snapshot to jump to was found, until [`Self::set_following`].
    pub(crate) fn set_lacks_snapshot(&self) {
        self.lacks_snapshot.store(true, Ordering::Relaxed);
    }

    /// A thread of the replica has ended, so nothing changes anymore.
    pub(crate) fn set_ended(&self) {
        *self.activity.lock() = Activity::Ended;
    }

    /// Counts a fault, and shows it.
    pub(crate) fn set_fault(&self, fault: &Fault) {
        self.count_fault(fault.kind());
        self.show_fault(fault);
    }

    /// Shows a fault until [`Self::set_following`].
    pub(crate) fn show_fault(&self, fault: &Fault) {
        let text = error_text(fault);
        *self.last_fault.lock() = Some(format!("{}: {text}", fault.name()));
        *self.activity.lock() = match fault {
            Fault::Unreachable(_) => Activity::Unreachable,
            _ => Activity::Broken(fault.kind()),
        };
    }

    pub(crate) fn count_fault(&self, kind: FaultKind) {
        if let Some(counter) = self.fault_counter(kind) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A snapshot was loaded, for this reason, in this time.
    pub(crate) fn record_load(&self, reason: LoadReason, ms: u64) {
        self.load_ms.store(ms, Ordering::Relaxed);
        let at = LoadReason::ALL.iter().position(|known| *known == reason);
        if let Some(count) = at.and_then(|at| self.loads.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn record_snapshot(&self, made_at_ms: u64) {
        self.snapshot_made_at_ms.fetch_max(made_at_ms, Ordering::Relaxed);
    }

    pub(crate) fn record_message(&self, pending: u64) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.pending.store(pending, Ordering::Relaxed);
        self.latch_near_end();
    }

    pub(crate) fn record_position(&self, at: &LogPosition) {
        self.generation.store(at.generation, Ordering::Relaxed);
        self.sequence.store(at.sequence, Ordering::Relaxed);
        self.record.store(at.chain.number, Ordering::Relaxed);
        self.term.store(at.chain.term(), Ordering::Relaxed);
    }

    /// The extent of the log is known although no message came.
    pub(crate) fn record_pending(&self, pending: u64) {
        self.pending.store(pending, Ordering::Relaxed);
    }

    pub(crate) fn record_read_block(&self, slot: Slot) {
        self.read_blocks.fetch_add(1, Ordering::Relaxed);
        self.read_slot.fetch_max(slot, Ordering::Relaxed);
        self.latch_near_end();
    }

    /// Returns the milliseconds in which the last snapshot was loaded.
    pub(crate) fn load_ms(&self) -> u64 {
        self.load_ms.load(Ordering::Relaxed)
    }

    /// Returns the newest slot whose record was read.
    pub(crate) fn read_slot(&self) -> Slot {
        self.read_slot.load(Ordering::Relaxed)
    }

    pub(crate) fn record_delay(&self, ms: u64) {
        self.delay_ms.store(ms, Ordering::Relaxed);
    }

    /// Notes that the history starts after a block, and that the replica has not caught up.
    pub(crate) fn restart_window(&self, slot: Slot) {
        self.window_start.store(slot, Ordering::Relaxed);
        self.read_slot.store(slot, Ordering::Relaxed);
        self.has_caught_up.store(false, Ordering::Relaxed);
    }

    fn latch_near_end(&self) {
        if self.is_near_end() {
            self.has_caught_up.store(true, Ordering::Relaxed);
        }
    }
}

/// An error with its causes.
pub(crate) fn error_text(err: &dyn std::error::Error) -> String {
    let mut text = err.to_string();
    let mut next = err.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}
