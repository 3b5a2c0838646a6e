//! The commit and the machine of a measurement, in one line.
//!
//! The commit is the last one that changed anything but results: a commit of results does not make the next ones those
//! of other code. If a result was computed from stored rows or parts of several commits, it is the oldest of them.
//! Not here: parsing of the line (`result_page`), the age of the commit (`age`), writing of rows (`report` of the
//! benchmarks) and of parts (`part_results`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::memory_latency::memory_latency;
use super::result_page::Origin;
use crate::shell::Cmd;
use crate::workspace::root;

/// The files that a `--write` changes, and the directory of the others.
const RESULT_FILES: [&str; 2] = ["BENCHMARKS.md", "README.md"];
const RESULT_DIR: &str = "docs/benchmarks";

/// The format of a commit with its date.
const DATED_COMMIT: &str = "--format=%h of %cs";
const WITH_CHANGES: &str = " with changes";

/// The first column of a CSV of rows.
const COMMIT_COLUMN: &str = "commit,";

/// The mark behind a row's commit whose files were changed.
const CHANGED: char = '+';

/// Returns the commit with its date, and the machine. `result_page` parses the first of them.
pub(crate) fn provenance() -> Result<String> {
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    let is_changed = changed.lines().any(|line| !is_result_file(line));
    let excluded = RESULT_FILES.into_iter().chain([RESULT_DIR]);
    let excluded: Vec<String> = excluded.map(|path| format!(":(exclude){path}")).collect();
    let mut args = vec!["log", "-1", DATED_COMMIT, "--", "."];
    args.extend(excluded.iter().map(String::as_str));
    let commit = git(&args)?;
    let mark = if is_changed { WITH_CHANGES } else { "" };
    with_machine(&format!("{}{mark}", commit.trim()))
}

/// Returns the provenance of a result that was computed from the stored rows or parts of a benchmark; `None` without
/// any.
pub(super) fn oldest_row(
    root: &Path,
    benchmark: &str,
    commits_since: impl Fn(&str) -> Result<u32>,
) -> Result<Option<String>> {
    let commits = row_commits(&root.join(RESULT_DIR).join(benchmark))?;
    let Some(oldest) = find_oldest(&commits, commits_since)? else { return Ok(None) };
    let id = oldest.trim_end_matches(CHANGED);
    let dated = git(&["log", "-1", DATED_COMMIT, id])?;
    let mark = if oldest.ends_with(CHANGED) { WITH_CHANGES } else { "" };
    let others = if commits.len() > 1 {
        format!(", the oldest of {} measured commits", commits.len())
    } else {
        String::new()
    };
    with_machine(&format!("{}{mark}{others}", dated.trim())).map(Some)
}

/// Returns the commits of the rows in the CSV files of a directory, and of its text files that start with one.
fn row_commits(dir: &Path) -> Result<BTreeSet<String>> {
    let mut commits = BTreeSet::new();
    if !dir.is_dir() {
        return Ok(commits);
    }
    for entry in fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))? {
        let path = entry?.path();
        let extension = path.extension().unwrap_or_default();
        if extension != "csv" && extension != "txt" {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        if extension == "txt" {
            let origin = text.lines().next().and_then(Origin::parse);
            commits.extend(origin.map(|origin| row_commit(&origin)));
        } else if text.starts_with(COMMIT_COLUMN) {
            let rows = text.lines().skip(1).filter_map(|row| row.split(',').next());
            commits.extend(rows.map(str::to_owned));
        }
    }
    Ok(commits)
}

/// Formats a commit as that of a row.
fn row_commit(origin: &Origin) -> String {
    let mut commit = origin.id().to_owned();
    if origin.has_changes() {
        commit.push(CHANGED);
    }
    commit
}

/// Returns the commit that most commits have followed.
fn find_oldest(
    commits: &BTreeSet<String>,
    commits_since: impl Fn(&str) -> Result<u32>,
) -> Result<Option<&str>> {
    let mut oldest: Option<(u32, &str)> = None;
    for commit in commits {
        let age = commits_since(commit.trim_end_matches(CHANGED))?;
        if oldest.is_none_or(|(most, _)| age > most) {
            oldest = Some((age, commit.as_str()));
        }
    }
    Ok(oldest.map(|(_, commit)| commit))
}

fn git(args: &[&str]) -> Result<String> {
    Cmd::new("git").args(args).dir(&root()).output()
}

/// Returns the line of a commit on this machine.
fn with_machine(commit: &str) -> Result<String> {
    let rustc = Cmd::new("rustc").args(["--version"]).output()?;
    let kernel = Cmd::new("uname").args(["-sr"]).output()?;
    let cores = std::thread::available_parallelism()?;
    Ok(format!(
        "Commit {commit}; {cores} cores of {}, {}, {} ns for a random read; {}, {}.",
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
    let in_dir = path.strip_prefix(RESULT_DIR).is_some_and(|rest| rest.starts_with('/'));
    RESULT_FILES.contains(&path) || in_dir
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
        assert!(!is_result_file(" M docs/benchmarks.md"));
    }

    #[test]
    fn the_oldest_commit_of_all_rows_is_found() {
        let dir = std::env::temp_dir().join(format!("hydrant-rows-{}", std::process::id()));
        assert_eq!(row_commits(&dir).unwrap(), BTreeSet::new());
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("a.csv"), "commit,key,ms\naaa,x,1\nbbb+,y,2\n").unwrap();
        fs::write(dir.join("b.csv"), "commit,key\naaa,x\n").unwrap();
        fs::write(dir.join("other.csv"), "key,ms\nccc,1\n").unwrap();
        fs::write(dir.join("part.txt"), "Commit ddd of 2026-11-23; 2 cores.\nbar a 1 ms <= 2\n")
            .unwrap();
        fs::write(dir.join("runs.txt"), "full size\tCommit eee of 2026-11-23; 2 cores.\n").unwrap();
        let commits = row_commits(&dir).unwrap();
        assert_eq!(commits, BTreeSet::from(["aaa", "bbb+", "ddd"].map(str::to_owned)));
        let changed = Origin::parse("Commit fff of 2026-11-23 with changes; 2 cores.").unwrap();
        assert_eq!(row_commit(&changed), "fff+");
        let find = |age_of_bbb: u32| {
            let commits_since = |id: &str| Ok(if id == "bbb" { age_of_bbb } else { 7 });
            find_oldest(&commits, commits_since).unwrap().map(str::to_owned)
        };
        assert_eq!(find(9).as_deref(), Some("bbb+"));
        assert_eq!(find(3).as_deref(), Some("aaa"));
        fs::remove_dir_all(&dir).unwrap();
    }
}
