//! The metadata for `cargo binstall`, against the names of the tarball and of its files.
//!
//! Shape: the templates are filled in here with the values that `cargo binstall` documents. If this machine has the
//! program (1.22 or newer), it installs the tarball from the loopback address.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::dist::check::file_server::FileServer;
use crate::dist::check::skipped_checks::SkippedChecks;
use crate::dist::file_tree::FileTree;
use crate::dist::packages::PackageSources;
use crate::dist::program::{Architecture, VERSION};
use crate::shell::Cmd;
use crate::workspace::root;

/// The crate with the metadata.
const MANIFEST: &str = "crates/hydrant/Cargo.toml";
/// Value of `{ repo }` in the templates.
const REPOSITORY: &str = "https://host.example/owner/hydrant";
/// Format of a `.tar.gz` in the templates.
const FORMAT: &str = "tgz";
/// The flag with which the program downloads from the loopback address.
const PLAIN_HTTP: &str = "--allow-insecure-http";

/// The table `package.metadata.binstall`.
#[derive(Debug)]
struct Metadata {
    url: String,
    program: String,
    format: String,
}

/// Checks the metadata with the tarball, which has been unpacked in `scratch`.
pub(crate) fn check(
    sources: &PackageSources,
    packages: &FileTree,
    scratch: &Path,
    skipped: &mut SkippedChecks,
) -> Result<()> {
    let manifest = fs::read_to_string(root().join(MANIFEST)).context(MANIFEST)?;
    let metadata = Metadata::parse(&manifest).with_context(|| format!("{MANIFEST}: binstall"))?;
    let architecture = sources.program.architecture;
    let url = fill_in(&metadata.url, REPOSITORY, architecture)?;
    let released = format!("{REPOSITORY}/releases/download/v{VERSION}/{}", sources.tarball_name());
    ensure!(url == released, "binstall downloads {url}, and the release has {released}");
    ensure!(metadata.format == FORMAT, "binstall unpacks {}", metadata.format);
    let program = scratch.join(fill_in(&metadata.program, REPOSITORY, architecture)?);
    let version = Cmd::new(&program.to_string_lossy()).args(["--version"]).output()?;
    ensure!(version.trim() == format!("hydrant {VERSION}"), "{version}");
    println!("binstall metadata: names the tarball, and the program in it");

    let help = Cmd::new("cargo-binstall").args(["--help"]).output();
    if !help.is_ok_and(|help| help.contains(PLAIN_HTTP)) {
        skipped.add("cargo-binstall", "this machine does not have version 1.22 or newer");
        return Ok(());
    }
    install(&metadata, packages, &scratch.join("binstall"))
}

/// Runs `cargo binstall` itself.
fn install(metadata: &Metadata, packages: &FileTree, dir: &Path) -> Result<()> {
    let server = FileServer::bind()?;
    let url = metadata.url.replace("{ repo }", &server.url());
    server.serve(packages);
    fs::create_dir_all(dir)?;
    let [manifest, bin] = [root().join(MANIFEST), dir.to_owned()];
    Cmd::new("cargo-binstall")
        .args(["--manifest-path", &manifest.to_string_lossy(), "--pkg-url", &url])
        .args(["--install-path", &bin.to_string_lossy(), "--no-track", "--no-confirm"])
        .args([PLAIN_HTTP, "--disable-telemetry", "hydrant"])
        .run()?;
    let program = bin.join("hydrant");
    let version = Cmd::new(&program.to_string_lossy()).args(["--version"]).output()?;
    ensure!(version.trim() == format!("hydrant {VERSION}"), "{version}");
    println!("cargo-binstall: installed, and the program starts");
    Ok(())
}

impl Metadata {
    fn parse(manifest: &str) -> Result<Self> {
        let manifest: toml::Table = manifest.parse()?;
        let table = manifest.get("package").and_then(|package| package.get("metadata"));
        let table = table.and_then(|metadata| metadata.get("binstall")).context("no table")?;
        let value = |name: &str| {
            let value = table.get(name).and_then(toml::Value::as_str);
            value.map(str::to_owned).with_context(|| format!("no {name}"))
        };
        Ok(Self { url: value("pkg-url")?, program: value("bin-dir")?, format: value("pkg-fmt")? })
    }
}

/// Replaces the variables of a template.
fn fill_in(template: &str, repository: &str, architecture: Architecture) -> Result<String> {
    let values = [
        ("repo", repository),
        ("name", "hydrant"),
        ("version", VERSION),
        ("bin", "hydrant"),
        ("binary-ext", ""),
        ("target", &architecture.target()),
        ("target-arch", architecture.uname),
    ];
    let filled_in = values.iter().fold(template.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{ {name} }}"), value)
    });
    ensure!(!filled_in.contains(['{', '}']), "an unknown variable is left: {filled_in}");
    Ok(filled_in)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::program::ARCHITECTURES;

    #[test]
    fn variables_are_filled_in_and_unknown_ones_refused() {
        let [_, arm] = ARCHITECTURES;
        let fill_in = |template| fill_in(template, "r", arm);
        assert_eq!(fill_in("{ repo }/{ bin }{ binary-ext }").unwrap(), "r/hydrant");
        assert_eq!(fill_in("{ target-arch }").unwrap(), "aarch64");
        assert_eq!(fill_in("{ target }").unwrap(), "aarch64-unknown-linux-gnu");
        assert!(fill_in("{ libc }").unwrap_err().to_string().contains("{ libc }"));
    }

    #[test]
    fn metadata_without_the_program_s_path_is_refused() {
        let manifest = "[package.metadata.binstall]\npkg-url = \"u\"\npkg-fmt = \"tgz\"\n";
        assert!(Metadata::parse(manifest).unwrap_err().to_string().contains("bin-dir"));
    }
}
