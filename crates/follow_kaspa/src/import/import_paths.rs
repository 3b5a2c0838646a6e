//! The names of an import's files, their publication and their removal.
//!
//! Not here: the content of the files (`chunk_store`, `checkpoint`), the names of snapshot files (`snapshot_path`).

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use store::durable_file;

use crate::snapshot_path::{add_suffix, remove_if_present};

/// Suffix of the name of the file with the UTXOs.
const SET_SUFFIX: &str = ".import";
/// Suffix of the name of the checkpoint's file.
const CHECKPOINT_SUFFIX: &str = ".import.checkpoint";

/// The names of an import's files.
#[derive(Clone, Debug)]
pub(crate) struct ImportPaths {
    pub(crate) set: PathBuf,
    pub(crate) checkpoint: PathBuf,
}

impl ImportPaths {
    /// Returns the names for the import that writes a snapshot file.
    pub(crate) fn for_snapshot(snapshot: &Path) -> Self {
        let set = add_suffix(snapshot, SET_SUFFIX);
        Self { set, checkpoint: add_suffix(snapshot, CHECKPOINT_SUFFIX) }
    }

    /// Removes the files, as far as they exist.
    pub(crate) fn remove(&self) -> io::Result<()> {
        remove_if_present(&self.set)?;
        remove_if_present(&self.checkpoint)
    }

    /// Renames the file of a whole set to the snapshot file, and removes the checkpoint.
    pub(crate) fn publish(&self, snapshot: &Path) -> io::Result<()> {
        durable_file::rename(&File::open(&self.set)?, &self.set, snapshot)?;
        remove_if_present(&self.checkpoint)
    }
}

/// Removes the snapshot file of a chain, and the files of an unfinished import, as far as they exist.
pub fn remove_chain_files(snapshot: &Path) -> io::Result<()> {
    ImportPaths::for_snapshot(snapshot).remove()?;
    remove_if_present(snapshot)
}
