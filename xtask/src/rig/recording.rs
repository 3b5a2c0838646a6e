//! A recorded run, for a test that replays it: the archive, the stream after it, the validator's log of the same banks,
//! and its responses. All but the archive are of the validator that is compared.
//!
//! Shape: a program of the plugin's workspace reads the stream alongside the follower (`geyser/examples/record.rs`),
//! while the rig compares responses. It packs the files too.
//! Bounds: [`RESPONSES_MAX`] responses of a method, spread over the run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::rig::processes::Rig;
use crate::rig::response_comparison::{Recorded, ResponseComparison};
use crate::shell::{Cmd, cargo};
use crate::workspace::root;

/// Text that the validator logs before a bank's parts.
const MARK: &str = "bank frozen: ";
/// Answers of a method that are stored.
const RESPONSES_MAX: usize = 24;
/// Methods that have more parameters than others.
const RESPONSES_MAX_BY_METHOD: [(&str, usize); 3] =
    [("getBlock", 120), ("getTransaction", 60), ("getAccountInfo", 60)];
/// Slots that are recorded above the last one of the log, so that a follower can make that one final: the votes for a
/// bank are in later ones.
const SLOTS_ABOVE_LAST: u64 = 20;
/// Distance of the newest slot with stored responses from the last final one: the follower's final slot comes later.
const SLOTS_BELOW_LAST: u64 = 4;

pub(crate) struct Recording {
    recorder: PathBuf,
    child: Child,
    to: PathBuf,
    first: u64,
    last: u64,
}

/// Builds the recorder. Returns its file.
pub(crate) fn build(dir: &Path) -> Result<PathBuf> {
    let manifest = root().join("geyser/Cargo.toml");
    let target = dir.join("target-plugin");
    cargo()
        .args(["build", "--release", "--locked", "--example", "record"])
        .args(["--manifest-path", &manifest.to_string_lossy()])
        .args(["--target-dir", &target.to_string_lossy()])
        .run()?;
    Ok(target.join("release/examples/record"))
}

impl Recording {
    /// Records as many slots after the follower's archive, and some more, until the last one is final.
    pub(crate) fn start(recorder: PathBuf, rig: &Rig, slots: u64) -> Result<Self> {
        let to = rig.dir().join("recorded");
        fs::create_dir_all(&to)?;
        let first = rig.followers().first().context("no follower")?;
        let (archive, slot) = archive(&first.archive_dir())?;
        fs::copy(&archive, to.join(archive.file_name().context("an archive without a name")?))?;
        let source = format!("http://{}", rig.validators().compared_validator().grpc()?);
        let child = Command::new(&recorder)
            .args(["stream", &source, &(slot + 1).to_string()])
            .arg((slots + SLOTS_ABOVE_LAST).to_string())
            .arg(to.join("stream"))
            .spawn()
            .context("start the recorder")?;
        Ok(Self { recorder, child, to, first: slot + 1, last: slot + slots })
    }

    /// Whether the stream's last slot was final.
    pub(crate) fn is_finished(&mut self) -> Result<bool> {
        let Some(status) = self.child.try_wait()? else { return Ok(false) };
        ensure!(status.success(), "the recorder ended: {status}");
        Ok(true)
    }

    /// Writes what else is recorded, and packs all of it. Returns the directory.
    pub(crate) fn finish(
        mut self,
        rig: &Rig,
        comparison: &mut ResponseComparison,
    ) -> Result<PathBuf> {
        let first = self.first;
        let last = self.last;
        let to = std::mem::take(&mut self.to);
        let log = fs::read_to_string(rig.validators().compared_log())?;
        let lines = frozen_banks(&log, first, last);
        ensure!(!lines.is_empty(), "the validator's log has none of the slots {first} to {last}");
        fs::write(to.join("frozen_banks.log"), lines)?;
        let responses =
            format_responses(comparison.take_recorded(), first, last - SLOTS_BELOW_LAST);
        fs::write(to.join("answers"), responses)?;
        let (archive, _) = archive(&to)?;
        for (from, packed) in [
            (to.join("stream"), to.join("stream.zst")),
            (to.join("answers"), to.join("answers.zst")),
            (archive.clone(), archive),
        ] {
            Cmd::new(&self.recorder.to_string_lossy())
                .args(["pack", &from.to_string_lossy(), &packed.to_string_lossy()])
                .run()?;
        }
        println!("recorded slots {first} to {last}: {}", to.display());
        Ok(to)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // It has ended unless the run failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the validator's lines about banks of these slots.
fn frozen_banks(log: &str, first: u64, last: u64) -> String {
    let mut lines = String::new();
    for line in log.lines() {
        let Some(at) = line.find(MARK) else { continue };
        let slot = line[at + MARK.len()..].split(' ').next().and_then(|slot| slot.parse().ok());
        if slot.is_some_and(|slot: u64| (first..=last).contains(&slot)) {
            // The statistics after the parts count accounts of the validator's storage.
            let end = line.find(", stats:").unwrap_or(line.len());
            lines.push_str(&line[at..end]);
            lines.push('\n');
        }
    }
    lines
}

/// Returns the responses about these slots, some of each method, one a line.
fn format_responses(recorded: Vec<Recorded>, first: u64, last: u64) -> String {
    let mut methods: BTreeMap<&str, Vec<Recorded>> = BTreeMap::new();
    for response in recorded {
        let is_recorded =
            |slot: Option<u64>| slot.is_none_or(|slot| (first..=last).contains(&slot));
        if is_recorded(response.slot) && is_recorded(response.block_slot) {
            methods.entry(response.method).or_default().push(response);
        }
    }
    let mut lines: Vec<(Option<u64>, Value)> = Vec::new();
    for (method, responses) in methods {
        let max = RESPONSES_MAX_BY_METHOD
            .iter()
            .find(|(name, _)| *name == method)
            .map_or(RESPONSES_MAX, |it| it.1);
        let step = responses.len().div_ceil(max);
        for Recorded { params, slot, response, .. } in responses.into_iter().step_by(step) {
            let line =
                json!({"slot": slot, "method": method, "params": params, "answer": response});
            lines.push((slot, line));
        }
    }
    lines.sort_by_key(|(slot, _)| slot.unwrap_or(u64::MAX));
    lines.iter().map(|(_, line)| format!("{line}\n")).collect()
}

/// Returns the archive that the follower has loaded, and its slot.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_recorded_slots_end_with_the_parts() {
        let line = |slot: u64| format!("[x] bank frozen: {slot} hash: A, stats: B {{ c: 1 }}\n");
        let log: String = (1..5).map(line).collect();
        assert_eq!(frozen_banks(&log, 2, 3), "bank frozen: 2 hash: A\nbank frozen: 3 hash: A\n");
    }

    #[test]
    fn responses_are_spread_over_the_recorded_slots() {
        let response = |slot| Recorded {
            method: "getSlot",
            params: json!([]),
            slot: Some(slot),
            block_slot: None,
            response: json!({"result": slot}),
        };
        let lines = format_responses((0..100).map(response).collect(), 2, 97);
        let slots: Vec<u64> = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["slot"].as_u64().unwrap())
            .collect();
        assert_eq!(slots.len(), RESPONSES_MAX);
        assert_eq!((slots[0], slots[RESPONSES_MAX - 1]), (2, 94));
    }
}
