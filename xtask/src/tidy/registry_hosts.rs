//! Hosts of package registries. Packages are fetched by their names, with the registry's own client, so that a mirror
//! or a proxy in its settings is used. Only lock files may name a host, because the clients write them.
//!
//! Input: the text files of the repository. The hosts are assembled here from their labels, so that this file does not
//! break its own rule.

use super::source::Source;

/// Labels of the domain name of each host.
const HOSTS: &[&[&str]] = &[
    &["//crates", "io"],
    &["index", "crates", "io"],
    &["static", "crates", "io"],
    &["registry", "npmjs", "org"],
    &["registry", "yarnpkg", "com"],
    &["pypi", "org"],
    &["files", "pythonhosted", "org"],
    &["proxy", "golang", "org"],
    &["sum", "golang", "org"],
    &["repo", "maven", "apache", "org"],
    &["repo1", "maven", "org"],
    &["deb", "debian", "org"],
    &["ftp", "debian", "org"],
    &["security", "debian", "org"],
    &["snapshot", "debian", "org"],
    &["rubygems", "org"],
];

/// Files that the registries' clients write.
const LOCK_FILES: &[&str] = &["Cargo.lock", "package-lock.json", "go.sum"];

/// Returns a complaint for each line that names a host.
pub(crate) fn check(source: &Source) -> Vec<String> {
    if LOCK_FILES.iter().any(|name| source.path.ends_with(name)) {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for host in HOSTS.iter().map(|labels| labels.join(".")) {
        let lines = (1..).zip(source.text.lines()).filter(|(_, line)| line.contains(&host));
        complaints.extend(lines.map(|(number, _)| {
            format!(
                "{}:{number}: names a host of a package registry, {}; fetch the package by its name, with its client",
                source.path.display(),
                host.trim_start_matches('/')
            )
        }));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.to_owned() }
    }

    #[test]
    fn a_registry_host_outside_lock_files_is_caught() {
        for labels in HOSTS {
            let host = labels.join(".");
            let text = format!("first\nhttps://{}/a-package\n", host.trim_start_matches('/'));
            assert_eq!(check(&source("crates/x/src/lib.rs", &text)).len(), 1, "{text}");
            assert_eq!(check(&source("docs/install.md", &text)).len(), 1, "{text}");
            for lock in ["Cargo.lock", "geyser/Cargo.lock", "clients/js/package-lock.json"] {
                assert_eq!(check(&source(lock, &text)), [""; 0]);
            }
        }
    }

    #[test]
    fn registry_and_package_names_are_not_hosts() {
        let text = "as crates.io has it, from npm, PyPI and the Go module proxy\ngolang.org/x/crypto v0.0.0\n";
        assert_eq!(check(&source("README.md", text)), [""; 0]);
    }
}
