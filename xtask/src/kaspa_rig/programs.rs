//! The programs of the rig: kaspad and clients in Rust, built once outside of the repository, and hydrant.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::kaspa_rig::options::{Options, RustClientProgram};
use crate::rig::build::{build_hydrant, download, find_or_build, missing_packages};
use crate::shell::Cmd;
use crate::workspace::root;

/// The release of kaspad that is followed. Earlier ones leave out covenants, so commitments would not match.
const KASPAD_VERSION: &str = "2.1.0";
/// Debian packages that its build needs.
const DEBIAN_PACKAGES: [&str; 5] =
    ["protobuf-compiler", "libprotobuf-dev", "libclang-dev", "clang", "g++"];
/// The package with kaspa-grpc-client and kaspa-wrpc-client, and its program.
const RUST_CLIENT_DIR: &str = "clients/rust-kaspa";
const RUST_CLIENT: &str = "kaspa-client-reporter";
/// A build without the optimization of the whole program takes half the time.
const PROFILE: [(&str, &str); 3] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
];

/// Paths of the programs that the rig starts.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) kaspad: PathBuf,
    pub(crate) hydrant: PathBuf,
    pub(crate) rust_client: Option<PathBuf>,
}

/// Returns the programs that the options name, or that were built earlier, or that are built now.
pub(crate) fn find_programs(options: &Options) -> Result<Programs> {
    let kaspad = find_or_build(&options.kaspad, || build_kaspad(&options.dir))?;
    let hydrant = find_or_build(&options.hydrant, build_hydrant)?;
    let rust_client = match &options.rust_client {
        None => None,
        Some(RustClientProgram::Build) => Some(build_rust_client(&options.dir)?),
        Some(RustClientProgram::File(file)) => {
            Some(file.canonicalize().with_context(|| file.display().to_string())?)
        }
    };
    // It prints the version, and ends with 1.
    let output = Command::new(&kaspad).arg("--version").output();
    let output = output.with_context(|| format!("start {}", kaspad.display()))?;
    let version = String::from_utf8_lossy(&output.stdout);
    ensure!(
        version.trim().ends_with(KASPAD_VERSION),
        "{} is {}, not {KASPAD_VERSION}",
        kaspad.display(),
        version.trim()
    );
    Ok(Programs { kaspad, hydrant, rust_client })
}

fn build_kaspad(dir: &Path) -> Result<PathBuf> {
    let root = dir.join(format!("kaspad-{KASPAD_VERSION}"));
    let program = root.join("bin/kaspad");
    if program.exists() {
        return Ok(program);
    }
    check_debian_packages()?;
    println!("kaspad {KASPAD_VERSION} is built now: half an hour on two cores, or more");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut cmd = Cmd::new("nice").args(["-n", "19", &cargo, "install", "kaspad"]);
    cmd = cmd.args(["--version", KASPAD_VERSION, "--locked", "--features", "devnet-prealloc"]);
    cmd = cmd.args(["--root", &root.to_string_lossy()]);
    for (key, value) in PROFILE {
        cmd = cmd.env(key, value);
    }
    // Outside of the repository: its configuration of cargo does not apply to kaspad.
    fs::create_dir_all(dir)?;
    cmd.env("CARGO_TARGET_DIR", dir.join("target")).dir(dir).run()?;
    Ok(program)
}

/// Builds the clients, outside of the repository: its configuration of cargo does not apply to Kaspa's crates.
fn build_rust_client(dir: &Path) -> Result<PathBuf> {
    check_debian_packages()?;
    println!("{RUST_CLIENT} is built now, unless it was built earlier");
    let package = dir.join("rust-kaspa");
    fs::create_dir_all(package.join("src"))?;
    for file in ["Cargo.toml", "src/main.rs"] {
        let source = root().join(RUST_CLIENT_DIR).join(file);
        fs::copy(&source, package.join(file)).with_context(|| source.display().to_string())?;
    }
    // The versions of kaspad's dependencies. cargo adds those that only the clients have.
    let lock = download(dir, "kaspad", KASPAD_VERSION)?.join("Cargo.lock");
    fs::copy(&lock, package.join("Cargo.lock")).with_context(|| lock.display().to_string())?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let target = dir.join("target-client");
    let cmd = Cmd::new("nice").args(["-n", "19", &cargo, "build", "--release"]);
    cmd.env("CARGO_TARGET_DIR", &target).dir(&package).run()?;
    Ok(target.join("release").join(RUST_CLIENT))
}

fn check_debian_packages() -> Result<()> {
    let missing = missing_packages(&DEBIAN_PACKAGES);
    ensure!(
        missing.is_empty(),
        "the build of Kaspa's crates needs more of Debian: apt-get install {}",
        missing.join(" ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_have_the_version_of_kaspad() {
        let manifest = root().join(RUST_CLIENT_DIR).join("Cargo.toml");
        let manifest: toml::Table = fs::read_to_string(manifest).unwrap().parse().unwrap();
        assert_eq!(manifest["package"]["name"].as_str(), Some(RUST_CLIENT));
        let dependencies = manifest["dependencies"].as_table().unwrap();
        let versions = dependencies.iter().filter(|(name, _)| name.starts_with("kaspa-"));
        let versions: Vec<Option<&str>> = versions.map(|(_, version)| version.as_str()).collect();
        assert_eq!(versions, [Some(format!("={KASPAD_VERSION}").as_str()); 5]);
    }
}
