//! The commit and the machine of a measurement, in one line.
//!
//! Not here: parsing of the line (`result_page`), the age of the commit (`age`).

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::memory_latency::memory_latency;
use crate::shell::Cmd;
use crate::workspace::root;

/// Returns the commit with its date, and the machine. `result_page` parses the first of them.
pub(crate) fn provenance() -> Result<String> {
    let git = |args: &[&str]| Cmd::new("git").args(args).dir(&root()).output();
    let commit = git(&["log", "-1", "--format=%h of %cs"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    let edited = changed.lines().any(|line| !is_result_file(line));
    let edited = if edited { " with changes" } else { "" };
    let rustc = Cmd::new("rustc").args(["--version"]).output()?;
    let kernel = Cmd::new("uname").args(["-sr"]).output()?;
    let cores = std::thread::available_parallelism()?;
    Ok(format!(
        "Commit {}{edited}; {cores} cores of {}, {}, {} ns for a random read; {}, {}.",
        commit.trim(),
        first_value("/proc/cpuinfo", "model name").unwrap_or_else(|| "an unknown CPU".to_owned()),
        memory().unwrap_or_else(|| "unknown memory".to_owned()),
        memory_latency().as_nanos(),
        kernel.trim(),
        rustc.trim()
    ))
}

/// Whether a line of `git status --porcelain` names a file that a `--write` changes.
fn is_result_file(line: &str) -> bool {
    let path = line.get(3..).unwrap_or_default();
    ["BENCHMARKS.md", "README.md"].contains(&path) || path.starts_with("docs/benchmarks/")
}

fn memory() -> Option<String> {
    let kib: u64 =
        first_value("/proc/meminfo", "MemTotal")?.split_whitespace().next()?.parse().ok()?;
    Some(format!("{} GiB", kib.div_ceil(1024 * 1024)))
}

/// Returns the value of the first line `key : value` of a file of the kernel.
fn first_value(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(path)).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_results_do_not_change_the_measured_code() {
        assert!(is_result_file(" M BENCHMARKS.md"));
        assert!(is_result_file(" M README.md"));
        assert!(is_result_file(" M docs/benchmarks/rpc.md"));
        assert!(!is_result_file(" M docs/rpc.md"));
    }
}
