//! The import of the pruning point's UTXO set: which block, from which peer, and the chain that starts from it.
//!
//! In: sources, which name the pruning point, and peers, which send its set. Out: a chain, and its snapshot file, from
//! which the next start loads it.
//! Invariant: nothing is loaded into a ledger before the set has the commitment of its block.
//! A peer that lies is not tried again. Others are tried one after another, with a pause after each round. Before each
//! transfer a source names the pruning point, because it moves: then the transfer starts with the new set. Before a set
//! is loaded a source must continue the chain from its block.
//! Not here: a transfer (`transfer`), a connection to a peer (`peer`).

use std::io;
use std::time::Duration;

use chain_kaspa::{Chain, ChainConfig, LoadError};
use http_client::describe_error;
use kaspa::Hash;
use tokio::runtime::Handle;

use super::chunk_store::has_end_mark;
use super::config::{ImportConfig, PeerConfig};
use super::import_error::ImportError;
use super::import_paths::ImportPaths;
use super::peer::Peer;
use super::peer_error::PeerError;
use super::progress::{ImportProblem, ImportProgress};
use super::pruning_point::{PruningPoint, continues_from, request_pruning_point};
use super::transfer::{SetTransfer, TransferError};
use crate::backoff::Backoff;
use crate::config::SourceConfig;
use crate::hashed_set::HashedSet;
use crate::snapshot_error::SnapshotError;
use crate::snapshot_file::{load_hashed_snapshot, load_snapshot, read_block_hash};
use crate::source_error::SourceError;

/// Imports the UTXO set of the pruning point, and starts a chain there. Blocks until the snapshot file is written, no
/// peer is left, or the import is cancelled ([`ImportProgress::cancel`]). The connections run on `runtime`, and this
/// thread must not belong to it.
///
/// Cost: some 6 µs of CPU time for each UTXO, 3 of them on all threads of the machine.
pub fn import_chain(
    runtime: &Handle,
    config: &ImportConfig,
    chain: &ChainConfig,
    progress: &ImportProgress,
) -> Result<Chain, ImportError> {
    if config.sources.is_empty() {
        return Err(ImportError::NoSource);
    }
    progress.start();
    let importer = Importer { runtime, config, chain, progress };
    let imported = match importer.load_whole_set()? {
        Some(imported) => imported,
        None => importer.import_set()?,
    };
    progress.finish();
    let block = imported.sink();
    tracing::info!(block = %block.hash, seconds = progress.elapsed().as_secs(), "imported the UTXO set");
    Ok(imported)
}

struct Importer<'a> {
    runtime: &'a Handle,
    config: &'a ImportConfig,
    chain: &'a ChainConfig,
    progress: &'a ImportProgress,
}

/// The peers of an import, and the current one.
struct PeerList<'a> {
    peers: &'a [PeerConfig],
    /// Of each peer: whether it is not tried again.
    refused: Vec<bool>,
    at: usize,
    /// Whether the current peer is tried a second time, because another one may have lied before it.
    is_second_try: bool,
}

impl Importer<'_> {
    /// Loads the set that an earlier process has received but not loaded.
    fn load_whole_set(&self) -> Result<Option<Chain>, ImportError> {
        let paths = ImportPaths::for_snapshot(&self.config.snapshot);
        if !has_end_mark(&paths.set) {
            return Ok(None);
        }
        if let Ok(block) = read_block_hash(&paths.set, self.config.network)
            && !self.is_continued(&block)?
        {
            tracing::warn!(%block, "no source has the block of the received UTXO set any longer");
            return Ok(None);
        }
        let loaded = load_snapshot(&paths.set, self.config.network, self.chain.clone());
        match loaded {
            Ok(loaded) => {
                let published = paths.publish(&self.config.snapshot);
                published.map(|()| Some(loaded)).map_err(|error| self.io_error(error))
            }
            Err(error @ SnapshotError::Load(LoadError::Ledger(_))) => {
                Err(ImportError::Load(Box::new(error)))
            }
            Err(error) => {
                let error = describe_error(&error);
                tracing::warn!(
                    "the UTXO set in {} is received again: {error}",
                    paths.set.display()
                );
                Ok(None)
            }
        }
    }

    /// Receives the set from one peer after another.
    fn import_set(&self) -> Result<Chain, ImportError> {
        let mut peers = PeerList::new(&self.config.peers);
        // The rounds are counted by the list: refused peers are not part of them.
        let mut rounds = Backoff::new(1, &self.config.session);
        let mut transfer: Option<SetTransfer> = None;
        let mut last = "none is named".to_owned();
        while let Some(peer) = peers.current() {
            let point = self.find_pruning_point()?;
            let current = match transfer.take() {
                Some(current) if current.point == point => current,
                _ => {
                    let opened = SetTransfer::open(self.config, point);
                    opened.map_err(|error| self.io_error(error))?
                }
            };
            let current = transfer.insert(current);
            match self.receive_set(current, peer) {
                Ok(set) => {
                    let block = current.point.block;
                    if !self.is_continued(&block)? {
                        tracing::warn!(%block, "the pruning point has moved during the transfer");
                        transfer = None;
                        continue;
                    }
                    let paths = ImportPaths::for_snapshot(&self.config.snapshot);
                    return self.load_set(&paths, &current.point, &set);
                }
                Err(TransferError::Io(error)) => return Err(self.io_error(error)),
                Err(TransferError::Cancelled) => return Err(ImportError::Cancelled),
                Err(TransferError::Peer(error)) => {
                    last = format!("{peer}: {}", describe_error(&error));
                    tracing::warn!("{last}");
                    let public_text = error.public_text();
                    self.progress.set_problem(ImportProblem { text: last.clone(), public_text });
                    if error.is_final() {
                        self.progress.count_refused_peer();
                    }
                    if peers.record_failure(&error) {
                        self.pause(rounds.record_failure())?;
                    }
                }
            }
        }
        Err(ImportError::NoPeer { last })
    }

    fn receive_set(
        &self,
        transfer: &mut SetTransfer,
        peer: &PeerConfig,
    ) -> Result<HashedSet, TransferError> {
        let block = transfer.point.block;
        let hashed_before = transfer.hashed_utxos();
        self.progress.start_transfer(block, peer.to_string(), hashed_before);
        tracing::info!(%peer, pruning_point = %block, hashed_before, "importing the UTXO set");
        let ImportConfig { network, limits, .. } = self.config;
        let connection = Peer::connect(peer, *network, *limits);
        let connected = self.runtime.block_on(self.progress.run(connection));
        let mut connected = connected.ok_or(TransferError::Cancelled)??;
        transfer.receive(self.runtime, &mut connected, self.progress)
    }

    /// Loads a set that has the commitment of its block, and gives its file the name of the snapshot file.
    fn load_set(
        &self,
        paths: &ImportPaths,
        point: &PruningPoint,
        set: &HashedSet,
    ) -> Result<Chain, ImportError> {
        self.progress.start_load(point.block);
        let network = self.config.network;
        let loaded = load_hashed_snapshot(&paths.set, network, self.chain.clone(), set);
        let loaded = loaded.map_err(|error| ImportError::Load(Box::new(error)))?;
        paths.publish(&self.config.snapshot).map_err(|error| self.io_error(error))?;
        Ok(loaded)
    }

    /// Requests the pruning point from one source after another, until one of them replies.
    fn find_pruning_point(&self) -> Result<PruningPoint, ImportError> {
        let mut backoff = Backoff::new(self.config.sources.len(), &self.config.session);
        loop {
            for source in &self.config.sources {
                match self.run(request_pruning_point(source, self.config))? {
                    Ok(point) => return Ok(point),
                    Err(error) => {
                        self.report_source(source, &error);
                        self.pause(backoff.record_failure())?;
                    }
                }
            }
        }
    }

    /// Returns whether a source continues the chain from a block. Waits until at least one of them replies.
    fn is_continued(&self, block: &Hash) -> Result<bool, ImportError> {
        let mut backoff = Backoff::new(self.config.sources.len(), &self.config.session);
        let mut has_reply = false;
        while !has_reply {
            for source in &self.config.sources {
                match self.run(continues_from(source, self.config, block))? {
                    Ok(true) => return Ok(true),
                    Ok(false) => has_reply = true,
                    Err(error) => {
                        self.report_source(source, &error);
                        self.pause(backoff.record_failure())?;
                    }
                }
            }
        }
        Ok(false)
    }

    fn report_source(&self, source: &SourceConfig, error: &SourceError) {
        let text = format!("{}: {}", source.server(), describe_error(error));
        tracing::warn!("{text}");
        let public_text = "a source does not name its pruning point".to_owned();
        self.progress.set_problem(ImportProblem { text, public_text });
    }

    fn pause(&self, delay: Duration) -> Result<(), ImportError> {
        self.run(async { tokio::time::sleep(delay).await })
    }

    /// Runs a step on the runtime, unless the import is cancelled.
    fn run<T>(&self, step: impl Future<Output = T>) -> Result<T, ImportError> {
        self.runtime.block_on(self.progress.run(step)).ok_or(ImportError::Cancelled)
    }

    fn io_error(&self, error: io::Error) -> ImportError {
        ImportError::Io { path: self.config.snapshot.clone(), error }
    }
}

impl<'a> PeerList<'a> {
    fn new(peers: &'a [PeerConfig]) -> Self {
        Self { peers, refused: vec![false; peers.len()], at: 0, is_second_try: false }
    }

    /// Returns the peer to try. `None` if none may be tried.
    fn current(&self) -> Option<&'a PeerConfig> {
        let is_refused = self.refused.get(self.at).copied().unwrap_or(true);
        if is_refused { None } else { self.peers.get(self.at) }
    }

    /// Records that the current peer failed, and moves to the next one that may be tried. Returns whether that one
    /// starts another round.
    fn record_failure(&mut self, error: &PeerError) -> bool {
        self.refused[self.at] = error.is_final();
        // A peer that disagrees with an earlier one sends its own set next time. The end of that set shows which peer
        // lied.
        let is_disagreement = matches!(error, PeerError::OtherSet { .. });
        if is_disagreement && !self.is_second_try {
            self.is_second_try = true;
            return false;
        }
        self.is_second_try = false;
        let failed = self.at;
        let mut others = (1..=self.peers.len()).map(|step| (failed + step) % self.peers.len());
        let Some(next) = others.find(|next| !self.refused[*next]) else { return false };
        self.at = next;
        next <= failed
    }
}

#[cfg(test)]
mod tests {
    use kaspa::Network;

    use super::*;

    fn parse_peer(text: &str) -> PeerConfig {
        PeerConfig::parse(text, Network::Simnet).expect("a peer")
    }

    fn current(peers: &PeerList<'_>) -> Option<String> {
        peers.current().map(ToString::to_string)
    }

    #[test]
    fn a_liar_is_not_retried_and_a_disagreement_is_resolved_at_once() {
        let configs = ["a", "b", "c"].map(parse_peer);
        let mut peers = PeerList::new(&configs);
        assert_eq!(current(&peers).as_deref(), Some("a:16511"));
        peers.record_failure(&PeerError::Closed);
        assert_eq!(current(&peers).as_deref(), Some("b:16511"));
        let other = PeerError::OtherSet { utxos: 1 };
        for expected in ["b:16511", "c:16511"] {
            peers.record_failure(&other);
            assert_eq!(current(&peers).as_deref(), Some(expected));
        }
        for expected in ["a:16511", "b:16511"] {
            peers.record_failure(&PeerError::ChunkAfterLast);
            assert_eq!(current(&peers).as_deref(), Some(expected));
        }
        peers.record_failure(&PeerError::Closed);
        assert_eq!(current(&peers).as_deref(), Some("b:16511"));
        peers.record_failure(&PeerError::ChunkAfterLast);
        assert_eq!(current(&peers), None);
        assert_eq!(current(&PeerList::new(&[])), None);
    }

    #[test]
    fn a_round_has_the_peers_that_are_not_refused() {
        let configs = ["a", "b", "c"].map(parse_peer);
        let mut peers = PeerList::new(&configs);
        let mut ends_round = |error: PeerError| peers.record_failure(&error);
        assert!(!ends_round(PeerError::OtherSet { utxos: 1 }), "a is tried a second time");
        assert!(!ends_round(PeerError::Closed));
        assert!(!ends_round(PeerError::Closed));
        assert!(ends_round(PeerError::Closed), "all three have failed");
        assert!(!ends_round(PeerError::ChunkAfterLast), "b and c are left");
        assert!(!ends_round(PeerError::Closed));
        assert!(ends_round(PeerError::ChunkAfterLast), "b is left");
        assert!(ends_round(PeerError::Closed));
        assert!(ends_round(PeerError::Closed));
        assert!(!ends_round(PeerError::ChunkAfterLast), "none is left");
    }
}
