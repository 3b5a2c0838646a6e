//! The script of the GitHub action, with a release on this disk.
//!
//! Not here: `action.yml`, which only a runner of GitHub reads.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::dist::file_tree::sha256;
use crate::dist::program::VERSION;
use crate::rig::json_rpc;
use crate::shell::Cmd;
use crate::workspace::root;

/// Downloads `tarball` from a directory below `scratch`, starts its node, and ends it.
pub(crate) fn check(tarball: &Path, scratch: &Path) -> Result<()> {
    let dir = scratch.join("action");
    let release = dir.join(format!("releases/v{VERSION}"));
    fs::create_dir_all(&release)?;
    let bytes = fs::read(tarball)?;
    let name = tarball.file_name().context("a file")?.to_string_lossy();
    fs::write(release.join(&*name), &bytes)?;
    let releases = format!("file://{}", dir.join("releases").display());
    let digests = release.join("SHA256SUMS");
    fs::write(&digests, format!("{}  {name}\n", sha256(b"another file")))?;
    let refused = script(&dir, &releases).run_captured();
    ensure!(refused.is_err(), "an archive with another digest was started");
    fs::write(&digests, format!("{}  {name}\n", sha256(&bytes)))?;
    script(&dir, &releases).run()?;
    let outputs = fs::read_to_string(dir.join("output"))?;
    let outputs: HashMap<&str, &str> =
        outputs.lines().filter_map(|line| line.split_once('=')).collect();
    let output = |name: &str| outputs.get(name).copied().with_context(|| format!("no {name}"));
    let pid = output("pid")?;
    let health = call_health(output("rpc")?);
    let log = fs::read_to_string(output("log")?).unwrap_or_default();
    // The node continues after the script, so it is ended in any case.
    Cmd::new("kill").args(["-TERM", pid]).run()?;
    health.with_context(|| format!("the node's log: {log}"))?;
    let path = fs::read_to_string(dir.join("path"))?;
    ensure!(Path::new(path.trim()).join("hydrant").is_file(), "{path}");
    println!("action: downloaded, started, healthy");
    Ok(())
}

/// Returns the command that runs the script as a runner does.
fn script(dir: &Path, releases: &str) -> Cmd {
    let start = root().join("packaging/action/start.sh");
    Cmd::new("bash")
        .args([start.to_string_lossy()])
        .env("HYDRANT_VERSION", VERSION)
        .env("HYDRANT_RELEASE_URL", releases)
        // The working directory has files, which the shell must not list here.
        .env("HYDRANT_ARGS", "--rpc-port 0\n--slot-ms 200 --allow-host *")
        .env("HYDRANT_TIMEOUT_S", "60")
        .env("RUNNER_TEMP", dir)
        .env("GITHUB_OUTPUT", dir.join("output"))
        .env("GITHUB_PATH", dir.join("path"))
}

fn call_health(url: &str) -> Result<()> {
    let address = url.trim_start_matches("http://").parse().context(url.to_owned())?;
    let response = json_rpc::call(address, "getHealth", &json!([]))?;
    ensure!(response["result"] == "ok", "getHealth: {response}");
    Ok(())
}
