//! The names of snapshot files: the newest one, and the one before it.
//!
//! A reorganization may remove the block of the newest file. Then the chain starts again from the one before (`restart`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Suffix of the name of the file before the newest one.
const PREVIOUS_SUFFIX: &str = ".previous";

/// Returns the name of the file before the newest one.
pub(crate) fn find_previous_path(path: &Path) -> PathBuf {
    add_suffix(path, PREVIOUS_SUFFIX)
}

pub(crate) fn add_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

pub(crate) fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Removes a file. A missing one is not an error.
pub(crate) fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if is_missing(&error) => Ok(()),
        removed => removed,
    }
}

/// Gives the newest file a second name, under which it exists after it is replaced. A file system without hard links has
/// only the newest file.
pub(crate) fn retain_previous(path: &Path) {
    let previous = find_previous_path(path);
    // There is none before the second write.
    let _ = fs::remove_file(&previous);
    if let Err(error) = fs::hard_link(path, &previous)
        && !is_missing(&error)
    {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(error, "the snapshot file before the newest one is not retained");
    }
}
