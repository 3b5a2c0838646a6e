//! Replicas that are killed or stopped, a log that is truncated, and snapshots that are damaged.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use solana_signer::Signer;
use testkit::child_process::run_to_end;
use testkit::node::Node;

use crate::node::HYDRANT;
use crate::observability::metrics;
use crate::replicas::rig::{Rig, call, damage, files, slots};
use crate::world::{WAIT_TIMEOUT, wait_until};

/// Interval of snapshots: short, so that a test does not wait for them.
pub(super) const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(200);

/// Runs a command that checks a log or a store. Returns its standard output if its exit code is `code`.
pub(super) fn check(args: &[&str], code: i32) -> Result<String> {
    let Output { status, stdout, stderr } = run_to_end(Command::new(HYDRANT).args(args))?;
    let stdout = String::from_utf8(stdout)?;
    let stderr = String::from_utf8_lossy(&stderr);
    ensure!(status.code() == Some(code), "{args:?}: {status}\n{stdout}\n{stderr}");
    Ok(stdout)
}

/// Compares an account on a replica with the ledger's.
fn ensure_equal_balance(rig: &Rig, replica: std::net::SocketAddr) -> Result<()> {
    let bob = rig.stage.world.bob.pubkey().to_string();
    let params = json!([bob, { "commitment": "confirmed", "encoding": "base64" }]);
    let expected = call(rig.stage.node.rpc, "getAccountInfo", params.clone())?;
    let found = call(replica, "getAccountInfo", params)?;
    ensure!(found == expected, "{found} instead of {expected}");
    Ok(())
}

/// Waits until the store has a snapshot of a slot after `slot`. Returns its manifest.
pub(super) fn wait_for_snapshot(rig: &Rig, slot: u64) -> Result<std::path::PathBuf> {
    wait_until("a newer snapshot", WAIT_TIMEOUT, || {
        let newest = rig.manifests()?.pop();
        Ok(newest.filter(|manifest| snapshot_slot(manifest) > Some(slot)))
    })
}

/// The slot in the name of a snapshot's directory.
fn snapshot_slot(manifest: &Path) -> Option<u64> {
    let dir = manifest.parent()?.file_name()?.to_str()?;
    dir.split('-').next()?.parse().ok()
}

fn send_signal(process: u32, signal: &str) -> Result<()> {
    let status = Command::new("kill").args([signal, &process.to_string()]).status()?;
    ensure!(status.success(), "kill {signal}: {status}");
    Ok(())
}

#[test]
fn a_killed_replica_starts_again_from_its_copy() -> Result<()> {
    let rig = Rig::start()?;
    let cache = rig.path("cache");
    let flags = ["--replica-cache-dir", cache.to_str().context("a path in UTF-8")?];
    let mut replica = rig.replica_process(&flags)?;
    wait_until("the copy of the snapshot", WAIT_TIMEOUT, || {
        let copied = files(&cache)?.into_iter().any(|file| file.ends_with("manifest"));
        Ok(copied.then_some(()))
    })?;
    replica.process().kill()?;
    replica.process().wait()?;
    rig.mine(10)?;
    // The copy is all that there is.
    fs::rename(rig.path("depot"), rig.path("depot before"))?;
    let replica = rig.replica_process(&flags)?;
    ensure_equal_balance(&rig, replica.rpc)?;
    let text = metrics(&replica)?;
    for line in [
        "hydrant_replica_state{state=\"ready\"} 1",
        "hydrant_replica_snapshot_loads_total{cause=\"start\"} 1",
        "hydrant_log_faults_total{fault=\"chain\"} 0",
    ] {
        ensure!(text.lines().any(|found| found == line), "{line}:\n{text}");
    }
    for family in ["hydrant_log_position", "hydrant_log_pending ", "hydrant_log_lag_seconds "] {
        ensure!(text.contains(&format!("\n{family}")), "{family}:\n{text}");
    }
    Ok(())
}

#[test]
fn a_damaged_snapshot_is_skipped_and_named() -> Result<()> {
    let rig = Rig::start()?;
    let writer = rig.replica(|config| config.with_snapshot_interval(SNAPSHOT_INTERVAL))?;
    rig.mine(30)?;
    wait_until("two snapshots", WAIT_TIMEOUT, || Ok((rig.manifests()?.len() >= 2).then_some(())))?;
    writer.stop()?;
    let newest = rig.manifests()?.pop().context("a manifest")?;
    let depot = rig.url("depot");
    check(&["snapshots", &depot, "--check"], 0)?;

    let parts = files(newest.parent().context("a directory")?)?;
    let part = parts.iter().find(|file| !file.ends_with("manifest")).context("a part")?;
    damage(part)?;
    let name = part.file_name().and_then(|name| name.to_str()).context("a name")?;
    let listed = check(&["snapshots", &depot, "--check"], 1)?;
    let is_named = listed.lines().any(|line| line.starts_with("Damage") && line.contains(name));
    ensure!(is_named, "{listed}");
    let replica = rig.replica(|config| config)?;
    ensure_equal_balance(&rig, replica.addresses().rpc)?;
    replica.stop()?;

    damage(&newest)?;
    check(&["snapshots", &depot], 1)?;
    let replica = rig.replica(|config| config)?;
    ensure_equal_balance(&rig, replica.addresses().rpc)?;
    replica.stop()?;

    let log = rig.url("log");
    let read = check(&["log-check", &log], 0)?;
    ensure!(read.ends_with("Total          0 damages\n"), "{read}");
    let batch = rig.batches()?.into_iter().nth(5).context("a batch")?;
    damage(&batch)?;
    let read = check(&["log-check", &log], 1)?;
    let first = batch.file_name().and_then(|name| name.to_str()).context("a name")?;
    let first: u64 = first.parse()?;
    ensure!(read.contains(&format!("Damage         message {first}: damaged: ")), "{read}");
    Ok(())
}

/// Stops a replica during `change` and many blocks, and truncates the log, so that the replica jumps to a snapshot.
pub(super) fn jump_by_snapshot(
    rig: &Rig,
    replica: &Node,
    change: impl FnOnce() -> Result<()>,
) -> Result<()> {
    send_signal(replica.pid(), "-STOP")?;
    let [_, stopped_at, _] = slots(rig.stage.node.rpc)?;
    change()?;
    rig.mine(30)?;
    let writer = rig.replica(|config| config.with_snapshot_interval(SNAPSHOT_INTERVAL))?;
    // A snapshot is of a final block, and a batch may have several blocks. So blocks are mined until a snapshot is far
    // behind all that the replica has read.
    wait_until("a snapshot behind the replica", WAIT_TIMEOUT, || {
        rig.mine(1)?;
        let newest = rig.manifests()?.pop();
        Ok(newest.filter(|manifest| snapshot_slot(manifest) > Some(stopped_at + 20)).map(drop))
    })?;
    writer.stop()?;
    let listed = check(&["snapshots", &rig.url("depot")], 0)?;
    let position = listed.split(" after message ").nth(1).and_then(|rest| rest.split(',').next());
    let position: u64 = position.context("a position")?.parse()?;
    let first = |batch: &Path| batch.file_name()?.to_str()?.parse::<u64>().ok();
    let batches = rig.batches()?;
    let needed = batches.iter().rposition(|batch| first(batch) <= Some(position + 1));
    let needed = needed.context("a batch that the snapshot needs")?;
    ensure!(needed > 0, "no batch would be removed");
    batches[..needed].iter().try_for_each(fs::remove_file)?;
    send_signal(replica.pid(), "-CONT")?;
    wait_until("the jump", WAIT_TIMEOUT, || {
        let truncated = "hydrant_replica_snapshot_loads_total{cause=\"truncated\"} 1\n";
        Ok(metrics(replica)?.contains(truncated).then_some(()))
    })?;
    rig.wait_for(replica.rpc)
}

#[test]
fn a_replica_behind_a_truncated_log_jumps_by_a_snapshot() -> Result<()> {
    let rig = Rig::start()?;
    let replica = rig.replica_process(&[])?;
    jump_by_snapshot(&rig, &replica, || Ok(()))?;
    ensure_equal_balance(&rig, replica.rpc)?;

    // Without a snapshot that fits to the log, a start says why.
    fs::remove_dir_all(rig.path("depot"))?;
    let err = rig.start_replica(|config| config).err().context("it has no snapshot")?;
    let err = format!("{err:#}");
    ensure!(err.contains("no usable snapshot of cluster local"), "{err}");
    Ok(())
}
