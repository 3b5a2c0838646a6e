//! The programs of the rig, built if they are not there. `cargo xtask tools --rivals` builds the same validator with
//! another optimization.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::rig::options::Options;
use crate::rig::system_libraries;
use crate::shell::{Cmd, cargo};
use crate::workspace::{CLUSTER_FEATURE_ARGS, root, target_dir};

/// The release of Agave that defines the plugin's interface.
pub(crate) const AGAVE_VERSION: &str = "4.2.2";
/// The package of the validator.
pub(crate) const PACKAGE: &str = "agave-validator";
/// The program of its package that is a cluster of its own.
const TEST_VALIDATOR: &str = "solana-test-validator";
/// The program of its package that is a node of a cluster.
const VALIDATOR: &str = "agave-validator";
/// The program, and its package, that makes the genesis of a cluster.
const GENESIS: &str = "solana-genesis";
/// Debian packages that the validator's build needs.
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
/// Its slowest packages to be optimized: their own code does little work compared with that of others.
const UNOPTIMIZED: [&str; 4] = ["solana-core", "solana-rpc", "solana-ledger", "solana-gossip"];
/// Its packages that execute transactions and serve requests: they decide about a comparison of speed.
const SERVING: [&str; 8] = [
    "solana-core",
    "solana-rpc",
    "solana-ledger",
    "solana-gossip",
    "solana-runtime",
    "solana-accounts-db",
    "solana-transaction-status",
    "solana-account-decoder",
];
/// A build without the optimization of the whole program takes half the time.
const PROFILE: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "2"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
];

/// The optimization of the validator's packages. All others have level 2.
#[derive(Clone, Copy)]
pub(crate) enum Optimization {
    /// None for the slowest packages: the validator of the rig is compared by its responses only.
    ShortBuild,
    /// Level 3 for the packages that serve: the validator is compared by its speed.
    Serving,
}

impl Optimization {
    /// Returns settings for cargo's option `--config`.
    fn config(self) -> Vec<String> {
        let level = |packages: &[&str], level: u8| {
            let setting = |it: &&str| format!("profile.release.package.{it}.opt-level={level}");
            packages.iter().map(setting).collect()
        };
        match self {
            Self::ShortBuild => level(&UNOPTIMIZED, 0),
            Self::Serving => level(&SERVING, 3),
        }
    }
}

/// Paths of the programs that the rig starts.
#[derive(Clone)]
pub(crate) struct Programs {
    pub(crate) validator: ValidatorPrograms,
    pub(crate) plugin: PathBuf,
    pub(crate) hydrant: PathBuf,
}

/// Programs of the validators.
#[derive(Clone)]
pub(crate) enum ValidatorPrograms {
    Single(PathBuf),
    Cluster { validator: PathBuf, genesis: PathBuf },
}

/// Returns the programs that the options name, or that were built earlier, or that are built now.
pub(crate) fn programs(options: &Options) -> Result<Programs> {
    let optimization = Optimization::ShortBuild;
    let validator = |program| {
        find_or_build(&options.validator, || {
            build_program(&options.dir, PACKAGE, program, optimization)
        })
    };
    let validator = if options.is_cluster {
        ValidatorPrograms::Cluster {
            validator: validator(VALIDATOR)?,
            genesis: find_or_build(&options.genesis, || {
                build_program(&options.dir, GENESIS, GENESIS, optimization)
            })?,
        }
    } else {
        ValidatorPrograms::Single(validator(TEST_VALIDATOR)?)
    };
    let plugin = find_or_build(&options.plugin, || plugin(&options.dir))?;
    let hydrant = find_or_build(&options.hydrant, build_hydrant)?;
    Ok(Programs { validator, plugin, hydrant })
}

/// Builds `hydrant` of this repository, with the commands of a replicated log.
pub(crate) fn build_hydrant() -> Result<PathBuf> {
    let build = cargo().args(["build", "--release", "--bin", "hydrant"]).args(CLUSTER_FEATURE_ARGS);
    build.dir(&root()).run()?;
    Ok(target_dir().join("release/hydrant"))
}

/// Returns the absolute path of the program that an option names, or else of the one that is built.
pub(crate) fn find_or_build(
    file: &Option<PathBuf>,
    build: impl FnOnce() -> Result<PathBuf>,
) -> Result<PathBuf> {
    let file = file.clone().map_or_else(build, Ok)?;
    ensure!(file.exists(), "{} is not there", file.display());
    file.canonicalize().with_context(|| file.display().to_string())
}

/// Builds `solana-test-validator`.
pub(crate) fn build_validator(dir: &Path, optimization: Optimization) -> Result<PathBuf> {
    build_program(dir, PACKAGE, TEST_VALIDATOR, optimization)
}

/// Builds a program from its published package, with the versions of the package's lock file.
fn build_program(
    dir: &Path,
    package_name: &str,
    program_name: &str,
    optimization: Optimization,
) -> Result<PathBuf> {
    let program = dir.join("target/release").join(program_name);
    if program.exists() {
        return Ok(program);
    }
    let missing = missing_packages(&DEBIAN_PACKAGES);
    ensure!(
        missing.is_empty(),
        "the validator's build needs more of Debian: apt-get install {}",
        missing.join(" ")
    );
    println!(
        "{program_name} {AGAVE_VERSION} is built now: a quarter of an hour on two quick cores, or more; half an \
         hour as a rival"
    );
    let package = package(dir, package_name)?;
    let protoc = system_libraries::protoc_package(dir)?;
    let mut config = vec![format!("patch.crates-io.protobuf-src.path={protoc:?}")];
    config.extend(optimization.config());
    let config: Vec<String> =
        config.into_iter().flat_map(|it| ["--config".to_owned(), it]).collect();
    let manifest = package.join("Cargo.toml");
    let functions = system_libraries::missing_functions(dir, &manifest, &config)?;
    let name = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut cmd = Cmd::new("nice").args(["-n", "19", &name, "rustc", "--release"]);
    cmd = cmd.args(["--bin", program_name]).args(config);
    cmd = cmd.args(["--", "-C", &format!("link-arg={}", functions.display())]);
    for (key, value) in PROFILE {
        cmd = cmd.env(key, value);
    }
    cmd = cmd.env("ROCKSDB_LIB_DIR", system_libraries::LIBRARY_DIR);
    // In its directory: the lock file there is its own.
    cmd.env("CARGO_TARGET_DIR", dir.join("target")).dir(&package).run()?;
    Ok(program)
}

/// Returns the directory of a package: a copy of cargo's download. The build happens in it, with the lock file of the
/// package.
fn package(dir: &Path, name: &str) -> Result<PathBuf> {
    let package = dir.join(format!("{name}-{AGAVE_VERSION}"));
    if package.exists() {
        return Ok(package);
    }
    let downloaded = download(dir, name, AGAVE_VERSION)?;
    let partial = dir.join("partial-package");
    let [from, to] = [&downloaded, &partial].map(|path| path.to_string_lossy());
    Cmd::new("rm").args(["-rf", &to]).run()?;
    Cmd::new("cp").args(["-r", &from, &to]).run()?;
    fs::rename(&partial, &package)?;
    Ok(package)
}

/// Lets cargo download a package, as a dependency of a package that has nothing else. Returns where cargo has it.
pub(crate) fn download(dir: &Path, package: &str, version: &str) -> Result<PathBuf> {
    let dependent = dir.join("download");
    fs::create_dir_all(dependent.join("src"))?;
    fs::write(dependent.join("src/lib.rs"), "")?;
    let manifest = dependent.join("Cargo.toml");
    fs::write(&manifest, manifest_with(package, version))?;
    let args = ["metadata", "--format-version", "1", "--manifest-path"];
    let metadata = cargo().args(args).args([manifest.to_string_lossy()]).dir(dir).output()?;
    manifest_path(&serde_json::from_str(&metadata)?, package)
        .and_then(|path| Some(path.parent()?.to_owned()))
        .with_context(|| format!("cargo has no source of {package}"))
}

/// Returns a manifest that depends on a package.
fn manifest_with(package: &str, version: &str) -> String {
    format!(
        "[package]\nname = \"download\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n{package} = \"={version}\"\n\n[workspace]\n"
    )
}

/// Finds the manifest of a package in the output of `cargo metadata`.
fn manifest_path(metadata: &Value, name: &str) -> Option<PathBuf> {
    let packages = metadata["packages"].as_array()?;
    let package = packages.iter().find(|package| package["name"] == name)?;
    package["manifest_path"].as_str().map(PathBuf::from)
}

/// Returns those of Debian's packages that are not installed, or an empty list if the machine has no dpkg.
pub(crate) fn missing_packages(packages: &[&'static str]) -> Vec<&'static str> {
    let status =
        |package: &str| Cmd::new("dpkg-query").args(["-W", "-f=${Status}", package]).output();
    if Cmd::new("dpkg-query").args(["--version"]).output().is_err() {
        return Vec::new();
    }
    let is_missing = |package: &&&str| {
        !status(package).is_ok_and(|status| status.trim() == "install ok installed")
    };
    packages.iter().filter(is_missing).copied().collect()
}

/// Returns the directory of the published programs: in the `litesvm` crate that the workspace uses.
pub(crate) fn program_dir() -> Result<PathBuf> {
    let text =
        cargo().args(["metadata", "--format-version", "1", "--locked"]).dir(&root()).output()?;
    let metadata: Value = serde_json::from_str(&text)?;
    let manifest = manifest_path(&metadata, "litesvm").context("no litesvm")?;
    Ok(manifest.with_file_name("src").join("programs/elf"))
}

/// Builds the plugin with the same rustc as the validator.
fn plugin(dir: &Path) -> Result<PathBuf> {
    let manifest = root().join("geyser/Cargo.toml");
    let target = dir.join("target-plugin");
    cargo()
        .args(["build", "--release", "--locked", "--manifest-path", &manifest.to_string_lossy()])
        .args(["--target-dir", &target.to_string_lossy()])
        .run()?;
    Ok(target.join("release/libhydrant_geyser.so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rival_is_optimized_and_the_rigs_validator_is_not() {
        let rival = Optimization::Serving.config();
        assert!(rival.contains(&"profile.release.package.solana-rpc.opt-level=3".to_owned()));
        assert_eq!(rival.len(), SERVING.len());
        let short = Optimization::ShortBuild.config();
        assert!(short.contains(&"profile.release.package.solana-rpc.opt-level=0".to_owned()));
    }

    #[test]
    fn a_package_is_found_in_what_cargo_downloaded() {
        let text = manifest_with(PACKAGE, AGAVE_VERSION);
        let manifest: toml::Table = text.parse().expect("a manifest");
        assert_eq!(manifest["dependencies"][PACKAGE].as_str(), Some("=4.2.2"));
        let path = "/registry/agave-validator-4.2.2/Cargo.toml";
        let metadata = serde_json::json!({ "packages": [
            { "name": "download", "manifest_path": "/rig/download/Cargo.toml" },
            { "name": PACKAGE, "manifest_path": path },
        ] });
        assert_eq!(manifest_path(&metadata, PACKAGE), Some(PathBuf::from(path)));
        assert_eq!(manifest_path(&metadata, "another"), None);
    }
}
