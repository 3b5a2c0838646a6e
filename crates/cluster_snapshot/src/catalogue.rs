//! The list of snapshots, and the removal of old ones.

use std::collections::BTreeSet;

use depot::{Depot, DepotError};
use ledger::Slot;

use crate::error::SnapshotLoadError;
use crate::keys::{ManifestKey, cluster_dir};
use crate::load::load_manifest;

/// A name above all others in a directory: a key has no such character.
const AFTER_ALL: &str = "zzzz";

/// Lists the manifests of a cluster, the newest first. Cost: a request for each snapshot.
///
/// # Errors
///
/// Those of the store.
pub async fn newest_snapshots(
    depot: &Depot,
    cluster: &str,
) -> Result<Vec<ManifestKey>, DepotError> {
    let dir = cluster_dir(cluster);
    let mut found = Vec::new();
    let mut after = String::new();
    loop {
        // The first object of a complete snapshot is its manifest.
        let Some(object) = depot.list_after(&dir, &after, 1).await?.pop() else { break };
        found.extend(ManifestKey::parse(&object.key));
        after = match ManifestKey::parse_object(&object.key) {
            Some(snapshot) => format!("{}/{AFTER_ALL}", snapshot.dir()),
            None => object.key,
        };
    }
    found.reverse();
    Ok(found)
}

/// Removes the snapshots of a cluster, except the newest `keep` intact ones and the newest that readers need who start at
/// the log's first message: `needed_from` is its epoch and sequence. Removes parts without a manifest too, if they are
/// older than all these. Returns the number of objects that were removed.
///
/// # Errors
///
/// Those of the store. Some objects may have been removed.
pub async fn remove_old_snapshots(
    depot: &Depot,
    cluster: &str,
    keep: usize,
    needed_from: Option<(u64, u64)>,
) -> Result<usize, DepotError> {
    let mut kept: BTreeSet<String> = BTreeSet::new();
    let mut obsolete: BTreeSet<String> = BTreeSet::new();
    let mut oldest_kept: Option<Slot> = None;
    let mut intact = 0;
    let mut is_needed_found = needed_from.is_none();
    for key in newest_snapshots(depot, cluster).await? {
        let is_full = intact >= keep;
        if is_full && is_needed_found {
            obsolete.insert(key.dir().to_owned());
            continue;
        }
        let manifest = match load_manifest(depot, &key.key, None).await {
            Ok(manifest) => manifest,
            Err(SnapshotLoadError::Depot(DepotError::NotFound { .. })) => continue,
            Err(SnapshotLoadError::Depot(err)) => return Err(err),
            Err(err) => {
                // It does not count. A new one stays, so that its cause can be found.
                tracing::warn!(%err, "a snapshot is damaged");
                if is_full {
                    obsolete.insert(key.dir().to_owned());
                }
                continue;
            }
        };
        let position = (manifest.epoch, manifest.position);
        let is_needed = !is_needed_found && needed_from.is_some_and(|needed| position <= needed);
        is_needed_found |= is_needed;
        if !is_full || is_needed {
            kept.insert(key.dir().to_owned());
            oldest_kept = Some(key.slot);
        } else {
            obsolete.insert(key.dir().to_owned());
        }
        intact += 1;
    }
    let Some(oldest_kept) = oldest_kept else { return Ok(0) };
    let mut removed = 0;
    for object in depot.list(&cluster_dir(cluster)).await? {
        let Some(snapshot) = ManifestKey::parse_object(&object.key) else { continue };
        let dir = snapshot.dir();
        // Without a manifest: its writer was killed, or still writes while newer ones are complete already.
        let is_abandoned = snapshot.slot < oldest_kept && !kept.contains(dir);
        if obsolete.contains(dir) || is_abandoned {
            // The manifest is the first object of a directory, so half a snapshot is never loaded.
            depot.delete(&object.key).await?;
            removed += 1;
        }
    }
    Ok(removed)
}
