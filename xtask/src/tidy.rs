//! The rules of this repository that neither rustc nor clippy knows.
//!
//! In: `cargo metadata`, the `.rs` files, `Cargo.toml`, `deny.toml`, ARCHITECTURE.md, `docs/` and the other documents,
//! the subjects of commits.
//! Out: one line for each breach, all of them in one run. The rules are pure functions over text. Each is
//! tested by a text that breaks it.
//! Not here: advisories. Their list would have to be fetched; `cargo deny check advisories` reads the same
//! `deny.toml` on a machine with a network.

mod circles;
mod commits;
mod dependencies;
mod docs;
mod imports;
mod layers;
mod licenses;
mod names;
mod profiles;
mod shares;
mod source;
mod sources;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::source::Source;
use crate::workspace::{Crate, Workspace};

pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::load()?;
    let complaints = check(&workspace)?;
    for complaint in &complaints {
        println!("{complaint}");
    }
    if !complaints.is_empty() {
        bail!("tidy: {} complaints", complaints.len());
    }
    println!("tidy: {} crates, {} packages", workspace.crates.len(), workspace.packages.len());
    Ok(())
}

fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let root = &workspace.root;
    let rust = rust_sources(workspace)?;
    let manifest = Source::read(root, Path::new("Cargo.toml"))?;
    let deny = Source::read(root, Path::new("deny.toml"))?;
    let architecture = Source::read(root, Path::new("ARCHITECTURE.md"))?;
    let policy = licenses::Policy::parse(&deny.text)?;

    let mut complaints = layers::check(&workspace.crates);
    for source in &rust {
        complaints.extend(sources::check(source));
        complaints.extend(names::check_rust(source));
        if let Some(owner) = owner_of(source, &workspace.crates) {
            complaints.extend(sources::check_for_layer(source, layers::layer_of(&owner.name)));
        }
    }
    complaints.extend(dependencies::without_reason(&manifest.text));
    complaints.extend(dependencies::forbidden(&workspace.packages));
    complaints.extend(profiles::check(&manifest.text, &workspace.measured)?);
    for krate in &workspace.crates {
        let own = Source::read(root, &krate.dir.join("Cargo.toml"))?;
        let code = rust.iter().filter(|source| source.path.starts_with(&krate.dir));
        complaints.extend(dependencies::unused(krate, &own.text, code));
        complaints.extend(circles::check(krate, &rust));
    }
    complaints.extend(shares::check(&workspace.crates, &rust));
    complaints.extend(commits::check(&commits::subjects(root)));
    complaints.extend(licenses::check(&policy, workspace));
    complaints.extend(docs::crate_list(&architecture.text, &workspace.crates));
    let help = Source::read(root, Path::new("docs/help.txt"))?;
    let configuration = Source::read(root, Path::new("docs/configuration.md"))?;
    complaints.extend(docs::flags_without_cost(&help.text, &configuration.text));
    for path in docs::markdown_files(root)? {
        let document = Source::read(root, &path)?;
        complaints.extend(docs::dead_links(&document, |link| root.join(link).exists()));
        complaints.extend(names::check_markdown(&document));
    }
    Ok(complaints)
}

fn owner_of<'a>(source: &Source, crates: &'a [Crate]) -> Option<&'a Crate> {
    crates.iter().find(|krate| source.path.starts_with(&krate.dir))
}

/// Every `.rs` file of our crates, sorted by path.
fn rust_sources(workspace: &Workspace) -> Result<Vec<Source>> {
    let mut paths = Vec::new();
    for krate in &workspace.crates {
        collect(&workspace.root, &krate.dir, &mut paths)?;
    }
    paths.sort();
    paths.iter().map(|path| Source::read(&workspace.root, path)).collect()
}

fn collect(root: &Path, dir: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(root.join(dir)).with_context(|| format!("read {}", dir.display()))? {
        let entry = entry?;
        let path = dir.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            let built = ["target", "node_modules", ".venv"];
            if !built.iter().any(|name| path.ends_with(name)) {
                collect(root, &path, paths)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
    Ok(())
}
