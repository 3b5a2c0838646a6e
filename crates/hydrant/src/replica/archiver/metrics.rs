//! The metrics of an archive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::metrics::{Collector, Exposition, MetricKind};

/// The progress of an archive.
#[derive(Debug, Default)]
pub(super) struct ArchiveMetrics {
    pub(super) last_slot: AtomicU64,
    pub(super) open_slots: AtomicU64,
    pub(super) objects: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) holes: AtomicU64,
    pub(super) disagreements: AtomicU64,
    /// Compressed blocks of the open objects: that of the archive, and that of a fill.
    pub(super) object_bytes: Arc<AtomicU64>,
    /// Blocks of the log that are not archived yet.
    pub(super) logged_bytes: Arc<AtomicU64>,
}

/// The share of one object or reader in the bytes of all. It counts until it is dropped.
#[derive(Debug)]
pub(super) struct ReportedBytes {
    total: Arc<AtomicU64>,
    bytes: u64,
}

impl ReportedBytes {
    pub(super) fn new(total: &Arc<AtomicU64>) -> Self {
        Self { total: Arc::clone(total), bytes: 0 }
    }

    pub(super) fn set(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        match bytes.checked_sub(before) {
            Some(more) => self.total.fetch_add(more, Ordering::Relaxed),
            None => self.total.fetch_sub(before - bytes, Ordering::Relaxed),
        };
    }
}

impl Drop for ReportedBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Collector for ArchiveMetrics {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        let bytes = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        vec![
            ("archive_object", bytes(&self.object_bytes)),
            ("archive_log", bytes(&self.logged_bytes)),
        ]
    }

    fn write(&self, out: &mut Exposition) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let help = "The last slot of the archive's newest object.";
        let last = count(&self.last_slot);
        out.single("hydrant_archive_last_slot", MetricKind::Gauge, help, last);
        let help =
            "Slots of the archive's holes that no object covers, when they were last listed.";
        let open = count(&self.open_slots);
        out.single("hydrant_archive_hole_slots", MetricKind::Gauge, help, open);
        let help = "Objects that this node has written, attempts that failed because of the store or the log, holes that \
                    this node has recorded, and objects that another node has written with other content.";
        let mut family = out.family("hydrant_archive_events_total", MetricKind::Counter, help);
        for (event, counter) in [
            ("object", &self.objects),
            ("failure", &self.failures),
            ("hole", &self.holes),
            ("disagreement", &self.disagreements),
        ] {
            family.put(&[("event", event)], count(counter));
        }
    }
}
