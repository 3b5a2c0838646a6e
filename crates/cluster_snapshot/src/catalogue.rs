//! The list of snapshots, and the removal of old ones.
//!
//! A snapshot is usable for readers of its generation of the log only. So each generation is counted alone: snapshots
//! that replicas still write in the old generation do not crowd out the one that opens the next.

use std::collections::BTreeSet;
use std::time::Duration;

use depot::{Depot, DepotError};
use ledger::Slot;

use crate::error::SnapshotLoadError;
use crate::keys::{AFTER_ALL, ManifestKey, cluster_dir};
use crate::load::load_manifest;
use crate::manifest::Manifest;

/// Lists the manifests of a cluster, the newest first. Cost: a request for each page of other objects, and for each
/// snapshot that has more objects than a page.
///
/// # Errors
///
/// Those of the store.
pub async fn newest_snapshots(
    depot: &Depot,
    cluster: &str,
) -> Result<Vec<ManifestKey>, DepotError> {
    let dir = cluster_dir(cluster);
    let page = depot.list_page();
    let mut found = Vec::new();
    let mut after = String::new();
    loop {
        let objects = depot.list_after(&dir, &after, page).await?;
        found.extend(objects.iter().filter_map(|object| ManifestKey::parse(&object.key)));
        let Some(last) = objects.last().filter(|_| objects.len() == page) else { break };
        // The manifest of a snapshot comes before its parts, which are passed over.
        after = match ManifestKey::parse_object(&last.key) {
            Some(snapshot) => format!("{}/{AFTER_ALL}", snapshot.dir()),
            None => last.key.clone(),
        };
    }
    found.reverse();
    Ok(found)
}

/// Rules that decide which snapshots of a cluster are retained. Ages are differences of wall clocks: with a clock that is
/// wrong, more or fewer young snapshots are retained.
#[derive(Clone, Copy, Debug)]
pub struct RemovalRules {
    /// Number of the newest intact snapshots of the newest generation that stay. Until it has as many, those of older
    /// generations stay too.
    pub keep: usize,
    /// The newest generation of the log. Snapshots of a later one, which is about to be opened, stay.
    pub newest_generation: u64,
    /// Sequence of the oldest message of the newest generation. The newest snapshot of this generation at or before it
    /// stays. While the first message exists, the snapshots that open the generation stay, too: it names one of them.
    pub needed: Option<u64>,
    /// Age below which a snapshot stays: the time of several loads, because a load may be running.
    pub younger_than: Duration,
    /// The current time in milliseconds since 1970.
    pub now_ms: u64,
}

/// Removes the snapshots of a cluster that no rule retains. Also removes parts without a manifest, if their block is
/// below those of all retained snapshots, and their generation is not about to be opened. Returns the number of removed
/// objects.
/// Cost: a request for the manifest of each snapshot.
///
/// # Errors
///
/// Those of the store. Some objects may have been removed.
pub async fn remove_old_snapshots(
    depot: &Depot,
    cluster: &str,
    rules: &RemovalRules,
) -> Result<usize, DepotError> {
    let mut keys = newest_snapshots(depot, cluster).await?;
    keys.retain(|key| key.generation <= rules.newest_generation);
    // Whether snapshots of older generations go depends on those of the newest one.
    keys.sort_by_key(|key| key.generation != rules.newest_generation);
    let mut survey = SnapshotSurvey::new(rules);
    for key in keys {
        survey.examine(depot, &key).await?;
    }
    let mut removed = 0;
    for object in depot.list(&cluster_dir(cluster)).await? {
        let Some(snapshot) = ManifestKey::parse_object(&object.key) else { continue };
        if survey.is_removable(&snapshot) {
            // The manifest is the first object of a directory, so half a snapshot is never loaded.
            depot.delete(&object.key).await?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// The snapshots that were examined, and which of them stay.
struct SnapshotSurvey<'a> {
    rules: &'a RemovalRules,
    /// Directories of snapshots that stay.
    retained: BTreeSet<String>,
    /// Directories of snapshots that go.
    obsolete: BTreeSet<String>,
    /// The lowest slot of those that stay.
    oldest_retained: Option<Slot>,
    /// Number of intact snapshots of the newest generation.
    intact: usize,
    is_needed_found: bool,
}

impl<'a> SnapshotSurvey<'a> {
    fn new(rules: &'a RemovalRules) -> Self {
        Self {
            rules,
            retained: BTreeSet::new(),
            obsolete: BTreeSet::new(),
            oldest_retained: None,
            intact: 0,
            is_needed_found: false,
        }
    }

    /// Whether as many newer snapshots of the newest generation were found as the rules retain.
    fn is_full(&self) -> bool {
        self.intact >= self.rules.keep
    }

    /// Reads a manifest, and decides about its snapshot. Those of the newest generation come first, the newest of each
    /// generation before older ones.
    async fn examine(&mut self, depot: &Depot, key: &ManifestKey) -> Result<(), DepotError> {
        let dir = key.dir().to_owned();
        let manifest = match load_manifest(depot, &key.key, None).await {
            Ok(manifest) => manifest,
            Err(SnapshotLoadError::Depot(DepotError::NotFound { .. })) => return Ok(()),
            Err(SnapshotLoadError::Depot(err)) => return Err(err),
            Err(err) => {
                // It does not count. A new one stays, so that its cause can be found.
                tracing::warn!(%err, "a snapshot is damaged");
                if self.is_full() {
                    self.obsolete.insert(dir);
                } else {
                    self.retained.insert(dir);
                }
                return Ok(());
            }
        };
        if self.must_stay(&manifest) {
            self.retained.insert(dir);
            self.oldest_retained =
                Some(self.oldest_retained.map_or(key.slot, |slot| slot.min(key.slot)));
        } else {
            self.obsolete.insert(dir);
        }
        self.intact += usize::from(manifest.generation == self.rules.newest_generation);
        Ok(())
    }

    fn must_stay(&mut self, manifest: &Manifest) -> bool {
        let RemovalRules { newest_generation, needed, younger_than, now_ms, .. } = *self.rules;
        let younger_than_ms = u64::try_from(younger_than.as_millis()).unwrap_or(u64::MAX);
        let is_young = manifest.made_at_ms.saturating_add(younger_than_ms) > now_ms;
        let needed = needed.filter(|_| manifest.generation == newest_generation);
        let is_needed =
            !self.is_needed_found && needed.is_some_and(|needed| manifest.position <= needed);
        self.is_needed_found |= is_needed;
        let opens_generation = manifest.position == 0 && needed.is_some_and(|needed| needed <= 1);
        !self.is_full() || is_young || is_needed || opens_generation
    }

    /// Returns whether the objects of a snapshot go. One without a manifest was abandoned by its writer, or is written
    /// while newer ones are complete already.
    fn is_removable(&self, snapshot: &ManifestKey) -> bool {
        let dir = snapshot.dir();
        let is_below = self.oldest_retained.is_some_and(|oldest| snapshot.slot < oldest);
        let is_abandoned = self.is_full()
            && is_below
            && snapshot.generation <= self.rules.newest_generation
            && !self.retained.contains(dir);
        self.obsolete.contains(dir) || is_abandoned
    }
}
