//! The text files that are part of the repository: those that git tracks, and new ones that it does not ignore.
//!
//! Without git there are none, so the rules for them check nothing. Files that are not text are left out.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::source::Source;

/// Reads these files, sorted by path.
pub(crate) fn read(root: &Path) -> Vec<Source> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let Ok(output) = git.output() else { return Vec::new() };
    let names = String::from_utf8_lossy(&output.stdout);
    let paths: BTreeSet<&Path> = names.split('\0').map(Path::new).collect();
    // A file that git tracks may be deleted.
    paths.into_iter().filter_map(|path| Source::read(root, path).ok()).collect()
}
