//! The optimisation of dependencies for the tests and for the measured programs.
//!
//! The profile `dev` compiles dependencies as in release, because CI measures with them. Packages that only run during
//! compilation or in tests are named below `[profile.dev.package]`, and compile faster without optimisation.
//! Invariant: no package of the measured programs is named there, except those in [`UNMEASURED`].

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use toml::Table;

/// The name under which Cargo.toml has all dependencies.
const ALL: &str = "*";

/// Packages of the measured programs in which no benchmark spends time, and their purpose.
const UNMEASURED: &[(&str, &str)] = &[
    ("aho-corasick", "below regular expressions"),
    ("chrono", "the times in the responses of object stores"),
    ("clap_builder", "the command line"),
    ("regex-automata", "the filter of log lines"),
    ("regex-syntax", "the filter of log lines"),
    ("solana-poseidon", "a syscall that no benchmark calls; most of it is a table"),
    ("url", "the URLs of servers, which are parsed at the start"),
];

/// Returns the packages of the measured programs, which are in `measured`, that are not compiled as in release.
pub(crate) fn check(manifest: &str, measured: &BTreeSet<String>) -> Result<Vec<String>> {
    let manifest: Table = manifest.parse().context("parse Cargo.toml")?;
    let profile = manifest.get("profile").and_then(|profiles| profiles.get("dev"));
    let packages = profile.and_then(|dev| dev.get("package")).and_then(toml::Value::as_table);
    let packages = packages.context("Cargo.toml: no [profile.dev.package]")?;
    let named = packages.keys().map(String::as_str).filter(|name| *name != ALL);
    let wrong = named.filter(|name| {
        measured.contains(*name) && !UNMEASURED.iter().any(|(unmeasured, _)| unmeasured == name)
    });
    Ok(wrong
        .map(|name| {
            format!(
                "Cargo.toml: [profile.dev.package] names `{name}`, which is part of the measured programs; see \
                 xtask/src/tidy/profiles.rs"
            )
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[profile.dev.package.\"*\"]\nopt-level = 3\n[profile.dev.package]\n";

    fn check_with(named: &str) -> Vec<String> {
        let measured = ["hyper", "regex-syntax"].map(str::to_owned).into();
        check(&format!("{MANIFEST}{named} = {{ opt-level = 0 }}\n"), &measured).unwrap()
    }

    #[test]
    fn a_macro_and_a_package_that_no_benchmark_uses_may_be_unoptimised() {
        assert_eq!(check_with("syn"), [""; 0]);
        assert_eq!(check_with("regex-syntax"), [""; 0]);
    }

    #[test]
    fn a_measured_package_that_is_unoptimised_is_caught() {
        assert_eq!(
            check_with("hyper"),
            [
                "Cargo.toml: [profile.dev.package] names `hyper`, which is part of the measured programs; see \
              xtask/src/tidy/profiles.rs"
            ]
        );
    }

    #[test]
    fn a_manifest_without_the_profile_is_an_error() {
        assert!(check("[profile.release]\ndebug = false\n", &BTreeSet::new()).is_err());
    }
}
