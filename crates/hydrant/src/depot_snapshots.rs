//! `hydrant snapshots`: the snapshots and the archive of a cluster in a directory or bucket.
//!
//! In: the objects' names, and the manifests. With `--check`, all objects. Out: a line for each snapshot and each object
//! of the archive, and each damage.
//! Memory: one part, or one block.
//! Not here: the flags (`cluster_flags`), the formats and their checks (`cluster_snapshot`).

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use cluster_snapshot::archive::{ArchiveFault, check_archive, list_archive};
use cluster_snapshot::{
    Manifest, ManifestKey, PartSums, fetch_part, load_manifest, newest_snapshots,
};
use depot::{Depot, DepotConfig};
use indicatif::{HumanBytes, HumanCount, HumanDuration};

use crate::cluster_flags::SnapshotsFlags;
use crate::cluster_log::CLUSTER_DEFAULT;
use crate::console::print_line;

/// Lists the objects. The error says how many are damaged.
pub(crate) fn run(flags: &SnapshotsFlags) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("start the I/O threads")?;
    let Listing { text, damages } = runtime.block_on(list(flags))?;
    print_line(text.trim_end());
    ensure!(damages == 0, "{damages} objects are damaged or missing");
    Ok(())
}

/// The lines about a store.
#[derive(Default)]
struct Listing {
    text: String,
    damages: u64,
}

impl Listing {
    fn add_line(&mut self, line: &str) {
        // Writing to a String does not fail.
        let _ = writeln!(self.text, "{line}");
    }

    fn add_damage(&mut self, name: &str, reason: &dyn std::fmt::Display) {
        self.damages += 1;
        self.add_line(&format!("Damage    {name}: {reason}"));
    }
}

async fn list(flags: &SnapshotsFlags) -> Result<Listing> {
    let cluster = flags.log_cluster.as_deref().unwrap_or(CLUSTER_DEFAULT);
    let depot = Depot::open(&flags.url, &DepotConfig::default())?;
    let mut listing = Listing::default();
    let snapshots = newest_snapshots(&depot, cluster).await?;
    if snapshots.is_empty() {
        listing.add_line(&format!("No snapshots of cluster {cluster}"));
    }
    for key in &snapshots {
        add_snapshot(&depot, key, flags.check, &mut listing).await;
    }
    add_archive(&depot, cluster, flags.check, &mut listing).await?;
    Ok(listing)
}

/// Adds a snapshot. A damaged one does not end the list.
async fn add_snapshot(depot: &Depot, key: &ManifestKey, checks: bool, listing: &mut Listing) {
    let manifest = match load_manifest(depot, &key.key, None).await {
        Ok(manifest) => manifest,
        Err(err) => return listing.add_damage(&key.key, &err),
    };
    let bytes: u64 = manifest.parts.iter().map(|part| part.bytes).sum();
    listing.add_line(&format!(
        "Snapshot  slot {}, generation {} of the log after message {}, {} accounts, {} parts, {}, {} old, {}",
        key.slot,
        key.generation,
        manifest.position,
        HumanCount(manifest.accounts),
        manifest.parts.len(),
        HumanBytes(bytes),
        age(manifest.made_at_ms),
        key.key
    ));
    if checks {
        check_parts(depot, &manifest, listing).await;
    }
}

/// Reads the parts of a snapshot, and compares their sums with the manifest's.
async fn check_parts(depot: &Depot, manifest: &Manifest, listing: &mut Listing) {
    let damages_before = listing.damages;
    let mut sums = PartSums::default();
    for entry in &manifest.parts {
        match fetch_part(depot.clone(), entry.clone()).await {
            Ok(part) => sums.add(&part),
            Err(err) => listing.add_damage(&entry.key, &err),
        }
    }
    let is_whole = listing.damages == damages_before;
    if is_whole && let Err(err) = sums.check(manifest) {
        listing.add_damage(&manifest.key(), &err);
    }
}

/// Adds the archive, whose objects are in the order of their slots.
async fn add_archive(
    depot: &Depot,
    cluster: &str,
    checks: bool,
    listing: &mut Listing,
) -> Result<()> {
    let objects = list_archive(depot, cluster).await?;
    for object in &objects {
        listing.add_line(&format!(
            "Archive   slots {} to {}, epoch {}, {}, {}",
            object.first,
            object.last,
            object.epoch,
            HumanBytes(object.bytes),
            object.key
        ));
    }
    // A damaged object has no footer, so holes and the chain are checked in any case.
    for fault in check_archive(depot, cluster, checks).await? {
        match fault {
            ArchiveFault::Hole(slots) => {
                let name = format!("archive/{cluster}");
                let reason = format!("no object has slots {} to {}", slots.start(), slots.end());
                listing.add_damage(&name, &reason);
            }
            ArchiveFault::Open { hole, slots } => {
                let key = hole.key().key;
                let reason = format!(
                    "slots {} to {} are a hole: no archiver had the blocks of {} to {}",
                    slots.start(),
                    slots.end(),
                    hole.missing_first,
                    hole.end.slot
                );
                listing.add_damage(&key, &reason);
            }
            ArchiveFault::Overlap { first, second } => {
                listing.add_damage(&second, &format_args!("has slots that {first} has, too"));
            }
            ArchiveFault::Unchained { key } => {
                listing.add_damage(&key, &"names another digest of the object before it");
            }
            ArchiveFault::Damaged(err) => listing.add_damage("archive", &err),
        }
    }
    Ok(())
}

/// The age of an object by the clock of this machine.
fn age(made_at_ms: u64) -> HumanDuration {
    let made_at = SystemTime::UNIX_EPOCH + Duration::from_millis(made_at_ms);
    HumanDuration(made_at.elapsed().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(url: String) -> SnapshotsFlags {
        SnapshotsFlags { url, log_cluster: None, check: true }
    }

    #[tokio::test]
    async fn damaged_manifests_and_objects_are_listed_by_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let url = format!("file://{}", dir.path().display());
        let listing = list(&flags(url.clone())).await.expect("a list");
        assert_eq!(
            (listing.text.as_str(), listing.damages),
            ("No snapshots of cluster local\n", 0)
        );

        let depot = Depot::open(&url, &DepotConfig::default()).expect("a store");
        let blockhash = solana_hash::Hash::new_from_array([3; 32]);
        let manifest = format!("snap/local/{:020}-{:010}-{blockhash}/manifest", 7, 0);
        let object = format!("archive/local/{:010}/{:020}-{:020}.hya", 0, 0, 999);
        let hole = format!("archive/local/holes/{:020}-{:020}.hyh", 1_000, 1_099);
        for key in [&manifest, &object, &hole] {
            depot.put_new(key, vec![0; 500].into()).await.expect("an object");
        }
        let listing = list(&flags(url)).await.expect("a list");
        assert_eq!(listing.damages, 3, "{}", listing.text);
        assert!(listing.text.contains(&format!("{hole}: is damaged")), "{}", listing.text);
        assert!(listing.text.contains(&format!("Damage    {manifest}: ")), "{}", listing.text);
        assert!(listing.text.contains("Archive   slots 0 to 999, epoch 0, 500 B, archive/"));
    }
}
