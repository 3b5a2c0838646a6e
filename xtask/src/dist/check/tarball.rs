//! The tarball, unpacked and run.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;

use crate::dist::check::running_node::RunningNode;
use crate::dist::program::VERSION;
use crate::shell::Cmd;

/// Files that every tarball has.
const FILES: &[&str] = &[
    "bin/hydrant",
    "share/bash-completion/completions/hydrant",
    "share/doc/hydrant/LICENSE",
    "share/doc/hydrant/docs/operations.md",
    "share/fish/vendor_completions.d/hydrant.fish",
    "share/hydrant/cluster/haproxy.cfg",
    "share/hydrant/cluster/nats-server.conf",
    "share/hydrant/grafana/hydrant.json",
    "share/hydrant/prometheus/hydrant.rules.yml",
    "share/man/man1/hydrant-dev.1",
    "share/zsh/site-functions/_hydrant",
];

/// Unpacks it below `scratch`, in which it has the directory `name`, and runs its program.
pub(crate) fn check(tarball: &Path, name: &str, scratch: &Path) -> Result<()> {
    let file = File::open(tarball).with_context(|| tarball.display().to_string())?;
    tar::Archive::new(GzDecoder::new(file)).unpack(scratch).context("unpack the tarball")?;
    let dir = scratch.join(name);
    for file in FILES {
        ensure!(dir.join(file).is_file(), "the tarball has no {file}");
    }
    let hydrant = dir.join("bin/hydrant");
    let hydrant = hydrant.to_string_lossy();
    let version = Cmd::new(&hydrant).args(["--version"]).output()?;
    ensure!(version.trim() == format!("hydrant {VERSION}"), "{version}");
    let node = RunningNode::start(|socket| {
        Cmd::new(&hydrant).args(["dev", "--rpc-port", "0"]).env("NOTIFY_SOCKET", socket)
    })?;
    node.check_health()?;
    node.stop()?;
    println!("tarball: unpacked, started, healthy, stopped");
    Ok(())
}
