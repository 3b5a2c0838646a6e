//! How far a follower is: for `/ready`, health and metrics.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ledger::Slot;
use metrics::{Collector, Exposition, MetricKind};
use parking_lot::Mutex;

/// How far a follower is. Threads share it.
#[derive(Debug, Default)]
pub struct FollowStatus {
    pub(crate) is_connected: AtomicBool,
    pub(crate) upstream: AtomicU64,
    pub(crate) processed: AtomicU64,
    pub(crate) confirmed: AtomicU64,
    pub(crate) root: AtomicU64,
    pub(crate) sessions: AtomicU64,
    pub(crate) updates: AtomicU64,
    pub(crate) banks: AtomicU64,
    pub(crate) duplicates: AtomicU64,
    pub(crate) gaps: AtomicU64,
    pub(crate) late_writes: AtomicU64,
    pub(crate) reverted: AtomicU64,
    pub(crate) open_banks: AtomicU64,
    pub(crate) open_bytes: AtomicU64,
    pub(crate) queued_bytes: AtomicU64,
    pub(crate) verified: AtomicU64,
    pub(crate) verified_banks: AtomicU64,
    pub(crate) mismatched_banks: AtomicU64,
    pub(crate) verifier_bytes: AtomicU64,
    pub(crate) last_gap: Mutex<Option<String>>,
    pub(crate) first_mismatch: Mutex<Option<String>>,
}

impl FollowStatus {
    /// Whether a stream is open.
    pub fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed)
    }

    /// Slots from the processed tip to the newest slot of the source; `None` until a source has said it.
    pub fn slots_behind(&self) -> Option<u64> {
        match self.upstream.load(Ordering::Relaxed) {
            0 => None,
            newest => Some(newest.saturating_sub(self.processed.load(Ordering::Relaxed))),
        }
    }

    /// The processed tip's slot.
    pub fn processed(&self) -> Slot {
        self.processed.load(Ordering::Relaxed)
    }

    /// The root's slot.
    pub fn root(&self) -> Slot {
        self.root.load(Ordering::Relaxed)
    }

    /// Number of gaps so far.
    pub fn gaps(&self) -> u64 {
        self.gaps.load(Ordering::Relaxed)
    }

    /// Number of streams that were opened so far.
    pub fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// The newest slot whose bank hash was found right; 0 before the first one.
    pub fn verified(&self) -> Slot {
        self.verified.load(Ordering::Relaxed)
    }

    /// The first bank whose computed hash was not the reported one, in words.
    pub fn mismatch(&self) -> Option<String> {
        self.first_mismatch.lock().clone()
    }

    pub(crate) fn report_mismatch(&self, text: &str) {
        tracing::error!("{text}");
        self.first_mismatch.lock().get_or_insert_with(|| text.to_owned());
    }

    /// The last gap, in words.
    pub fn last_gap(&self) -> Option<String> {
        self.last_gap.lock().clone()
    }
}

impl Collector for FollowStatus {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        let bytes = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        vec![
            ("follow_open_banks", bytes(&self.open_bytes)),
            ("follow_queue", bytes(&self.queued_bytes)),
            ("follow_verifier", bytes(&self.verifier_bytes)),
        ]
    }

    fn write(&self, out: &mut Exposition) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let help = "Whether a stream of a source is open.";
        out.single(
            "hydrant_follow_connected",
            MetricKind::Gauge,
            help,
            u64::from(self.is_connected()),
        );
        let help = "The newest slot of the source, and those of this node by commitment.";
        let mut family = out.family("hydrant_follow_slot", MetricKind::Gauge, help);
        for (at, counter) in [
            ("source", &self.upstream),
            ("processed", &self.processed),
            ("confirmed", &self.confirmed),
            ("finalized", &self.root),
            ("verified", &self.verified),
        ] {
            family.put(&[("at", at)], count(counter));
        }
        let help = "Banks that lack something or wait for their parents.";
        out.single("hydrant_follow_open_banks", MetricKind::Gauge, help, count(&self.open_banks));
        let help =
            "What was followed: streams, updates, whole banks, and what was wrong with them.";
        let mut family = out.family("hydrant_follow_events_total", MetricKind::Counter, help);
        for (event, counter) in [
            ("session", &self.sessions),
            ("update", &self.updates),
            ("bank", &self.banks),
            ("duplicate_update", &self.duplicates),
            ("gap", &self.gaps),
            ("late_write", &self.late_writes),
            ("reverted_bank", &self.reverted),
            ("verified_bank", &self.verified_banks),
            ("mismatched_bank", &self.mismatched_banks),
        ] {
            family.put(&[("event", event)], count(counter));
        }
    }
}
