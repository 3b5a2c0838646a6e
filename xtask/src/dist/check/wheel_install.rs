//! The Python wheel: installed by pip without an index, run, and removed.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::dist::check::running_node::RunningNode;
use crate::dist::check::skipped_checks::SkippedChecks;
use crate::dist::packages::PackageSources;
use crate::dist::program::VERSION;
use crate::dist::wheel::{self, DISTRIBUTION};
use crate::shell::Cmd;

/// Installs the wheel in `out` in an environment of its own, and runs its command.
pub(crate) fn check(
    sources: &PackageSources,
    out: &Path,
    skipped: &mut SkippedChecks,
) -> Result<()> {
    if Cmd::new("python3").args(["-c", "import ensurepip, venv"]).output().is_err() {
        skipped.add("the wheel", "this machine has no Python with ensurepip and venv");
        return Ok(());
    }
    let environment = sources.scratch.join("wheel");
    let program = environment.join("bin/hydrant");
    let path = environment.to_string_lossy();
    Cmd::new("python3").args(["-m", "venv", &path]).run()?;
    let pip = |args: &[&str]| {
        let pip = environment.join("bin/pip");
        let pip = Cmd::new(&pip.to_string_lossy()).args(args);
        pip.env("PIP_CONFIG_FILE", "/dev/null").env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    };
    let file = out.join(wheel::file_name(&sources.program)?);
    pip(&["install", "--no-index", "--no-cache-dir", &file.to_string_lossy()]).run()?;
    pip(&["check"]).run()?;
    ensure!(
        fs::read(&program)? == *sources.program.bytes,
        "pip has installed another program than the one in the wheel"
    );
    let program_path = program.to_string_lossy();
    let version = Cmd::new(&program_path).args(["--version"]).output()?;
    ensure!(version.trim() == format!("hydrant {VERSION}"), "{version}");
    let node = RunningNode::start(|socket| {
        Cmd::new(&program_path).args(["dev", "--rpc-port", "0"]).env("NOTIFY_SOCKET", socket)
    })?;
    node.check_health()?;
    node.stop()?;
    pip(&["uninstall", "--yes", DISTRIBUTION]).run()?;
    ensure!(!program.exists(), "pip has left the program");
    println!("wheel: installed, started, healthy, stopped, removed");
    Ok(())
}
