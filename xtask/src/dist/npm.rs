//! The npm packages: a launcher, and for each platform one package with the program.
//!
//! Input: the program, and where releases are. Output: tarballs for `npm install FILE` and `npx --package URL`.
//! Shape: the packages of the platforms are optional dependencies of the launcher. npm installs the one whose `os`,
//! `cpu` and `libc` are those of the machine. No package has a script that runs during installation.
//! Invariant: with a release, no dependency is looked up by its name, which may belong to other people in a registry.
//! Without one, the only dependency is the package of this platform, which is installed together with the launcher.

use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::dist::file_tree::{FileTree, gzip};
use crate::dist::installed_files::{license, packaging};
use crate::dist::program::{ARCHITECTURES, Architecture, VERSION};

/// The package that users name, and the name of its command.
pub(crate) const LAUNCHER: &str = "hydrant";
/// The only directory at the root of a tarball.
const TARBALL_DIR: &str = "package/";
/// Oldest Node.js that the launcher is written for.
const NODE_VERSION: &str = ">=18";

/// Returns the name of the package with the program for a processor.
pub(crate) fn platform_name(architecture: Architecture) -> String {
    format!("{LAUNCHER}-linux-{}", architecture.node)
}

/// Returns the name of the tarball of a package, as `npm pack` names it.
pub(crate) fn file_name(package: &str) -> String {
    format!("{package}-{VERSION}.tgz")
}

/// Returns the tarball of the launcher. `platform` is that of the program that is packaged.
pub(crate) fn launcher(
    platform: Architecture,
    release_url: Option<&str>,
    time: u64,
) -> Result<Vec<u8>> {
    let mut files = FileTree::default();
    files.insert_program("bin/hydrant.js", packaging("npm/hydrant.js")?);
    files.insert_file("README.md", packaging("npm/README.md")?);
    let own = json!({
        "bin": { LAUNCHER: "bin/hydrant.js" },
        "engines": { "node": NODE_VERSION },
        "optionalDependencies": platforms(platform, release_url),
    });
    tarball(files, LAUNCHER, own, time)
}

/// Returns the tarball of the package with a program.
pub(crate) fn platform(platform: Architecture, program: &[u8], time: u64) -> Result<Vec<u8>> {
    let mut files = FileTree::default();
    files.insert_program("bin/hydrant", program);
    // Yarn stores packages in archives, from which no program can be started.
    let own = json!({ "cpu": [platform.node], "libc": ["glibc"], "preferUnplugged": true });
    tarball(files, &platform_name(platform), own, time)
}

/// Returns the optional dependencies of the launcher.
fn platforms(platform: Architecture, release_url: Option<&str>) -> Map<String, Value> {
    let Some(url) = release_url else {
        return Map::from_iter([(platform_name(platform), VERSION.into())]);
    };
    let names = ARCHITECTURES.map(platform_name);
    let packages = names.map(|name| {
        let url = format!("{url}/v{VERSION}/{}", file_name(&name));
        (name, url.into())
    });
    packages.into_iter().collect()
}

fn tarball(mut files: FileTree, name: &str, own: Value, time: u64) -> Result<Vec<u8>> {
    let mut manifest = json!({
        "name": name,
        "version": VERSION,
        "description": "Read node for Solana ledgers, and a local Solana ledger for tests",
        "license": "Apache-2.0",
        "os": ["linux"],
    });
    if let (Value::Object(manifest), Value::Object(own)) = (&mut manifest, own) {
        manifest.extend(own);
    }
    files.insert_file("package.json", format!("{manifest:#}\n").into_bytes());
    files.insert_file("LICENSE", license()?);
    let mut archive = FileTree::default();
    archive.insert_tree(TARBALL_DIR, &files);
    gzip(&archive.tar(time)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_launcher_names_no_registry_package() {
        let [x64, _] = ARCHITECTURES;
        let url = "https://host.example/releases/download";
        let released = platforms(x64, Some(url));
        let spec = |name: &str| format!("{url}/v{VERSION}/{name}-{VERSION}.tgz");
        let [first, second] = ["hydrant-linux-arm64", "hydrant-linux-x64"];
        assert_eq!(Value::Object(released), json!({ first: spec(first), second: spec(second) }));
        let local = Value::Object(platforms(x64, None));
        assert_eq!(local, json!({ "hydrant-linux-x64": VERSION }));
    }
}
