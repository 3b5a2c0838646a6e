//! The archive of a replica that restarts with a newer snapshot, and the check that lists its holes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::observability::metrics;
use crate::replicas::faults::{SNAPSHOT_INTERVAL, check, wait_for_snapshot};
use crate::replicas::rig::{Rig, files, slots};
use crate::world::{WAIT_TIMEOUT, wait_until};

/// The first slots of the archive's objects, in their order.
fn first_slots(rig: &Rig) -> Result<Vec<u64>> {
    let dir = rig.path("depot").join("archive");
    if !dir.exists() {
        return Ok(Vec::new());
    }
    let first = |file: &Path| file.file_name()?.to_str()?.split('-').next()?.parse::<u64>().ok();
    let objects = files(&dir)?;
    let objects = objects.iter().filter(|file| file.extension().is_some_and(|it| it == "hya"));
    let mut found: Vec<u64> = objects.filter_map(|file| first(file)).collect();
    found.sort_unstable();
    Ok(found)
}

/// Waits until the archive has an object that starts at this slot.
fn wait_for_object(rig: &Rig, first: u64) -> Result<()> {
    wait_until("an object of the archive", WAIT_TIMEOUT, || {
        Ok(first_slots(rig)?.contains(&first).then_some(()))
    })
}

#[test]
fn an_archiver_that_restarts_with_a_newer_snapshot_fills_the_archive_from_the_log() -> Result<()> {
    let rig = Rig::start()?;
    let mut replica = rig.replica_process(&["--archive"])?;
    rig.mine(220)?;
    let archived = wait_until("an object of the archive", WAIT_TIMEOUT, || {
        Ok(first_slots(&rig)?.first().copied())
    })?;
    replica.process().kill()?;
    replica.process().wait()?;
    // No replica archives these blocks, and the next snapshot is after them.
    rig.mine(250)?;
    let [_, _, missed] = slots(rig.stage.node.rpc)?;
    let writer = rig.replica(|config| config.with_snapshot_interval(SNAPSHOT_INTERVAL))?;
    wait_for_snapshot(&rig, missed - 1)?;
    writer.stop()?;
    rig.mine(150)?;

    let replica = rig.replica_process(&["--archive"])?;
    let newest = (missed / 100) * 100;
    wait_for_object(&rig, newest)?;
    let found = first_slots(&rig)?;
    let expected: Vec<u64> = (archived..=newest).step_by(100).collect();
    ensure!(found.starts_with(&expected), "{found:?} instead of {expected:?}");
    let depot = rig.url("depot");
    let listed = check(&["snapshots", &depot, "--check"], 0)?;
    ensure!(!listed.contains("Damage"), "{listed}");
    let text = metrics(&replica)?;
    for line in ["hydrant_archive_hole_slots 0", "hydrant_archive_events_total{event=\"hole\"} 0"] {
        ensure!(text.lines().any(|found| found == line), "{line}:\n{text}");
    }

    // An object that was removed is missing, not skipped.
    let objects = files(&rig.path("depot").join("archive"))?;
    let name = format!("{:020}-", archived + 100);
    let is_named = |file: &&std::path::PathBuf| {
        file.file_name().and_then(|it| it.to_str()).is_some_and(|it| it.starts_with(&name))
    };
    fs::remove_file(objects.iter().find(is_named).context("an object")?)?;
    let listed = check(&["snapshots", &depot], 1)?;
    let last = archived + 199;
    let hole = format!("no object has slots {} to {last}", archived + 100);
    ensure!(listed.contains(&hole), "{listed}");
    Ok(())
}
