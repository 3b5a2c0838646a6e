//! Rules for dependencies: a reason for each, none forbidden, none unused.

use super::source::Source;
use crate::workspace::{Crate, Package};

/// Packages that must not be locked at all, and why.
const FORBIDDEN: &[(&str, &str)] = &[
    ("openssl", "needs a system library; use rustls and ring"),
    ("openssl-sys", "needs a system library; use rustls and ring"),
    ("native-tls", "leads to OpenSSL"),
    ("rocksdb", "minutes of C++; use fjall or redb"),
    ("librocksdb-sys", "minutes of C++; use fjall or redb"),
    ("bindgen", "needs libclang"),
    ("protobuf-src", "needs protoc"),
    ("aws-lc-sys", "a second TLS core besides ring"),
];

/// Returns the lines of `[workspace.dependencies]` without a reason.
///
/// A reason is a comment above the line or above its group. It covers the lines up to the next empty line.
pub(crate) fn without_reason(manifest: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut is_inside = false;
    let mut has_reason = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_inside = line == "[workspace.dependencies]";
            has_reason = false;
        } else if line.trim().is_empty() {
            has_reason = false;
        } else if line.starts_with('#') {
            has_reason = true;
        } else if is_inside && !has_reason && !line.contains(" # ") && line.contains('=') {
            let name = line.split('=').next().unwrap_or(line).trim();
            complaints.push(format!("Cargo.toml: no comment gives the reason for `{name}`"));
        }
    }
    complaints
}

/// Returns a complaint for each forbidden package that is locked.
pub(crate) fn forbidden(packages: &[Package]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, reason) in FORBIDDEN {
        if packages.iter().any(|package| package.name == *name) {
            complaints.push(format!("Cargo.lock: `{name}` must not be there: {reason}"));
        }
    }
    complaints
}

/// Returns the dependencies of a crate that no line of its code names.
///
/// A dependency that is needed only for its features is listed under `[package.metadata.unused]` in the
/// crate's own manifest, with its reason: `name = "reason"`.
pub(crate) fn find_unused<'a>(
    krate: &Crate,
    manifest: &str,
    code: impl Iterator<Item = &'a Source>,
) -> Vec<String> {
    let excused: toml::Table = manifest.parse().unwrap_or_default();
    let excused = &excused["package"].get("metadata").and_then(|metadata| metadata.get("unused"));
    let code: Vec<&str> = code.map(|source| source.text.as_str()).collect();
    let mut complaints = Vec::new();
    for dependency in &krate.dependencies {
        let is_named = code.iter().any(|text| names(text, &dependency.extern_name));
        let is_excused = excused.is_some_and(|excused| excused.get(&dependency.name).is_some());
        if !is_named && !is_excused {
            let path = krate.dir.join("Cargo.toml");
            complaints.push(format!("{}: `{}` is not used", path.display(), dependency.name));
        }
    }
    complaints
}

/// Whether code names `name` at the start of a path or in a `use`.
fn names(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.lines().filter(|line| !line.trim_start().starts_with("//")).any(|line| {
        line.match_indices(name).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = &line[at + name.len()..];
            let is_path = after.starts_with("::")
                || (line.trim_start().starts_with("use ") && !after.starts_with(is_part))
                || (line.contains("extern crate ") && !after.starts_with(is_part));
            !before.is_some_and(is_part) && is_path
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    #[test]
    fn a_dependency_without_a_reason_is_caught() {
        let manifest = "\
[workspace.dependencies]
# The house.
ledger = { path = \"crates/ledger\" }
state = { path = \"crates/state\" }

bare = \"1\"
inline = \"1\" # says why
[profile.dev]
opt-level = 1
";
        assert_eq!(
            without_reason(manifest),
            ["Cargo.toml: no comment gives the reason for `bare`"]
        );
    }

    #[test]
    fn a_forbidden_package_is_caught() {
        let package = |name: &str| Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: None,
            license_file: None,
            source: None,
        };
        assert_eq!(forbidden(&[package("rustls"), package("ring")]), [""; 0]);
        assert_eq!(
            forbidden(&[package("openssl-sys"), package("bindgen")]),
            [
                "Cargo.lock: `openssl-sys` must not be there: needs a system library; use rustls and ring",
                "Cargo.lock: `bindgen` must not be there: needs libclang",
            ]
        );
    }

    fn unused_in(manifest: &str, code: &str) -> Vec<String> {
        let krate = Crate {
            name: "x".to_owned(),
            dir: "crates/x".into(),
            dependencies: vec![Dependency {
                name: "serde-json".to_owned(),
                extern_name: "serde_json".to_owned(),
                is_dev: false,
            }],
        };
        let source = Source { path: "crates/x/src/lib.rs".into(), text: code.to_owned() };
        find_unused(&krate, manifest, [source].iter())
    }

    #[test]
    fn an_unused_dependency_is_caught() {
        let manifest = "[package]\nname = \"x\"\n";
        let complaint = ["crates/x/Cargo.toml: `serde-json` is not used"];
        assert_eq!(unused_in(manifest, "//! X, with serde_json::Value.\n"), complaint);
        assert_eq!(unused_in(manifest, "use my_serde_json::Value;\n"), complaint);
        assert_eq!(unused_in(manifest, "use serde_json as json;\n"), [""; 0]);
        assert_eq!(unused_in(manifest, "fn f() -> serde_json::Value {}\n"), [""; 0]);
    }

    #[test]
    fn a_dependency_for_its_features_alone_says_so() {
        let manifest = "\
[package]
name = \"x\"
[package.metadata.unused]
serde-json = \"switches raw_value on for y\"
";
        assert_eq!(unused_in(manifest, "//! X.\n"), [""; 0]);
    }
}
