//! CPU time of a thread of this process, by its name.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Returns the CPU time so far of all threads of this name.
pub(crate) fn thread_cpu(name: &str) -> Result<Duration> {
    let mut nanos = 0;
    for task in fs::read_dir("/proc/self/task")? {
        let dir = task?.path();
        // It may have ended since the directory was read.
        let Ok(comm) = fs::read_to_string(dir.join("comm")) else { continue };
        if comm.trim_end() == name {
            let times = fs::read_to_string(dir.join("schedstat"))?;
            let running = times.split_whitespace().next().context("a time")?;
            nanos += running.parse::<u64>()?;
        }
    }
    Ok(Duration::from_nanos(nanos))
}
