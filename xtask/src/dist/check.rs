//! Installs and runs each package, as far as this machine allows.
//!
//! Shape: everything happens below a scratch directory, and nothing on the machine is changed. The Debian package is
//! installed in an overlay of the machine's root, and the image is started in a root of its own. Both need mounts, so
//! they are in a process with its own mounts, which end with it.
//! Invariant: a check that could not be run is printed with the reason, and listed again at the end.

mod action;
mod binstall;
mod container;
mod debian_install;
mod file_server;
mod materials;
mod npm_install;
mod running_node;
mod scripted_install;
mod skipped_checks;
mod tarball;
mod wheel_install;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use self::skipped_checks::SkippedChecks;
use crate::dist::debian;
use crate::dist::file_tree::FileTree;
use crate::dist::packages::PackageSources;
use crate::dist::program::VERSION;
use crate::shell::Cmd;

/// The task that runs with its own mounts.
pub(crate) const MOUNTED: &str = "dist-mounted";

/// Mounts an overlay of the root, to see whether this machine allows that.
const PROBE: &str = "mount -t tmpfs none \"$0\" && mkdir \"$0/upper\" \"$0/work\" \"$0/root\" && \
                     mount -t overlay overlay -o lowerdir=/,upperdir=\"$0/upper\",workdir=\"$0/work\" \"$0/root\"";

/// Checks `packages`, which have been written to `out`. Returns the checks that this machine cannot run.
pub(crate) fn run(
    sources: &PackageSources,
    packages: &FileTree,
    out: &Path,
) -> Result<SkippedChecks> {
    let mut skipped = SkippedChecks::default();
    ensure!(sources.make()? == *packages, "a second run made other bytes");
    println!("a second run made the same bytes");
    let scratch = &sources.scratch;
    let archive = out.join(sources.tarball_name());
    tarball::check(&archive, &sources.tarball_dir(), scratch)?;
    action::check(&archive, scratch)?;
    scripted_install::check(sources, packages, scratch)?;
    binstall::check(sources, packages, scratch, &mut skipped)?;
    npm_install::check(sources, packages, out, &mut skipped)?;
    wheel_install::check(sources, out, &mut skipped)?;
    materials::check(&fs::read(out.join(sources.sbom_name()))?, &sources.program.bytes)?;
    let mounted = scratch.join("mounted");
    fs::create_dir_all(&mounted)?;
    if let Err(err) = can_mount(&mounted) {
        skipped.add("the Debian package and the image", &format!("they need mounts: {err:#}"));
        return Ok(skipped);
    }
    let newer = format!("{VERSION}+1");
    let upgrade = scratch.join(debian::file_name(&sources.program, &newer));
    fs::write(&upgrade, sources.debian_package(&newer)?)?;
    let package = out.join(debian::file_name(&sources.program, VERSION));
    let image = out.join(sources.image_dir());
    let program = std::env::current_exe().context("this program")?;
    let paths: [&Path; 6] = [&program, Path::new(MOUNTED), &package, &upgrade, &image, &mounted];
    Cmd::new("unshare").args(["--mount"]).args(paths.map(Path::to_string_lossy)).run()?;
    skipped.add_written(&mounted)?;
    Ok(skipped)
}

/// Runs the checks that need mounts of their own.
pub(crate) fn run_mounted(args: &[String]) -> Result<()> {
    let paths: Vec<PathBuf> = args.iter().map(PathBuf::from).collect();
    let [package, upgrade, image, scratch] = paths.as_slice() else {
        bail!("{MOUNTED} is a part of `cargo xtask dist --check`");
    };
    let mut skipped = SkippedChecks::default();
    if Cmd::new("dpkg").args(["--version"]).output().is_ok() {
        debian_install::check(package, upgrade, &scratch.join("debian"), &mut skipped)?;
    } else {
        skipped.add("the Debian package", "this machine has no dpkg");
    }
    container::check(image, &scratch.join("image"))?;
    skipped.write(scratch)
}

fn can_mount(dir: &Path) -> Result<()> {
    let dir = dir.to_string_lossy();
    Cmd::new("unshare").args(["--mount", "sh", "-c", PROBE, &dir]).output().map(drop)
}
