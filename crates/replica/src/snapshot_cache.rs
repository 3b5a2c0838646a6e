//! The local copy of the newest snapshot, from which a restart loads without the object store.
//!
//! In: snapshots that were loaded or written. Out: their objects in the store of the copy, where older ones are removed.
//! Bounds: one part in memory. While a snapshot is copied, at most one more waits. The directory has up to two snapshots
//! during a copy. If a copy fails, for example because the disk is full, the older one stays.

use std::time::Duration;

use bytes::Bytes;
use cluster_snapshot::{
    MANIFEST_BYTES_MAX, Manifest, PartEntry, RemovalRules, remove_old_snapshots,
};
use depot::{Depot, DepotError, Put};
use tokio::sync::mpsc;

use crate::clock::unix_ms;
use crate::error::SnapshotFault;

/// Requests copies of snapshots.
#[derive(Clone)]
pub(crate) struct SnapshotCopies(Option<mpsc::Sender<Manifest>>);

impl SnapshotCopies {
    /// Copies nothing.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Creates requests, and their receiver for [`copy_snapshots`].
    pub(crate) fn new() -> (Self, mpsc::Receiver<Manifest>) {
        let (requests, received) = mpsc::channel(1);
        (Self(Some(requests)), received)
    }

    /// Requests the copy of a snapshot of the object store. While others wait it is left out.
    pub(crate) fn request(&self, manifest: &Manifest) {
        if let Some(requests) = &self.0 {
            // The next snapshot is copied instead.
            let _ = requests.try_send(manifest.clone());
        }
    }
}

/// Copies the requested snapshots, one after the other.
pub(crate) async fn copy_snapshots(from: Depot, to: Depot, mut requests: mpsc::Receiver<Manifest>) {
    while let Some(manifest) = requests.recv().await {
        let slot = manifest.block.slot;
        match copy_snapshot(&from, &to, &manifest).await {
            Ok(()) => tracing::info!(slot, "copied a snapshot into the local directory"),
            Err(err) => tracing::warn!(slot, err = &*err, "cannot copy a snapshot"),
        }
    }
}

/// Copies a snapshot, its manifest last. Parts are checked when they are loaded.
async fn copy_snapshot(from: &Depot, to: &Depot, manifest: &Manifest) -> Result<(), SnapshotFault> {
    copy_objects(from, to, &manifest.parts, &manifest.key(), manifest.to_bytes().into()).await?;
    let rules = RemovalRules {
        keep: 1,
        newest_generation: manifest.generation,
        needed: None,
        younger_than: Duration::ZERO,
        now_ms: unix_ms(),
    };
    remove_old_snapshots(to, &manifest.cluster, &rules).await?;
    Ok(())
}

/// Copies parts, and creates the manifest. If that fails, no part is left behind without a manifest.
async fn copy_objects(
    from: &Depot,
    to: &Depot,
    parts: &[PartEntry],
    manifest_key: &str,
    manifest: Bytes,
) -> Result<(), DepotError> {
    let mut copied = copy_parts(from, to, parts).await;
    if copied.is_ok() {
        copied = put_intact(to, manifest_key, manifest).await;
    }
    if copied.is_err() {
        let found = to.get(manifest_key, MANIFEST_BYTES_MAX).await;
        // An existing manifest is that of an earlier, complete copy: its parts stay.
        if matches!(found, Err(DepotError::NotFound { .. })) {
            remove_parts(to, parts).await;
        }
    }
    copied
}

async fn copy_parts(from: &Depot, to: &Depot, parts: &[PartEntry]) -> Result<(), DepotError> {
    for part in parts {
        let bytes_max = usize::try_from(part.bytes).unwrap_or(usize::MAX);
        let body = from.get(&part.key, bytes_max).await?;
        put_intact(to, &part.key, body).await?;
    }
    Ok(())
}

/// Removes the parts of a copy that failed. They would use the space of the next copy: parts of a snapshot that is newer
/// than the complete ones are not removed as old.
async fn remove_parts(copy: &Depot, parts: &[PartEntry]) {
    for part in parts {
        if let Err(err) = copy.delete(&part.key).await {
            tracing::warn!(err = &err as &dyn std::error::Error, "cannot remove a copied part");
            return;
        }
    }
}

/// Puts an object. One that exists with other bytes is damaged, and is replaced.
async fn put_intact(to: &Depot, key: &str, body: Bytes) -> Result<(), DepotError> {
    if to.put_new(key, body.clone()).await? == Put::Created {
        return Ok(());
    }
    if to.get(key, body.len()).await.is_ok_and(|existing| existing == body) {
        return Ok(());
    }
    to.delete(key).await?;
    to.put_new(key, body).await.map(drop)
}

#[cfg(test)]
mod tests {
    use depot::DepotConfig;
    use ledger::Address;

    use super::*;

    fn memory() -> Depot {
        Depot::open("memory:", &DepotConfig::default()).expect("a store")
    }

    fn part(key: &str) -> PartEntry {
        PartEntry {
            key: key.to_owned(),
            first: Address::from([0; 32]),
            last: Address::from([1; 32]),
            accounts: 1,
            lamports: 1,
            bytes: 6,
            unpacked_bytes: 6,
            digest: [0; 32],
            lattice: [0; 32],
        }
    }

    #[tokio::test]
    async fn a_copy_that_fails_leaves_no_part_of_a_snapshot_without_a_manifest() {
        let from = memory();
        let parts = ["d/a", "d/b"].map(part);
        from.put_new("d/a", Bytes::from_static(b"a part")).await.expect("a store");
        let manifest = Bytes::from_static(b"manifest");
        let to = memory();
        let copy = || copy_objects(&from, &to, &parts, "d/manifest", manifest.clone());
        let err = copy().await.expect_err("the second part is missing").to_string();
        assert!(err.contains("d/b"), "{err}");
        assert!(to.list("").await.expect("a store").is_empty());
        from.put_new("d/b", Bytes::from_static(b"a part")).await.expect("a store");
        copy().await.expect("it is complete");
        // A complete copy stays.
        from.delete("d/b").await.expect("a store");
        copy().await.expect_err("the second part is missing");
        assert_eq!(to.list("").await.expect("a store").len(), 3);
    }

    #[tokio::test]
    async fn a_damaged_copy_of_an_object_is_replaced() {
        let depot = memory();
        let body = Bytes::from_static(b"a part");
        for existing in [None, Some("a part"), Some("a part!"), Some("a  art")] {
            if let Some(existing) = existing {
                depot.delete("part").await.expect("it exists");
                depot.put_new("part", existing.into()).await.expect("a store");
            }
            put_intact(&depot, "part", body.clone()).await.expect("a store");
            assert_eq!(depot.get("part", 100).await.expect("an object"), body, "{existing:?}");
        }
    }
}
