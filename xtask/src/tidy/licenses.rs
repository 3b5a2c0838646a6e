//! The rules of `deny.toml`: allowed licences and registries, packages that may be locked twice.
//!
//! The file has the form of cargo-deny, so that tool can read it too. CI does not run cargo-deny: building
//! it takes longer than all checks of tidy together.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use toml::{Table, Value};

use crate::workspace::{Package, Workspace};

/// The rules, as `deny.toml` has them.
pub(crate) struct Policy {
    licenses: Vec<String>,
    /// Licences that one package may have and others may not, by its name.
    exceptions: BTreeMap<String, Vec<String>>,
    /// Licences of packages that state none, by name.
    clarified: BTreeMap<String, String>,
    registries: Vec<String>,
    /// Packages that may be locked in several versions.
    duplicates: Vec<String>,
}

impl Policy {
    pub(crate) fn parse(deny: &str) -> Result<Self> {
        let table: Table = deny.parse().context("parse deny.toml")?;
        Self::from_table(&table).context("deny.toml has an unknown form")
    }

    fn from_table(table: &Table) -> Option<Self> {
        let licenses = table.get("licenses")?;
        let mut exceptions = BTreeMap::new();
        for exception in entries(licenses, "exceptions") {
            exceptions.insert(text(exception, "crate")?, strings(exception.get("allow")?)?);
        }
        let mut clarified = BTreeMap::new();
        for clarify in entries(licenses, "clarify") {
            clarified.insert(text(clarify, "crate")?, text(clarify, "expression")?);
        }
        let skip = entries(table.get("bans")?, "skip");
        Some(Self {
            licenses: strings(licenses.get("allow")?)?,
            exceptions,
            clarified,
            registries: strings(table.get("sources")?.get("allow-registry")?)?,
            duplicates: skip.iter().map(|skip| text(skip, "crate")).collect::<Option<_>>()?,
        })
    }

    /// Returns the licence that `deny.toml` states for a package which states none.
    pub(crate) fn clarified_license(&self, name: &str) -> Option<&str> {
        self.clarified.get(name).map(String::as_str)
    }

    fn allows(&self, package: &Package) -> bool {
        let Some(expression) =
            package.license.as_deref().or_else(|| self.clarified_license(&package.name))
        else {
            return false;
        };
        let exceptions = self.exceptions.get(&package.name);
        is_satisfied(expression, &|licence| {
            self.licenses.iter().chain(exceptions.into_iter().flatten()).any(|one| one == licence)
        })
    }
}

/// Returns a complaint for each package that breaks the policy.
pub(crate) fn check(policy: &Policy, workspace: &Workspace) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in &workspace.packages {
        let Package { name, version, .. } = package;
        if !policy.allows(package) {
            let stated = package.license.as_deref().or(package.license_file.as_deref());
            let stated = stated.unwrap_or("none");
            complaints.push(format!("{name} {version}: licence `{stated}` is not in deny.toml"));
        }
        let Some(source) = &package.source else { continue };
        let registry_url = source.trim_start_matches("registry+");
        if !policy.registries.iter().any(|registry| registry == registry_url) {
            complaints
                .push(format!("{name} {version}: comes from {source}, which is not in deny.toml"));
        }
    }
    complaints.extend(duplicate_versions(policy, workspace));
    complaints
}

/// Returns direct dependencies that are locked in several versions. Indirect ones are not checked.
fn duplicate_versions(policy: &Policy, workspace: &Workspace) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in &workspace.packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    let is_ours = |name: &str| {
        workspace.crates.iter().flat_map(|krate| &krate.dependencies).any(|one| one.name == name)
    };
    let mut complaints = Vec::new();
    for (name, versions) in &versions {
        let is_excused = policy.duplicates.iter().any(|one| one == name);
        if versions.len() > 1 && is_ours(name) && !is_excused {
            let versions = versions.join(" and ");
            complaints.push(format!(
                "{name}: locked as {versions}; use one, or give the reason in deny.toml"
            ));
        }
        if versions.len() == 1 && is_excused {
            complaints.push(format!("deny.toml: {name} is no longer locked twice"));
        }
    }
    complaints
}

/// Whether an SPDX expression can be met: `OR` below `AND`, parentheses, `/` as an old `OR`.
fn is_satisfied(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = any(&tokens, &mut at, is_allowed);
    met && at == tokens.len()
}

fn any(tokens: &[&str], at: &mut usize, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut met = all(tokens, at, is_allowed);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all(tokens, at, is_allowed);
    }
    met
}

fn all(tokens: &[&str], at: &mut usize, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut met = one(tokens, at, is_allowed);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(tokens, at, is_allowed);
    }
    met
}

fn one(tokens: &[&str], at: &mut usize, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let Some(token) = tokens.get(*at) else { return false };
    *at += 1;
    if *token == "(" {
        let met = any(tokens, at, is_allowed);
        *at += 1; // the closing one; if it is missing, `satisfied` sees that `at` is past the end
        return met;
    }
    let mut licence = (*token).to_owned();
    if tokens.get(*at) == Some(&"WITH") {
        licence = format!("{licence} WITH {}", tokens.get(*at + 1).unwrap_or(&""));
        *at += 2;
    }
    is_allowed(&licence)
}

fn entries<'a>(table: &'a Value, key: &str) -> Vec<&'a Value> {
    table.get(key).and_then(Value::as_array).into_iter().flatten().collect()
}

fn strings(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|one| one.as_str().map(str::to_owned)).collect()
}

fn text(value: &Value, key: &str) -> Option<String> {
    Some(value.get(key)?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::workspace::{Crate, Dependency};

    const DENY: &str = r#"
[licenses]
allow = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"]
exceptions = [{ crate = "roots", allow = ["CDLA-Permissive-2.0"] }]
clarify = [{ crate = "silent", expression = "Apache-2.0" }]
[bans]
skip = [{ crate = "rand", reason = "older Solana crates" }]
[sources]
allow-registry = ["https://github.com/rust-lang/crates.io-index"]
"#;

    fn package(name: &str, version: &str, license: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            license: license.map(str::to_owned),
            license_file: None,
            source: Some("registry+https://github.com/rust-lang/crates.io-index".to_owned()),
        }
    }

    fn check_packages(packages: Vec<Package>) -> Vec<String> {
        let names = ["rand", "thiserror"];
        let dependencies = names
            .iter()
            .map(|name| Dependency {
                name: (*name).to_owned(),
                extern_name: (*name).to_owned(),
                is_dev: false,
            })
            .collect();
        let krate = Crate { name: "x".to_owned(), dir: "crates/x".into(), dependencies };
        let rands = ["0.8.5", "0.9.1"].map(|version| package("rand", version, Some("MIT")));
        let workspace = Workspace {
            root: "/".into(),
            crates: vec![krate],
            packages: packages.into_iter().chain(rands).collect(),
            measured: BTreeSet::new(),
        };
        check(&Policy::parse(DENY).unwrap(), &workspace)
    }

    #[test]
    fn allowed_licenses_pass_in_every_notation() {
        let expressions = [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/Apache-2.0",
            "MIT AND Apache-2.0",
            "(GPL-3.0 OR MIT) AND Apache-2.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ];
        for expression in expressions {
            assert_eq!(check_packages(vec![package("a", "1.0.0", Some(expression))]), [""; 0]);
        }
    }

    #[test]
    fn other_licenses_are_caught() {
        for expression in ["AGPL-3.0", "MIT AND AGPL-3.0", "(MIT OR", "", "AGPL-3.0 OR (MIT AND X)"]
        {
            assert_eq!(
                check_packages(vec![package("a", "1.0.0", Some(expression))]),
                [format!("a 1.0.0: licence `{expression}` is not in deny.toml")]
            );
        }
        assert_eq!(
            check_packages(vec![package("a", "1.0.0", None)]),
            ["a 1.0.0: licence `none` is not in deny.toml"]
        );
    }

    #[test]
    fn an_exception_and_a_clarification_hold_for_their_package_only() {
        let licence = Some("CDLA-Permissive-2.0");
        assert_eq!(check_packages(vec![package("roots", "1.0.0", licence)]), [""; 0]);
        assert_eq!(check_packages(vec![package("a", "1.0.0", licence)]).len(), 1);
        assert_eq!(check_packages(vec![package("silent", "1.0.0", None)]), [""; 0]);
    }

    #[test]
    fn a_package_from_elsewhere_is_caught() {
        let mut elsewhere = package("a", "1.0.0", Some("MIT"));
        elsewhere.source = Some("git+https://host.example/a".to_owned());
        assert_eq!(
            check_packages(vec![elsewhere]),
            ["a 1.0.0: comes from git+https://host.example/a, which is not in deny.toml"]
        );
    }

    #[test]
    fn what_we_name_is_locked_once_unless_excused() {
        let twice = |name: &str| {
            ["1.0.0", "2.0.0"].map(|version| package(name, version, Some("MIT"))).to_vec()
        };
        assert_eq!(check_packages(twice("not-named-by-us")), [""; 0]);
        assert_eq!(
            check_packages(twice("thiserror")),
            ["thiserror: locked as 1.0.0 and 2.0.0; use one, or give the reason in deny.toml"]
        );
    }
}
