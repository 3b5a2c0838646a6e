//! The programs of the rig: kaspad, built once outside of the repository, and hydrant.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::kaspa_rig::options::Options;
use crate::rig::build::{build_hydrant, find_or_build, missing_packages};
use crate::shell::Cmd;

/// The release of kaspad that is followed. Earlier ones leave out covenants, so commitments would not match.
const KASPAD_VERSION: &str = "2.1.0";
/// Debian packages that its build needs.
const DEBIAN_PACKAGES: [&str; 5] =
    ["protobuf-compiler", "libprotobuf-dev", "libclang-dev", "clang", "g++"];
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
}

/// Returns the programs that the options name, or that were built earlier, or that are built now.
pub(crate) fn find_programs(options: &Options) -> Result<Programs> {
    let kaspad = find_or_build(&options.kaspad, || build_kaspad(&options.dir))?;
    let hydrant = find_or_build(&options.hydrant, build_hydrant)?;
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
    Ok(Programs { kaspad, hydrant })
}

fn build_kaspad(dir: &Path) -> Result<PathBuf> {
    let root = dir.join(format!("kaspad-{KASPAD_VERSION}"));
    let program = root.join("bin/kaspad");
    if program.exists() {
        return Ok(program);
    }
    let missing = missing_packages(&DEBIAN_PACKAGES);
    ensure!(
        missing.is_empty(),
        "the build of kaspad needs more of Debian: apt-get install {}",
        missing.join(" ")
    );
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
