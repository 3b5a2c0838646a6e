//! The bill of materials in the form of CycloneDX: the packages that are linked into the program.
//!
//! Input: the program, `cargo tree` and `cargo metadata` for its target, Cargo.lock, deny.toml. Output: the bytes of a
//! JSON document.
//! Shape: a package is a component if a build of `hydrant` alone, with the feature `cluster`, links it, or if the
//! program has a path of its source.
//! The second set has the packages that a build together with other crates adds by their features. Macros, and packages
//! that are used only during compilation or in tests, are not components.
//! Bounds: `cargo metadata` joins the features of the whole workspace, so the document may have a dependency between
//! two linked packages that only another crate's features switch on.
//! Not here: the C library, which is not in the program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::dist::file_tree::sha256;
use crate::dist::program::{Program, VERSION, leading_text, texts_after};
use crate::dist::timestamp::rfc_3339;
use crate::shell::cargo;
use crate::tidy::licenses::Policy;
use crate::workspace::{CLUSTER_FEATURE_ARGS, root};

/// The package with the program.
const PACKAGE: &str = "hydrant";
/// Version of CycloneDX that the document follows.
const SPEC_VERSION: &str = "1.5";
/// Part of a source file's path that precedes a registry's folder, and a package's below it.
const SOURCES: &[u8] = b"/registry/src/";
/// The component of the standard library. No package of Cargo is named so.
const STANDARD_LIBRARY: &str = "std";

/// A package of one version. Cargo.lock has no two of the same name and version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PackageId {
    name: String,
    version: String,
}

impl PackageId {
    /// Returns the name by which other parts of the document refer to the package.
    fn reference(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

/// Facts about a package in the document.
struct PackageInfo {
    description: Option<String>,
    license: Option<String>,
    repository: Option<String>,
    /// It comes from a registry, not from this repository.
    is_registered: bool,
    dependencies: BTreeSet<PackageId>,
}

/// All packages of the workspace, with their dependencies outside of tests and builds.
struct Packages {
    infos: BTreeMap<PackageId, PackageInfo>,
    /// SHA-256 of the archives in the registry.
    checksums: BTreeMap<PackageId, String>,
}

/// Returns the bytes of the document.
pub(crate) fn document(program: &Program, time: u64) -> Result<Vec<u8>> {
    let target = program.architecture.target();
    let mut linked = linked_packages(&target)?;
    let packages = Packages::load(&target)?;
    linked.extend(source_packages(&program.bytes, packages.infos.keys()));
    let own = PackageId { name: PACKAGE.to_owned(), version: VERSION.to_owned() };
    let mut own_component = packages.component(&own)?;
    own_component["type"] = "application".into();
    own_component["hashes"] = hashes(&sha256(&program.bytes));
    let libraries = linked.iter().filter(|id| **id != own);
    let mut components = libraries.map(|id| packages.component(id)).collect::<Result<Vec<_>>>()?;
    components.extend(program.rustc_version().map(|version| standard_library(&version)));
    let mut dependencies = Vec::new();
    for id in &linked {
        let info = packages.info(id)?;
        let depends_on = info.dependencies.intersection(&linked).map(PackageId::reference);
        let depends_on: Vec<String> = depends_on.collect();
        dependencies.push(json!({ "ref": id.reference(), "dependsOn": depends_on }));
    }
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {
            "timestamp": rfc_3339(time)?,
            "tools": { "components": [
                { "type": "application", "name": "cargo xtask dist", "version": VERSION },
            ] },
            "component": own_component,
        },
        "components": components,
        "dependencies": dependencies,
    });
    Ok(format!("{document:#}\n").into_bytes())
}

/// Returns the packages that a build of the program alone links for `target`.
fn linked_packages(target: &str) -> Result<BTreeSet<PackageId>> {
    let tree = cargo()
        .args(["tree", "--locked", "--package", PACKAGE, "--target", target])
        .args(CLUSTER_FEATURE_ARGS)
        .args(["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"])
        .dir(&root());
    tree.output()?.lines().map(parse_tree_line).collect()
}

/// Parses the package in a line such as `tokio v1.54.0 (*)`.
fn parse_tree_line(line: &str) -> Result<PackageId> {
    let mut words = line.split_whitespace();
    let name = words.next().map(str::to_owned);
    let version = words.next().and_then(|word| word.strip_prefix('v')).map(str::to_owned);
    let id = name.zip(version).map(|(name, version)| PackageId { name, version });
    id.with_context(|| format!("`cargo tree` has an unknown form: {line}"))
}

/// Returns those packages of `known` that have a source file's path in `program`: it may panic there.
fn source_packages<'a>(
    program: &[u8],
    known: impl Iterator<Item = &'a PackageId>,
) -> BTreeSet<PackageId> {
    let folders: BTreeMap<String, &PackageId> =
        known.map(|id| (format!("{}-{}", id.name, id.version), id)).collect();
    let mut found = BTreeSet::new();
    for path in texts_after(program, SOURCES) {
        let registry = path.iter().position(|byte| *byte == b'/');
        let folder = registry.and_then(|slash| path.get(slash + 1..)).unwrap_or_default();
        let folder = leading_text(folder, |byte| byte.is_ascii_graphic() && byte != b'/');
        found.extend(folders.get(&folder).map(|id| (*id).clone()));
    }
    found
}

impl Packages {
    fn load(target: &str) -> Result<Self> {
        let metadata = cargo()
            .args(["metadata", "--locked", "--format-version", "1", "--filter-platform", target])
            .dir(&root());
        let metadata: Value =
            serde_json::from_str(&metadata.output()?).context("parse `cargo metadata`")?;
        let mut infos =
            parse_metadata(&metadata).context("`cargo metadata` has an unknown form")?;
        let policy = fs::read_to_string(root().join("deny.toml")).context("read deny.toml")?;
        let policy = Policy::parse(&policy)?;
        for (id, info) in &mut infos {
            let clarified = || policy.clarified_license(&id.name).map(str::to_owned);
            info.license = info.license.take().or_else(clarified);
        }
        let lock = fs::read_to_string(root().join("Cargo.lock")).context("read Cargo.lock")?;
        Ok(Self { infos, checksums: parse_lock(&lock)? })
    }

    fn info(&self, id: &PackageId) -> Result<&PackageInfo> {
        let info = self.infos.get(id);
        info.with_context(|| format!("`cargo metadata` has no {}", id.reference()))
    }

    fn component(&self, id: &PackageId) -> Result<Value> {
        let info = self.info(id)?;
        let mut component = json!({
            "type": "library",
            "bom-ref": id.reference(),
            "name": id.name,
            "version": id.version,
        });
        if let Some(description) = &info.description {
            component["description"] = description.trim().into();
        }
        if let Some(license) = &info.license {
            component["licenses"] = licenses(license);
        }
        if let Some(repository) = &info.repository {
            component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
        }
        if let Some(checksum) = self.checksums.get(id) {
            component["hashes"] = hashes(checksum);
        }
        // The name of a crate of ours may be that of other people's package in a registry.
        if info.is_registered {
            component["purl"] = format!("pkg:cargo/{}@{}", id.name, id.version).into();
        }
        Ok(component)
    }
}

fn standard_library(version: &str) -> Value {
    json!({
        "type": "library",
        "bom-ref": format!("{STANDARD_LIBRARY}@{version}"),
        "name": STANDARD_LIBRARY,
        "version": version,
        "description": "The Rust standard library",
        "licenses": licenses("MIT OR Apache-2.0"),
    })
}

/// Returns the licences of an expression, in which a slash is the old form of a choice.
fn licenses(expression: &str) -> Value {
    let choices: Vec<&str> = expression.split('/').map(str::trim).collect();
    json!([{ "expression": choices.join(" OR ") }])
}

fn hashes(sha256: &str) -> Value {
    json!([{ "alg": "SHA-256", "content": sha256 }])
}

fn parse_metadata(metadata: &Value) -> Option<BTreeMap<PackageId, PackageInfo>> {
    let mut ids = BTreeMap::new();
    let packages = metadata["packages"].as_array()?;
    for package in packages {
        let name = text(package, "name")?;
        let id = PackageId { name, version: text(package, "version")? };
        ids.insert(package["id"].as_str()?, id);
    }
    let mut dependencies = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array()? {
        let deps = node["deps"].as_array()?.iter().filter(|dep| is_normal(dep));
        let deps = deps.filter_map(|dep| ids.get(dep["pkg"].as_str()?).cloned());
        dependencies.insert(node["id"].as_str()?, deps.collect::<BTreeSet<PackageId>>());
    }
    let info = |package: &Value| {
        let id = package["id"].as_str()?;
        let info = PackageInfo {
            description: text(package, "description"),
            license: text(package, "license"),
            repository: text(package, "repository"),
            is_registered: !package["source"].is_null(),
            dependencies: dependencies.remove(id).unwrap_or_default(),
        };
        Some((ids.get(id)?.clone(), info))
    };
    packages.iter().map(info).collect()
}

/// Whether a dependency is one outside of tests and builds.
fn is_normal(dependency: &Value) -> bool {
    let kinds = dependency["dep_kinds"].as_array();
    kinds.into_iter().flatten().any(|kind| kind["kind"].is_null())
}

fn parse_lock(lock: &str) -> Result<BTreeMap<PackageId, String>> {
    let lock: toml::Table = lock.parse().context("parse Cargo.lock")?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let packages = packages.context("Cargo.lock has no packages")?;
    let checksum = |package: &toml::Value| {
        let field = |name: &str| package.get(name)?.as_str().map(str::to_owned);
        let id = PackageId { name: field("name")?, version: field("version")? };
        Some((id, field("checksum")?))
    };
    Ok(packages.iter().filter_map(checksum).collect())
}

fn text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str, version: &str) -> PackageId {
        PackageId { name: name.to_owned(), version: version.to_owned() }
    }

    #[test]
    fn a_package_tree_is_read() {
        let ours = parse_tree_line("hydrant v0.1.0 (/x/crates/hydrant)").unwrap();
        assert_eq!(ours, id("hydrant", "0.1.0"));
        assert_eq!(parse_tree_line("tokio v1.54.0 (*)").unwrap(), id("tokio", "1.54.0"));
        assert!(parse_tree_line("[dev-dependencies]").is_err());
    }

    #[test]
    fn a_known_package_is_found_by_its_source_path() {
        let program =
            b"..\0/h/registry/src/host-1/a-b-1.2.3/src/lib.rs\0/registry/src/host-1/c-1.0.0/x";
        let known = [id("a-b", "1.2.3"), id("a", "1.2.3"), id("c", "1.0.1")];
        let found = source_packages(program, known.iter());
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [id("a-b", "1.2.3")]);
    }

    #[test]
    fn a_component_has_what_its_manifest_and_the_lock_file_say() {
        let metadata = json!({
            "packages": [
                { "id": "1", "name": "a", "version": "1.0.0", "source": null },
                { "id": "2", "name": "b", "version": "2.0.0", "source": "registry", "license": "MIT / Apache-2.0" },
                { "id": "3", "name": "c", "version": "3.0.0", "source": "registry" },
            ],
            "resolve": { "nodes": [{ "id": "1", "deps": [
                { "pkg": "2", "dep_kinds": [{ "kind": null }] }, { "pkg": "3", "dep_kinds": [{ "kind": "build" }] },
            ] }] },
        });
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\
                    [[package]]\nname = \"b\"\nversion = \"2.0.0\"\nchecksum = \"12\"\n";
        let infos = parse_metadata(&metadata).unwrap();
        let packages = Packages { infos, checksums: parse_lock(lock).unwrap() };
        let ours = packages.info(&id("a", "1.0.0")).unwrap();
        assert_eq!(ours.dependencies, BTreeSet::from([id("b", "2.0.0")]));
        let component = packages.component(&id("b", "2.0.0")).unwrap();
        assert_eq!(component["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(component["hashes"][0]["content"], "12");
        assert_eq!(component["purl"], "pkg:cargo/b@2.0.0");
        assert!(packages.component(&id("a", "1.0.0")).unwrap().get("purl").is_none());
    }
}
