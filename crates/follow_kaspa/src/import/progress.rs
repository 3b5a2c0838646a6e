//! The progress of an import, for health checks, logs and metrics, and its cancellation by another thread.
//!
//! The number of UTXOs is not known before the last chunk: no message of a node has it.
//! Anyone may read a health check, so its line has no address ([`ImportProgress::public_line`]).

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kaspa::Hash;
use metrics::{Collector, Exposition, MetricKind};
use parking_lot::Mutex;
use tokio::sync::watch;

#[expect(clippy::disallowed_methods, reason = "an import reports the seconds that it takes")]
fn now() -> Instant {
    Instant::now()
}

/// The progress of an import. Threads share it.
#[derive(Default)]
pub struct ImportProgress {
    started: OnceLock<Instant>,
    /// The time that the import took, once it has ended.
    elapsed: OnceLock<Duration>,
    utxos: AtomicU64,
    bytes: AtomicU64,
    /// UTXOs that were hashed before the current peer sent them again.
    hashed_before: AtomicU64,
    transfers: AtomicU64,
    refused_peers: AtomicU64,
    texts: Mutex<ProgressTexts>,
    is_cancelled: watch::Sender<bool>,
}

#[derive(Clone, Debug, Default)]
struct ProgressTexts {
    step: ImportStep,
    last_problem: Option<ImportProblem>,
}

/// Why a transfer failed, or a request to a source.
#[derive(Clone, Debug)]
pub(crate) struct ImportProblem {
    /// With the address of the server.
    pub(crate) text: String,
    /// The text that anyone may read, without addresses.
    pub(crate) public_text: String,
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

impl ImportProgress {
    /// Cancels the import: [`crate::import_chain`] returns [`crate::ImportError::Cancelled`] after its current step,
    /// within milliseconds. The loading of a whole set is not interrupted, and takes minutes for a large one. The
    /// received UTXOs stay in files, and the next import continues with them.
    pub fn cancel(&self) {
        self.is_cancelled.send_replace(true);
    }

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
        self.texts.lock().last_problem.as_ref().map(|problem| problem.text.clone())
    }

    /// Returns one line without addresses of peers and sources, and without texts that they wrote. It begins with
    /// "importing".
    pub fn public_line(&self) -> String {
        let ProgressTexts { step, last_problem } = self.texts.lock().clone();
        let problem = last_problem.as_ref().map(|problem| problem.public_text.as_str());
        self.describe(&step, None, problem)
    }

    /// Returns the time of the import so far, or the time that it took.
    pub fn elapsed(&self) -> Duration {
        let since_start = || self.started.get().map(|started| now() - *started).unwrap_or_default();
        self.elapsed.get().copied().unwrap_or_else(since_start)
    }

    /// Runs a step of the import. Returns `None` if the import is cancelled.
    pub(crate) async fn run<T>(&self, step: impl Future<Output = T>) -> Option<T> {
        let mut is_cancelled = self.is_cancelled.subscribe();
        tokio::select! {
            biased;
            // It cannot fail: `self` has the sender.
            _ = is_cancelled.wait_for(|is_cancelled| *is_cancelled) => None,
            output = step => Some(output),
        }
    }

    pub(crate) fn start(&self) {
        // It starts once.
        let _ = self.started.set(now());
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
        let _ = self.elapsed.set(self.elapsed());
    }

    pub(crate) fn count_refused_peer(&self) {
        self.refused_peers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_problem(&self, problem: ImportProblem) {
        self.texts.lock().last_problem = Some(problem);
    }

    fn describe(&self, step: &ImportStep, peer: Option<&str>, problem: Option<&str>) -> String {
        let megabytes = self.bytes.load(Ordering::Relaxed) / 1_000_000;
        let seconds = self.elapsed().as_secs();
        let utxos = self.utxos();
        let mut line = match step {
            ImportStep::Start => {
                "importing: requesting the pruning point from the sources".to_owned()
            }
            ImportStep::Transfer { block, .. } => {
                let from = peer.map(|peer| format!(" from {peer}")).unwrap_or_default();
                format!(
                    "importing the UTXO set of pruning point {block}{from}: {utxos} UTXOs, {megabytes} MB, \
                     {seconds} s"
                )
            }
            ImportStep::Load { block } => format!(
                "importing: the UTXO set of pruning point {block} is proven, and its {utxos} UTXOs are loaded, \
                 {seconds} s"
            ),
        };
        if let Some(problem) = problem {
            line.push_str("; the last problem: ");
            line.push_str(problem);
        }
        line
    }
}

/// Writes one line with the address of the peer. It begins with "importing".
impl fmt::Display for ImportProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProgressTexts { step, last_problem } = self.texts.lock().clone();
        let peer = match &step {
            ImportStep::Transfer { peer, .. } => Some(peer.as_str()),
            ImportStep::Start | ImportStep::Load { .. } => None,
        };
        let problem = last_problem.as_ref().map(|problem| problem.text.as_str());
        f.write_str(&self.describe(&step, peer, problem))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_line_has_no_address() {
        let progress = ImportProgress::default();
        assert_eq!(progress.public_line(), progress.to_string());
        progress.start_transfer(Hash([7; 32]), "10.0.0.5:16111".to_owned(), 0);
        let text = "10.0.0.5:16111: no connection: refused".to_owned();
        progress.set_problem(ImportProblem { text, public_text: "no connection".to_owned() });
        let full = progress.to_string();
        assert_eq!(full.matches("10.0.0.5").count(), 2, "{full}");
        let public = progress.public_line();
        assert_eq!(
            public,
            full.replace(" from 10.0.0.5:16111", "")
                .replace("10.0.0.5:16111: no connection: refused", "no connection",)
        );
    }
}
