//! The progress of a follower, for `/ready`, health and metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use chain_solana::Verification;
use ledger::Slot;
use metrics::{Collector, Exposition, MetricKind};
use parking_lot::Mutex;
use solana::{BankMismatch, VerificationLevel};

use crate::cluster::ClusterCounters;
use crate::proof_status::ProofStatus;
use crate::source_slots::HandledStream;

/// The progress of a follower. Threads share it.
#[derive(Debug, Default)]
pub struct FollowStatus {
    pub(crate) is_connected: AtomicBool,
    /// The slot that the followed source said last; 0 until one has said it.
    pub(crate) upstream: AtomicU64,
    /// Shared with the cluster that servers read.
    pub(crate) cluster: Arc<ClusterCounters>,
    pub(crate) confirmed: AtomicU64,
    pub(crate) root: AtomicU64,
    pub(crate) sessions: AtomicU64,
    /// Streams that were left because their source stalled, lagged, or named a slot far above all others.
    pub(crate) left_streams: AtomicU64,
    pub(crate) updates: AtomicU64,
    pub(crate) banks: AtomicU64,
    pub(crate) duplicates: AtomicU64,
    /// Banks with fewer entries than the source counts.
    pub(crate) banks_without_entries: AtomicU64,
    pub(crate) gaps: AtomicU64,
    /// Jumps to the block of an archive, once it is proven.
    pub(crate) jumps: AtomicU64,
    /// Jumps to the block of an archive that was dropped before.
    pub(crate) refused_jumps: AtomicU64,
    /// The slot of an archive's block that is not proven, or 0.
    pub(crate) unproven_jump: AtomicU64,
    /// The lowest slot that a detached stream can be joined at; 0 if there is none.
    pub(crate) joinable_from: AtomicU64,
    pub(crate) late_writes: AtomicU64,
    pub(crate) reverted: AtomicU64,
    pub(crate) open_banks: AtomicU64,
    pub(crate) open_bytes: AtomicU64,
    /// Bytes of prepared open banks in the ledger, without those in the feed.
    pub(crate) prepared_bytes: AtomicU64,
    pub(crate) queued_bytes: AtomicU64,
    /// The newest bank on disk, or 0.
    pub(crate) stored: AtomicU64,
    /// Of rooted banks that are not on disk.
    pub(crate) store_bytes: AtomicU64,
    pub(crate) store_waits: AtomicU64,
    /// Accounts that an archive changes, while it is loaded.
    pub(crate) archive_bytes: Arc<AtomicU64>,
    pub(crate) deferred_roots: AtomicU64,
    pub(crate) handled_stream: Mutex<Option<HandledStream>>,
    pub(crate) last_gap: Mutex<Option<String>>,
    pub(crate) last_archive_error: Mutex<Option<String>>,
    pub(crate) last_stream_end: Mutex<Option<String>>,
    pub(crate) proof: Arc<ProofStatus>,
}

impl FollowStatus {
    /// The verification of the chain.
    pub fn proof(&self) -> &Arc<ProofStatus> {
        &self.proof
    }

    /// Whether a stream of a source is open.
    pub fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed)
    }

    /// Returns the slots from the processed tip to the newest slot of the source. `None` until a source has said it, or
    /// has sent a bank, and while it names a slot below the root: its chain began again, or it is far behind.
    pub fn slots_behind(&self) -> Option<u64> {
        let newest = self.upstream.load(Ordering::Relaxed);
        let is_known = newest > 0 || self.banks.load(Ordering::Relaxed) > 0;
        let is_below_root = newest > 0 && newest < self.root();
        (is_known && !is_below_root).then(|| newest.saturating_sub(self.processed()))
    }

    /// Returns the slots from the newest verified bank, or from the bank of an archive, to the processed tip; 0 if
    /// banks are not verified.
    pub fn slots_unverified(&self) -> u64 {
        if !self.proof.has_required_level() {
            return 0;
        }
        let verified = self.verified().max(self.confirmed.load(Ordering::Relaxed));
        self.processed().saturating_sub(verified)
    }

    /// Returns the slot of the processed tip.
    pub fn processed(&self) -> Slot {
        self.cluster.processed.load(Ordering::Relaxed)
    }

    /// Returns the slot of the newest root.
    pub fn root(&self) -> Slot {
        self.root.load(Ordering::Relaxed)
    }

    /// The slot of the newest bank on disk, from which a restart starts; 0 without one.
    pub fn stored(&self) -> Slot {
        self.stored.load(Ordering::Relaxed)
    }

    /// Returns the number of gaps since the start.
    pub fn gaps(&self) -> u64 {
        self.gaps.load(Ordering::Acquire)
    }

    /// Number of jumps so far to the block of an archive that was proven.
    pub fn jumps(&self) -> u64 {
        self.jumps.load(Ordering::Relaxed)
    }

    /// The slot of an archive's block that is shown as processed, and not proven.
    pub fn unproven_jump(&self) -> Option<Slot> {
        Some(self.unproven_jump.load(Ordering::Relaxed)).filter(|slot| *slot > 0)
    }

    /// Whether a stream waits for a newer archive, which closes the gap before it.
    pub fn needs_archive(&self) -> bool {
        self.joinable_from.load(Ordering::Relaxed) > 0
    }

    /// Why the last archive that was tried closed no gap, in words.
    pub fn last_archive_error(&self) -> Option<String> {
        self.last_archive_error.lock().clone()
    }

    /// Number of streams that were opened so far.
    pub fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Returns the newest slot whose bank has the required level, or 0 before the first one.
    pub fn verified(&self) -> Slot {
        self.proof.verified_slot().unwrap_or_default()
    }

    /// Returns a description of the bank with a wrong hash. It stops the verification of newer banks.
    pub fn mismatch(&self) -> Option<String> {
        self.proof.mismatch().map(|mismatch| {
            let BankMismatch { slot, computed, reported, reporter, fault, .. } = &*mismatch;
            if let Some(fault) = fault {
                let index = fault.index.map_or_else(String::new, |it| format!(" of transaction {it}"));
                let check = fault.check.name();
                return format!("slot {slot}: its transactions contradict it: {check}{index}");
            }
            let reporter = reporter.name();
            format!("slot {slot}: its hash is {computed} by what it wrote, and {reported} by its {reporter}")
        })
    }

    /// The source of the last stream that ended, and why it did.
    pub fn last_stream_end(&self) -> Option<String> {
        self.last_stream_end.lock().clone()
    }

    /// Returns a description of the last gap.
    pub fn last_gap(&self) -> Option<String> {
        self.last_gap.lock().clone()
    }
}

impl Collector for FollowStatus {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        let bytes = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        vec![
            ("follow_open_banks", bytes(&self.open_bytes)),
            ("follow_prepared_banks", bytes(&self.prepared_bytes)),
            ("follow_queue", bytes(&self.queued_bytes)),
            ("follow_verifier", bytes(&self.proof.verifier_bytes)),
            ("follow_proofs", self.proof.bytes() as u64),
            ("follow_checks", bytes(&self.proof.checks.task_bytes)),
            ("follow_cluster", bytes(&self.cluster.bytes)),
            (
                "follow_execution",
                self.proof.execution.as_ref().map_or(0, |it| bytes(&it.queued_bytes)),
            ),
            ("follow_store", bytes(&self.store_bytes)),
            ("follow_archive", bytes(&self.archive_bytes)),
        ]
    }

    fn write(&self, out: &mut Exposition) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        // Before the others, which are of these updates or of later ones.
        let updates = self.updates.load(Ordering::Acquire);
        let help = "Whether a stream of a source is open.";
        out.single(
            "hydrant_follow_connected",
            MetricKind::Gauge,
            help,
            u64::from(self.is_connected()),
        );
        let help = "The newest slot of the source, and those of this node by commitment.";
        let mut family = out.family("hydrant_follow_slot", MetricKind::Gauge, help);
        let newest = count(&self.upstream).max(self.processed());
        family.put(&[("at", "source")], newest);
        for (at, counter) in [
            ("processed", &self.cluster.processed),
            ("confirmed", &self.confirmed),
            ("finalized", &self.root),
        ] {
            family.put(&[("at", at)], count(counter));
        }
        let word = self.proof.required_level().map_or("verified", VerificationLevel::slot_word);
        family.put(&[("at", word)], self.verified());
        family.put(&[("at", "stored")], self.stored());
        let help = "Time in which the accounts of banks were hashed.";
        out.single(
            "hydrant_follow_hash_microseconds_total",
            MetricKind::Counter,
            help,
            self.proof.hash_time().as_micros() as u64,
        );
        let help = "Time of the threads that check transactions, by check.";
        let name = "hydrant_follow_check_microseconds_total";
        let mut family = out.family(name, MetricKind::Counter, help);
        let checks = &self.proof.checks;
        for (check, nanos) in [
            ("signatures", &checks.signature_nanos),
            ("entries", &checks.entry_nanos),
            ("balances", &checks.balance_nanos),
        ] {
            family.put(&[("check", check)], count(nanos) / 1_000);
        }
        let help = "Banks whose transactions are being checked, tasks of these checks that wait for a thread, and banks \
                    above the root whose transactions are not proven.";
        let mut family = out.family("hydrant_follow_check_queue", MetricKind::Gauge, help);
        for (of, counter) in [
            ("banks", &checks.open_banks),
            ("tasks", &checks.queued_tasks),
            ("unproven_banks", &checks.unproven_banks),
        ] {
            family.put(&[("of", of)], count(counter));
        }
        if let Some(execution) = &self.proof.execution {
            execution.write(out);
        }
        let help = "Roots that are deferred until the newest bank has a child and all banks are checked. They are \
                    applied earlier at the first update or tick after 50 ms, or if three former versions wait.";
        let roots = count(&self.deferred_roots);
        out.single("hydrant_follow_deferred_roots", MetricKind::Gauge, help, roots);
        let help = "Banks that lack something or wait for their parents.";
        out.single("hydrant_follow_open_banks", MetricKind::Gauge, help, count(&self.open_banks));
        let help =
            "What was followed: streams, updates, whole banks, and what was wrong with them.";
        let mut family = out.family("hydrant_follow_events_total", MetricKind::Counter, help);
        for (event, value) in [
            ("session", count(&self.sessions)),
            ("left_stream", count(&self.left_streams)),
            ("update", updates),
            ("bank", count(&self.banks)),
            ("duplicate_update", count(&self.duplicates)),
            ("bank_without_entries", count(&self.banks_without_entries)),
            ("gap", count(&self.gaps)),
            ("jump", count(&self.jumps)),
            ("refused_jump", count(&self.refused_jumps)),
            ("late_write", count(&self.late_writes)),
            ("reverted_bank", count(&self.reverted)),
            ("verified_bank", count(&self.proof.verified_banks)),
            ("mismatched_bank", count(&self.proof.mismatched_banks)),
            ("repair", count(&self.proof.repairs)),
            ("store_wait", count(&self.store_waits)),
        ] {
            family.put(&[("event", event)], value);
        }
    }
}
