//! A CSV of measured rows, which a later run continues.
//!
//! Shape: the first cell of a row is the commit that it was measured at, and the next ones are its key. A row is
//! appended once it is measured. Of several rows with one key, the last one counts.
//! Invariant: a row counts only if its line was written whole. A file is replaced as a whole, never cut.
//! Not here: the commits that a run may continue with (`report`).

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The name of the first column.
pub(super) const COMMIT: &str = "commit";

/// A CSV of measured rows.
pub(crate) struct Rows {
    path: PathBuf,
    commit: String,
    /// The columns behind the commit.
    columns: Vec<String>,
    /// Number of cells that identify a row.
    key_len: usize,
    rows: BTreeMap<Vec<String>, Row>,
    run: RunLine,
}

/// A measured row, without its key.
struct Row {
    commit: String,
    cells: Vec<String>,
}

/// The line of this run in the list of runs. It is written with the first row.
pub(super) struct RunLine {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl Rows {
    /// Opens a file, or creates it. Errors: its columns are different, or a row does not have a cell for each of them.
    pub(super) fn open(
        path: PathBuf,
        commit: String,
        key_len: usize,
        columns: &[&str],
        run: RunLine,
    ) -> Result<Self> {
        let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
        let mut opened = Self { path, commit, columns, key_len, rows: BTreeMap::new(), run };
        let lines = read_lines(&opened.path)?;
        let shown = opened.path.display();
        ensure!(
            lines.len() < 2 || lines[0] == opened.head(),
            "{shown} has other columns than this program writes; `--fresh` removes the rows"
        );
        for (number, line) in (1..).zip(&lines).skip(1) {
            let cells: Vec<String> = line.split(',').map(str::to_owned).collect();
            ensure!(
                cells.len() == opened.columns.len() + 1,
                "{shown}, line {number}: {} cells for {} columns",
                cells.len(),
                opened.columns.len() + 1
            );
            let key = cells[1..=key_len].to_vec();
            let row = Row { commit: cells[0].clone(), cells: cells[1 + key_len..].to_vec() };
            opened.rows.insert(key, row);
        }
        opened.replace_file()?;
        Ok(opened)
    }

    /// Returns the cells of a row behind its key, if it was measured.
    pub(crate) fn find(&self, key: &[String]) -> Option<&[String]> {
        self.rows.get(key).map(|row| &row.cells[..])
    }

    /// Returns the number of a row's cell behind its key.
    pub(crate) fn number(&self, key: &[String], at: usize) -> Option<f64> {
        self.find(key)?.get(at)?.parse().ok()
    }

    /// Returns the keys of all rows.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Vec<String>> {
        self.rows.keys()
    }

    /// Adds a row, and writes it. It replaces one with the same key.
    pub(crate) fn push(&mut self, key: &[String], cells: &[String]) -> Result<()> {
        ensure!(key.len() == self.key_len, "a key of {} cells", key.len());
        let count = key.len() + cells.len();
        ensure!(count == self.columns.len(), "{count} cells for {} columns", self.columns.len());
        self.run.write_once()?;
        let row = Row { commit: self.commit.clone(), cells: cells.to_vec() };
        append(&self.path, &row.line(key))?;
        self.rows.insert(key.to_vec(), row);
        Ok(())
    }

    /// Removes the rows of a measurement that did not end: those with a key that `is_removed` selects.
    pub(crate) fn remove_rows(&mut self, is_removed: impl Fn(&[String]) -> bool) -> Result<()> {
        let count = self.rows.len();
        self.rows.retain(|key, _| !is_removed(key));
        if self.rows.len() < count { self.replace_file() } else { Ok(()) }
    }

    /// Returns the commits of the rows: `a1b2c3d (720 rows)`.
    pub(crate) fn commits(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for row in self.rows.values() {
            *counts.entry(&row.commit).or_default() += 1;
        }
        format_commits(&counts)
    }

    fn head(&self) -> String {
        format!("{COMMIT},{}", self.columns.join(","))
    }

    /// Writes all rows into a new file, which then replaces the old one.
    fn replace_file(&self) -> Result<()> {
        let rows = self.rows.iter().map(|(key, row)| row.line(key));
        let text: String = std::iter::once(self.head() + "\n").chain(rows).collect();
        let new = self.path.with_extension("csv.new");
        let write = || fs::write(&new, text).and_then(|()| fs::rename(&new, &self.path));
        write().with_context(|| format!("write {}", self.path.display()))
    }
}

impl Row {
    fn line(&self, key: &[String]) -> String {
        let cells = key.iter().chain(&self.cells).map(|cell| format!(",{cell}"));
        self.commit.clone() + &cells.collect::<String>() + "\n"
    }
}

impl RunLine {
    /// Adds the line to its file, unless it is there.
    fn write_once(&self) -> Result<()> {
        if read_lines(&self.path)?.contains(&self.text) {
            return Ok(());
        }
        append(&self.path, &format!("{}\n", self.text))
    }
}

/// Returns the lines of a file that were written whole. A file that does not exist has none.
pub(super) fn read_lines(path: &Path) -> Result<Vec<String>> {
    let text = match fs::read_to_string(path) {
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.with_context(|| format!("read {}", path.display()))?,
    };
    let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    Ok(whole.map(str::to_owned).collect())
}

/// Formats commits with the number of their rows.
pub(super) fn format_commits(counts: &BTreeMap<&str, usize>) -> String {
    let each = counts.iter().map(|(commit, rows)| format!("{commit} ({rows} rows)"));
    each.collect::<Vec<_>>().join(", ")
}

/// Appends text in one write, so that a process that ends meanwhile leaves no part of a later line.
fn append(path: &Path, text: &str) -> Result<()> {
    let write =
        || OpenOptions::new().append(true).create(true).open(path)?.write_all(text.as_bytes());
    let written: std::io::Result<()> = write();
    written.with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &Path, commit: &str, columns: &[&str]) -> Result<Rows> {
        let run = RunLine { path: dir.join("runs.txt"), text: format!("run of {commit}") };
        Rows::open(dir.join("a.csv"), commit.to_owned(), 1, columns, run)
    }

    fn key(text: &str) -> [String; 1] {
        [text.to_owned()]
    }

    fn text(dir: &Path, file: &str) -> String {
        fs::read_to_string(dir.join(file)).unwrap_or_default()
    }

    const COLUMNS: [&str; 2] = ["cell", "seconds"];

    #[test]
    fn a_row_that_was_cut_off_is_measured_again() -> Result<()> {
        let dir = tempfile::tempdir()?;
        open(dir.path(), "aaa", &COLUMNS)?.push(&key("x"), &["1.25".to_owned()])?;
        let file = dir.path().join("a.csv");
        // All cells are there, but the last one has lost its end.
        fs::write(&file, fs::read_to_string(&file)? + "aaa,y,17.2")?;
        let mut rows = open(dir.path(), "aaa", &COLUMNS)?;
        assert_eq!(rows.number(&key("x"), 0), Some(1.25));
        assert_eq!(rows.find(&key("y")), None);
        rows.push(&key("y"), &["17.25".to_owned()])?;
        assert_eq!(text(dir.path(), "a.csv"), "commit,cell,seconds\naaa,x,1.25\naaa,y,17.25\n");
        Ok(())
    }

    #[test]
    fn a_row_replaces_one_with_its_key_and_counts_once() -> Result<()> {
        let dir = tempfile::tempdir()?;
        open(dir.path(), "aaa", &COLUMNS)?.push(&key("x"), &["1".to_owned()])?;
        let mut rows = open(dir.path(), "bbb", &COLUMNS)?;
        rows.push(&key("x"), &["2".to_owned()])?;
        rows.push(&key("y"), &["3".to_owned()])?;
        for rows in [rows, open(dir.path(), "bbb", &COLUMNS)?] {
            assert_eq!(rows.number(&key("x"), 0), Some(2.0));
            assert_eq!(rows.commits(), "bbb (2 rows)");
        }
        Ok(())
    }

    #[test]
    fn removed_rows_are_not_in_the_file() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let mut rows = open(dir.path(), "aaa", &COLUMNS)?;
        for name in ["x", "y"] {
            rows.push(&key(name), &["1".to_owned()])?;
        }
        rows.remove_rows(|key| key[0] == "x")?;
        assert_eq!(rows.find(&key("x")), None);
        assert_eq!(text(dir.path(), "a.csv"), "commit,cell,seconds\naaa,y,1\n");
        Ok(())
    }

    #[test]
    fn a_file_of_another_shape_is_refused() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let mut rows = open(dir.path(), "aaa", &COLUMNS)?;
        assert!(rows.push(&key("x"), &[]).is_err());
        // Without rows the columns may change.
        let columns = ["cell", "seconds", "rate"];
        open(dir.path(), "aaa", &columns)?.push(&key("x"), &["1", "2"].map(str::to_owned))?;
        let error = open(dir.path(), "aaa", &COLUMNS).map(drop).unwrap_err().to_string();
        assert!(error.contains("other columns"), "{error}");
        fs::write(dir.path().join("a.csv"), "commit,cell,seconds\n<<<<<<< HEAD\n")?;
        let error = open(dir.path(), "aaa", &COLUMNS).map(drop).unwrap_err().to_string();
        assert!(error.ends_with("line 2: 1 cells for 3 columns"), "{error}");
        Ok(())
    }

    #[test]
    fn a_run_is_listed_once_and_only_if_it_adds_a_row() -> Result<()> {
        let dir = tempfile::tempdir()?;
        open(dir.path(), "aaa", &COLUMNS)?;
        assert_eq!(text(dir.path(), "runs.txt"), "");
        for _ in 0..2 {
            open(dir.path(), "aaa", &COLUMNS)?.push(&key("x"), &["1".to_owned()])?;
        }
        assert_eq!(text(dir.path(), "runs.txt"), "run of aaa\n");
        Ok(())
    }
}
