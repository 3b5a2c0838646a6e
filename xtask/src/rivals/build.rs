//! The rivals, built from their published packages at full optimization: level 3 for the code that serves.
//!
//! Input: `clients/rivals.txt`. Output: each program in `<package>-<version>/bin` of the directory of the tools.
//! Shape: the validator is built as for the rig, with another optimization. surfpool publishes its node as a library,
//! and no package with its program: `clients/surfpool` starts that library, with the lock file of its package.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::foreign_programs::{Tool, parse_tools, tools_dir};
use crate::rig::build::{Optimization, PACKAGE as VALIDATOR_PACKAGE, build_validator, download};
use crate::shell::Cmd;
use crate::workspace::root;

/// The rivals: package, version and program.
const RIVALS: &str = include_str!("../../../clients/rivals.txt");
/// The package of surfpool's node.
const SURFPOOL_PACKAGE: &str = "surfpool-core";

/// Builds the rivals that are not installed. The failure of one does not stop the build of the other.
pub(crate) fn build_all() -> Result<()> {
    let mut failed = Vec::new();
    for rival in rivals()? {
        match install(&rival) {
            Ok(file) => println!("{} is installed", file.display()),
            Err(err) => failed.push(format!("{}: {err:#}", rival.program)),
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

/// Reads the list of rivals in `clients/rivals.txt`.
pub(super) fn rivals() -> Result<Vec<Tool>> {
    parse_tools(RIVALS).context("clients/rivals.txt")
}

/// Returns the validator, or `None` if it is not installed.
pub(crate) fn find_validator() -> Result<Option<PathBuf>> {
    let rivals = rivals()?;
    let validator = rivals.iter().find(|rival| rival.package == VALIDATOR_PACKAGE);
    let file = validator.context("clients/rivals.txt has no validator")?.file(&tools_dir()?);
    Ok(file.is_file().then_some(file))
}

/// Returns the program of a rival, after building it if it is not installed.
pub(super) fn install(rival: &Tool) -> Result<PathBuf> {
    let dir = tools_dir()?;
    let file = rival.file(&dir);
    if file.exists() {
        return Ok(file);
    }
    let work = dir.join("rivals");
    fs::create_dir_all(&work).with_context(|| work.display().to_string())?;
    let program = match rival.package {
        VALIDATOR_PACKAGE => build_validator(&work, Optimization::Serving)?,
        SURFPOOL_PACKAGE => build_surfpool(&work, rival)?,
        package => bail!("clients/rivals.txt: no way to build the package {package}"),
    };
    let bin = file.parent().context("a program without a directory")?;
    fs::create_dir_all(bin).with_context(|| bin.display().to_string())?;
    fs::copy(&program, &file).with_context(|| program.display().to_string())?;
    Ok(file)
}

/// Builds the package `clients/surfpool`, outside of the repository: its configuration of cargo does not apply there.
fn build_surfpool(work: &Path, rival: &Tool) -> Result<PathBuf> {
    println!("{} {} is built now: half an hour on two cores", rival.package, rival.version);
    let package = work.join("surfpool");
    fs::create_dir_all(package.join("src"))?;
    for file in ["Cargo.toml", "src/main.rs"] {
        let source = root().join("clients/surfpool").join(file);
        fs::copy(&source, package.join(file)).with_context(|| source.display().to_string())?;
    }
    let library = download(work, rival.package, rival.version)?;
    let lock = library.join("Cargo.lock");
    fs::copy(&lock, package.join("Cargo.lock")).with_context(|| lock.display().to_string())?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    // Its dependencies name a newer compiler than they need. If they need it, they do not compile.
    let build = ["build", "--release", "--ignore-rust-version"];
    let cmd = Cmd::new("nice").args(["-n", "19", &cargo]).args(build);
    let target = work.join("target-surfpool");
    cmd.env("CARGO_TARGET_DIR", &target).dir(&package).run()?;
    Ok(target.join("release").join(rival.program))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::build::AGAVE_VERSION;

    #[test]
    fn the_list_names_the_versions_that_are_built() {
        let rivals = rivals().unwrap();
        let validator = rivals.iter().find(|it| it.package == VALIDATOR_PACKAGE).unwrap();
        assert_eq!(validator.version, AGAVE_VERSION);
        let surfpool = rivals.iter().find(|it| it.package == SURFPOOL_PACKAGE).unwrap();
        let manifest = fs::read_to_string(root().join("clients/surfpool/Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let version = manifest["dependencies"][SURFPOOL_PACKAGE]["version"].as_str();
        assert_eq!(version, Some(format!("={}", surfpool.version).as_str()));
        assert_eq!(manifest["package"]["name"].as_str(), Some(surfpool.program));
    }
}
