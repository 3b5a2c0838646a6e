//! The archives on the disk: when one is written, and which one is the newest.
//!
//! Bounds: see the crate. A request makes an archive if the newest one is more than [`REUSED_SLOTS_MAX`] slots old:
//! [`MAKE_BURST`] of them, and then one every [`MAKE_INTERVAL`], by a thread with the lowest priority.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clients::{ClientId, ShareFull, TokenBucket};
use ledger::Slot;
use metrics::{Collector, Exposition, MetricKind};
use parking_lot::RwLock;
use snapshot_solana::WrittenArchive;
use tempfile::TempDir;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::archived_ledger::ArchivedLedger;
use crate::client_permits::{ClientPermits, NoPermit};

/// Maximum number of concurrent downloads.
pub const DOWNLOADS_MAX: usize = 8;
/// Maximum number of concurrent downloads of a client.
pub const CLIENT_DOWNLOADS_MAX: usize = 2;
/// Bytes of a download that are read at a time.
pub(crate) const CHUNK_BYTES: u64 = 256 << 10;
/// Requests that wait for an archive that is being made.
pub const REQUESTS_MAX: usize = 64;
/// Requests of one client that wait for it.
const CLIENT_REQUESTS_MAX: usize = 8;
/// Final slots after which an archive is out of date. A follower continues from its slot, so it must be in
/// the log of Yellowstone gRPC, which has 100 slots above the root or more.
const REUSED_SLOTS_MAX: u64 = 16;
/// Archives that may be made without a pause. Followers that start together share one, and one that finds the archive
/// too old for the log requests another.
const MAKE_BURST: u32 = 4;
/// The time from one archive to the next after these. An archive costs two passes over all accounts. More often, any
/// client could keep a core and the disk busy; less often, a follower may wait longer for one that it can continue from.
const MAKE_INTERVAL: Duration = Duration::from_secs(60);
/// The priority of the thread that makes one.
const MAKE_NICE: i32 = 19;
/// Archives on the disk: the newest, and the one before, which clients were redirected to.
const STORED_MAX: usize = 2;

/// Reasons why a request gets no archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoArchive {
    #[error("{REQUESTS_MAX} requests wait for a snapshot already")]
    TooManyRequests,
    #[error("too many requests wait for a snapshot: {0}")]
    TooManyOfClient(ShareFull),
    #[error("there is no snapshot, and several were tried: another one may be made later")]
    Limited,
    #[error("the snapshot could not be made: the log has the reason")]
    Failed,
}

/// Counts of archives and downloads by their results.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) made: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) downloaded: AtomicU64,
    pub(crate) aborted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) limited: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The newest archives of a ledger on the disk.
pub struct SnapshotArchives {
    ledger: ArchivedLedger,
    dir: Option<PathBuf>,
    /// The directory, if none is configured. It is removed with this.
    temporary: OnceLock<TempDir>,
    created: Instant,
    /// Locked while an archive is made. It has a token for each archive that may be made.
    making: Arc<Mutex<TokenBucket>>,
    requests: ClientPermits,
    pub(crate) downloads: ClientPermits,
    /// The stored archives, the newest first.
    stored: RwLock<Vec<Arc<WrittenArchive>>>,
    pub(crate) counters: Arc<Counters>,
}

impl SnapshotArchives {
    /// Creates the archives of `ledger`. Their directory is created, and emptied, when the first archive is written. If
    /// `dir` is `None`, it is a temporary directory.
    pub fn new(ledger: ArchivedLedger, dir: Option<PathBuf>) -> Self {
        Self {
            ledger,
            dir,
            temporary: OnceLock::new(),
            created: Instant::now(),
            making: Arc::default(),
            requests: ClientPermits::new("requests", REQUESTS_MAX, CLIENT_REQUESTS_MAX),
            downloads: ClientPermits::new("downloads", DOWNLOADS_MAX, CLIENT_DOWNLOADS_MAX),
            stored: RwLock::default(),
            counters: Arc::default(),
        }
    }

    /// Returns the newest archive, and writes it first if it is old and another one may be made.
    pub(crate) async fn newest(
        self: &Arc<Self>,
        client: ClientId,
    ) -> Result<Arc<WrittenArchive>, NoArchive> {
        let _request = self.requests.try_acquire(client)?;
        let mut making = Arc::clone(&self.making).lock_owned().await;
        let stored = self.stored.read().first().cloned();
        let newest = self.ledger.newest_slot();
        let is_new = |it: &Arc<WrittenArchive>| newest.saturating_sub(it.slot) <= REUSED_SLOTS_MAX;
        if let Some(stored) = stored.as_ref().filter(|stored| is_new(stored)) {
            return Ok(Arc::clone(stored));
        }
        let burst = MAKE_INTERVAL * MAKE_BURST;
        if making.try_take(MAKE_INTERVAL, burst, self.created.elapsed()).is_err() {
            Counters::add(&self.counters.limited);
            return stored.ok_or(NoArchive::Limited);
        }
        let this = Arc::clone(self);
        // A task of its own: if the client leaves, the lock stays until the archive is whole.
        let made = tokio::task::spawn_blocking(move || {
            let _lock = making;
            this.make_at_low_priority()
        });
        made.await.map_err(|_| NoArchive::Failed)?
    }

    /// Makes an archive on a thread of its own, because a thread of the runtime would keep the priority.
    fn make_at_low_priority(&self) -> Result<Arc<WrittenArchive>, NoArchive> {
        std::thread::scope(|scope| {
            let make = || {
                // Only this thread's priority. Raising the value is always allowed.
                let _ = rustix::process::setpriority_process(None, MAKE_NICE);
                self.make()
            };
            let thread = std::thread::Builder::new().name("snapshot".into());
            let made = thread.spawn_scoped(scope, make).map_err(|_| NoArchive::Failed)?;
            made.join().map_err(|_| NoArchive::Failed)?
        })
    }

    fn make(&self) -> Result<Arc<WrittenArchive>, NoArchive> {
        let written = self.prepare_dir().and_then(|dir| Ok(self.ledger.write(&dir)?));
        let archive = match written {
            Ok(archive) => Arc::new(archive),
            Err(err) => {
                Counters::add(&self.counters.failed);
                tracing::error!(err, "no snapshot was made");
                return Err(NoArchive::Failed);
            }
        };
        Counters::add(&self.counters.made);
        tracing::info!(slot = archive.slot, bytes = archive.bytes, "made a snapshot");
        let mut stored = self.stored.write();
        stored.retain(|other| other.name != archive.name);
        stored.insert(0, Arc::clone(&archive));
        let left = STORED_MAX.min(stored.len());
        for old in stored.drain(left..) {
            if let Err(err) = std::fs::remove_file(&old.path) {
                tracing::warn!(%err, path = %old.path.display(), "an old snapshot is not removed");
            }
        }
        Ok(archive)
    }

    /// Returns the directory. Before the first archive those of an earlier process are removed.
    fn prepare_dir(&self) -> Result<PathBuf, Box<dyn std::error::Error>> {
        let Some(dir) = &self.dir else {
            if let Some(dir) = self.temporary.get() {
                return Ok(dir.path().to_owned());
            }
            let dir = tempfile::Builder::new().prefix("hydrant-snapshots-").tempdir()?;
            return Ok(self.temporary.get_or_init(|| dir).path().to_owned());
        };
        if self.stored.read().is_empty() && dir.exists() {
            std::fs::remove_dir_all(dir)?;
        }
        std::fs::create_dir_all(dir)?;
        Ok(dir.clone())
    }

    /// Returns the archive with this name.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<WrittenArchive>> {
        self.stored.read().iter().find(|archive| archive.name == name).cloned()
    }
}

impl From<NoPermit> for NoArchive {
    fn from(no_permit: NoPermit) -> Self {
        match no_permit {
            NoPermit::All => Self::TooManyRequests,
            NoPermit::Client(full) => Self::TooManyOfClient(full),
        }
    }
}

impl chain_solana::Snapshots for SnapshotArchives {
    fn newest_slot(&self) -> Option<Slot> {
        self.stored.read().first().map(|archive| archive.slot)
    }
}

impl Drop for SnapshotArchives {
    fn drop(&mut self) {
        for archive in self.stored.get_mut().drain(..) {
            // Nothing serves it now. The next process removes a file that stays.
            let _ = std::fs::remove_file(&archive.path);
        }
    }
}

impl Collector for SnapshotArchives {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        vec![("snapshot_downloads", self.downloads.len() as u64 * CHUNK_BYTES)]
    }

    fn write(&self, out: &mut Exposition) {
        let busy = self.downloads.len();
        let help = "Snapshot archives that are being downloaded.";
        out.single("hydrant_snapshot_downloads", MetricKind::Gauge, help, busy as u64);
        let help = "Requests that wait for a snapshot archive.";
        let waiting = self.requests.len();
        out.single("hydrant_snapshot_requests_waiting", MetricKind::Gauge, help, waiting as u64);
        let bytes: u64 = self.stored.read().iter().map(|archive| archive.bytes).sum();
        let help = "Bytes of the snapshot archives on the disk.";
        out.single("hydrant_snapshot_disk_bytes", MetricKind::Gauge, help, bytes);
        let help = "Snapshot archives: made, not made because of an error, downloaded whole or in part, refused \
                    downloads, and requests that got an older one, or none, because no more may be made.";
        let mut family = out.family("hydrant_snapshot_events_total", MetricKind::Counter, help);
        let counters = &self.counters;
        for (event, counter) in [
            ("made", &counters.made),
            ("failed", &counters.failed),
            ("downloaded", &counters.downloaded),
            ("aborted", &counters.aborted),
            ("refused", &counters.refused),
            ("limited", &counters.limited),
        ] {
            family.put(&[("event", event)], counter.load(Ordering::Relaxed));
        }
    }
}
