//! The progress of an import, for health checks, logs and metrics.
//!
//! The number of UTXOs is not known before the last chunk: no message of a node has it.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kaspa::Hash;
use metrics::{Collector, Exposition, MetricKind};
use parking_lot::Mutex;

#[expect(clippy::disallowed_methods, reason = "an import reports the seconds that it takes")]
fn now() -> Instant {
    Instant::now()
}

/// The progress of an import. Threads share it.
pub struct ImportProgress {
    started: Instant,
    /// The time that the import took, once it has ended.
    elapsed: OnceLock<Duration>,
    utxos: AtomicU64,
    bytes: AtomicU64,
    /// UTXOs that were hashed before the current peer sent them again.
    hashed_before: AtomicU64,
    transfers: AtomicU64,
    refused_peers: AtomicU64,
    texts: Mutex<ProgressTexts>,
}

#[derive(Clone, Debug, Default)]
struct ProgressTexts {
    step: ImportStep,
    last_problem: Option<String>,
}

/// The current step of an import.
#[derive(Clone, Debug, Default)]
pub(crate) enum ImportStep {
    /// A source names its pruning point.
    #[default]
    Start,
    /// A peer sends its set.
    Transfer { block: Hash, peer: String },
    /// The set is whole and has the commitment of its block. It is loaded into the ledger.
    Load { block: Hash },
}

impl Default for ImportProgress {
    fn default() -> Self {
        Self {
            started: now(),
            elapsed: OnceLock::new(),
            utxos: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            hashed_before: AtomicU64::new(0),
            transfers: AtomicU64::new(0),
            refused_peers: AtomicU64::new(0),
            texts: Mutex::default(),
        }
    }
}

impl ImportProgress {
    /// Returns the UTXOs that the current peer has sent.
    pub fn utxos(&self) -> u64 {
        self.utxos.load(Ordering::Relaxed)
    }

    /// Returns the UTXOs that were hashed before the current peer sent them again.
    pub fn hashed_before(&self) -> u64 {
        self.hashed_before.load(Ordering::Relaxed)
    }

    /// Returns the number of transfers that have started.
    pub fn transfers(&self) -> u64 {
        self.transfers.load(Ordering::Relaxed)
    }

    /// Returns the number of peers that are not tried again.
    pub fn refused_peers(&self) -> u64 {
        self.refused_peers.load(Ordering::Relaxed)
    }

    /// Returns why the last transfer failed, or the last request to a source.
    pub fn last_problem(&self) -> Option<String> {
        self.texts.lock().last_problem.clone()
    }

    /// Returns the time of the import so far, or the time that it took.
    pub fn elapsed(&self) -> Duration {
        self.elapsed.get().copied().unwrap_or_else(|| now() - self.started)
    }

    pub(crate) fn start_transfer(&self, block: Hash, peer: String, hashed_before: u64) {
        self.hashed_before.store(hashed_before, Ordering::Relaxed);
        self.set_received(0, 0);
        self.transfers.fetch_add(1, Ordering::Relaxed);
        self.texts.lock().step = ImportStep::Transfer { block, peer };
    }

    pub(crate) fn set_received(&self, utxos: u64, bytes: u64) {
        self.utxos.store(utxos, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn start_load(&self, block: Hash) {
        self.texts.lock().step = ImportStep::Load { block };
    }

    pub(crate) fn finish(&self) {
        // It ends once.
        let _ = self.elapsed.set(now() - self.started);
    }

    pub(crate) fn count_refused_peer(&self) {
        self.refused_peers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_problem(&self, problem: String) {
        self.texts.lock().last_problem = Some(problem);
    }
}

/// One line, which begins with "importing".
impl fmt::Display for ImportProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.texts.lock().clone();
        let megabytes = self.bytes.load(Ordering::Relaxed) / 1_000_000;
        let seconds = self.elapsed().as_secs();
        let utxos = self.utxos();
        match &texts.step {
            ImportStep::Start => {
                f.write_str("importing: requesting the pruning point from the sources")?
            }
            ImportStep::Transfer { block, peer } => write!(
                f,
                "importing the UTXO set of pruning point {block} from {peer}: {utxos} UTXOs, {megabytes} MB, \
                 {seconds} s"
            )?,
            ImportStep::Load { block } => write!(
                f,
                "importing: the UTXO set of pruning point {block} is proven, and its {utxos} UTXOs are loaded, \
                 {seconds} s"
            )?,
        }
        match &texts.last_problem {
            Some(problem) => write!(f, "; the last problem: {problem}"),
            None => Ok(()),
        }
    }
}

impl Collector for ImportProgress {
    fn write(&self, out: &mut Exposition) {
        let help = "The import of the pruning point's UTXO set: UTXOs and bytes that the current peer has sent, UTXOs \
                    that were hashed before, transfers, peers that are not tried again, and seconds.";
        let mut family = out.family("hydrant_kaspa_import", MetricKind::Gauge, help);
        for (part, value) in [
            ("utxos", self.utxos()),
            ("bytes", self.bytes.load(Ordering::Relaxed)),
            ("hashed_before", self.hashed_before()),
            ("transfers", self.transfers()),
            ("refused_peers", self.refused_peers()),
            ("seconds", self.elapsed().as_secs()),
        ] {
            family.put(&[("of", part)], value);
        }
    }
}
