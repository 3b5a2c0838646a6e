//! The local copy of the newest snapshot, from which a restart loads without the object store.
//!
//! In: snapshots that were loaded or written. Out: their objects in the store of the copy, where older ones are removed.
//! Bounds: one part in memory. While a snapshot is copied, at most one more waits.

use std::time::Duration;

use bytes::Bytes;
use cluster_snapshot::{Manifest, RemovalRules, remove_old_snapshots};
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
    for part in &manifest.parts {
        let bytes_max = usize::try_from(part.bytes).unwrap_or(usize::MAX);
        let body = from.get(&part.key, bytes_max).await?;
        put_intact(to, &part.key, body).await?;
    }
    put_intact(to, &manifest.key(), manifest.to_bytes().into()).await?;
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

    use super::*;

    #[tokio::test]
    async fn a_damaged_copy_of_an_object_is_replaced() {
        let depot = Depot::open("memory:", &DepotConfig::default()).expect("a store");
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
