//! Writes a snapshot of a view while the ledger is written.
//!
//! Shape: a thread that may wait encodes one part after the other, and a task writes each to the store, at the rate of
//! [`WriteLimits::bytes_per_second`]. The thread waits while two parts are on their way.
//! Invariant: the manifest is written when every part is in the store, and once.

use std::time::Duration;

use bytes::Bytes;
use chain_solana::View;
use chain_solana::wire::{BlockName, RecordDigest};
use depot::{Depot, DepotError, Put};
use lattice::LtHash;
use ledger::Slot;
use solana_pubkey::Pubkey;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::address_order::AddressOrder;
use crate::error::{PartError, SnapshotLoadError, SnapshotWriteError};
use crate::fields::ManifestFields;
use crate::load::{PART_BYTES_MAX, load_manifest};
use crate::manifest::{Manifest, PartEntry};
use crate::part_reader::PartReader;
use crate::part_writer::{EncodedPart, PartWriter};

/// The facts of a snapshot besides its accounts.
#[derive(Clone, Debug)]
pub struct SnapshotFacts {
    /// The cluster.
    pub cluster: String,
    /// The generation of the log.
    pub generation: u64,
    /// Sequence of the last message of the block's record, or 0 for the snapshot that opens a generation.
    pub position: u64,
    /// The block, and the number of its record.
    pub block: BlockName,
    /// The digest of the block's record.
    pub block_digest: RecordDigest,
    /// The bank.
    pub fields: ManifestFields,
    /// The time in milliseconds since 1970.
    pub made_at_ms: u64,
}

/// Limits of memory and CPU time of a write.
#[derive(Clone, Debug)]
pub struct WriteLimits {
    /// Bytes of a part before compression. Larger ones make the manifest shorter and loading less parallel.
    pub part_bytes: u64,
    /// Ids that are sorted at once, 16 bytes each. The address table is read once for each such number of addresses.
    pub ids_max: usize,
    /// Bytes a second before compression. Less leaves more to the ledger's writer.
    pub bytes_per_second: u64,
}

impl Default for WriteLimits {
    fn default() -> Self {
        Self { part_bytes: 16 << 20, ids_max: 1 << 21, bytes_per_second: 128 << 20 }
    }
}

/// Writes a snapshot of a finalized view. The view's state stays in memory meanwhile. If another process wrote a snapshot
/// of this block, returns the manifest of that one.
///
/// # Errors
///
/// The store failed, or the view is not of the block of `facts`. No manifest was written then, and
/// [`crate::remove_old_snapshots`] removes the parts later.
pub async fn write_snapshot(
    depot: &Depot,
    view: &View,
    facts: SnapshotFacts,
    limits: WriteLimits,
) -> Result<Manifest, SnapshotWriteError> {
    let slot = facts.block.slot;
    if view.block().slot != slot || facts.fields.block.id.slot != slot {
        return Err(SnapshotWriteError::Facts { slot, what: "slot" });
    }
    let mut manifest = new_manifest(facts);
    let dir = manifest.manifest_key().dir().to_owned();
    let pace = Pace { began: Instant::now(), bytes_per_second: limits.bytes_per_second.max(1) };
    let (to_writer, mut encoded) = mpsc::channel(1);
    let encoder = {
        let view = view.clone();
        let dir = dir.clone();
        tokio::task::spawn_blocking(move || {
            encode_parts(&view, &dir, &limits, |part| to_writer.blocking_send(part).is_ok())
        })
    };
    let mut lt_hash = LtHash::EMPTY;
    let mut unpacked_bytes = 0;
    while let Some(part) = encoded.recv().await {
        let EncodedPart { body, entry, lt_hash: of_part } = part;
        lt_hash.mix_in(&of_part);
        unpacked_bytes += entry.unpacked_bytes;
        manifest.accounts += entry.accounts;
        let lamports = manifest.lamports.checked_add(entry.lamports);
        let what = "sum of lamports";
        manifest.lamports = lamports.ok_or(SnapshotWriteError::Facts { slot, what })?;
        manifest.parts.push(put_part(depot, slot, body, entry).await?);
        pace.wait(unpacked_bytes).await;
    }
    let ended = encoder.await;
    let ended = ended.map_err(|err| SnapshotWriteError::Task { slot, reason: err.to_string() })?;
    ended.map_err(|source| SnapshotWriteError::Part { slot, key: dir.clone(), source })?;
    manifest.lt_hash = lt_hash;
    check_sums(&manifest)?;
    put_manifest(depot, &dir, manifest).await
}

/// The manifest of a snapshot without parts.
fn new_manifest(facts: SnapshotFacts) -> Manifest {
    let SnapshotFacts { cluster, generation, position, block, block_digest, fields, made_at_ms } =
        facts;
    Manifest {
        cluster,
        generation,
        position,
        block,
        block_digest,
        fields,
        accounts: 0,
        lamports: 0,
        lt_hash: LtHash::EMPTY,
        parts: Vec::new(),
        made_at_ms,
    }
}

/// Encodes all accounts, until the receiver is gone.
fn encode_parts(
    view: &View,
    dir: &str,
    limits: &WriteLimits,
    mut send: impl FnMut(EncodedPart) -> bool,
) -> Result<(), PartError> {
    let mut order = AddressOrder::new(view, limits.ids_max);
    let mut part = PartWriter::new()?;
    while let Some(ids) = order.next_group() {
        for written in view.written_records(ids.into_iter()) {
            let Some(address) = written.address.to_array() else {
                return Err(PartError::Order(written.address));
            };
            let pubkey = Pubkey::new_from_array(address);
            part.push(&pubkey, written.slot, &written.record)?;
            if part.unpacked_bytes() >= limits.part_bytes {
                let full = std::mem::replace(&mut part, PartWriter::new()?);
                if !full.finish(dir)?.is_none_or(&mut send) {
                    return Ok(());
                }
            }
        }
    }
    if let Some(last) = part.finish(dir)? {
        // If the receiver is gone, the result is not needed either.
        send(last);
    }
    Ok(())
}

/// Limits the rate of a write.
struct Pace {
    began: Instant,
    bytes_per_second: u64,
}

impl Pace {
    /// Waits until `bytes` may have been written.
    async fn wait(&self, bytes: u64) {
        let due = bytes as f64 / self.bytes_per_second as f64;
        tokio::time::sleep_until(self.began + Duration::from_secs_f64(due)).await;
    }
}

/// Writes a part. One of the same content that another release compressed is used if it is intact.
async fn put_part(
    depot: &Depot,
    slot: Slot,
    body: Bytes,
    entry: PartEntry,
) -> Result<PartEntry, SnapshotWriteError> {
    let depot_error = |source| SnapshotWriteError::Depot { slot, source };
    if depot.put_new(&entry.key, body).await.map_err(depot_error)? == Put::Created {
        return Ok(entry);
    }
    let found = depot.get(&entry.key, PART_BYTES_MAX).await.map_err(depot_error)?;
    let entry = PartEntry { bytes: found.len() as u64, ..entry };
    let checked = tokio::task::spawn_blocking(move || {
        let source = PartReader::read(&found, &entry).err();
        match source {
            None => Ok(entry),
            Some(source) => Err(SnapshotWriteError::Part { slot, key: entry.key, source }),
        }
    });
    let checked = checked.await;
    checked.map_err(|err| SnapshotWriteError::Task { slot, reason: err.to_string() })?
}

/// Compares the sums over the parts with the bank.
fn check_sums(manifest: &Manifest) -> Result<(), SnapshotWriteError> {
    let slot = manifest.block.slot;
    let fields = &manifest.fields;
    if manifest.lamports != fields.capitalization {
        return Err(SnapshotWriteError::Facts { slot, what: "sum of lamports" });
    }
    if fields.bank.lattice.as_ref().is_some_and(|row| row.lt_hash != manifest.lt_hash) {
        return Err(SnapshotWriteError::Facts { slot, what: "sum over all accounts" });
    }
    if fields.bank.blockhashes.last() != Some(&fields.block.blockhash) {
        return Err(SnapshotWriteError::Facts { slot, what: "newest blockhash" });
    }
    Ok(())
}

/// Writes the manifest, after it was checked that all parts are there.
async fn put_manifest(
    depot: &Depot,
    dir: &str,
    manifest: Manifest,
) -> Result<Manifest, SnapshotWriteError> {
    let slot = manifest.block.slot;
    let depot_error = |source: DepotError| SnapshotWriteError::Depot { slot, source };
    let found = depot.list(dir).await.map_err(depot_error)?;
    let is_there = |part: &&PartEntry| {
        let at = found.binary_search_by(|object| object.key.as_str().cmp(part.key.as_str()));
        at.is_ok_and(|at| found[at].bytes == part.bytes)
    };
    if let Some(part) = manifest.parts.iter().find(|part| !is_there(part)) {
        return Err(SnapshotWriteError::Removed { slot, key: part.key.clone() });
    }
    let key = manifest.key();
    let put = depot.put_new(&key, manifest.to_bytes().into()).await.map_err(depot_error)?;
    if put == Put::Created {
        return Ok(manifest);
    }
    load_manifest(depot, &key, None).await.map_err(|err| match err {
        SnapshotLoadError::Depot(source) => SnapshotWriteError::Depot { slot, source },
        err => SnapshotWriteError::Task { slot, reason: err.to_string() },
    })
}
