//! The results of a benchmark that takes hours: CSV files that are also its checkpoint, plots, and one document.
//!
//! Input: `--out DIR`, `--keep`, `--fresh`, and the commit and machine that `cargo xtask bench` passes in [`SOURCE`].
//! Shape: every measured row is appended to its CSV at once, with the commit that it was measured at. A benchmark that
//! was stopped continues with the rows that the files lack. Rows of another commit are dropped, or with `--keep` used;
//! `--fresh` drops all.
//! Not here: the rows and tables (`agave`, `contention`, `ladder`, `streams`, `sets`), the bars (`threshold`).

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use testkit::clock::now;

use crate::arguments::value_of;

/// Commit, machine and compiler: `Commit 5bde72a of 2026-11-23; 2 cores of ...`.
const SOURCE: &str = "HYDRANT_BENCH_SOURCE";

/// The parent of all reports.
const DOCUMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/benchmarks");

/// The directory of a benchmark's results.
pub(crate) struct Report {
    dir: PathBuf,
    source: String,
    keeps_other_commits: bool,
    is_fresh: bool,
    /// The directory of a run at toy size. Its results mean nothing.
    _temporary: Option<TempDir>,
}

/// A CSV whose rows are measured one after the other.
pub(crate) struct Rows {
    path: PathBuf,
    commit: String,
    /// Number of cells that identify a row.
    key_len: usize,
    /// The cells of each row, the key first, without the commit.
    rows: BTreeMap<Vec<String>, Vec<String>>,
    commits: BTreeMap<String, usize>,
}

/// The progress of a run, and the estimated time of the rest.
pub(crate) struct Progress {
    name: &'static str,
    total: f64,
    done: f64,
    began: Instant,
    printed_at: Instant,
}

impl Report {
    /// Opens `docs/benchmarks/NAME`, or the directory of `--out`; a temporary one for a toy.
    pub(crate) fn open(name: &str, args: &[String], is_toy: bool) -> Result<Self> {
        let temporary = is_toy.then(tempfile::tempdir).transpose()?;
        let dir = match (value_of(args, "--out")?, &temporary) {
            (Some(dir), _) => PathBuf::from(dir),
            (None, Some(temporary)) => temporary.path().join(name),
            (None, None) => Path::new(DOCUMENTS).join(name),
        };
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        let source = std::env::var(SOURCE);
        Ok(Self {
            dir,
            source: source.unwrap_or_else(|_| "Commit unknown: not run by cargo xtask.".to_owned()),
            keeps_other_commits: args.iter().any(|arg| arg == "--keep"),
            is_fresh: args.iter().any(|arg| arg == "--fresh"),
            _temporary: temporary,
        })
    }

    /// Commit, machine and compiler of this run.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Opens a CSV. The first `key_len` of its columns identify a row.
    pub(crate) fn rows(&self, file: &str, key_len: usize, columns: &[&str]) -> Result<Rows> {
        let path = self.dir.join(file);
        let head = format!("commit,{}", columns.join(","));
        let mut rows = Rows {
            commit: commit(&self.source),
            key_len,
            rows: BTreeMap::new(),
            commits: BTreeMap::new(),
            path,
        };
        let old = if self.is_fresh { None } else { fs::read_to_string(&rows.path).ok() };
        let old = old.filter(|old| old.lines().next() == Some(&head)).unwrap_or_default();
        fs::write(&rows.path, format!("{head}\n"))
            .with_context(|| format!("write {}", rows.path.display()))?;
        for line in old.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            // The last line of a run that was stopped may be cut off.
            if cells.len() != columns.len() + 1 {
                continue;
            }
            if cells[0] == rows.commit || self.keeps_other_commits {
                rows.append(cells[0], cells[1..].iter().map(|cell| (*cell).to_owned()).collect())?;
            }
        }
        Ok(rows)
    }

    /// Writes a document or a plot.
    pub(crate) fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.dir.join(file);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }
}

impl Rows {
    /// Returns the cells of a row behind its key, if it was measured.
    pub(crate) fn find(&self, key: &[String]) -> Option<&[String]> {
        self.rows.get(key).map(|cells| &cells[self.key_len..])
    }

    /// Returns the number of a row's cell behind its key.
    pub(crate) fn number(&self, key: &[String], at: usize) -> Option<f64> {
        self.find(key)?.get(at)?.parse().ok()
    }

    /// Returns the keys of all rows.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Vec<String>> {
        self.rows.keys()
    }

    /// Adds a row, and writes it.
    pub(crate) fn push(&mut self, key: &[String], cells: &[String]) -> Result<()> {
        ensure!(key.len() == self.key_len, "a key of {} cells", key.len());
        let commit = self.commit.clone();
        self.append(&commit, [key, cells].concat())
    }

    /// Returns the commits of the rows: `a1b2c3d (720 rows)`.
    pub(crate) fn commits(&self) -> String {
        let each = self.commits.iter().map(|(commit, rows)| format!("{commit} ({rows} rows)"));
        each.collect::<Vec<_>>().join(", ")
    }

    fn append(&mut self, commit: &str, cells: Vec<String>) -> Result<()> {
        let write = || -> std::io::Result<()> {
            let mut file: File = OpenOptions::new().append(true).open(&self.path)?;
            writeln!(file, "{commit},{}", cells.join(","))
        };
        write().with_context(|| format!("write {}", self.path.display()))?;
        *self.commits.entry(commit.to_owned()).or_default() += 1;
        self.rows.insert(cells[..self.key_len].to_vec(), cells);
        Ok(())
    }
}

impl Progress {
    /// `total`: the work of the run, in any unit.
    pub(crate) fn new(name: &'static str, total: f64) -> Self {
        Self { name, total, done: 0.0, began: now(), printed_at: now() }
    }

    /// Leaves out work that an earlier run has done.
    pub(crate) fn skip(&mut self, work: f64) {
        self.total -= work;
    }

    /// Counts work, and prints the time left from time to time. Not on standard output, which has the results.
    #[expect(clippy::print_stderr, reason = "progress is not a result")]
    pub(crate) fn add(&mut self, work: f64) {
        self.done += work;
        let is_first = self.done <= work;
        if is_first || self.printed_at.elapsed() > Duration::from_secs(20) {
            self.printed_at = now();
            let elapsed = self.began.elapsed().as_secs_f64();
            let left = elapsed / self.done.max(1e-9) * (self.total - self.done).max(0.0);
            eprintln!(
                "{}: {:.0} of {:.0}, {:.1} min, about {:.1} min left",
                self.name,
                self.done,
                self.total,
                elapsed / 60.0,
                left / 60.0
            );
        }
    }
}

/// Returns the part that `--only` selects. Errors: it is none of `parts`.
pub(crate) fn selected_part<'a>(args: &'a [String], parts: &[&str]) -> Result<Option<&'a str>> {
    let only = value_of(args, "--only")?;
    ensure!(
        only.is_none_or(|only| parts.contains(&only)),
        "--only takes one of {}",
        parts.join(", ")
    );
    Ok(only)
}

/// A table's heading and rule, in Markdown.
pub(crate) fn table_head(title: &str, about: &str, columns: &[&str]) -> String {
    let rule = "|---".repeat(columns.len());
    format!("\n## {title}\n\n{about}\n\n| {} |\n{rule}|\n", columns.join(" | "))
}

/// The short id in `Commit 5bde72a of ...`, with `+` if files were changed.
fn commit(source: &str) -> String {
    let id = source.split_whitespace().nth(1).unwrap_or("unknown").trim_end_matches(':');
    let changed = if source.contains("with changes") { "+" } else { "" };
    format!("{id}{changed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(dir: &Path, source: &str, keeps_other_commits: bool) -> Report {
        Report {
            dir: dir.to_owned(),
            source: source.to_owned(),
            keeps_other_commits,
            is_fresh: false,
            _temporary: None,
        }
    }

    #[test]
    fn a_stopped_run_continues_with_the_missing_rows() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let key = |text: &str| [text.to_owned()];
        let columns = &["cell", "seconds"];
        let first = report(dir.path(), "Commit aaa of 2026-11-23; 2 cores", false);
        first.rows("a.csv", 1, columns)?.push(&key("x"), &["1.5".to_owned()])?;
        // The process was stopped while it wrote a row.
        let path = dir.path().join("a.csv");
        fs::write(&path, fs::read_to_string(&path)? + "aaa,y")?;

        let rows = first.rows("a.csv", 1, columns)?;
        assert_eq!(rows.number(&key("x"), 0), Some(1.5));
        assert_eq!(rows.find(&key("y")), None);
        assert_eq!(rows.commits(), "aaa (1 rows)");

        let source = "Commit bbb of 2026-11-24 with changes; 2 cores";
        let mut kept = report(dir.path(), source, true).rows("a.csv", 1, columns)?;
        kept.push(&key("y"), &["2".to_owned()])?;
        assert_eq!(kept.commits(), "aaa (1 rows), bbb+ (1 rows)");
        let rows = report(dir.path(), source, false).rows("a.csv", 1, columns)?;
        assert_eq!(rows.find(&key("x")), None);
        assert_eq!(rows.number(&key("y"), 0), Some(2.0));
        Ok(())
    }
}
