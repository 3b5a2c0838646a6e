//! The archive: final blocks as immutable objects, each chained to the one before by its digest.
//!
//! | object                                                | holds                                            |
//! |-------------------------------------------------------|--------------------------------------------------|
//! | `archive/<cluster>/<epoch>/<first>-<last>.hya`        | the final blocks of these slots, and a footer    |
//! | `archive/<cluster>/holes/<first>-<last>.hyh`          | that blocks of these slots are missing           |
//!
//! A range is a hundred slots that start at a multiple of a hundred, or less where an epoch ends. So slots alone decide the
//! names of objects, and two archivers write the same ones, although logs and rewards of their sources may differ. A range
//! in which all slots were skipped is an object too: a missing object is a hole.
//!
//! Shape: an [`ArchiveWriter`] continues after the newest object or hole. If a final block is missing, it records an
//! [`ArchiveHole`] and continues after it; another writer fills the hole with objects later, in any order. An object of
//! a hole whose object before does not exist yet names the hole. [`list_archive`] and [`list_holes`] are the catalogue,
//! [`read_footer`] and [`read_block`] read a part of an object, [`check_archive`] reads an archive through.
//! Invariant: a block is returned as it was archived, or the object is named. A slot that no object covers is missing; one
//! that an object covers without a block was skipped.
//! Not here: account writes, which snapshots replace, and entries; which process archives, and an index (history).

mod error;
mod footer;
mod hole;
mod object;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use error::ArchiveError;
pub use footer::{ArchiveFooter, ArchivedBlock};
pub use hole::{ArchiveHole, ArchiveHoleKey, HoleEnd, list_holes, list_open_slots, read_hole};
pub use object::{ArchiveObject, list_archive};
pub use reader::{ArchiveFault, check_archive, read_block, read_footer};
pub use writer::{ArchiveLimits, ArchiveWriter};

/// Slots of an object. A writer holds the compressed blocks of one in memory.
pub const ARCHIVE_SLOTS: u64 = 100;
