//! The transfer of the UTXO set of a pruning point: from a peer into a file, with the product over the set.
//!
//! In: the chunks of one peer after another, each from the first UTXO on. Out: a whole set that has the commitment of
//! the pruning point, or the error of the peer.
//! Shape: UTXOs that the file has are compared and not written; those below the checkpoint are not hashed either.
//! Others are hashed on all threads, as soon as there are [`HASHED_BYTES`] of them.
//! Invariant: the file equals the chunks of the current peer so far. So a wrong set is the lie of the last peer.
//! Bounds: [`HASHED_BYTES`] of encoded UTXOs and a chunk in memory, besides the bounds of `peer`;
//! [`super::ImportLimits::set_bytes_max`] on disk.
//! Not here: the choice of a peer and of the pruning point (`importer`).

use std::cmp::Ordering;
use std::io;

use kaspa::Hash;
use tokio::runtime::Handle;

use super::checkpoint::Checkpoint;
use super::chunk::{ChunkChecker, encode_utxos};
use super::chunk_store::{ChunkStore, Stored};
use super::config::ImportConfig;
use super::import_paths::ImportPaths;
use super::peer::Peer;
use super::peer_error::PeerError;
use super::progress::ImportProgress;
use super::pruning_point::PruningPoint;
use crate::hashed_set::{DigestHasher, HashedSet};
use crate::snapshot_path::remove_if_present;
use crate::utxo_hashing::{Utxo, hash_batches};

/// Bytes of UTXOs that are hashed together, some 90,000 UTXOs.
const HASHED_BYTES: usize = 8 << 20;
/// UTXOs between two checkpoints: three seconds of CPU time.
const CHECKPOINT_UTXOS: u64 = 1_000_000;

/// Why a transfer ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    #[error(transparent)]
    Peer(#[from] PeerError),
    #[error("the import was cancelled")]
    Cancelled,
    /// The disk.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A UTXO set that is being received.
pub(crate) struct SetTransfer {
    pub(crate) point: PruningPoint,
    paths: ImportPaths,
    set_bytes_max: u64,
    store: ChunkStore,
    /// The first UTXOs of the file that are hashed.
    hashed: Checkpoint,
    /// The UTXOs of the last checkpoint on disk.
    written_utxos: u64,
}

/// The UTXOs of the current peer.
#[derive(Default)]
struct Received {
    utxos: u64,
    bytes: u64,
    digest: DigestHasher,
    /// UTXOs that are not hashed.
    unhashed: Vec<Vec<Utxo>>,
    unhashed_bytes: usize,
}

impl SetTransfer {
    /// Continues with the files of the pruning point's set, if there are any.
    pub(crate) fn open(config: &ImportConfig, point: PruningPoint) -> io::Result<Self> {
        let paths = ImportPaths::for_snapshot(&config.snapshot);
        let store = ChunkStore::open(&paths.set, config.network, &point.block, &point.header)?;
        let checkpoint = Checkpoint::read(&paths.checkpoint, &point.block);
        let checkpoint = checkpoint.filter(|checkpoint| checkpoint.bytes <= store.len());
        let hashed = checkpoint.unwrap_or(Checkpoint::START);
        let set_bytes_max = config.limits.set_bytes_max;
        let written_utxos = hashed.utxos;
        Ok(Self { point, paths, set_bytes_max, store, hashed, written_utxos })
    }

    /// Returns the number of UTXOs that are not hashed again.
    pub(crate) fn hashed_utxos(&self) -> u64 {
        self.hashed.utxos
    }

    /// Receives the whole set from a peer. It blocks.
    pub(crate) fn receive(
        &mut self,
        runtime: &Handle,
        peer: &mut Peer,
        progress: &ImportProgress,
    ) -> Result<HashedSet, TransferError> {
        let mut received = Received::default();
        let ended = self.receive_chunks(runtime, peer, &mut received, progress);
        // Also after an error: the next transfer need not hash what this one has brought.
        self.hash(&mut received);
        if let Err(error) = ended {
            self.write_checkpoint()?;
            return Err(error);
        }
        if self.hashed.utxos > received.utxos {
            // The set ends before the UTXOs that an earlier peer sent.
            self.discard()?;
            return Err(PeerError::OtherSet { utxos: received.utxos }.into());
        }
        let committed = self.point.header.utxo_commitment;
        let computed = Hash(self.hashed.product.finalize());
        if computed != committed {
            self.discard()?;
            let block = self.point.block;
            let utxos = received.utxos;
            return Err(PeerError::WrongCommitment { utxos, block, computed, committed }.into());
        }
        self.store.finish(received.utxos)?;
        let product = self.hashed.product.clone();
        Ok(HashedSet { product, digest: received.digest.finish() })
    }

    fn receive_chunks(
        &mut self,
        runtime: &Handle,
        peer: &mut Peer,
        received: &mut Received,
        progress: &ImportProgress,
    ) -> Result<(), TransferError> {
        let mut checker = ChunkChecker::new(&self.point.header);
        self.store.rewind();
        let mut set = peer.request_set(self.point.block)?;
        loop {
            let next = runtime.block_on(progress.run(set.next_chunk()));
            let Some(chunk) = next.ok_or(TransferError::Cancelled)?? else { break };
            let utxos = checker.decode(chunk)?;
            self.take_chunk(received, utxos)?;
            progress.set_received(received.utxos, received.bytes);
        }
        if checker.is_complete() { Ok(()) } else { Err(PeerError::NoLastChunk.into()) }
    }

    /// Stores a chunk, and hashes its UTXOs above the checkpoint once there are enough of them.
    fn take_chunk(
        &mut self,
        received: &mut Received,
        utxos: Vec<Utxo>,
    ) -> Result<(), TransferError> {
        let bytes = encode_utxos(&utxos);
        if received.bytes + bytes.len() as u64 > self.set_bytes_max {
            return Err(PeerError::SetTooLong { bytes_max: self.set_bytes_max }.into());
        }
        let stored = self.store.put(&bytes)?;
        received.digest.write(&bytes);
        let end = received.bytes + bytes.len() as u64;
        if received.bytes < self.hashed.bytes {
            let is_other = match end.cmp(&self.hashed.bytes) {
                Ordering::Less => false,
                Ordering::Equal => received.digest.finish() != self.hashed.digest,
                // Chunks of one set end at the same UTXOs.
                Ordering::Greater => true,
            };
            if is_other || stored == Stored::Replaced {
                // A product cannot be reduced to the UTXOs that are equal. The next transfer hashes them.
                self.forget_hashed()?;
                return Err(PeerError::OtherSet { utxos: received.utxos }.into());
            }
        }
        received.utxos += utxos.len() as u64;
        received.bytes = end;
        // No chunk of the set crosses the checkpoint.
        if end > self.hashed.bytes {
            received.unhashed_bytes += bytes.len();
            received.unhashed.push(utxos);
        }
        if received.unhashed_bytes >= HASHED_BYTES {
            self.hash(received);
            if self.hashed.utxos - self.written_utxos >= CHECKPOINT_UTXOS {
                self.write_checkpoint()?;
            }
        }
        Ok(())
    }

    /// Hashes the UTXOs of the current peer up to its last one.
    fn hash(&mut self, received: &mut Received) {
        if received.unhashed.is_empty() {
            return;
        }
        self.hashed.product.mix_in(&hash_batches(&received.unhashed));
        self.hashed.utxos = received.utxos;
        self.hashed.bytes = received.bytes;
        self.hashed.digest = received.digest.finish();
        received.unhashed.clear();
        received.unhashed_bytes = 0;
    }

    fn write_checkpoint(&mut self) -> io::Result<()> {
        if self.hashed.utxos != self.written_utxos {
            self.hashed.write(&self.paths.checkpoint, &self.point.block)?;
            self.written_utxos = self.hashed.utxos;
            tracing::info!(utxos = self.hashed.utxos, "received UTXOs of the pruning point");
        }
        Ok(())
    }

    fn forget_hashed(&mut self) -> io::Result<()> {
        self.hashed = Checkpoint::START;
        self.written_utxos = 0;
        remove_if_present(&self.paths.checkpoint)
    }

    /// Discards a set that is wrong.
    fn discard(&mut self) -> io::Result<()> {
        self.store.clear()?;
        self.forget_hashed()
    }
}
