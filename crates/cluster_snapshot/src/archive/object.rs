//! The objects of an archive: their names, their lists, and the slots that they cover.
//!
//! Bounds: a list of all objects has the limit of the store. An archiver only lists single epochs, of a few thousand
//! objects each, and the objects of a hole in pages.
//! Not here: their content (`footer`), the holes between them (`hole`).

use std::ops::RangeInclusive;

use depot::{Depot, DepotError, ObjectInfo};
use ledger::Slot;
use solana_epoch_schedule::EpochSchedule;

use crate::keys::AFTER_ALL;

/// Directory of all archives.
const ROOT: &str = "archive";
const SUFFIX: &str = ".hya";
/// The first number that no epoch has: their names have ten digits.
const EPOCH_END: u64 = 10_000_000_000;
/// Number of keys that are read to find an object among unrelated ones.
const KEYS_READ: usize = 16;

/// Directory of a cluster's archive.
pub(super) fn cluster_dir(cluster: &str) -> String {
    format!("{ROOT}/{cluster}")
}

/// An object of an archive, as its key and a list describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveObject {
    /// The key.
    pub key: String,
    /// The cluster.
    pub cluster: String,
    /// The epoch of the chain.
    pub epoch: u64,
    /// The first slot that it covers.
    pub first: Slot,
    /// The last slot that it covers.
    pub last: Slot,
    /// Length of the object.
    pub bytes: u64,
}

impl ArchiveObject {
    pub(super) fn new(cluster: &str, epoch: u64, slots: RangeInclusive<Slot>, bytes: u64) -> Self {
        let first = *slots.start();
        let last = *slots.end();
        let key = format!("{}/{first:020}-{last:020}{SUFFIX}", epoch_dir(cluster, epoch));
        Self { key, cluster: cluster.to_owned(), epoch, first, last, bytes }
    }

    /// Parses the key of an object. Returns `None` for any other object.
    fn parse(key: &str, bytes: u64) -> Option<Self> {
        let mut names = key.split('/').skip(1);
        let cluster = names.next()?;
        let epoch = names.next()?.parse().ok()?;
        let (first, last) = names.next()?.strip_suffix(SUFFIX)?.split_once('-')?;
        let slots = first.parse().ok()?..=last.parse().ok()?;
        let parsed = Self::new(cluster, epoch, slots, bytes);
        (parsed.key == key && parsed.first <= parsed.last).then_some(parsed)
    }

    /// The slots that it covers.
    pub fn slots(&self) -> RangeInclusive<Slot> {
        self.first..=self.last
    }
}

fn epoch_dir(cluster: &str, epoch: u64) -> String {
    format!("{}/{epoch:010}", cluster_dir(cluster))
}

fn parse_objects(found: Vec<ObjectInfo>) -> Vec<ArchiveObject> {
    let parse = |it: ObjectInfo| ArchiveObject::parse(&it.key, it.bytes);
    let mut objects: Vec<ArchiveObject> = found.into_iter().filter_map(parse).collect();
    objects.sort_unstable_by_key(|object| (object.first, object.last));
    objects
}

/// Lists the objects of a cluster's archive, in the order of their slots.
///
/// # Errors
///
/// Those of the store.
pub async fn list_archive(depot: &Depot, cluster: &str) -> Result<Vec<ArchiveObject>, DepotError> {
    Ok(parse_objects(depot.list(&cluster_dir(cluster)).await?))
}

/// Lists the objects of an epoch, in the order of their slots.
pub(super) async fn list_epoch(
    depot: &Depot,
    cluster: &str,
    epoch: u64,
) -> Result<Vec<ArchiveObject>, DepotError> {
    Ok(parse_objects(depot.list(&epoch_dir(cluster, epoch)).await?))
}

/// Returns the slots that an archive's objects cover, from the epoch of the first of `slots` on, and at least up to the
/// last one. Cost: a request for each page of objects, also if an epoch has only a few of them.
pub(super) async fn list_covered_slots(
    depot: &Depot,
    schedule: &EpochSchedule,
    cluster: &str,
    slots: &RangeInclusive<Slot>,
) -> Result<CoveredSlots, DepotError> {
    let dir = cluster_dir(cluster);
    let page = depot.list_page();
    let mut covered = CoveredSlots::default();
    let mut after = key_before_epoch(cluster, schedule.get_epoch(*slots.start()));
    loop {
        let found = depot.list_after(&dir, &after, page).await?;
        let is_last_page = found.len() < page;
        let Some(newest) = found.last() else { return Ok(covered) };
        after.clone_from(&newest.key);
        let objects = parse_objects(found);
        covered.add_ranges(objects.iter().map(ArchiveObject::slots));
        let is_past_end = objects.last().is_some_and(|object| object.first > *slots.end());
        if is_last_page || is_past_end {
            return Ok(covered);
        }
    }
}

/// Returns the newest object of an archive. Cost: some ten requests, and a list of its epoch; a list of all objects would
/// take a request for each thousand of them.
pub(super) async fn find_newest(
    depot: &Depot,
    cluster: &str,
) -> Result<Option<ArchiveObject>, DepotError> {
    let Some(mut newest) = find_epoch_from(depot, cluster, 0).await? else { return Ok(None) };
    // No epoch from `end` on has an object.
    let mut end = EPOCH_END;
    let mut step = 1_u64;
    while newest + 1 < end {
        let middle = newest + (end - newest) / 2;
        // Epochs follow each other, so the next ones are tried first.
        let tried = middle.min(newest.saturating_add(step));
        match find_epoch_from(depot, cluster, tried).await? {
            Some(found) => newest = found,
            None => end = tried,
        }
        step = step.saturating_mul(2);
    }
    Ok(list_epoch(depot, cluster, newest).await?.pop())
}

/// Returns an epoch that has objects, the lowest one from `epoch` on.
async fn find_epoch_from(
    depot: &Depot,
    cluster: &str,
    epoch: u64,
) -> Result<Option<u64>, DepotError> {
    let dir = cluster_dir(cluster);
    let after = key_before_epoch(cluster, epoch);
    let found = depot.list_after(&dir, &after, KEYS_READ).await?;
    let mut objects = found.iter().filter_map(|it| ArchiveObject::parse(&it.key, it.bytes));
    let found = objects.find(|object| (epoch..EPOCH_END).contains(&object.epoch));
    Ok(found.map(|object| object.epoch))
}

/// Returns a key after the objects of all earlier epochs, and before those of `epoch`.
fn key_before_epoch(cluster: &str, epoch: u64) -> String {
    match epoch.checked_sub(1) {
        None => String::new(),
        Some(before) => format!("{}/{AFTER_ALL}", epoch_dir(cluster, before)),
    }
}

/// Ranges of slots that neither touch nor overlap, in their order.
#[derive(Default)]
pub(super) struct CoveredSlots(Vec<RangeInclusive<Slot>>);

impl CoveredSlots {
    /// Merges ranges that are in the order of their first slots.
    pub(super) fn new(ranges: impl Iterator<Item = RangeInclusive<Slot>>) -> Self {
        let mut covered = Self::default();
        covered.add_ranges(ranges);
        covered
    }

    /// Adds ranges that are in the order of their first slots, after those that were added before.
    fn add_ranges(&mut self, ranges: impl Iterator<Item = RangeInclusive<Slot>>) {
        for range in ranges {
            match self.0.last_mut() {
                Some(last) if *range.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => self.0.push(range),
            }
        }
    }

    /// Returns the slots of a range that are not covered.
    pub(super) fn find_gaps(&self, slots: RangeInclusive<Slot>) -> Vec<RangeInclusive<Slot>> {
        let end = *slots.end();
        let mut next = *slots.start();
        let mut gaps = Vec::new();
        let first = self.0.partition_point(|covered| *covered.end() < next);
        for covered in self.0[first..].iter().take_while(|covered| *covered.start() <= end) {
            if next < *covered.start() {
                gaps.push(next..=*covered.start() - 1);
            }
            let Some(after) = covered.end().checked_add(1) else { return gaps };
            next = after;
        }
        if next <= end {
            gaps.push(next..=end);
        }
        gaps
    }

    /// Returns the slots between the ranges.
    pub(super) fn find_inner_gaps(&self) -> Vec<RangeInclusive<Slot>> {
        let pairs = self.0.windows(2);
        pairs.map(|pair| *pair[0].end() + 1..=*pair[1].start() - 1).collect()
    }
}

#[cfg(test)]
mod tests {
    use depot::DepotConfig;

    use super::*;

    #[test]
    fn gaps_are_found_within_a_range_and_between_ranges() {
        let ranges = [0..=99, 10..=19, 100..=199, 300..=399];
        let covered = CoveredSlots::new(ranges.into_iter());
        assert_eq!(covered.find_inner_gaps(), [200..=299]);
        assert_eq!(covered.find_gaps(150..=450), [200..=299, 400..=450]);
        assert_eq!(covered.find_gaps(210..=250), [210..=250]);
        assert!(covered.find_gaps(0..=199).is_empty());
        let all = CoveredSlots::new([0..=Slot::MAX].into_iter());
        assert!(all.find_gaps(5..=Slot::MAX).is_empty());
        let none = CoveredSlots::new(std::iter::empty());
        assert_eq!(none.find_gaps(1..=2), [1..=2]);
        assert!(none.find_inner_gaps().is_empty());
    }

    #[tokio::test]
    async fn the_newest_object_is_found_without_a_list_of_all() {
        // A list of all objects would be refused.
        let config = DepotConfig { list_max: 3, ..DepotConfig::default() };
        let depot = Depot::open("memory:", &config).expect("a store");
        assert_eq!(find_newest(&depot, "c").await.expect("a store"), None);
        for epoch in [3, 4, 5, 6, 700, 701, 9_000] {
            let first = epoch * 1_000;
            let object = ArchiveObject::new("c", epoch, first..=first + 99, 1);
            depot.put_new(&object.key, vec![0].into()).await.expect("a store");
            let newest = find_newest(&depot, "c").await.expect("a store");
            assert_eq!(newest, Some(object));
        }
        for other in ["archive/c/holes/x", "archive/c/0000009001/x", "archive/d/0000009002/x"] {
            depot.put_new(other, vec![0].into()).await.expect("a store");
        }
        let newest = find_newest(&depot, "c").await.expect("a store");
        assert_eq!(newest.map(|object| object.epoch), Some(9_000));
        list_archive(&depot, "c").await.expect_err("it has more than three objects");
    }
}
