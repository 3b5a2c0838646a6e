//! The programs of the rig, built if they are not there.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::rig::options::Options;
use crate::shell::{Cmd, cargo};
use crate::workspace::{root, target_dir};

/// The release of Agave whose interface the plugin has.
const AGAVE_VERSION: &str = "4.2.2";
/// What its build needs of Debian.
const DEBIAN_PACKAGES: [&str; 5] =
    ["clang", "libclang-dev", "libudev-dev", "protobuf-compiler", "libssl-dev"];
/// A build without the optimization of the whole program takes half the time.
const PROFILE: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "2"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
];

/// What runs.
pub(crate) struct Programs {
    pub(crate) validator: PathBuf,
    pub(crate) plugin: PathBuf,
    pub(crate) hydrant: PathBuf,
}

/// The programs that the options name, or that were built earlier, or that are built now.
pub(crate) fn programs(options: &Options) -> Result<Programs> {
    let validator = named(&options.validator, || validator(&options.dir))?;
    let plugin = named(&options.plugin, || plugin(&options.dir))?;
    let hydrant = named(&options.hydrant, || {
        cargo().args(["build", "--release", "--bin", "hydrant"]).dir(&root()).run()?;
        Ok(target_dir().join("release/hydrant"))
    })?;
    Ok(Programs { validator, plugin, hydrant })
}

fn named(file: &Option<PathBuf>, build: impl FnOnce() -> Result<PathBuf>) -> Result<PathBuf> {
    let file = file.clone().map_or_else(build, Ok)?;
    ensure!(file.exists(), "{} is not there", file.display());
    file.canonicalize().with_context(|| file.display().to_string())
}

/// `solana-test-validator`, from the package `agave-validator` of crates.io and with the versions of its lock file.
fn validator(dir: &Path) -> Result<PathBuf> {
    let program = dir.join("bin/solana-test-validator");
    if program.exists() {
        return Ok(program);
    }
    let missing = missing_packages();
    ensure!(
        missing.is_empty(),
        "the validator's build needs more of Debian: apt-get install {}",
        missing.join(" ")
    );
    println!(
        "solana-test-validator {AGAVE_VERSION} is built now: an hour, or several on a slow machine"
    );
    let name = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut cmd = Cmd::new("nice").args(["-n", "19", &name, "install", "agave-validator"]);
    cmd = cmd.args(["--version", AGAVE_VERSION, "--locked", "--bin", "solana-test-validator"]);
    cmd = cmd.args(["--root", &dir.to_string_lossy()]);
    for (key, value) in PROFILE {
        cmd = cmd.env(key, value);
    }
    cmd.env("CARGO_TARGET_DIR", dir.join("target")).dir(dir).run()?;
    Ok(program)
}

/// Debian's packages that are not installed. None where there is no dpkg.
fn missing_packages() -> Vec<&'static str> {
    let status =
        |package: &str| Cmd::new("dpkg-query").args(["-W", "-f=${Status}", package]).output();
    if Cmd::new("dpkg-query").args(["--version"]).output().is_err() {
        return Vec::new();
    }
    let is_missing = |package: &&&str| {
        !status(package).is_ok_and(|status| status.trim() == "install ok installed")
    };
    DEBIAN_PACKAGES.iter().filter(is_missing).copied().collect()
}

/// The plugin, by the same rustc as the validator.
fn plugin(dir: &Path) -> Result<PathBuf> {
    let (manifest, target) = (root().join("geyser/Cargo.toml"), dir.join("target-plugin"));
    cargo()
        .args(["build", "--release", "--locked", "--manifest-path", &manifest.to_string_lossy()])
        .args(["--target-dir", &target.to_string_lossy()])
        .run()?;
    Ok(target.join("release/libhydrant_geyser.so"))
}
