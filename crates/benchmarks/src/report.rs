//! The results of a benchmark that takes hours: CSV files that are also its checkpoint, plots, and one document.
//!
//! Input: `--out DIR`, `--keep`, `--fresh`, and the commit and machine that `cargo xtask bench` passes in [`SOURCE`].
//! Shape: every measured row is appended to its CSV at once, with the commit that it was measured at. A benchmark that
//! was stopped continues with the rows that the files lack. It refuses files with rows of another commit, or of changed
//! files, which no commit names: `--keep` continues with them, and the tables name their commits; `--fresh` removes all
//! rows first. It also refuses rows that were measured with other options. [`RUNS`] lists the runs that added rows.
//! Not here: reading and writing of rows (`rows`), the rows and tables (`agave`, `contention`, `ladder`, `streams`,
//! `sets`), the bars (`threshold`).

mod rows;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use testkit::clock::now;

pub(crate) use self::rows::Rows;
use self::rows::{COMMIT, RunLine, format_commits, read_lines};
use crate::arguments::value_of;

/// Commit, machine and compiler: `Commit 5bde72a of 2026-11-23; 2 cores of ...`.
const SOURCE: &str = "HYDRANT_BENCH_SOURCE";

/// The parent of all reports.
const DOCUMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/benchmarks");

/// The list of runs in the directory of a report: for each its options, a tab, and its source.
const RUNS: &str = "runs.txt";

/// Flags and options that change the measurements. Rows of runs with different ones do not mix.
const SIZE_FLAGS: [&str; 2] = ["--toy", "--short"];
const SIZE_OPTIONS: [&str; 2] = ["--sample", "--transactions"];

/// The mark behind a commit whose files were changed.
const CHANGED: char = '+';

/// The directory of a benchmark's results.
pub(crate) struct Report {
    dir: PathBuf,
    source: String,
    /// The options of this run that change the measurements.
    options: String,
    /// The directory of a run at toy size. Its results mean nothing.
    _temporary: Option<TempDir>,
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
    /// Opens `docs/benchmarks/NAME`, or the directory of `--out`; a temporary one for a toy. Errors: it has rows of
    /// another commit or of other options, and no flag allows them.
    pub(crate) fn open(name: &str, args: &[String], is_toy: bool) -> Result<Self> {
        let temporary = is_toy.then(tempfile::tempdir).transpose()?;
        let dir = match (value_of(args, "--out")?, &temporary) {
            (Some(dir), _) => PathBuf::from(dir),
            (None, Some(temporary)) => temporary.path().join(name),
            (None, None) => Path::new(DOCUMENTS).join(name),
        };
        let source = std::env::var(SOURCE);
        let source =
            source.unwrap_or_else(|_| "Commit unknown: not run by cargo xtask.".to_owned());
        let report = Self { dir, source, options: size_options(args)?, _temporary: temporary };
        report.prepare(args)?;
        Ok(report)
    }

    /// Makes the directory, removes its rows if `--fresh` requests that, and checks those that are left.
    fn prepare(&self, args: &[String]) -> Result<()> {
        let has = |flag: &str| args.iter().any(|arg| arg == flag);
        fs::create_dir_all(&self.dir).with_context(|| format!("create {}", self.dir.display()))?;
        if has("--fresh") {
            ensure!(
                !has("--only"),
                "--fresh removes the rows of all parts; to measure one part again, remove its CSV files"
            );
            return self.remove_rows();
        }
        self.check_options()?;
        if has("--keep") { Ok(()) } else { self.check_commits() }
    }

    fn remove_rows(&self) -> Result<()> {
        let runs = self.dir.join(RUNS);
        for path in self.csv_files()?.into_iter().chain(runs.exists().then_some(runs)) {
            fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
        Ok(())
    }

    /// Refuses rows of another commit, before hours of measurements.
    fn check_commits(&self) -> Result<()> {
        let current = commit(&self.source);
        let mut others: Vec<String> = Vec::new();
        for path in self.csv_files()? {
            let lines = read_lines(&path)?;
            let commits = lines.iter().skip(1).filter_map(|line| line.split(',').next());
            // The changed files need not be those of the earlier run.
            let is_other = |commit: &&str| *commit != current || commit.ends_with(CHANGED);
            others.extend(commits.filter(is_other).map(str::to_owned));
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for commit in &others {
            *counts.entry(commit).or_default() += 1;
        }
        ensure!(
            counts.is_empty(),
            "{} has rows that this run, at {current}, must not mix with its own: {}; `+` marks changed files. \
             `--keep` continues with them, and the tables name their commits; `--fresh` removes all rows",
            self.dir.display(),
            format_commits(&counts)
        );
        Ok(())
    }

    /// Refuses rows that were measured with other options.
    fn check_options(&self) -> Result<()> {
        for line in read_lines(&self.dir.join(RUNS))? {
            let options = line.split('\t').next().unwrap_or_default();
            ensure!(
                options == self.options,
                "{} has rows of a run at {options}, and this one is at {}; choose another `--out`, or `--fresh`",
                self.dir.display(),
                self.options
            );
        }
        Ok(())
    }

    /// Returns the files of the directory that have rows.
    fn csv_files(&self) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let head = format!("{COMMIT},");
        let shown = self.dir.display();
        for entry in fs::read_dir(&self.dir).with_context(|| format!("read {shown}"))? {
            let path = entry?.path();
            let is_csv = path.extension().is_some_and(|extension| extension == "csv");
            if is_csv && read_lines(&path)?.first().is_some_and(|line| line.starts_with(&head)) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// Returns commit, machine and compiler of each run that has added rows; of this one if none has.
    pub(crate) fn sources(&self) -> Result<String> {
        let lines = read_lines(&self.dir.join(RUNS))?;
        let sources: Vec<&str> =
            lines.iter().filter_map(|line| Some(line.split_once('\t')?.1)).collect();
        Ok(if sources.is_empty() { self.source.clone() } else { sources.join("\n") })
    }

    /// Opens a CSV. The first `key_len` of its columns identify a row.
    pub(crate) fn rows(&self, file: &str, key_len: usize, columns: &[&str]) -> Result<Rows> {
        let run = RunLine {
            path: self.dir.join(RUNS),
            text: format!("{}\t{}", self.options, self.source),
        };
        Rows::open(self.dir.join(file), commit(&self.source), key_len, columns, run)
    }

    /// Writes a document or a plot.
    pub(crate) fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.dir.join(file);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
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

/// Formats the options that change the measurements. A file is shown without its directory.
fn size_options(args: &[String]) -> Result<String> {
    let flags = SIZE_FLAGS.into_iter().filter(|flag| args.iter().any(|arg| arg == flag));
    let mut options: Vec<String> = flags.map(str::to_owned).collect();
    for option in SIZE_OPTIONS {
        if let Some(value) = value_of(args, option)? {
            let name = Path::new(value).file_name().unwrap_or_default().to_string_lossy();
            options.push(format!("{option} {name}"));
        }
    }
    Ok(if options.is_empty() { "full size".to_owned() } else { options.join(" ") })
}

/// The short id in `Commit 5bde72a of ...`, with [`CHANGED`] if files were changed.
fn commit(source: &str) -> String {
    let id = source.split_whitespace().nth(1).unwrap_or("unknown").trim_end_matches(':');
    let mut commit = id.to_owned();
    if source.contains("with changes") {
        commit.push(CHANGED);
    }
    commit
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [&str; 2] = ["cell", "seconds"];

    /// Opens a directory as a run at `source` with these arguments does.
    fn open(dir: &Path, source: &str, args: &[&str]) -> Result<Report> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let report = Report {
            dir: dir.to_owned(),
            source: source.to_owned(),
            options: size_options(&args)?,
            _temporary: None,
        };
        report.prepare(&args)?;
        Ok(report)
    }

    fn refusal(dir: &Path, source: &str, args: &[&str]) -> String {
        open(dir, source, args).map(drop).unwrap_err().to_string()
    }

    fn key(text: &str) -> [String; 1] {
        [text.to_owned()]
    }

    const AAA: &str = "Commit aaa of 2026-11-23; 2 cores of X.";
    const BBB: &str = "Commit bbb of 2026-11-24; 2 cores of Y.";

    #[test]
    fn a_stopped_run_continues_with_the_missing_rows() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let mut rows = open(dir.path(), AAA, &[])?.rows("a.csv", 1, &COLUMNS)?;
        rows.push(&key("x"), &["1.5".to_owned()])?;
        let rows = open(dir.path(), AAA, &["--only", "part"])?.rows("a.csv", 1, &COLUMNS)?;
        assert_eq!(rows.number(&key("x"), 0), Some(1.5));
        assert_eq!(rows.find(&key("y")), None);
        assert_eq!(rows.commits(), "aaa (1 rows)");
        Ok(())
    }

    #[test]
    fn rows_of_another_commit_are_refused_named_or_removed() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let report = open(dir.path(), AAA, &[])?;
        assert_eq!(report.sources()?, AAA);
        for file in ["a.csv", "b.csv"] {
            report.rows(file, 1, &COLUMNS)?.push(&key("x"), &["1".to_owned()])?;
        }
        fs::write(dir.path().join("other.csv"), "a table of something else\n")?;
        let refused = refusal(dir.path(), BBB, &[]);
        assert!(refused.contains("at bbb, must not mix with its own: aaa (2 rows);"), "{refused}");

        let report = open(dir.path(), BBB, &["--keep"])?;
        let mut rows = report.rows("a.csv", 1, &COLUMNS)?;
        rows.push(&key("y"), &["2".to_owned()])?;
        assert_eq!(rows.commits(), "aaa (1 rows), bbb (1 rows)");
        assert_eq!(report.sources()?, format!("{AAA}\n{BBB}"));

        let refused = refusal(dir.path(), BBB, &["--fresh", "--only", "part"]);
        assert!(refused.contains("all parts"), "{refused}");
        let report = open(dir.path(), BBB, &["--fresh"])?;
        assert_eq!(report.rows("a.csv", 1, &COLUMNS)?.commits(), "");
        assert_eq!(report.rows("b.csv", 1, &COLUMNS)?.commits(), "");
        assert_eq!(report.sources()?, BBB);
        assert!(dir.path().join("other.csv").exists());
        Ok(())
    }

    #[test]
    fn rows_of_changed_files_are_never_those_of_the_same_code() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let changed = "Commit aaa of 2026-11-23 with changes; 2 cores of X.";
        let mut rows = open(dir.path(), changed, &[])?.rows("a.csv", 1, &COLUMNS)?;
        rows.push(&key("x"), &["1".to_owned()])?;
        for source in [changed, AAA] {
            let refused = refusal(dir.path(), source, &[]);
            assert!(refused.contains("aaa+ (1 rows)"), "{refused}");
        }
        open(dir.path(), changed, &["--keep"]).map(drop)
    }

    #[test]
    fn rows_of_another_size_are_refused() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let sample = ["--sample", "/data/a.tar"];
        let mut rows = open(dir.path(), AAA, &sample)?.rows("a.csv", 1, &COLUMNS)?;
        rows.push(&key("x"), &["1".to_owned()])?;
        let refused = refusal(dir.path(), AAA, &["--keep"]);
        assert!(
            refused.contains("a run at --sample a.tar, and this one is at full size"),
            "{refused}"
        );
        open(dir.path(), AAA, &sample)?;
        open(dir.path(), AAA, &["--fresh"]).map(drop)
    }
}
