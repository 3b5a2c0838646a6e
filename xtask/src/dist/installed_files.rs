//! The files of an installation below its prefix (`/usr`, `/usr/local`): program, manual pages, completions, documents.
//!
//! Input: the program, which generates the manual pages and the completions. Output: a tree of files, without a prefix.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::dist::file_tree::FileTree;
use crate::dist::program::Program;
use crate::shell::Cmd;
use crate::workspace::root;

/// Directory of the manual pages below the prefix.
pub(crate) const MANUAL: &str = "share/man/man1/";
/// Directory of the documents below the prefix.
pub(crate) const DOCUMENTS: &str = "share/doc/hydrant/";

/// The shells, and where each searches for completions.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "share/bash-completion/completions/hydrant"),
    ("zsh", "share/zsh/site-functions/_hydrant"),
    ("fish", "share/fish/vendor_completions.d/hydrant.fish"),
];
/// Documents at the root of the repository.
const ROOT_DOCUMENTS: &[&str] = &["CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md"];
/// Files for the monitoring and for clusters, below `packaging`.
const OPERATION: &[&str] = &[
    "cluster/haproxy.cfg",
    "cluster/nats-server.conf",
    "grafana/hydrant.json",
    "prometheus/hydrant.rules.yml",
];

/// Returns the files of an installation. `scratch` is a directory that may be written to.
pub(crate) fn installed_files(program: &Program, scratch: &Path) -> Result<FileTree> {
    let mut tree = FileTree::default();
    tree.insert_program("bin/hydrant", program.bytes.clone());
    let hydrant = program.path.to_string_lossy();
    for (shell, path) in COMPLETIONS {
        let completions = Cmd::new(&hydrant).args(["completions", *shell]).output()?;
        tree.insert_file(path, completions.into_bytes());
    }
    let pages = scratch.join("man");
    fs::create_dir_all(&pages).with_context(|| format!("create {}", pages.display()))?;
    Cmd::new(&hydrant).args(["man", &pages.to_string_lossy()]).output()?;
    insert_directory(&mut tree, &pages, MANUAL)?;
    for name in ROOT_DOCUMENTS {
        let document = fs::read(root().join(name)).with_context(|| format!("read {name}"))?;
        tree.insert_file(&format!("{DOCUMENTS}{name}"), document);
    }
    insert_directory(&mut tree, &root().join("docs"), &format!("{DOCUMENTS}docs/"))?;
    for name in OPERATION {
        tree.insert_file(&format!("share/hydrant/{name}"), packaging(name)?);
    }
    Ok(tree)
}

/// Reads a file below `packaging` of the repository.
pub(crate) fn packaging(name: &str) -> Result<Vec<u8>> {
    let path = root().join("packaging").join(name);
    fs::read(&path).with_context(|| format!("read {}", path.display()))
}

/// Returns the licence of this repository.
pub(crate) fn license() -> Result<Vec<u8>> {
    fs::read(root().join("LICENSE")).context("read LICENSE")
}

/// Inserts the files of a directory, and of those in it, below `prefix`.
fn insert_directory(tree: &mut FileTree, dir: &Path, prefix: &str) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            insert_directory(tree, &entry.path(), &format!("{path}/"))?;
        } else {
            tree.insert_file(&path, fs::read(entry.path())?);
        }
    }
    Ok(())
}
