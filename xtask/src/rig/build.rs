//! The programs of the rig, built if they are not there.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::rig::options::Options;
use crate::rig::system_libraries;
use crate::shell::{Cmd, cargo};
use crate::workspace::{root, target_dir};

/// The release of Agave whose interface the plugin has.
const AGAVE_VERSION: &str = "4.2.2";
/// The program of its package that the rig runs.
const VALIDATOR: &str = "solana-test-validator";
/// What its build needs of Debian.
const DEBIAN_PACKAGES: [&str; 8] = [
    "clang",
    "libclang-dev",
    "libudev-dev",
    "protobuf-compiler",
    "libssl-dev",
    "pkg-config",
    "cmake",
    "librocksdb-dev",
];
/// Its slowest packages to be optimized: their own code does little work beside that of others.
const UNOPTIMIZED: [&str; 4] = ["solana-core", "solana-rpc", "solana-ledger", "solana-gossip"];
/// A build without the optimization of the whole program takes half the time.
const PROFILE: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "2"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
];

/// What runs.
#[derive(Clone)]
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
    let program = dir.join("target/release").join(VALIDATOR);
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
        "{VALIDATOR} {AGAVE_VERSION} is built now: a quarter of an hour on two quick cores, or more"
    );
    let name = format!("agave-validator-{AGAVE_VERSION}");
    let package = dir.join(&name);
    if !package.exists() {
        let file = format!("{name}.crate");
        let url = format!("https://static.crates.io/crates/agave-validator/{file}");
        Cmd::new("curl").args(["-sSfL", "-o", &file, &url]).dir(dir).run()?;
        Cmd::new("tar").args(["xf", &file]).dir(dir).run()?;
    }
    let protoc = system_libraries::protoc_package(dir)?;
    let mut config = vec![format!("patch.crates-io.protobuf-src.path={protoc:?}")];
    config.extend(UNOPTIMIZED.map(|it| format!("profile.release.package.{it}.opt-level=0")));
    let config: Vec<String> =
        config.into_iter().flat_map(|it| ["--config".to_owned(), it]).collect();
    let manifest = package.join("Cargo.toml");
    let functions = system_libraries::missing_functions(dir, &manifest, &config)?;
    let name = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut cmd = Cmd::new("nice").args(["-n", "19", &name, "rustc", "--release"]);
    cmd = cmd.args(["--bin", VALIDATOR]).args(config);
    cmd = cmd.args(["--", "-C", &format!("link-arg={}", functions.display())]);
    for (key, value) in PROFILE {
        cmd = cmd.env(key, value);
    }
    cmd = cmd.env("ROCKSDB_LIB_DIR", system_libraries::LIBRARY_DIR);
    // In its directory: the lock file there is its own.
    cmd.env("CARGO_TARGET_DIR", dir.join("target")).dir(&package).run()?;
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
