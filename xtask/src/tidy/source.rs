//! A text file of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A text file of the repository. Its path is relative to the root.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Source {
    /// Reads the file at a path below `root`.
    pub(crate) fn read(root: &Path, path: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(path))
            .with_context(|| format!("read {}", path.display()))?;
        Ok(Self { path: path.to_owned(), text })
    }
}
