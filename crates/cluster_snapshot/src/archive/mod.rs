//! The archive: final blocks as immutable objects, each chained to the one before by its digest.
//!
//! | object                                                | holds                                            |
//! |-------------------------------------------------------|--------------------------------------------------|
//! | `archive/<cluster>/<epoch>/<first>-<last>.hya`        | the final blocks of these slots, and a footer    |
//!
//! A range is a hundred slots that start at a multiple of a hundred, or less where an epoch ends. So slots alone decide the
//! names of objects, and two archivers write the same ones, although logs and rewards of their sources may differ. A range
//! in which all slots were skipped is an object too: a missing object is a hole.
//!
//! Shape: an [`ArchiveWriter`] continues after the newest object. [`list_archive`] is the catalogue, [`read_footer`] and
//! [`read_block`] read a part of an object, [`check_archive`] reads an archive through.
//! Invariant: a block is returned as it was archived, or the object is named.
//! Not here: account writes, which snapshots replace, and entries; which process archives, and an index (history).

mod error;
mod footer;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::ops::RangeInclusive;

use depot::Depot;
use ledger::Slot;

pub use error::ArchiveError;
pub use footer::{ArchiveFooter, ArchivedBlock};
pub use reader::{ArchiveFault, check_archive, read_block, read_footer};
pub use writer::{ArchiveLimits, ArchiveWriter};

/// Directory of all archives.
const ROOT: &str = "archive";
const SUFFIX: &str = ".hya";

/// Slots of an object. A writer holds the compressed blocks of one in memory.
pub const ARCHIVE_SLOTS: u64 = 100;

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
    fn new(cluster: &str, epoch: u64, slots: RangeInclusive<Slot>, bytes: u64) -> Self {
        let first = *slots.start();
        let last = *slots.end();
        let key = format!("{ROOT}/{cluster}/{epoch:010}/{first:020}-{last:020}{SUFFIX}");
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

/// Lists the objects of a cluster's archive, in the order of their slots.
///
/// # Errors
///
/// Those of the store.
pub async fn list_archive(
    depot: &Depot,
    cluster: &str,
) -> Result<Vec<ArchiveObject>, ArchiveError> {
    let found = depot.list(&format!("{ROOT}/{cluster}")).await?;
    let parse = |it: depot::ObjectInfo| ArchiveObject::parse(&it.key, it.bytes);
    let mut objects: Vec<ArchiveObject> = found.into_iter().filter_map(parse).collect();
    objects.sort_unstable_by_key(|object| (object.first, object.last));
    Ok(objects)
}

/// Returns the ranges of slots between the objects that no object covers. The objects are in the order of their first
/// slots, and may overlap. The first available slot is the one after the last hole.
pub fn find_holes(objects: &[ArchiveObject]) -> Vec<RangeInclusive<Slot>> {
    let mut holes = Vec::new();
    let mut covered: Option<Slot> = None;
    for object in objects {
        if let Some(covered) = covered
            && covered.saturating_add(1) < object.first
        {
            holes.push(covered + 1..=object.first.saturating_sub(1));
        }
        covered = covered.max(Some(object.last));
    }
    holes
}
