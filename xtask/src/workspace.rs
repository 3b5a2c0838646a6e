//! The workspace as `cargo metadata` reports it: our crates, their dependencies, and every locked package.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell::cargo;

/// The programs that CI measures, as `cargo run --release` builds them.
const MEASURED: &[&str] = &["hydrant", "benchmarks"];

/// Cargo arguments for a `hydrant` that can use a replicated log. Builds with tests or examples have the feature through
/// the dev-dependency of `hydrant` on itself. Do not write `hydrant/cluster`: Cargo takes it for a feature of that
/// dev-dependency and ignores it in other builds.
pub(crate) const CLUSTER_FEATURE_ARGS: [&str; 2] = ["--features", "cluster"];

/// The workspace and all it is built from.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// The packages of this workspace.
    pub(crate) crates: Vec<Crate>,
    /// Every package in Cargo.lock, ours included.
    pub(crate) packages: Vec<Package>,
    /// The names of the packages that are part of the measured programs.
    pub(crate) measured: BTreeSet<String>,
}

/// A package of this workspace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Crate {
    pub(crate) name: String,
    /// Directory below the workspace's root.
    pub(crate) dir: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// A dependency as a crate of ours names it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dependency {
    /// Name of the package in the registry or in the workspace.
    pub(crate) name: String,
    /// Name of the crate in our code.
    pub(crate) extern_name: String,
    pub(crate) is_dev: bool,
}

/// A package in Cargo.lock.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// An SPDX expression, if it states one.
    pub(crate) license: Option<String>,
    /// The file that holds its licence, if it names one.
    pub(crate) license_file: Option<String>,
    /// Registry or repository that it comes from; `None` for ours.
    pub(crate) source: Option<String>,
}

/// Returns the workspace's root. Known at compile time, since xtask is always run from where it was built.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// Returns the directory that cargo builds into.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

impl Workspace {
    pub(crate) fn load() -> Result<Self> {
        let root = root();
        let text = cargo().args(["metadata", "--format-version", "1"]).dir(&root).output()?;
        let metadata: Value = serde_json::from_str(&text).context("parse `cargo metadata`")?;
        Self::parse(root, &metadata).context("`cargo metadata` has an unknown form")
    }

    fn parse(root: PathBuf, metadata: &Value) -> Option<Self> {
        let members: Vec<&str> =
            metadata["workspace_members"].as_array()?.iter().filter_map(Value::as_str).collect();
        let mut crates = Vec::new();
        let mut packages = Vec::new();
        for package in metadata["packages"].as_array()? {
            packages.push(Package {
                name: text(package, "name")?,
                version: text(package, "version")?,
                license: text(package, "license"),
                license_file: text(package, "license_file"),
                source: text(package, "source"),
            });
            if members.contains(&package["id"].as_str()?) {
                crates.push(Crate {
                    name: text(package, "name")?,
                    dir: Path::new(package["manifest_path"].as_str()?)
                        .parent()?
                        .strip_prefix(&root)
                        .ok()?
                        .to_owned(),
                    dependencies: package["dependencies"]
                        .as_array()?
                        .iter()
                        .map(dependency)
                        .collect::<Option<_>>()?,
                });
            }
        }
        let measured = measured_packages(metadata)?;
        Some(Self { root, crates, packages, measured })
    }
}

/// Returns the packages that are linked into [`MEASURED`]. Those that are only used during compilation or in tests are
/// not part of them.
fn measured_packages(metadata: &Value) -> Option<BTreeSet<String>> {
    let mut names = BTreeMap::new();
    let mut pending = Vec::new();
    for package in metadata["packages"].as_array()? {
        let id = package["id"].as_str()?;
        let name = package["name"].as_str()?;
        let mut targets = package["targets"].as_array()?.iter();
        let is_macro =
            targets.any(|target| strings(&target["kind"]).any(|kind| kind == "proc-macro"));
        if !is_macro {
            names.insert(id, name);
        }
        if package["source"].is_null() && MEASURED.contains(&name) {
            pending.push(id);
        }
    }
    let mut nodes = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array()? {
        nodes.insert(node["id"].as_str()?, node["deps"].as_array()?);
    }
    let mut measured = BTreeSet::new();
    while let Some(id) = pending.pop() {
        let Some(name) = names.remove(id) else { continue };
        measured.insert(name.to_owned());
        for dependency in *nodes.get(id)? {
            let mut kinds = dependency["dep_kinds"].as_array()?.iter();
            if kinds.any(|kind| kind["kind"].is_null()) {
                pending.push(dependency["pkg"].as_str()?);
            }
        }
    }
    Some(measured)
}

fn strings(array: &Value) -> impl Iterator<Item = &str> {
    array.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn dependency(dependency: &Value) -> Option<Dependency> {
    let name = text(dependency, "name")?;
    let extern_name = text(dependency, "rename").unwrap_or_else(|| name.clone()).replace('-', "_");
    let is_dev = dependency["kind"].as_str() == Some("dev");
    Some(Dependency { name, extern_name, is_dev })
}

fn text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn macros_and_what_only_builds_or_tests_need_are_not_measured() {
        let package = |name: &str, kind: &str| json!({ "id": name, "name": name, "targets": [{ "kind": ["custom-build"] }, { "kind": [kind] }] });
        let dependency = |name: &str, kind: Option<&str>| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [
                package("hydrant", "bin"), package("tokio", "lib"), package("mio", "lib"), package("serde_derive", "proc-macro"),
                package("syn", "lib"), package("cc", "lib"), package("jsonschema", "lib"),
            ],
            "resolve": { "nodes": [
                { "id": "hydrant", "deps": [
                    dependency("tokio", None), dependency("serde_derive", None), dependency("jsonschema", Some("dev")),
                ] },
                { "id": "tokio", "deps": [dependency("mio", None), dependency("cc", Some("build"))] },
                { "id": "mio", "deps": [dependency("tokio", None)] },
                { "id": "serde_derive", "deps": [dependency("syn", None)] },
            ] },
        });
        let measured = measured_packages(&metadata).unwrap();
        assert_eq!(measured.into_iter().collect::<Vec<_>>(), ["hydrant", "mio", "tokio"]);
    }
}
