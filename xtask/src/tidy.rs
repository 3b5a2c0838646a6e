//! The rules of this repository that neither rustc nor clippy knows.
//!
//! Input: `cargo metadata`, the `.rs` files, `Cargo.toml`, `deny.toml`, ARCHITECTURE.md, `docs/` and the other
//! documents, the subjects of commits, and every text file that git tracks.
//! Output: one line for each breach, all of them in one run. The rules are pure functions over text. Each is
//! tested by a text that breaks it.
//! Not here: advisories. Their list would have to be fetched; `cargo deny check advisories` reads the same
//! `deny.toml` on a machine with a network.

mod circles;
mod commits;
mod dependencies;
mod docs;
mod domain_types;
mod imports;
mod layers;
pub(crate) mod licenses;
mod named_tests;
mod outside_paths;
mod profiles;
mod registry_hosts;
mod shares;
mod source;
mod sources;
mod tracked_files;
mod wording;
mod workflows;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::source::Source;
use self::wording::Hit;
use self::wording::budgets::{self, Budgets, HitsByCrate};
use crate::thresholds::result_page::ResultPage;
use crate::thresholds::summary;
use crate::workspace::{Crate, Workspace};

/// Checks all rules. `--wording CRATE` lists the lines of a crate that the rules of `wording` replace;
/// `--update-budgets` lowers the numbers of such lines that crates are allowed.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let workspace = Workspace::load()?;
    match args {
        [] => {}
        [option] if option == "--update-budgets" => update_budgets(&workspace)?,
        [option, name] if option == "--wording" => return list_wording(&workspace, name),
        _ => bail!("unknown arguments of tidy: {}", args.join(" ")),
    }
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
        if let Some(owner) = find_owner(source, &workspace.crates) {
            complaints.extend(sources::check_for_layer(source, layers::layer_of(&owner.name)));
        }
    }
    complaints.extend(domain_types::check(&rust));
    complaints.extend(dependencies::without_reason(&manifest.text));
    complaints.extend(dependencies::forbidden(&workspace.packages));
    complaints.extend(profiles::check(&manifest.text, &workspace.measured)?);
    for krate in &workspace.crates {
        let own = Source::read(root, &krate.dir.join("Cargo.toml"))?;
        let code = rust.iter().filter(|source| source.path.starts_with(&krate.dir));
        complaints.extend(dependencies::find_unused(krate, &own.text, code));
        complaints.extend(circles::check(krate, &rust));
    }
    complaints.extend(shares::check(&workspace.crates, &rust));
    complaints.extend(commits::check(&commits::subjects(root)));
    complaints.extend(licenses::check(&policy, workspace));
    let contributing = Source::read(root, Path::new("CONTRIBUTING.md"))?;
    complaints.extend(wording::check_table(&contributing.text));
    complaints.extend(Budgets::read(root)?.check(&find_hits(workspace, &rust)?));
    complaints.extend(docs::crate_list(&architecture.text, &workspace.crates));
    let configuration = Source::read(root, Path::new("docs/configuration.md"))?;
    let helps = ["help.txt", "help-follow.txt", "help-follow-kaspa.txt", "help-replica.txt"];
    for file in helps.map(|file| format!("docs/{file}")) {
        let help = Source::read(root, Path::new(&file))?;
        complaints.extend(docs::flags_without_cost(&help.text, &configuration.text));
    }
    for path in docs::markdown_files(root)? {
        let document = Source::read(root, &path)?;
        complaints.extend(docs::dead_links(&document, |link| root.join(link).exists()));
    }
    for path in named_tests::DOCUMENTS {
        complaints.extend(named_tests::check(&Source::read(root, Path::new(path))?, &rust));
    }
    let benchmarks = Source::read(root, Path::new("BENCHMARKS.md"))?;
    complaints.extend(summary::check(&benchmarks.text, &ResultPage::read_all(root)?));
    let tracked = tracked_files::read(root);
    complaints.extend(workflows::check(&manifest.text, &tracked)?);
    for source in &tracked {
        complaints.extend(outside_paths::check(source, package_dir(source, &tracked)));
        complaints.extend(registry_hosts::check(source));
    }
    Ok(complaints)
}

/// Finds the words and forms that the rules of `wording` replace, in all crates and documents.
fn find_hits(workspace: &Workspace, rust: &[Source]) -> Result<HitsByCrate> {
    let mut hits: Vec<Hit> = rust.iter().flat_map(wording::find_in_rust).collect();
    for path in docs::markdown_files(&workspace.root)? {
        hits.extend(wording::find_in_markdown(&Source::read(&workspace.root, &path)?));
    }
    Ok(HitsByCrate::new(hits, &workspace.crates))
}

fn update_budgets(workspace: &Workspace) -> Result<()> {
    let hits = find_hits(workspace, &rust_sources(workspace)?)?;
    let mut budgets = Budgets::read(&workspace.root)?;
    let lowered = budgets.lower(&hits);
    budgets.write(&workspace.root)?;
    println!("{}: lowered by {lowered}, {} are left", budgets::PATH, budgets.total());
    Ok(())
}

fn list_wording(workspace: &Workspace, name: &str) -> Result<()> {
    for line in find_hits(workspace, &rust_sources(workspace)?)?.in_crate(name) {
        println!("{line}");
    }
    Ok(())
}

/// Returns the directory of the package that a file belongs to; the root if there is none.
fn package_dir<'a>(source: &'a Source, tracked: &[Source]) -> &'a Path {
    let mut dirs = source.path.ancestors().skip(1);
    let is_package = |dir: &Path| {
        let manifest = dir.join("Cargo.toml");
        tracked.binary_search_by(|other| other.path.as_path().cmp(&manifest)).is_ok()
    };
    dirs.find(|dir| is_package(dir)).unwrap_or_else(|| Path::new(""))
}

fn find_owner<'a>(source: &Source, crates: &'a [Crate]) -> Option<&'a Crate> {
    crates.iter().find(|krate| source.path.starts_with(&krate.dir))
}

/// Returns every `.rs` file of our crates, sorted by path.
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
