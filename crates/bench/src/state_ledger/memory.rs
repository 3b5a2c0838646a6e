//! What of the process is resident.

use std::fs;

use anyhow::{Context, Result};

/// Bytes of the whole process that are resident.
pub(crate) fn resident() -> Result<u64> {
    of_status("VmRSS:")
}

/// The most that ever were.
pub(crate) fn resident_max() -> Result<u64> {
    of_status("VmHWM:")
}

fn of_status(field: &str) -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.split_whitespace().next()).context("not in the status")?;
    Ok(kib.parse::<u64>()? * 1024)
}
