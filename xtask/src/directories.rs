//! Directories that a task empties at the start of each run.

use std::path::Path;

use anyhow::{Context, Result};

/// Removes a directory with all that an earlier run has left in it, if it exists.
pub(crate) fn remove_directory(dir: &Path) -> Result<()> {
    if dir.exists() {
        std::fs::remove_dir_all(dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    Ok(())
}
