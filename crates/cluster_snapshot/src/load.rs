//! Loads a snapshot into a new ledger: parts are fetched and decoded in parallel, and written by one thread.
//!
//! Memory: three parts for each thread, besides the ledger.

use bytes::{Bytes, BytesMut};
use chain_solana::BlockInfo;
use depot::{Depot, DepotError};
use futures_util::{StreamExt, stream};
use lattice::LtHash;
use query::{LedgerConfig, LedgerError};
use snapshot_ledger::BulkLoader;
use tokio::sync::mpsc;

use crate::error::{ManifestError, SnapshotLoadError};
use crate::keys::ManifestKey;
use crate::manifest::{MANIFEST_BYTES_MAX, Manifest, PartEntry};
use crate::part_reader::{PartReader, SnapshotAccount};

/// Bytes of a request. After a cut, only the rest of it is requested again.
const RANGE_BYTES: u64 = 16 << 20;

/// Accounts that the ledger takes at once.
const CHUNK_MAX: usize = 4_096;

/// Reads a manifest. `digest` is that of a record in the log that names it: BLAKE3 of the whole object.
///
/// # Errors
///
/// The manifest is missing, damaged, of another version, or not the one that its key and `digest` name.
pub async fn load_manifest(
    depot: &Depot,
    key: &str,
    digest: Option<[u8; 32]>,
) -> Result<Manifest, SnapshotLoadError> {
    let other = |what, found| SnapshotLoadError::Other { key: key.to_owned(), what, found };
    let invalid = |source| SnapshotLoadError::Manifest { key: key.to_owned(), source };
    let bytes = match depot.get(key, MANIFEST_BYTES_MAX).await {
        // The store is intact. Another request would have the same result.
        Err(DepotError::TooLong { bytes, bytes_max, .. }) => {
            return Err(invalid(ManifestError::Length { bytes, bytes_max }));
        }
        found => found?,
    };
    let manifest = Manifest::from_bytes(&bytes).map_err(invalid)?;
    let found = blake3::hash(&bytes);
    if digest.is_some_and(|digest| digest != *found.as_bytes()) {
        return Err(other("digest", found.to_hex().to_string()));
    }
    match ManifestKey::parse(key) {
        Some(named) if named.cluster != manifest.cluster => Err(other("cluster", manifest.cluster)),
        Some(named) if named != manifest.manifest_key() => Err(other("block", manifest.key())),
        Some(_) => Ok(manifest),
        None => Err(invalid(ManifestError::Contradiction("key"))),
    }
}

/// Loads the accounts of a snapshot into a new ledger, which is not published. `threads` parts are fetched and decoded
/// at once. The loader has the sums of the manifest.
///
/// # Errors
///
/// A part is missing or damaged, the sums differ, or the ledger is full. The caller may take the snapshot before.
pub async fn load_snapshot_parts(
    depot: &Depot,
    manifest: &Manifest,
    config: LedgerConfig,
    threads: usize,
) -> Result<BulkLoader, SnapshotLoadError> {
    let info = manifest.fields.block_info().ok_or_else(|| SnapshotLoadError::Manifest {
        key: manifest.key(),
        source: ManifestError::Contradiction("blockhashes"),
    })?;
    let (to_ledger, decoded) = mpsc::channel(1);
    let writer = tokio::task::spawn_blocking(move || write_accounts(config, info, decoded));
    let entries = manifest.parts.clone();
    let parts = entries.into_iter().map(|entry| fetch_part(depot.clone(), entry));
    let mut parts = stream::iter(parts).buffer_unordered(threads.max(1));
    let mut sums = PartSums::default();
    while let Some(part) = parts.next().await {
        let part = part?;
        sums.add(&part);
        if to_ledger.send(part.accounts).await.is_err() {
            // The ledger refused accounts: its error is returned below.
            break;
        }
    }
    drop(to_ledger);
    let written = writer.await.map_err(|err| SnapshotLoadError::Task(err.to_string()))?;
    let mut loader = written?;
    sums.check(manifest)?;
    loader.set_lamports(manifest.lamports);
    loader.set_lt_hash(manifest.lt_hash.clone());
    Ok(loader)
}

/// The sums over the parts of a snapshot.
#[derive(Clone, Debug)]
pub struct PartSums {
    accounts: u64,
    lamports: u128,
    lt_hash: LtHash,
}

impl Default for PartSums {
    fn default() -> Self {
        Self { accounts: 0, lamports: 0, lt_hash: LtHash::EMPTY }
    }
}

impl PartSums {
    /// Adds a part.
    pub fn add(&mut self, part: &PartReader) {
        self.accounts += part.accounts.len() as u64;
        self.lamports += u128::from(part.lamports);
        self.lt_hash.mix_in(&part.lt_hash);
    }

    /// Compares the sums with those of the manifest, once all parts were added.
    ///
    /// # Errors
    ///
    /// A sum differs.
    pub fn check(&self, manifest: &Manifest) -> Result<(), SnapshotLoadError> {
        let what = if self.accounts != manifest.accounts {
            "number of accounts"
        } else if self.lamports != u128::from(manifest.lamports) {
            "sum of lamports"
        } else if self.lt_hash != manifest.lt_hash {
            "lattice sum"
        } else {
            return Ok(());
        };
        Err(SnapshotLoadError::Sum { key: manifest.key(), what })
    }
}

/// Writes the accounts of each part into a new ledger.
fn write_accounts(
    config: LedgerConfig,
    info: BlockInfo,
    mut parts: mpsc::Receiver<Vec<SnapshotAccount>>,
) -> Result<BulkLoader, LedgerError> {
    let mut loader = BulkLoader::new(config, info);
    while let Some(part) = parts.blocking_recv() {
        let mut accounts = part.into_iter().map(|it| (it.pubkey, Some(it.account.0))).peekable();
        while accounts.peek().is_some() {
            loader.put(accounts.by_ref().take(CHUNK_MAX))?;
        }
    }
    Ok(loader)
}

/// Fetches a part, decodes it on a thread that may wait, and checks it.
///
/// # Errors
///
/// The store failed, or the part is not the one that its entry describes.
pub async fn fetch_part(depot: Depot, entry: PartEntry) -> Result<PartReader, SnapshotLoadError> {
    let body = fetch_ranges(&depot, &entry).await?;
    let decoded = tokio::task::spawn_blocking(move || {
        let read = PartReader::read(&body, &entry);
        read.map_err(|source| SnapshotLoadError::Part { key: entry.key, source })
    });
    decoded.await.map_err(|err| SnapshotLoadError::Task(err.to_string()))?
}

/// Fetches the bytes of a part by ranges.
async fn fetch_ranges(depot: &Depot, entry: &PartEntry) -> Result<Bytes, SnapshotLoadError> {
    let length = entry.bytes;
    if length <= RANGE_BYTES {
        let bytes_max = usize::try_from(length).unwrap_or(usize::MAX);
        return Ok(depot.get(&entry.key, bytes_max).await?);
    }
    let mut body = BytesMut::new();
    let mut at = 0;
    while at < length {
        let end = length.min(at + RANGE_BYTES);
        body.extend_from_slice(&depot.get_range(&entry.key, at..end).await?);
        at = end;
    }
    Ok(body.freeze())
}
