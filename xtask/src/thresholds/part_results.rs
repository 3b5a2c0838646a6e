//! The stored results of a benchmark with parts, which a later run continues.
//!
//! Input: `--keep`, `--fresh` or `--only PART`, the provenance of this run, and the lines that a part printed. Output:
//! `docs/benchmarks/NAME/PART.txt`, which has the provenance and then these lines.
//! Shape: a file is written once its part has ended. A run that was stopped continues with the parts that lack one.
//! Files of another commit are refused, and so are those of changed files, which no commit names: `--keep` continues
//! with them, and the page names the oldest commit; `--fresh` removes the files of all parts first.
//! Invariant: a file is replaced as a whole, so it has all lines of its part.
//! Not here: the measurements (`cluster`, and `crates/benchmarks` with its own rows), the values of several parts
//! (`threshold`), the oldest commit of all parts (`provenance`).

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use super::result_page::Origin;

/// The arguments of a benchmark with parts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PartArgs {
    /// Whether results of other commits count.
    accepts_other_commits: bool,
    is_fresh: bool,
    only: Option<String>,
}

impl PartArgs {
    pub(super) fn parse(args: &[String], parts: &[&str]) -> Result<Self> {
        let mut parsed = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--keep" => parsed.accepts_other_commits = true,
                "--fresh" => parsed.is_fresh = true,
                "--only" => {
                    let part = args.next().filter(|part| parts.contains(&part.as_str()));
                    let part =
                        part.with_context(|| format!("--only takes one of {}", parts.join(", ")))?;
                    parsed.only = Some(part.clone());
                }
                other => {
                    bail!("no option named `{other}`; there are --keep, --fresh and --only PART")
                }
            }
        }
        ensure!(
            !parsed.is_fresh || parsed.only.is_none(),
            "--fresh removes the results of all parts; to measure one part again, remove its file"
        );
        Ok(parsed)
    }

    /// Whether a part is measured, or its result is used.
    pub(super) fn selects(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == part)
    }
}

/// The stored results of a benchmark's parts.
pub(super) struct PartResults {
    dir: PathBuf,
    /// Commit and machine of this run.
    provenance: String,
}

impl PartResults {
    /// Opens a directory, or makes it. Errors: it has results that this run must not mix with its own.
    pub(super) fn open(
        dir: PathBuf,
        provenance: String,
        parts: &[&str],
        args: &PartArgs,
    ) -> Result<Self> {
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        let results = Self { dir, provenance };
        if args.is_fresh {
            parts.iter().try_for_each(|part| results.remove(part))?;
        }
        if !args.accepts_other_commits {
            results.check_commits(parts)?;
        }
        Ok(results)
    }

    /// Returns the lines of a part, after one with its name, commit and machine; `None` if it was not measured.
    pub(super) fn find(&self, part: &str) -> Result<Option<Vec<String>>> {
        let Some(text) = self.read(part)? else { return Ok(None) };
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if let Some(provenance) = lines.first_mut() {
            provenance.insert_str(0, &format!("{part}: "));
        }
        Ok(Some(lines))
    }

    /// Stores the lines of a part that has ended.
    pub(super) fn store(&self, part: &str, lines: &[String]) -> Result<()> {
        let path = self.path(part);
        let new = path.with_extension("txt.new");
        let text = format!("{}\n{}\n", self.provenance, lines.join("\n"));
        let write = || fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
        write().with_context(|| format!("write {}", path.display()))
    }

    pub(super) fn path(&self, part: &str) -> PathBuf {
        self.dir.join(format!("{part}.txt"))
    }

    fn read(&self, part: &str) -> Result<Option<String>> {
        let path = self.path(part);
        match fs::read_to_string(&path) {
            Err(err) if err.kind() == ErrorKind::NotFound => Ok(None),
            text => text.map(Some).with_context(|| format!("read {}", path.display())),
        }
    }

    fn remove(&self, part: &str) -> Result<()> {
        let path = self.path(part);
        match fs::remove_file(&path) {
            Err(err) if err.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.with_context(|| format!("remove {}", path.display())),
        }
    }

    /// Refuses results of another commit, before hours of measurements.
    fn check_commits(&self, parts: &[&str]) -> Result<()> {
        let current = parse_origin(&self.provenance)?;
        let mut others = Vec::new();
        for part in parts {
            let Some(text) = self.read(part)? else { continue };
            let origin =
                parse_origin(&text).with_context(|| self.path(part).display().to_string())?;
            // The changed files need not be those of the earlier run.
            if origin.commit != current.commit || origin.has_changes() {
                others.push(format!("{part} at {}", origin.commit));
            }
        }
        ensure!(
            others.is_empty(),
            "{} has results that this run, at {}, must not mix with its own: {}. `--keep` continues with them, and the \
             page names the oldest commit; `--fresh` removes the results of all parts",
            self.dir.display(),
            current.commit,
            others.join(", ")
        );
        Ok(())
    }
}

/// Parses the commit in the first line of a text.
fn parse_origin(text: &str) -> Result<Origin> {
    let first = text.lines().next().unwrap_or_default();
    Origin::parse(first).with_context(|| format!("not `Commit <id> of <date>`: `{first}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: [&str; 2] = ["compare", "chaos"];
    const AAA: &str = "Commit aaa of 2026-11-23; 2 cores of X.";
    const BBB: &str = "Commit bbb of 2026-11-24; 2 cores of Y.";
    const CHANGED: &str = "Commit aaa of 2026-11-23 with changes; 2 cores of X.";

    /// A directory that is removed with the value.
    struct TestDir(PathBuf);

    impl TestDir {
        fn new(name: &str) -> Self {
            let id = std::process::id();
            let dir = std::env::temp_dir().join(format!("hydrant-parts-{name}-{id}"));
            Self(dir)
        }

        fn open(&self, provenance: &str, args: &[&str]) -> Result<PartResults> {
            let args = PartArgs::parse(&lines(args), &PARTS)?;
            PartResults::open(self.0.clone(), provenance.to_owned(), &PARTS, &args)
        }

        fn refusal(&self, provenance: &str) -> String {
            self.open(provenance, &[]).map(drop).unwrap_err().to_string()
        }
    }

    impl Drop for TestDir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn a_stopped_run_continues_with_the_parts_that_lack_a_result() {
        let dir = TestDir::new("stopped");
        let results = dir.open(AAA, &[]).unwrap();
        assert_eq!(results.find("compare").unwrap(), None);
        results.store("compare", &lines(&["", "| a, b | 1 |", "bar a 1 ms <= 2"])).unwrap();
        // A part that was stopped while its result was written.
        fs::write(dir.0.join("chaos.txt.new"), "Commit").unwrap();
        let results = dir.open(AAA, &["--only", "chaos"]).unwrap();
        let first = format!("compare: {AAA}");
        let found = lines(&[first.as_str(), "", "| a, b | 1 |", "bar a 1 ms <= 2"]);
        assert_eq!(results.find("compare").unwrap(), Some(found));
        assert_eq!(results.find("chaos").unwrap(), None);
    }

    #[test]
    fn results_of_another_commit_are_refused_accepted_or_removed() {
        let dir = TestDir::new("commits");
        dir.open(AAA, &[]).unwrap().store("compare", &[]).unwrap();
        let refused = dir.refusal(BBB);
        assert!(
            refused.contains("at bbb, must not mix with its own: compare at aaa. "),
            "{refused}"
        );
        let results = dir.open(BBB, &["--keep"]).unwrap();
        results.store("chaos", &[]).unwrap();
        assert!(results.find("compare").unwrap().is_some());
        assert!(dir.refusal(AAA).contains("chaos at bbb"));
        let results = dir.open(BBB, &["--fresh"]).unwrap();
        for part in PARTS {
            assert_eq!(results.find(part).unwrap(), None);
        }
    }

    #[test]
    fn results_of_changed_files_are_never_those_of_the_same_code() {
        let dir = TestDir::new("changed");
        dir.open(CHANGED, &[]).unwrap().store("chaos", &[]).unwrap();
        for provenance in [CHANGED, AAA] {
            let refused = dir.refusal(provenance);
            assert!(refused.contains("chaos at aaa with changes"), "{refused}");
        }
        assert!(dir.open(CHANGED, &["--keep"]).is_ok());
    }

    #[test]
    fn a_file_without_its_commit_is_an_error() {
        let dir = TestDir::new("broken");
        let results = dir.open(AAA, &[]).unwrap();
        fs::write(results.path("chaos"), "<<<<<<< HEAD\n").unwrap();
        let error = format!("{:#}", dir.open(AAA, &[]).map(drop).unwrap_err());
        assert!(
            error.contains("chaos.txt: not `Commit <id> of <date>`: `<<<<<<< HEAD`"),
            "{error}"
        );
    }

    #[test]
    fn arguments_select_a_part_or_all() {
        let parse = |args: &[&str]| PartArgs::parse(&lines(args), &PARTS);
        let all = parse(&[]).unwrap();
        assert!(PARTS.into_iter().all(|part| all.selects(part)));
        let only = parse(&["--keep", "--only", "chaos"]).unwrap();
        assert!(only.selects("chaos") && !only.selects("compare"));
        for (args, part) in [
            (&["--only"][..], "--only takes one of compare, chaos"),
            (&["--only", "other"], "--only takes one of compare, chaos"),
            (&["--toy"], "no option named `--toy`"),
            (&["--fresh", "--only", "chaos"], "remove its file"),
        ] {
            let error = parse(args).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
