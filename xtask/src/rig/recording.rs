//! A recorded run, for a test that replays it: the archive, the stream after it, the validator's log of the
//! same banks.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::rig::processes::Rig;
use crate::shell::{Cmd, cargo};
use crate::workspace::root;

/// What the validator writes before a bank's parts.
const MARK: &str = "bank frozen: ";

/// Builds the recorder. Returns its file.
pub(crate) fn build(dir: &Path) -> Result<PathBuf> {
    let (manifest, target) = (root().join("geyser/Cargo.toml"), dir.join("target-plugin"));
    cargo()
        .args(["build", "--release", "--locked", "--example", "record"])
        .args(["--manifest-path", &manifest.to_string_lossy()])
        .args(["--target-dir", &target.to_string_lossy()])
        .run()?;
    Ok(target.join("release/examples/record"))
}

/// Records as many slots after the follower's archive. Returns the directory.
pub(crate) fn run(recorder: &Path, rig: &Rig, slots: u64) -> Result<PathBuf> {
    let to = rig.dir().join("recorded");
    fs::create_dir_all(&to)?;
    let (archive, slot) = archive(&rig.dir().join("snapshot"))?;
    let name = archive.file_name().context("an archive without a name")?;
    fs::copy(&archive, to.join(name))?;
    let (first, last) = (slot + 1, slot + slots);
    Cmd::new(&recorder.to_string_lossy())
        .args([rig.grpc_url(), first.to_string(), slots.to_string()])
        .args([to.join("stream.zst").to_string_lossy()])
        .run()?;
    let log = fs::read_to_string(rig.validator_log())?;
    let mut lines = String::new();
    for line in log.lines() {
        let Some(at) = line.find(MARK) else { continue };
        let slot = line[at + MARK.len()..].split(' ').next().and_then(|slot| slot.parse().ok());
        if slot.is_some_and(|slot: u64| (first..=last).contains(&slot)) {
            lines.push_str(&line[at..]);
            lines.push('\n');
        }
    }
    ensure!(!lines.is_empty(), "the validator's log has none of the slots {first} to {last}");
    fs::write(to.join("frozen_banks.log"), lines)?;
    println!("recorded slots {first} to {last}: {}", to.display());
    Ok(to)
}

/// The archive that the follower has loaded, and its slot.
fn archive(dir: &Path) -> Result<(PathBuf, u64)> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let slot = name.strip_prefix("snapshot-").and_then(|rest| rest.split('-').next());
        if let Some(slot) = slot.and_then(|slot| slot.parse().ok()) {
            return Ok((path, slot));
        }
    }
    anyhow::bail!("{} has no archive", dir.display())
}
